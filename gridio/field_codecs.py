"""How each type of field crosses between a dataclass and JSON: the part of ``gridio.records`` that
looks at annotations.

Examined once for each dataclass; afterwards every value meets only the functions chosen for it.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from gridcore.errors import InputError

_KNOWN_TYPES_MAX: Final = 4_096
"""Combinations of field types remembered for one dataclass; optional fields make a few dozen."""

to_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""Plain ASCII: a name with broken characters in it must not be able to stop the journal."""


Converter = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    """How values of one type cross; `encode` None means that JSON takes the value as it is."""

    encode: Converter | None
    decode: Converter


class Mismatch(Exception):
    """A value that does not fit its type; the path to it grows on the way out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path: list[str] = []

    def told(self) -> str:
        """Path and reason in one line."""
        return f"{'.'.join(reversed(self.path))}: {self.what}" if self.path else self.what


class Shape:
    """The fields of one dataclass; it exists before it is filled, for a dataclass may hold
    itself.
    """

    # Names in the order of declaration, as they stand in the JSON.
    names: tuple[str, ...]

    def __init__(self, cls: type) -> None:
        self._cls = cls
        self.names = ()
        self._required: frozenset[str] = frozenset()
        self._get: Callable[[Any], tuple[Any, ...]] = lambda value: ()
        self._encoders: tuple[tuple[str, Converter], ...] = ()
        self._decoders: dict[str, Converter] = {}
        # Types of values that were found to be readable again; one set of types is checked once.
        self._known_types: set[tuple[type, ...]] = set()

    def fill(self, shapes: dict[type, Shape]) -> None:
        """Examine the fields; raises InputError for a type that cannot be stored."""
        cls = self._cls
        hints = typing.get_type_hints(cls)
        fields = [field for field in dataclasses.fields(cls) if field.init]
        self.names = tuple(field.name for field in fields)
        self._required = frozenset(
            field.name
            for field in fields
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        self._get = _getter(self.names)
        codecs: dict[str, _Codec] = {}
        for name in self.names:
            try:
                codecs[name] = _codec_of(hints[name], shapes)
            except InputError as fault:
                raise InputError(f"{cls.__name__}.{name}: {fault.message}") from fault
        self._encoders = tuple(
            (name, codec.encode) for name, codec in codecs.items() if codec.encode is not None
        )
        self._decoders = {name: codec.decode for name, codec in codecs.items()}

    def encode(self, value: Any) -> dict[str, Any]:
        """The fields of `value`, ready for JSON."""
        values = self._get(value)
        if tuple(map(type, values)) not in self._known_types:
            self._check_plain(values)
        encoded = dict(zip(self.names, values, strict=True))
        for name, encode in self._encoders:
            field = encoded[name]
            if field is not None:
                encoded[name] = encode(field)
        return encoded

    def _check_plain(self, values: tuple[Any, ...]) -> None:
        """Raise Mismatch for a plain field that decoding would refuse, such as 3.0 for a whole
        number.
        """
        nested = {name for name, _encode in self._encoders}
        for name, value in zip(self.names, values, strict=True):
            if name not in nested or value is None:
                _at(name, self._decoders[name], json.loads(to_json(value)))
        if len(self._known_types) < _KNOWN_TYPES_MAX:
            self._known_types.add(tuple(map(type, values)))

    def decode(self, fields: Any) -> Any:
        """The value of these fields; raises Mismatch."""
        if type(fields) is not dict:
            raise Mismatch(f"expected an object ({self._cls.__name__}), found {_short(fields)}")
        decoders = self._decoders
        arguments: dict[str, Any] = {}
        for name, field in fields.items():
            decode = decoders.get(name)
            if decode is None:
                raise Mismatch(f"{self._cls.__name__} has no field {name!r}")
            try:
                arguments[name] = decode(field)
            except Mismatch as mismatch:
                mismatch.path.append(name)
                raise
        if len(arguments) < len(decoders):
            missing = [n for n in self.names if n in self._required and n not in arguments]
            if missing:
                raise Mismatch(f"{self._cls.__name__} lacks the field {missing[0]!r}")
        return self._cls(**arguments)


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """All attributes as one tuple, where attrgetter alone gives a bare value for a single name."""
    if not names:
        return lambda value: ()
    if len(names) == 1:
        only = operator.attrgetter(names[0])
        return lambda value: (only(value),)
    return operator.attrgetter(*names)


def shape_of(cls: type, shapes: dict[type, Shape]) -> Shape:
    """The shape of a dataclass, made at its first mention; raises InputError if it cannot be."""
    shape = shapes.get(cls)
    if shape is None:
        if not dataclasses.is_dataclass(cls):
            raise InputError(f"{cls!r} is not a dataclass")
        shape = shapes[cls] = Shape(cls)
        shape.fill(shapes)
    return shape


def _codec_of(annotation: Any, shapes: dict[type, Shape]) -> _Codec:
    """The codec of an annotation; raises InputError when there is none."""
    if isinstance(annotation, typing.NewType):
        return _codec_of(annotation.__supertype__, shapes)
    plain = _PLAIN.get(annotation)
    if plain is not None:
        return plain
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _optional(annotation, arguments, shapes)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(_codec_of(arguments[0], shapes))
    if origin is tuple:
        return _fixed_tuple([_codec_of(argument, shapes) for argument in arguments])
    if origin is frozenset and arguments == (str,):
        names = _sequence(_PLAIN[str])
        return _Codec(sorted, lambda value: frozenset(names.decode(value)))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(annotation, arguments, shapes)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enumeration(annotation)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        shape = shape_of(annotation, shapes)
        return _Codec(shape.encode, shape.decode)
    raise InputError(f"a record cannot hold a value of type {annotation}")


def _expect(value: Any, expected: type) -> Any:
    """`value`, if it is exactly of this type: true is not a number here."""
    if type(value) is not expected:
        raise Mismatch(f"expected {_NAMES[expected]}, found {_short(value)}")
    return value


def _expect_float(value: Any) -> float:
    """JSON writes 1.0 as it likes; both spellings of a number are one."""
    return float(value) if type(value) is int else _as_float(value)


def _as_float(value: Any) -> float:
    checked: float = _expect(value, float)
    return checked


def _plain(expected: type) -> _Codec:
    def decode(value: Any) -> Any:
        return value if type(value) is expected else _expect(value, expected)

    return _Codec(None, decode)


def _optional(annotation: Any, arguments: tuple[Any, ...], shapes: dict[type, Shape]) -> _Codec:
    """``X | None``, which may also stand inside a tuple."""
    others = [argument for argument in arguments if argument is not type(None)]
    if len(others) != 1 or len(others) == len(arguments):
        raise InputError(f"a record cannot hold a choice of types: {annotation}")
    inner = _codec_of(others[0], shapes)
    inner_encode, inner_decode = inner.encode, inner.decode
    return _Codec(
        None
        if inner_encode is None
        else lambda value: None if value is None else inner_encode(value),
        lambda value: None if value is None else inner_decode(value),
    )


def _sequence(item: _Codec) -> _Codec:
    item_encode, item_decode = item.encode, item.decode
    return _Codec(
        None if item_encode is None else lambda value: [item_encode(one) for one in value],
        lambda value: tuple(
            [_at(i, item_decode, one) for i, one in enumerate(_expect(value, list))]
        ),
    )


def _fixed_tuple(items: list[_Codec]) -> _Codec:
    def encode(value: Any) -> list[Any]:
        return [
            one if item.encode is None else item.encode(one)
            for item, one in zip(items, value, strict=True)
        ]

    def decode(value: Any) -> tuple[Any, ...]:
        if len(_expect(value, list)) != len(items):
            raise Mismatch(f"expected {len(items)} items, found {len(value)}")
        return tuple([_at(i, items[i].decode, one) for i, one in enumerate(value)])

    return _Codec(encode, decode)


def _mapping(annotation: Any, arguments: tuple[Any, ...], shapes: dict[type, Shape]) -> _Codec:
    """Written in the order of its items, so that the same mapping always gives the same bytes."""
    key_type, item_type = arguments
    decode_key: Converter
    if key_type is int:
        decode_key = _int_of_key
    elif key_type is str or (isinstance(key_type, type) and issubclass(key_type, enum.StrEnum)):
        decode_key = _codec_of(key_type, shapes).decode
    else:
        raise InputError(f"a record cannot hold these keys: {annotation}")
    item = _codec_of(item_type, shapes)
    item_encode, item_decode = item.encode, item.decode

    def encode(value: Any) -> dict[str, Any]:
        if item_encode is None:
            return {str(key): one for key, one in value.items()}
        return {str(key): item_encode(one) for key, one in value.items()}

    def decode(value: Any) -> dict[Any, Any]:
        items = _expect(value, dict).items()
        return {decode_key(key): _at(key, item_decode, one) for key, one in items}

    return _Codec(encode, decode)


def _int_of_key(key: str) -> int:
    try:
        return int(key)
    except ValueError:
        raise Mismatch(f"expected a number as the key, found {_short(key)}") from None


def _enumeration(cls: type[enum.Enum]) -> _Codec:
    """By value; JSON already writes a member of a str or int enum as its value."""
    by_value = {member.value: member for member in cls}
    if not all(type(value) in (str, int) for value in by_value):
        raise InputError(f"a record holds enums of text or whole numbers, not {cls.__name__}")

    def decode(value: Any) -> enum.Enum:
        member = by_value.get(value) if type(value) in (str, int) else None
        if member is None:
            raise Mismatch(f"{_short(value)} is not a {cls.__name__}")
        return member

    is_json_already = issubclass(cls, str | int)
    return _Codec(None if is_json_already else operator.attrgetter("value"), decode)


def _at(place: object, decode: Converter, value: Any) -> Any:
    """Decode one item; a mismatch learns its place."""
    try:
        return decode(value)
    except Mismatch as mismatch:
        mismatch.path.append(str(place))
        raise


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_NAMES: Final = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}

_PLAIN: Final[dict[Any, _Codec]] = {
    int: _plain(int),
    str: _plain(str),
    bool: _plain(bool),
    float: _Codec(None, _expect_float),
}
