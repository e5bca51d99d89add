"""Bounds that a message must keep before its fields become a domain value.

A message may be hostile: the domain's values check what they need for themselves, and here is what
no value of ours checks because nothing inside the program could get it wrong. Each refusal is an
``InputError`` that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from gridtravel.gridcore.booking.reservations import ID_LENGTH_MAX
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

INSTANT_MAX: Final = 253_402_300_800
"""The first second of the year 10000: every instant before it can be shown as a date."""

COUNT_MAX: Final = 2**62
"""Bound of amounts (node-seconds, millicredits, bytes): the sum of two still fits 64 bits."""

TEXT_LENGTH_MAX: Final = 16_384
"""Characters of a text for people."""

ITEMS_MAX: Final = 4_096
"""Most entries of a list inside one value: features, node names, participants, classes."""

M = TypeVar("M", bound=Message)


def refuse(field: str, why: str) -> NoReturn:
    """Raise the ``InputError`` for ``field``."""
    raise InputError(f"the field {field} {why}")


def instant(field: str, value: int) -> Instant:
    """``value`` when it is a moment between 1970 and the year 9999."""
    if 0 <= value <= INSTANT_MAX:
        return value
    refuse(field, f"is no moment between 1970 and 9999: {value}")


def count(field: str, value: int, least: int = 0, most: int = COUNT_MAX) -> int:
    """``value`` when it lies in ``[least, most]``."""
    if least <= value <= most:
        return value
    refuse(field, f"must be {least} to {most}: {value}")


def between(least: int, most: int = COUNT_MAX) -> Callable[[str, int], int]:
    """``count`` with other bounds."""

    def check(field: str, value: int) -> int:
        if least <= value <= most:
            return value
        return count(field, value, least, most)

    return check


def moment(field: str, value: float) -> float:
    """``value`` when it is a finite number of seconds since the epoch."""
    if math.isfinite(value) and 0 <= value <= INSTANT_MAX:
        return value
    refuse(field, f"is no moment between 1970 and 9999: {value}")


def label(field: str, value: str, length_max: int = ID_LENGTH_MAX) -> str:
    """``value`` when it is short and printable: names, addresses; empty is allowed."""
    if len(value) <= length_max and value.isprintable():
        return value
    refuse(field, f"is longer than {length_max} characters or not printable")


def short(length_max: int) -> Callable[[str, str], str]:
    """``label`` with another bound."""

    def check(field: str, value: str) -> str:
        if len(value) <= length_max and value.isprintable():
            return value
        return label(field, value, length_max)

    return check


def text(field: str, value: str) -> str:
    """``value`` when it is not absurdly long: messages and reasons."""
    if len(value) <= TEXT_LENGTH_MAX:
        return value
    refuse(field, f"is longer than {TEXT_LENGTH_MAX} characters")


def items(field: str, values: Sequence[M], most: int = ITEMS_MAX) -> Sequence[M]:
    """``values`` when they are at most ``most``."""
    if len(values) <= most:
        return values
    refuse(field, f"has more than {most} entries")


def labels(field: str, values: Sequence[str], most: int = ITEMS_MAX) -> tuple[str, ...]:
    """``values`` as a tuple when they are few, short, printable and not empty."""
    if not values:
        return ()
    if len(values) > most:
        refuse(field, f"has more than {most} entries")
    found = tuple(values)
    for value in found:
        if not (0 < len(value) <= ID_LENGTH_MAX and value.isprintable()):
            refuse(field, f"has an entry that is empty, longer than {ID_LENGTH_MAX} or unprintable")
    return found


def build(message_type: type[M], fields: Mapping[str, Any]) -> M:
    """The message with ``fields``; what cannot be carried (a number of more than 64 bits, half a
    surrogate pair) is an ``InputError`` that names the field, also within a message within it.
    """
    try:
        return message_type(**fields)
    except (ValueError, TypeError):
        name = _unsendable(message_type, fields)
        if not name:
            raise
        raise InputError(
            f"the value of {name} cannot be sent", hint="it is too large or no text"
        ) from None


def _unsendable(message_type: type[Message], fields: Mapping[str, Any]) -> str:
    """The name of the first of ``fields`` that no such message can hold."""
    for name, value in fields.items():
        try:
            message_type(**{name: value})
        except (ValueError, TypeError):
            descriptor: Any = message_type.DESCRIPTOR.fields_by_name[name].message_type
            if descriptor is None or descriptor.GetOptions().map_entry:
                return name
            parts = value if isinstance(value, list) else [value]
            within = (
                _unsendable(GetMessageClass(descriptor), each)
                for each in parts
                if isinstance(each, dict)
            )
            return next(filter(None, within), name)
    return ""
