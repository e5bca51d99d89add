"""Events to journal records and back: frozen dataclasses as compact JSON, checked both ways.

A body is one JSON object with the fields of the event by name and, last, ``v``, the version of the
event family. Reading is strict, because a service that understood only part of its journal would
break promises: an unknown kind, an unknown or missing field, or a value of another type is a
``RecordError`` that names it. A field may be added to an event without a new version when it has a
default; any other change of meaning needs a new version, and the codec refuses the ones it does not
know.

Fields may be ``int``, ``float``, ``str``, ``bool``, enums of text or whole numbers (by value),
dataclasses, ``X | None``, ``tuple[X, ...]``, ``tuple[X, Y]`` and ``Mapping[K, X]`` with ``str``,
``int`` or enum keys. Anything else is refused when its kind is first met; a set too, because
pydantic writes it in the order of its hashes, which differs between runs. An event whose fields
hold something else than they declare is refused when it is written, since it could not be read
again.

The work is done by pydantic, from the annotations of plain dataclasses: the domain does not know
it. An adapter takes about a millisecond to build, and importing pydantic tens of them, so both
happen when a kind is first met; a command that reads no journal pays for neither.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.errors import REPORT_IT, GridError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.journal.contract import Record

if TYPE_CHECKING:
    from pydantic_core import ValidationError

VERSION_FIELD: Final = "v"
REASON_LENGTH_MAX: Final = 200
"""Characters of a reason that are told; what was found may be a whole record."""

_to_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""Plain ASCII: a name with broken characters in it must not be able to stop the journal."""


class RecordError(GridError):
    """A stored record that this release cannot understand, or an event that it cannot store."""


class EventCodec:
    """Turns events into records and back; `registry` names the type of each kind.

    One codec serves one family of events, which share a `version`. It may be shared. Raises
    InputError for a type it could not store: here, or when the kind is first met.
    """

    def __init__(self, registry: Mapping[str, type], *, version: int = 1) -> None:
        self._registry = dict(registry)
        self._version = version
        self._ending = f',"{VERSION_FIELD}":{version}}}'.encode()
        self._kinds: dict[type, str] = {}
        self._forms: dict[str, _Form] = {}
        for kind, cls in registry.items():
            if cls in self._kinds:
                raise InputError(f"{cls.__name__} is registered as {self._kinds[cls]} and {kind}")
            if not dataclasses.is_dataclass(cls):
                raise InputError(f"{cls!r} is not a dataclass")
            if any(field.name == VERSION_FIELD for field in dataclasses.fields(cls)):
                raise InputError(f"{cls.__name__} has a field named {VERSION_FIELD!r}")
            self._kinds[cls] = kind

    def encode(self, event: object, *, at: Instant) -> Record:
        """The record of `event`; raises RecordError when it is not of a registered type."""
        kind = self._kinds.get(type(event))
        if kind is None:
            raise RecordError(
                f"{type(event).__name__} is not an event of this journal", hint=REPORT_IT
            )
        form = self._forms.get(kind) or self._built(kind)
        try:
            fields = form.write(event)
        except ValueError as fault:
            raise RecordError(
                f"cannot store an event of kind {kind!r}: {form.reason(event, fault)}",
                hint=REPORT_IT,
            ) from fault
        # Without a field of its own, the event has no need of the comma.
        body = fields[:-1] + self._ending if len(fields) > 2 else b"{" + self._ending[1:]
        return Record(kind=kind, at=at, body=body)

    def decode(self, record: Record) -> Any:
        """The event of `record`; raises RecordError, which names the kind and the field."""
        kind, body = record.kind, record.body
        if kind not in self._registry:
            raise RecordError(
                f"unknown kind of record {kind!r}",
                hint="a newer release may have written it, or it is another service's journal",
            )
        form = self._forms.get(kind) or self._built(kind)
        if body.endswith(self._ending) and len(body) > len(self._ending) + 1:
            try:
                return form.read_json(body[: -len(self._ending)] + b"}")
            except (GridError, ValueError, TypeError):
                pass  # told below; or it holds a broken character, which pydantic's JSON cannot
        try:
            fields = json.loads(body)
        except (ValueError, RecursionError) as fault:
            raise RecordError(
                f"a record of kind {kind!r} is not JSON: {fault}",
                hint="the journal was written by another version, or is damaged: keep a copy of it",
            ) from fault
        version = fields.pop(VERSION_FIELD, None) if type(fields) is dict else None
        if version != self._version:
            raise RecordError(
                f"a record of kind {kind!r} has version {version}, not {self._version}",
                hint="use the release that wrote it",
            )
        try:
            return form.read(fields)
        except (GridError, ValueError, TypeError) as fault:
            raise RecordError(
                f"a record of kind {kind!r}: {_told(fault)}",
                hint="the journal was written by another version, or is damaged: keep a copy of it",
            ) from fault

    def _built(self, kind: str) -> _Form:
        """The adapter of a kind that is met for the first time; raises InputError."""
        form = self._forms[kind] = _Form(self._registry[kind])
        return form


