"""Faults across the wire: one table from ``GridError`` to status codes, and back.

    InputError               INVALID_ARGUMENT       IdentityNotProvenError   UNAUTHENTICATED
    NotFoundError            NOT_FOUND              UnavailableError         UNAVAILABLE
    NotAuthorisedError       PERMISSION_DENIED      DeadlineError            DEADLINE_EXCEEDED
    ConflictError            FAILED_PRECONDITION    GridError                UNKNOWN

A fault of ours travels with its message as the status' details and its hint in the metadata
``grid-fault``, whose presence also tells a fault that the site raised from one that the transport
made up. Any other exception is our own defect: it becomes INTERNAL with an id, and the traceback
stays in the log of the site under that id, because its text may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import grpc

from gridtravel.gridcore.errors import (
    ConflictError,
    DeadlineError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridio.sites.connections import IdentityNotProvenError

FAULT_KEY: Final = "grid-fault"
"""Metadata: a JSON object with ``hint``, in ASCII."""

MESSAGE_BYTES_MAX: Final = 1_500
"""Of a message, in UTF-8; on the wire each byte may take three."""

HINT_LENGTH_MAX: Final = 400
"""Characters, of up to six bytes each; with the message they stay below the 8 KiB of metadata that
any gRPC peer accepts.
"""

CODES: Final[dict[type[GridError], grpc.StatusCode]] = {
    InputError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    NotAuthorisedError: grpc.StatusCode.PERMISSION_DENIED,
    IdentityNotProvenError: grpc.StatusCode.UNAUTHENTICATED,
    UnavailableError: grpc.StatusCode.UNAVAILABLE,
    DeadlineError: grpc.StatusCode.DEADLINE_EXCEEDED,
    ConflictError: grpc.StatusCode.FAILED_PRECONDITION,
    GridError: grpc.StatusCode.UNKNOWN,
}

_FAULTS: Final[dict[grpc.StatusCode, type[GridError]]] = {
    **{code: fault for fault, code in CODES.items()},
    # What only the transport, a proxy or another implementation says.
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.ALREADY_EXISTS: ConflictError,
    grpc.StatusCode.OUT_OF_RANGE: InputError,
    grpc.StatusCode.UNIMPLEMENTED: NotFoundError,
    grpc.StatusCode.CANCELLED: UnavailableError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: UnavailableError,
}

BROKEN_WRITE: Final = "Internal error from Core"
"""What grpc.aio makes of a write on a connection that has just broken, instead of the call's own
status (its issue 36066). No site says this.
"""

Metadata = tuple[tuple[str, str], ...]


def code_of(fault: GridError) -> grpc.StatusCode:
    """The status code of ``fault``: that of the nearest class in the table."""
    for each in type(fault).__mro__:
        if each in CODES:
            return CODES[each]
    raise AssertionError(fault)


def details_of(fault: GridError) -> str:
    """What travels as the status' text."""
    return _one_line(fault.message)


def metadata_of(fault: GridError) -> Metadata:
    """What travels beside it."""
    hint = fault.hint[:HINT_LENGTH_MAX] if fault.hint else None
    return ((FAULT_KEY, json.dumps({"hint": hint}, ensure_ascii=True)),)


def fault_from(
    code: grpc.StatusCode,
    details: str | None,
    metadata: Iterable[Any] | None,
    *,
    attempted: str,
) -> GridError:
    """The fault that a status means to the client; ``attempted`` says what was asked of whom."""
    fault_type = _FAULTS.get(code, GridError)
    words = _one_line(details or "") or code.name
    if is_from_site(metadata):
        return fault_type(f"{attempted}: {words}", hint=_hint_in(metadata))
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in words:
        return InputError(
            f"{attempted}: the message is too large", hint="ask for less at once, or stage a file"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotFoundError(f"{attempted}: it does not offer this", hint="a manager runs no jobs")
    if code is grpc.StatusCode.INTERNAL and words == BROKEN_WRITE:
        return UnavailableError(f"{attempted}: the connection broke", hint="asking again is safe")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(f"{attempted}: no answer in time", hint="asking again is safe")
    return fault_type(f"{attempted}: {words}", hint="")


def is_from_site(metadata: Iterable[Any] | None) -> bool:
    """True when the site itself raised the fault, so that its word stands."""
    return any(key == FAULT_KEY for key, _ in metadata or ())


def _one_line(words: str) -> str:
    line = " ".join(words.split())
    return line.encode(errors="replace")[:MESSAGE_BYTES_MAX].decode(errors="ignore")


def _hint_in(metadata: Iterable[Any] | None) -> str:
    for key, value in metadata or ():
        if key != FAULT_KEY:
            continue
        try:
            content = json.loads(value)
            hint = content.get("hint") if isinstance(content, dict) else None
        except (ValueError, RecursionError):
            return ""
        return hint[:HINT_LENGTH_MAX] if isinstance(hint, str) else ""
    return ""
