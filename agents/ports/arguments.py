"""Arguments of the site's questions: words to numbers, with a refusal that names the argument."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_count

NUMBER_MAX: Final = 1 << 40
TEXT_LENGTH_MAX: Final = 128


def word(arguments: Mapping[str, str], name: str) -> str:
    """An argument that must be there."""
    if name not in arguments:
        raise InputError(f"the question needs the argument {name!r}")
    return arguments[name]


def number(arguments: Mapping[str, str], name: str) -> int:
    """A positive whole number that must be there."""
    return _positive(name, word(arguments, name))


def number_or(arguments: Mapping[str, str], name: str, otherwise: int, most: int) -> int:
    """A positive whole number up to ``most``, or ``otherwise``."""
    if name not in arguments:
        return otherwise
    return min(_positive(name, arguments[name]), most)


def amount_or_none(arguments: Mapping[str, str], name: str) -> int | None:
    """A whole number from 0 on, or ``None`` where it is not given."""
    text = arguments.get(name)
    if text is None:
        return None
    if not is_count(text):
        raise InputError(f"{name} must be a whole number: {text[:40]!r}")
    return int(text)


def text_or_none(arguments: Mapping[str, str], name: str) -> str | None:
    """A short printable text, or ``None`` where it is not given or empty."""
    text = arguments.get(name, "")
    if len(text) > TEXT_LENGTH_MAX or not text.isprintable():
        raise InputError(f"{name} must be printable and at most {TEXT_LENGTH_MAX} characters")
    return text or None


def texts(arguments: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Words with commas between them; none when it is not given."""
    listed = arguments.get(name, "")
    if not listed.isprintable():
        raise InputError(f"{name} must be printable")
    return tuple(filter(None, (each.strip() for each in listed.split(","))))


def only(arguments: Mapping[str, str], *known: str) -> None:
    """Refuse arguments that the question does not have: a misspelt filter would filter nothing."""
    for name in arguments:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise InputError(
                f"the question has no argument {name[:40]!r}", hint=f"arguments: {listed}"
            )


def _positive(name: str, text: str) -> int:
    if not is_count(text) or len(text) > 13:
        raise InputError(f"{name} must be a positive whole number: {text[:40]!r}")
    value = int(text)
    if not 0 < value < NUMBER_MAX:
        raise InputError(f"{name} must be a positive whole number: {text[:40]!r}")
    return value