class _Form:
    """How one type of event crosses."""

    def __init__(self, cls: type) -> None:
        """Examine the annotations; raises InputError for a type that cannot be stored."""
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter
        from pydantic_core import CoreConfig, SchemaSerializer, SchemaValidator

        # A choice, for pydantic takes no configuration for a bare dataclass from outside, and hands
        # this one on to what is nested. Its other half, None, is never met.
        config = ConfigDict(
            strict=True, extra="forbid", allow_inf_nan=False, revalidate_instances="always"
        )
        choice: Any = cls | None
        try:
            schema: Any = TypeAdapter(choice, config=config).core_schema
        except PydanticUserError as fault:
            raise InputError(f"{cls.__name__} cannot be a record: {fault}") from fault
        seen = _Seen()
        _adapt(schema, seen)
        core_config = CoreConfig(strict=True, allow_inf_nan=False, revalidate_instances="always")
        validator = SchemaValidator(schema, core_config)
        self.read_json = validator.validate_json
        self.read = validator.validate_python
        """From what the standard library's JSON made of a body."""
        self._serializer = SchemaSerializer(schema, core_config)
        self._has_floats = seen.has_floats
        # In a text a quote has a backslash before it, so that what is not doubtful here is a field:
        # or a key, whose name is anything.
        names = [] if seen.has_mappings else sorted(seen.optional - seen.required)
        rightful = (f'(?<!"{name}":null)' for name in names)
        self._doubtful_null = re.compile("".join(("null", *rightful)).encode())

    def write(self, event: object) -> bytes:
        """The fields of `event` as one JSON object; raises ValueError for one that could not be
        read again.
        """
        try:
            fields = b"" if self._has_floats else self._serializer.to_json(event, warnings="error")
        except ValueError:
            fields = b""  # it holds a broken character, or it is indeed wrong
        if not fields or not fields.isascii() or b"\x7f" in fields:
            # The standard library writes any text, as plain ASCII without the character 127, and
            # 0.00001 as 1e-05: as it always was.
            plain = self._serializer.to_python(event, mode="json", warnings="error")
            fields = _to_json(plain).encode()
        # pydantic writes None for any type without a word.
        if self._doubtful_null.search(fields) is not None:
            self.read(json.loads(fields))
        return fields

    def reason(self, event: object, fault: ValueError) -> str:
        """Why `event` could not be written. Reading it again names the place of most faults."""
        try:
            self.read(event)
        except (GridError, ValueError, TypeError) as found:
            return _told(found)
        return _told(fault)


@dataclasses.dataclass(slots=True)
class _Seen:
    """What was met on the way through a schema."""

    has_floats: bool = False
    has_mappings: bool = False
    optional: set[str] = dataclasses.field(default_factory=set)
    """Names of fields that may be None, in any dataclass."""
    required: set[str] = dataclasses.field(default_factory=set)
    """Names of fields that may not, in any dataclass."""


