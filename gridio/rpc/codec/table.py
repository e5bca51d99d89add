"""A value and its message: a table says once, for both directions, how each field crosses.

A field crosses under its own name and as its annotation says (``BY_ANNOTATION``), and is checked on
its way in. A ``Table`` names only what is otherwise: another bound, another name, an absence, an
enumeration, a message of its own. What reads and writes a value is made of the table at its first
use, and is then as fast as code written for it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

from google.protobuf.message import Message

from gridtravel.gridio.rpc.codec.checks import (
    ITEMS_MAX,
    count,
    instant,
    items,
    label,
    labels,
    moment,
    refuse,
)

V = TypeVar("V")
M = TypeVar("M", bound=Message)

Check: TypeAlias = Callable[[str, Any], Any]
"""What becomes of a field of a message; takes the name by which it is refused, and its value."""


class Absence(enum.Enum):
    """What it means that a message lacks a field."""

    DEFAULT = "it has the default of its type, as if that had been sent"
    REFUSED = "the message is refused"
    NONE = "None"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How one field crosses; where ``read`` or ``write`` is ``None``, as it is."""

    read: Check | None = None
    write: Callable[[Any], Any] | None = None
    absence: Absence = Absence.DEFAULT
    name: str = ""
    """In the message; empty: as in the value."""


AS_IS: Final = Rule()
"""For what the value checks for itself, and what cannot be wrong."""

BY_ANNOTATION: Final[Mapping[str, Rule]] = {
    "bool": AS_IS,
    "bytes": AS_IS,
    "float": Rule(read=moment),
    "float | None": Rule(read=moment, absence=Absence.NONE),
    "int": Rule(read=count),
    "int | None": Rule(read=count, absence=Absence.NONE),
    "Instant": Rule(read=instant),
    "Instant | None": Rule(read=instant, absence=Absence.NONE),
    "str": Rule(read=label),
    "tuple[str, ...]": Rule(read=labels),
}
"""By the annotation's own words, in which an ``Instant`` is no mere ``int``."""


class Table(Generic[V, M]):
    """How a dataclass and its message become each other."""

    def __init__(
        self,
        value_type: type[V],
        message_type: type[M],
        prefix: str = "",
        *,
        apart: Sequence[str] = (),
        finish: Callable[[V, M], V] | None = None,
        **rules: Rule | Check,
    ) -> None:
        """``prefix``: before a field's name when it is refused. ``apart``: fields that whoever uses
        the table adds. ``finish``: takes the value and its message, for what concerns several
        fields at once.
        """
        self.value_type = value_type
        self.message_type = message_type
        self._prefix = prefix
        self._apart = apart
        self._finish = finish
        self._rules = {
            each.name: rule_of(each.name, str(each.type), rules)
            for each in fields(value_type)  # type: ignore[arg-type]  # every value is a dataclass
            if each.name not in apart
        }

    @cached_property
    def fields(self) -> Callable[[V], dict[str, Any]]:
        """What the message of a value is made of:

            lambda value: {"start": value.start, "interval": write_interval(value.interval), ...}

        It is put together as text, as dataclasses are, and of nothing but names of our own fields:
        walking through the table for each value takes twice as long.
        """
        items = [
            f"{rule.name or name!r}: "
            + (f"value.{name}" if rule.write is None else f"write_{name}(value.{name})")
            for name, rule in self._rules.items()
        ]
        known = {f"write_{name}": rule.write for name, rule in self._rules.items()}
        made: Any = eval(f"lambda value: {{{', '.join(items)}}}", known)
        return cast("Callable[[V], dict[str, Any]]", made)

    @cached_property
    def decode(self) -> Callable[..., V]:
        """The value of a message, which may be hostile: what is wrong with it is an ``InputError``
        that names the field. What the table leaves ``apart`` comes after the message. Likewise:

            lambda message: finish(Offer(start=read_start("offer.start", message.start), ...))
        """
        known: dict[str, Any] = {
            "value_type": self.value_type,
            "finish": self._finish,
            "missing": partial(refuse, why="is missing"),
        }
        words = [f"{name}={name}" for name in self._apart]
        for name, rule in self._rules.items():
            sent = rule.name or name
            field = self._prefix + sent
            known[f"read_{name}"] = rule.read
            word = f"message.{sent}"
            if rule.read is not None:
                word = f"read_{name}({field!r}, {word})"
            if rule.absence is Absence.NONE:
                word = f"{word} if message.HasField({sent!r}) else None"
            elif rule.absence is Absence.REFUSED:
                word = f"{word} if message.HasField({sent!r}) else missing({field!r})"
            words.append(f"{name}={word}")
        value = f"value_type({', '.join(words)})"
        if self._finish is not None:
            value = f"finish({value}, message)"
        made: Any = eval(f"lambda {', '.join(['message', *self._apart])}: {value}", known)
        return cast("Callable[..., V]", made)

    def encode(self, value: V) -> M:
        """The message of ``value``."""
        return self.message_type(**self.fields(value))


