"""Lengths of time as people write them: ``7200``, ``7200s``, ``2h``, ``1h30m``, ``01:30:00``.

Seconds inside, text at the edge. ``format_duration`` writes the shortest form that
``parse_duration`` reads back to the same number. ``HH:MM`` is refused on purpose: some schedulers
read it as hours and minutes, others as minutes and seconds.
"""

from __future__ import annotations

import re
from typing import Final

from gridtravel.gridcore.errors import InputError

DURATION_TEXT_LIMIT_S: Final = 10 * 366 * 86_400
"""Longest duration that is read: ten years, the same bound as a reservation's."""

_FORMS: Final = "write seconds (7200), units (2h, 1h30m, 90m, 7200s, 1d) or HH:MM:SS (01:30:00)"
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_CLOCK: Final = re.compile(r"([0-9]{1,6}):([0-5][0-9]):([0-5][0-9])")
_UNITS: Final = re.compile(
    r"(?:([0-9]{1,9})\s*d)?\s*(?:([0-9]{1,9})\s*h)?\s*(?:([0-9]{1,9})\s*m)?\s*(?:([0-9]{1,12})\s*s)?"
)
_TEXT_LENGTH_MAX: Final = 64


def parse_duration(text: str) -> int:
    """Seconds that ``text`` stands for, 0 to ten years; ``InputError`` for anything else.

    Whether zero makes sense is the caller's to say: a job of no length does not, a guard band does.
    """
    words = text.strip().lower()
    if len(words) > _TEXT_LENGTH_MAX:
        raise InputError(f"the duration {words[:20]!r}… is too long a text", hint=_FORMS)
    if _SECONDS.fullmatch(words):
        seconds = int(words)
    elif clock := _CLOCK.fullmatch(words):
        hours, minutes, rest = (int(part) for part in clock.groups())
        seconds = hours * 3600 + minutes * 60 + rest
    elif words and (units := _UNITS.fullmatch(words)):
        days, hours, minutes, rest = (int(part or 0) for part in units.groups())
        seconds = days * 86_400 + hours * 3600 + minutes * 60 + rest
    else:
        raise InputError(f"{text[:40]!r} is not a duration", hint=_hint_for(words))
    if seconds > DURATION_TEXT_LIMIT_S:
        raise InputError(
            f"the duration {text.strip()!r} is longer than ten years", hint="ask for a shorter time"
        )
    return seconds


def format_duration(duration_s: int) -> str:
    """``duration_s`` (0 or more) in units, largest first, none that is zero: ``2h``, ``1h30m``,
    ``45s``, ``0s``."""
    if duration_s < 0:
        raise InputError(f"a duration is never negative: {duration_s} s")
    parts: list[str] = []
    rest = duration_s
    for unit, unit_s in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, unit_s)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _hint_for(words: str) -> str:
    """The next step for a text that was nearly a duration."""
    if words.startswith("-"):
        return "a duration is never negative; " + _FORMS
    if re.fullmatch(r"[0-9]+:[0-9]+", words):
        return f"hours and minutes, or minutes and seconds? write {words}:00 or 00:{words}"
    if re.fullmatch(r"[0-9]*[.,][0-9]+\s*[dhms]", words):
        return "whole numbers only: 1h30m for 1.5h"
    return _FORMS
