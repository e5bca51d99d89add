"""Points in time as people write them, and as we write them back.

Every form of the design's section on time is read here and nowhere else::

    now, +2h, +90m                        relative to ``now``
    07:00, today 18:30, tomorrow 07:00    a time of day in the reader's zone
    monday 07:00                          the next one; today if it is still to come
    2004-11-09T07:00, …Z, …-08:00         ISO 8601, with or without offset; a space for T is fine
    07:00_11/09/2004                      HH:MM_mm/dd/YYYY, as in the GUR paper, section 4
    1100012400, @1100012400               seconds since the epoch

Any form without offset may end in a zone: ``07:00_11/09/2004 America/Los_Angeles``. A local time
that the clocks skip is refused with both sides of the gap; of one that happens twice the first is
taken, and the result's ``note`` says so.

Zones are in ``zones``, lengths of time in ``durations``; both are offered here too, so that callers
need one import.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.durations import format_duration, parse_duration
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.zones import find_zone, looks_like_zone

__all__ = [
    "INSTANT_LIMIT",
    "TimeReading",
    "find_zone",
    "format_duration",
    "format_in_zone",
    "format_utc",
    "parse_duration",
    "parse_instant",
    "read_instant",
]

INSTANT_LIMIT: Final = 253_402_128_000
"""Two days before the year 10000, so that every instant can be written in every zone."""

_TEXT_LENGTH_MAX: Final = 120
_FORMS: Final = (
    "write 'now', '+2h', 'tomorrow 07:00', 'monday 07:00', 2004-11-09T07:00,"
    " 07:00_11/09/2004 (HH:MM_mm/dd/YYYY) or epoch seconds;"
    " a zone may follow, such as America/Los_Angeles"
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DAY_WORDS: Final = ("today", "tomorrow", *_WEEKDAYS, *(day[:3] for day in _WEEKDAYS))

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_PAPER: Final = re.compile(
    r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)_([0-9]{1,2})/([0-9]{1,2})/([0-9]{4})"
)
_EPOCH: Final = re.compile(r"@([0-9]{1,12})|([0-9]{9,12})")
_ISO: Final = re.compile(
    r"([0-9]{4})-?([0-9]{2})-?([0-9]{2})[T ]"
    r"([0-9]{2}):?([0-9]{2})(?::?([0-9]{2})([.,][0-9]{1,9})?)?"
    r"(?: ?(Z|[+-][0-9]{2}(?::?[0-9]{2}(?::?[0-9]{2})?)?))?",
    re.IGNORECASE,
)
_DATE_ALONE: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReading:
    """What a text means as a point in time, and what its writer should know about how it was
    read."""

    instant: Instant
    zone: ZoneInfo
    """The zone it was read in: the text's own, else the reader's."""
    note: str | None = None
    """One line for the user when the text allowed more than one reading; ``None`` when it did
    not."""


@dataclass(frozen=True, slots=True)
class _Wall:
    """A date and time of day on the clocks of some zone, not yet a point in time."""

    day: date
    second_of_day: int
    """0 to 86400; 86400 is the 24:00 of ISO 8601, the midnight that ends the day."""


def parse_instant(text: str, *, now: Instant, zone: ZoneInfo) -> Instant:
    """The instant ``text`` means, for callers with nobody to show the note to. See
    ``read_instant``."""
    return read_instant(text, now=now, zone=zone).instant


def read_instant(text: str, *, now: Instant, zone: ZoneInfo) -> TimeReading:
    """Read any form of time; ``zone`` holds where the text names none.

    The instant may lie in the past: whether that makes sense is the caller's to say. ``InputError``
    says what is wrong with the text, and how to write it.
    """
    if len(text) > _TEXT_LENGTH_MAX:
        raise InputError(f"the time {text[:30]!r}… is too long a text", hint=_FORMS)
    words = " ".join(text.split())
    if not words:
        raise InputError("the time is empty", hint=_FORMS)
    words, named_zone = _split_zone(words)
    reading = _read_words(
        words, now=now, zone=named_zone or zone, zone_is_named=named_zone is not None
    )
    if not 0 <= reading.instant <= INSTANT_LIMIT:
        raise InputError(
            f"the time {text.strip()!r} is out of range", hint="years 1970 to 9999 can be used"
        )
    return reading


def format_utc(instant: Instant) -> str:
    """ISO 8601 in UTC to the second, as ``--json`` prints it: ``2004-11-09T15:00:00Z``."""
    return f"{datetime.fromtimestamp(instant, UTC):%Y-%m-%dT%H:%M:%S}Z"


def format_in_zone(instant: Instant, zone: ZoneInfo) -> str:
    """For people in ``zone``, and readable again: ``2004-11-09 07:00:00 -08:00
    America/Los_Angeles``.

    The offset is written although the zone implies it, because of an hour that happens twice only
    it tells which.
    """
    local = datetime.fromtimestamp(instant, zone)
    name = zone.key or "UTC"
    if name == "UTC":
        return f"{local:%Y-%m-%d %H:%M:%S} UTC"
    return f"{local:%Y-%m-%d %H:%M:%S} {_offset_text(_offset_s(local))} {name}"


def _split_zone(words: str) -> tuple[str, ZoneInfo | None]:
    """The text without its zone, and the zone. Day words and ``now`` are no zones, also when they
    come last."""
    rest, _, last = words.rpartition(" ")
    if last.endswith("]") and "[" in last:
        # RFC 9557: 2004-11-09T07:00:00-08:00[America/Los_Angeles]
        front, _, bracketed = last.partition("[")
        return f"{rest} {front}".strip(), find_zone(bracketed[:-1])
    if not rest or not looks_like_zone(last):
        return words, None
    if last.lower() in _DAY_WORDS:
        return f"{last} {rest}", None
    return rest, find_zone(last)


def _read_words(words: str, *, now: Instant, zone: ZoneInfo, zone_is_named: bool) -> TimeReading:
    """One form after the other; the first that matches decides."""
    lowered = words.lower()
    if lowered == "now":
        return TimeReading(instant=now, zone=zone)
    if lowered.startswith("+"):
        return TimeReading(instant=now + parse_duration(lowered[1:]), zone=zone)
    if epoch := _EPOCH.fullmatch(lowered):
        return TimeReading(instant=int(epoch[1] or epoch[2]), zone=zone)
    if iso := _ISO.fullmatch(words):
        return _read_iso(iso, zone=zone, zone_is_named=zone_is_named)
    if paper := _PAPER.fullmatch(words):
        day = _day(int(paper[4]), int(paper[2]), int(paper[3]), words)
        return _to_reading(_Wall(day, _second_of_day(paper[1])), zone)
    day_word, _, clock = lowered.rpartition(" ")
    if _CLOCK.fullmatch(clock) and (not day_word or day_word in _DAY_WORDS):
        return _read_human(day_word, clock, now=now, zone=zone)
    raise InputError(f"{words!r} is not a time", hint=_hint_for(lowered))


def _read_iso(match: re.Match[str], *, zone: ZoneInfo, zone_is_named: bool) -> TimeReading:
    """ISO 8601. An offset decides; a zone beside it must agree with it."""
    year, month, day_of_month, hour, minute, second, fraction, offset = match.groups()
    day = _day(int(year), int(month), int(day_of_month), match[0])
    wall = _Wall(day, _second_of_day(f"{hour}:{minute}:{second or '00'}"))
    dropped = fraction is not None and fraction.strip(".,0") != ""
    note = "fractions of a second are dropped" if dropped else None
    if offset is None:
        reading = _to_reading(wall, zone)
        return TimeReading(
            instant=reading.instant,
            zone=zone,
            note="; ".join(n for n in (reading.note, note) if n) or None,
        )
    offset_s = _parse_offset(offset)
    instant = _days_to_seconds(wall) - offset_s
    if zone_is_named and 0 <= instant <= INSTANT_LIMIT:
        local_offset_s = _offset_s(datetime.fromtimestamp(instant, zone))
        if local_offset_s != offset_s:
            raise InputError(
                f"the offset {offset} is not that of {zone.key} at that time",
                hint=f"write {_offset_text(local_offset_s)}, or leave out the offset or the zone",
            )
    return TimeReading(instant=instant, zone=zone, note=note)


def _read_human(day_word: str, clock: str, *, now: Instant, zone: ZoneInfo) -> TimeReading:
    """A time of day, alone or with a day that is counted from ``now`` in ``zone``."""
    second = _second_of_day(clock)
    today = datetime.fromtimestamp(now, zone).date()
    if day_word == "today":
        return _to_reading(_Wall(today, second), zone)
    if day_word == "tomorrow":
        return _to_reading(_Wall(today + timedelta(days=1), second), zone)
    step_days = 7 if day_word else 1
    ahead_days = 0
    if day_word:
        weekday = next(n for n, name in enumerate(_WEEKDAYS) if name.startswith(day_word[:3]))
        ahead_days = (weekday - today.weekday()) % 7
    reading = _to_reading(_Wall(today + timedelta(days=ahead_days), second), zone)
    if reading.instant < now:
        reading = _to_reading(_Wall(today + timedelta(days=ahead_days + step_days), second), zone)
    return reading


def _to_reading(wall: _Wall, zone: ZoneInfo) -> TimeReading:
    """The instant at which the clocks of ``zone`` show ``wall``.

    As PEP 495 has it: ``fold`` 0 and 1 give the offsets before and after a change of the clocks.
    They differ only within a gap or a fold, and in a gap neither leads back to the same time of
    day.
    """
    naive = datetime.combine(wall.day, datetime.min.time()) + timedelta(seconds=wall.second_of_day)
    seconds = _days_to_seconds(wall)
    before_s, after_s = (_offset_s(naive.replace(tzinfo=zone, fold=fold)) for fold in (0, 1))
    if before_s == after_s:
        return TimeReading(instant=seconds - before_s, zone=zone)
    if before_s < after_s:
        raise _gap_error(naive, seconds, before_s, after_s, zone)
    note = (
        f"{naive:%H:%M} happens twice on {naive:%Y-%m-%d} in {zone.key}; the first is taken"
        f" (offset {_offset_text(before_s)}); for the second write"
        f" {naive:%Y-%m-%dT%H:%M}{_offset_text(after_s)}"
    )
    return TimeReading(instant=seconds - before_s, zone=zone, note=note)


def _gap_error(
    naive: datetime, seconds: int, before_s: int, after_s: int, zone: ZoneInfo
) -> InputError:
    """Names both sides of the gap, whose exact edge is found by bisection between its two
    readings."""
    early, late = seconds - after_s, seconds - before_s
    while late - early > 1:
        middle = (early + late) // 2
        if _offset_s(datetime.fromtimestamp(middle, zone)) == before_s:
            early = middle
        else:
            late = middle
    last = datetime.fromtimestamp(late + before_s, UTC)
    first = datetime.fromtimestamp(late + after_s, UTC)
    return InputError(
        f"{naive:%Y-%m-%d %H:%M} does not exist in {zone.key}:"
        f" the clocks go from {last:%H:%M} straight to {first:%Y-%m-%d %H:%M}",
        hint=f"write a time before {last:%Y-%m-%d %H:%M}, or {first:%Y-%m-%d %H:%M} or later",
    )


def _days_to_seconds(wall: _Wall) -> int:
    """Seconds since the epoch as if the zone were UTC."""
    return (wall.day - date(1970, 1, 1)).days * 86_400 + wall.second_of_day


def _day(year: int, month: int, day_of_month: int, text: str) -> date:
    # West of Greenwich the first hours of the epoch are still in 1969.
    if not 1969 <= year <= 9999:
        raise InputError(
            f"the year of {text!r} is out of range", hint="years 1970 to 9999 can be used"
        )
    try:
        found = date(year, month, day_of_month)
    except ValueError:
        order = "mm/dd/YYYY, month first" if "/" in text else "YYYY-MM-DD"
        raise InputError(
            f"there is no such date as in {text!r}", hint=f"the order is {order}"
        ) from None
    if found > date(9999, 12, 30):
        raise InputError(
            f"the date of {text!r} is out of range", hint="years 1970 to 9999 can be used"
        )
    return found


def _second_of_day(clock: str) -> int:
    """Seconds since midnight of ``HH:MM`` or ``HH:MM:SS``; 24:00 ends the day."""
    match = _CLOCK.fullmatch(clock)
    hour, minute, second = (int(part or 0) for part in match.groups()) if match else (99, 0, 0)
    if (hour, minute, second) == (24, 0, 0):
        return 86_400
    if hour > 23 or minute > 59 or second > 59:
        raise InputError(f"there is no such time of day as {clock}", hint="00:00 to 23:59")
    return hour * 3600 + minute * 60 + second


def _parse_offset(offset: str) -> int:
    """Seconds east of UTC of ``Z``, ``+HH``, ``+HHMM``, ``+HH:MM`` or ``+HH:MM:SS``."""
    if offset in ("Z", "z"):
        return 0
    digits = offset[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise InputError(
            f"there is no such offset as {offset}", hint="-23:59 to +23:59, such as -08:00"
        )
    return (hours * 3600 + minutes * 60 + seconds) * (-1 if offset[0] == "-" else 1)


def _offset_s(moment: datetime) -> int:
    """Seconds east of UTC; some zones once had offsets of odd seconds."""
    offset = moment.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def _offset_text(offset_s: int) -> str:
    sign = "-" if offset_s < 0 else "+"
    minutes, seconds = divmod(abs(offset_s), 60)
    tail = f":{seconds:02}" if seconds else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}{tail}"


def _hint_for(lowered: str) -> str:
    """The next step for a text that was nearly a time."""
    if re.fullmatch(r"[0-9]{13,}", lowered):
        return "epoch seconds have ten digits; this looks like milliseconds"
    if _DATE_ALONE.fullmatch(lowered):
        return "add a time of day: 2004-11-09T07:00 or 07:00_11/09/2004"
    if re.fullmatch(r"[0-9]{1,8}", lowered):
        return f"write @{lowered} for epoch seconds, +{lowered}s for seconds from now, or HH:MM"
    if lowered in _DAY_WORDS:
        return f"add a time of day: '{lowered} 07:00'"
    if lowered.startswith("-"):
        return "that would be in the past; " + _FORMS
    return _FORMS
