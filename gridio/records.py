"""Events to journal records and back: frozen dataclasses as compact JSON, checked both ways.

A body is one JSON object with the fields of the event by name and ``v``, the version of the event
family. Reading is strict, because a journal that is half understood is a promise half kept: an
unknown kind, an unknown or missing field, or a value of another type is a ``RecordError`` that
names it. A field may be added to an event without a new version when it has a default; any other
change of meaning needs a new version, and the codec refuses the ones it does not know.

Fields may be ``int``, ``float``, ``str``, ``bool``, ``None``, enums, dataclasses, ``X | None``,
``tuple[X, ...]``, ``tuple[X, Y]``, ``frozenset[str]`` (written sorted) and ``Mapping[K, X]`` with
``str``, ``int`` or enum keys. What is not in this list is refused when the codec is made, not when
the event happens. An event whose plain fields hold something else than they declare is refused when
it is written, since it could not be read again. The types are examined once; encoding is then one
``attrgetter`` and one JSON call, with Python code only for what is nested.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from gridcore.errors import GridError, InputError
from gridcore.instants import Instant
from gridio.field_codecs import Converter, Mismatch, Shape, shape_of, to_json
from gridio.journal import Record

VERSION_FIELD: Final = "v"


class RecordError(GridError):
    """A stored record that this release cannot understand, or an event that it cannot store."""


class EventCodec:
    """Turns events into records and back; `registry` names the type of each kind.

    One codec serves one family of events, which share a `version`. It has no state and may be
    shared. Raises InputError for a type it could not store.
    """

    def __init__(self, registry: Mapping[str, type], *, version: int = 1) -> None:
        shapes: dict[type, Shape] = {}
        self._version = version
        self._shapes = {kind: shape_of(cls, shapes) for kind, cls in registry.items()}
        self._kinds: dict[type, tuple[str, Converter]] = {}
        for kind, cls in registry.items():
            if cls in self._kinds:
                raise InputError(
                    f"{cls.__name__} is registered as {self._kinds[cls][0]} and {kind}"
                )
            if VERSION_FIELD in self._shapes[kind].names:
                raise InputError(f"{cls.__name__} has a field named {VERSION_FIELD!r}")
            self._kinds[cls] = (kind, self._shapes[kind].encode)

    def encode(self, event: object, *, at: Instant) -> Record:
        """The record of `event`; raises RecordError when it is not of a registered type."""
        try:
            kind, encode = self._kinds[type(event)]
        except KeyError:
            raise RecordError(f"{type(event).__name__} is not an event of this journal") from None
        try:
            fields = encode(event)
            fields[VERSION_FIELD] = self._version
            body = to_json(fields).encode()
        except Mismatch as mismatch:
            raise RecordError(
                f"cannot store an event of kind {kind!r}: {mismatch.told()}"
            ) from mismatch
        except (TypeError, ValueError, AttributeError) as fault:
            raise RecordError(f"cannot store the event {event!r}: {fault}") from fault
        return Record(kind=kind, at=at, body=body)

    def decode(self, record: Record) -> Any:
        """The event of `record`; raises RecordError, which names the kind and the field."""
        shape = self._shapes.get(record.kind)
        if shape is None:
            raise RecordError(
                f"unknown kind of record {record.kind!r}",
                hint="a newer release may have written it, or it is another service's journal",
            )
        try:
            fields = json.loads(record.body)
        except (ValueError, RecursionError) as fault:
            raise RecordError(f"a record of kind {record.kind!r} is not JSON: {fault}") from fault
        version = fields.pop(VERSION_FIELD, None) if type(fields) is dict else None
        if version != self._version:
            raise RecordError(
                f"a record of kind {record.kind!r} has version {version}, not {self._version}",
                hint="use the release that wrote it",
            )
        try:
            return shape.decode(fields)
        except Mismatch as mismatch:
            raise RecordError(f"a record of kind {record.kind!r}: {mismatch.told()}") from mismatch
        except (GridError, ValueError, TypeError) as fault:
            raise RecordError(f"a record of kind {record.kind!r} is invalid: {fault}") from fault