class OneOf(Generic[M]):
    """A message that holds one of several values, each in a field of its own."""

    def __init__(
        self, message_type: type[M], oneof: str, prefix: str = "", **tables: Table[Any, Any]
    ) -> None:
        """``oneof``: what the message calls the choice."""
        self._message_type = message_type
        self._oneof = oneof
        self._prefix = prefix
        self._tables = tables

    def fields(self, value: Any) -> dict[str, Any]:
        """What the message of ``value`` is made of."""
        for name, table in self._tables.items():
            if isinstance(value, table.value_type):
                return {name: table.fields(value)}
        raise TypeError(f"{type(value)} is no {self._oneof} of {self._message_type}")

    def encode(self, value: Any) -> M:
        """The message of ``value``."""
        return self._message_type(**self.fields(value))

    def decode(self, message: M) -> Any:
        """The value of ``message``."""
        which = message.WhichOneof(self._oneof)
        if which is None:
            refuse(self._prefix + self._oneof, "is missing")
        return self._tables[which].decode(getattr(message, which))


def nested(table: Table[Any, Any], absence: Absence = Absence.REFUSED) -> Rule:
    """A message within a message; where its absence means None, None is left out."""
    return Rule(
        read=lambda _, message: table.decode(message),
        write=lambda value: None if value is None else table.fields(value),
        absence=absence,
    )


def many(table: Table[Any, Any], most: int = ITEMS_MAX) -> Rule:
    """A tuple of values, a message each."""

    def read(field: str, messages: Any) -> Any:
        if not messages:
            return ()
        decode = table.decode
        return tuple([decode(each) for each in items(field, messages, most)])

    def write(values: Iterable[Any]) -> Any:
        fields_of = table.fields
        return [fields_of(each) for each in values]

    return Rule(read=read, write=write)


def listed(table: Table[Any, Any], most: int) -> Rule:
    """The same as a list."""

    def read(field: str, messages: Any) -> Any:
        return [table.decode(each) for each in items(field, messages, most)]

    return replace(many(table, most), read=read)


def numbered(numbers: Mapping[Any, int]) -> Rule:
    """A member of an enumeration, by its number; one that is not there is refused: zero, which is
    UNSPECIFIED, and what only a newer version knows.
    """
    members = {number: member for member, number in numbers.items()}

    def read(field: str, number: int) -> Any:
        if number not in members:
            refuse(field, f"has the unknown number {number}")
        return members[number]

    return Rule(read=read, write=numbers.__getitem__)


def as_is(_: str, value: Any) -> Any:
    """The check of what needs none."""
    return value


def rule_of(name: str, annotation: str, rules: Mapping[str, Rule | Check]) -> Rule:
    """The rule for ``name`` among ``rules``, or else by its annotation."""
    rule = rules.get(name) or BY_ANNOTATION[annotation]
    if isinstance(rule, Rule):
        return rule
    usual = BY_ANNOTATION.get(annotation, AS_IS)
    return Rule(read=rule, absence=usual.absence)