def _adapt(schema: Any, seen: _Seen) -> None:
    """Say in a schema of pydantic's what its configuration cannot say, down to the last field.
    Raises InputError for what no record holds.

    Containers and enums are not ``strict``: in what the standard library's JSON reads, a tuple is a
    list, a dataclass a dict, an enum its value, and a number as a key a text. Plain values are.
    """
    from pydantic_core import core_schema

    match schema["type"]:
        case "str" | "bool" | "definition-ref":
            pass
        case "int":
            schema["serialization"] = core_schema.plain_serializer_function_ser_schema(_whole)
        case "float":
            schema["serialization"] = core_schema.plain_serializer_function_ser_schema(_number)
            seen.has_floats = True
        case "nullable" | "default":
            _adapt(schema["schema"], seen)
        case "definitions":
            for each in (*schema["definitions"], schema["schema"]):
                _adapt(each, seen)
        case "dataclass":
            _adapt_dataclass(schema, seen)
        case "tuple":
            schema["strict"] = False
            for each in schema["items_schema"]:
                _adapt(each, seen)
        case "dict":
            seen.has_mappings = True
            keys = schema["keys_schema"]
            if keys["type"] not in ("str", "int", "enum"):
                raise InputError(f"a record cannot hold keys of the type {keys['type']}")
            _adapt(keys, seen)
            keys["strict"] = False
            _adapt(schema["values_schema"], seen)
            schema["serialization"] = core_schema.wrap_serializer_function_ser_schema(
                _as_dict, schema=core_schema.dict_schema(keys, schema["values_schema"])
            )
        case "enum":
            schema["strict"] = False
            _adapt_enum(schema)
        case other:
            raise InputError(f"a record cannot hold a value of the type {other}")


def _adapt_dataclass(schema: Any, seen: _Seen) -> None:
    """Without its derived fields, which are computed again."""
    fields = [field for field in schema["schema"]["fields"] if field.get("init", True)]
    schema["schema"]["fields"] = fields
    schema["fields"] = [field["name"] for field in fields]
    schema["strict"] = False
    for field in fields:
        of_field = field["schema"]
        try:
            _adapt(of_field, seen)
        except InputError as fault:
            place = f"{schema['cls'].__name__}.{field['name']}"
            raise InputError(f"{place}: {fault.message}") from fault
        while of_field["type"] == "default":
            of_field = of_field["schema"]
        names = seen.optional if of_field["type"] == "nullable" else seen.required
        names.add(field["name"])


def _adapt_enum(schema: Any) -> None:
    """By value; for whole numbers without pydantic's leave to say true, 1.0 or "1" for 1."""
    from pydantic_core import core_schema

    name = schema["cls"].__name__
    value_types = {type(member.value) for member in schema["members"]}
    if not value_types <= {str, int}:
        raise InputError(f"a record holds enums of text or whole numbers, not {name}")
    if int not in value_types:
        return

    def check(value: Any) -> Any:
        if type(value) not in value_types and not isinstance(value, enum.Enum):
            raise ValueError(f"it is not a {name}")
        return value

    by_value = dict(schema)
    reference = by_value.pop("ref", None)
    schema.clear()
    schema.update(core_schema.no_info_before_validator_function(check, by_value, ref=reference))


def _whole(value: Any) -> Any:
    """pydantic would write true as 1."""
    if type(value) is not int and (not isinstance(value, int) or type(value) is bool):
        raise ValueError("it is not a whole number")
    return value


def _number(value: Any) -> Any:
    """A number without a fraction may be written 1 or 1.0; both are read."""
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("it is not a finite number")
    return value


def _as_dict(value: Any, write: Callable[[dict[Any, Any]], Any]) -> Any:
    """pydantic writes no other mapping than a dict."""
    return write(dict(value))


def _told(fault: Exception) -> str:
    """Place and reason, in one line of bounded length."""
    from pydantic_core import ValidationError

    text = _first_of(fault) if isinstance(fault, ValidationError) else " ".join(str(fault).split())
    return text if len(text) <= REASON_LENGTH_MAX else f"{text[: REASON_LENGTH_MAX - 3]}..."


def _first_of(fault: ValidationError) -> str:
    """What is wrong first, and where."""
    first = fault.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"] if part != "[key]")
    what = f"{place}: {first['msg']}" if place else first["msg"]
    if first["type"] in ("missing", "unexpected_keyword_argument"):
        return what
    found = repr(first["input"])
    return f"{what}, found {found if len(found) <= 60 else f'{found[:57]}...'}"
