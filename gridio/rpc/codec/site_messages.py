"""Domain values to protobuf messages and back: what only the site service says, jobs and files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.handovers import (
    HANDED_FILES_MAX,
    HandedFile,
    Handover,
    HandoverGrant,
)
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import INPUTS_MAX, InputFile
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobState, JobTerms, JobView
from gridtravel.gridcore.jobs.races import COPIES_MAX, Race
from gridtravel.gridcore.ports import FileStatus, OutputChunk
from gridtravel.gridio.rpc.codec.checks import (
    ITEMS_MAX,
    between,
    items,
    label,
    labels,
    refuse,
    text,
)
from gridtravel.gridio.rpc.codec.reservations import (
    ADDRESS,
    CARD,
    DECLINE,
    EMAIL,
    SUBJECT,
    acceptors_in,
    an_id,
)
from gridtravel.gridio.rpc.codec.table import (
    AS_IS,
    Absence,
    OneOf,
    Rule,
    Table,
    many,
    nested,
    numbered,
)
from gridwire.v1 import calendar_pb2
from gridwire.v1 import site_pb2 as pb

CHUNK_BYTES_MAX: Final = 1 << 20
"""Content of one message of a stream: a quarter of what a message may have."""

NODE_NAMES_MAX: Final = 131_072
ENVIRONMENT_MAX: Final = 16_384
"""Variables of a job; their bytes are bounded by the value itself."""

ARGUMENTS_MAX: Final = 65_536
PATH_LENGTH_MAX: Final = 4_096
MODE: Final = between(0, 0o7777)
JSON_LENGTH_MAX: Final = 4 << 20
STREAM_NAMES: Final = ("stdout", "stderr")

_COMPANION: Final = Table(Companion, pb.Companion, leg=AS_IS, site=AS_IS)

_RACE: Final = Table(
    Race,
    pb.Race,
    "race.",
    copies=lambda field, values: labels(field, values, COPIES_MAX),
    acceptors=acceptors_in("race.acceptors."),
    sites=lambda field, values: labels(field, values, COPIES_MAX),
)

_HANDOVER: Final = Table(
    Handover,
    pb.Handover,
    "handover.",
    leg=AS_IS,
    site=AS_IS,
    endpoint=ADDRESS,
    card=CARD,
    files=many(Table(HandedFile, pb.HandedFile, source=AS_IS, destination=AS_IS), HANDED_FILES_MAX),
)


INPUTS: Final = many(
    Table(InputFile, pb.InputFile, path=AS_IS, size_bytes=AS_IS, sha256=AS_IS), INPUTS_MAX
)
"""What they are is checked by the value itself."""

_GRANT: Final = Table(
    HandoverGrant,
    pb.HandoverGrant,
    "gives.",
    leg=AS_IS,
    site=AS_IS,
    paths=lambda field, values: tuple(
        a_path(field, each) for each in items(field, values, HANDED_FILES_MAX)
    ),
)


def _arguments(field: str, values: Sequence[str]) -> tuple[str, ...]:
    if len(values) > ARGUMENTS_MAX:
        refuse(field, f"has more than {ARGUMENTS_MAX} entries")
    return tuple(values)


def _variables(field: str, messages: Sequence[pb.Variable]) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.value) for each in items(field, messages, ENVIRONMENT_MAX))


SPEC: Final = Table(
    JobSpec,
    pb.JobSpec,
    request_id=AS_IS,
    name=AS_IS,
    nodes=AS_IS,
    argv=_arguments,
    script=AS_IS,
    environment=Rule(
        read=_variables,
        write=lambda variables: [{"name": name, "value": value} for name, value in variables],
    ),
    reservation_id=lambda field, value: value and an_id(field, value),
    notify_email=EMAIL,
    companions=many(_COMPANION),
    handover=nested(_HANDOVER, Absence.NONE),
    race=nested(_RACE, Absence.NONE),
    inputs=INPUTS,
    relayed_from=AS_IS,
    gives=nested(_GRANT, Absence.NONE),
)
"""Command, environment and sizes are checked by the value itself."""


def _node_numbers(field: str, values: Sequence[int]) -> tuple[int, ...]:
    if len(values) > NODE_NAMES_MAX:
        refuse(field, f"has more than {NODE_NAMES_MAX} entries")
    return tuple(values)


def _shares(field: str, values: Sequence[float]) -> tuple[float, ...]:
    if len(values) > NODE_NAMES_MAX:
        refuse(field, f"has more than {NODE_NAMES_MAX} entries")
    for value in values:
        if not 0 <= value <= 1:
            refuse(field, f"must be 0 to 1: {value}")
    return tuple(values)


_TERMS: Final = Table(JobTerms, pb.JobTerms, "job.terms.", node_numbers=_node_numbers)

HELD_JOB: Final = Table(HeldJob, calendar_pb2.HeldJob, spec=nested(SPEC))

JOB: Final = Table(
    JobView,
    pb.Job,
    "job.",
    job_id=an_id,
    owner=SUBJECT,
    spec=nested(SPEC),
    state=numbered({each: pb.JobState.Value(f"JOB_STATE_{each.name}") for each in JobState}),
    exit_code=Rule(absence=Absence.NONE),
    node_names=lambda field, values: labels(field, values, NODE_NAMES_MAX),
    reason=text,
    terms=nested(_TERMS, Absence.NONE),
    shares=_shares,
)

SUBMISSION: Final = OneOf(pb.SubmitReply, "answer", job=JOB, decline=DECLINE)


def a_path(field: str, value: str) -> str:
    """``value`` when it can be a path at all; which paths an area allows is decided by its site."""
    if len(value) > PATH_LENGTH_MAX or "\0" in value:
        refuse(field, f"is longer than {PATH_LENGTH_MAX} characters or has a NUL character")
    return value


def a_sha256(field: str, value: str) -> str:
    """``value`` when it is 64 lower-case hexadecimal digits, or empty."""
    if value and (len(value) != 64 or set(value) - set("0123456789abcdef")):
        refuse(field, "is no SHA-256 in lower-case hexadecimal")
    return value


FILE: Final = Table(
    FileStatus,
    pb.FileStatus,
    "file.",
    path=a_path,
    size_bytes=between(0, 2**63 - 1),
    mode=MODE,
    sha256=a_sha256,
)
CHUNK: Final = Table(OutputChunk, pb.Chunk, "chunk.")


def cut(chunk: OutputChunk) -> Iterator[OutputChunk]:
    """``chunk`` in pieces that fit a message; an empty one is one piece."""
    content = chunk.content
    if len(content) <= CHUNK_BYTES_MAX:
        yield chunk
        return
    for first in range(0, len(content), CHUNK_BYTES_MAX):
        piece = bytes(content[first : first + CHUNK_BYTES_MAX])
        yield OutputChunk(offset=chunk.offset + first, content=piece)


def encode_json(value: object) -> str:
    """The answer to a query, as the text that crosses the wire."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode_json(content: str) -> object:
    """The reverse of ``encode_json``."""
    if len(content) > JSON_LENGTH_MAX:
        refuse("json", f"is longer than {JSON_LENGTH_MAX} characters")
    try:
        value: object = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError("the field json is no JSON text") from None
    return value


def _no_constant(name: str) -> object:
    raise ValueError(name)


def ids(field: str, values: Sequence[str]) -> list[str]:
    """Ids of jobs or reservations, each one checked."""
    if len(values) > ITEMS_MAX:
        refuse(field, f"has more than {ITEMS_MAX} entries")
    return [an_id(field, each) for each in values]


def stream_name(field: str, value: str) -> str:
    """One of a job's streams."""
    if value not in STREAM_NAMES:
        refuse(field, f"must be one of {', '.join(STREAM_NAMES)}")
    return value


def _words_by_name(field: str, values: Mapping[str, str]) -> dict[str, str]:
    if len(values) > ITEMS_MAX:
        refuse(field, f"has more than {ITEMS_MAX} entries")
    return {label(field, name): text(field, value) for name, value in sorted(values.items())}


ARGUMENTS: Final = Rule(read=_words_by_name, write=dict)
"""Of a question or an order, in order of their names."""
