"""Numbers as people and other programs write them: plain digits, and nothing that merely Python
would take for a number.

``int`` and ``float`` read ``1_000``, digits of every script, words with space around them, ``nan``
and ``inf``. In a log, a list of another program or a command line each of these is a mistake, and
taken for a number it is found much later, or never. Whatever reads such text reads it here.
"""

from __future__ import annotations

import re
from typing import Final

DIGITS_MAX: Final = 30
"""More have no meaning in anything that is counted here."""

_WHOLE: Final = re.compile(rf"[+-]?[0-9]{{1,{DIGITS_MAX}}}")
_DECIMAL: Final = re.compile(
    rf"[+-]?(?:[0-9]{{1,{DIGITS_MAX}}}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{{1,2}})?"
)


def is_whole(text: str) -> bool:
    """True for a whole number, perhaps with a sign."""
    return _WHOLE.fullmatch(text) is not None


def is_decimal(text: str) -> bool:
    """True for a number with or without decimals and exponent; all of them are finite."""
    return _DECIMAL.fullmatch(text) is not None


def is_count(text: str) -> bool:
    """True for a whole number without a sign."""
    return is_whole(text) and text[0] not in "+-"


def read_whole(text: str) -> int:
    """The whole number; ``ValueError`` for anything else."""
    if not is_whole(text):
        raise ValueError(f"not a whole number: {text[:40]!r}")
    return int(text)


def read_decimal(text: str) -> float:
    """The number; ``ValueError`` for anything else."""
    if not is_decimal(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    return float(text)
