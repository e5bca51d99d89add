"""Times and durations as people write them: tables of what is read, and of what is refused with
which hint."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.durations import DURATION_TEXT_LIMIT_S
from gridtravel.gridcore.timing.timetext import (
    INSTANT_LIMIT,
    find_zone,
    format_duration,
    format_in_zone,
    format_utc,
    parse_duration,
    parse_instant,
    read_instant,
)

PACIFIC = ZoneInfo("America/Los_Angeles")
SC2004 = 1_100_012_400
"""07:00 on 9 November 2004 in San Diego: the start of the paper's demonstration."""
NOON_BEFORE = 1_099_944_000
"""12:00 on Monday, 8 November 2004 in San Diego."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2004-11-08T20:00:00Z"),
        ("NOW", "2004-11-08T20:00:00Z"),
        ("+2h", "2004-11-08T22:00:00Z"),
        ("+90m", "2004-11-08T21:30:00Z"),
        ("+ 45", "2004-11-08T20:00:45Z"),
        ("12:00", "2004-11-08T20:00:00Z"),
        ("11:59", "2004-11-09T19:59:00Z"),
        ("07:00", "2004-11-09T15:00:00Z"),
        ("today 18:30", "2004-11-09T02:30:00Z"),
        ("today 07:00", "2004-11-08T15:00:00Z"),
        ("tomorrow 07:00", "2004-11-09T15:00:00Z"),
        ("07:00 tomorrow", "2004-11-09T15:00:00Z"),
        ("tomorrow 24:00", "2004-11-10T08:00:00Z"),
        ("monday 13:00", "2004-11-08T21:00:00Z"),
        ("monday 07:00", "2004-11-15T15:00:00Z"),
        ("Tue 07:00:30", "2004-11-09T15:00:30Z"),
        ("sunday 07:00", "2004-11-14T15:00:00Z"),
        ("monday 07:00 Asia/Tokyo", "2004-11-14T22:00:00Z"),
        ("2004-11-09T07:00", "2004-11-09T15:00:00Z"),
        ("2004-11-09 07:00:15", "2004-11-09T15:00:15Z"),
        ("2004-11-09T15:00Z", "2004-11-09T15:00:00Z"),
        ("2004-11-09t15:00:00z", "2004-11-09T15:00:00Z"),
        ("20041109T150000Z", "2004-11-09T15:00:00Z"),
        ("2004-11-09T07:00-08", "2004-11-09T15:00:00Z"),
        ("2004-11-09T07:00-0800", "2004-11-09T15:00:00Z"),
        ("2004-11-09T20:30+05:30", "2004-11-09T15:00:00Z"),
        ("2004-11-09 07:00:00 -08:00 America/Los_Angeles", "2004-11-09T15:00:00Z"),
        ("2004-11-09T07:00:00-08:00[America/Los_Angeles]", "2004-11-09T15:00:00Z"),
        ("07:00_11/09/2004", "2004-11-09T15:00:00Z"),
        ("7:00_11/9/2004", "2004-11-09T15:00:00Z"),
        ("07:00_11/09/2004 America/Los_Angeles", "2004-11-09T15:00:00Z"),
        ("07:00_11/09/2004 Europe/Berlin", "2004-11-09T06:00:00Z"),
        ("07:00_11/09/2004 UTC", "2004-11-09T07:00:00Z"),
        ("07:00_11/09/2004 Z", "2004-11-09T07:00:00Z"),
        ("24:00_11/09/2004", "2004-11-10T08:00:00Z"),
        ("1100012400", "2004-11-09T15:00:00Z"),
        ("@0", "1970-01-01T00:00:00Z"),
    ],
)
def test_every_form_of_time_is_read(text: str, expected: str) -> None:
    """Each form of the design's section on time means one instant, in the reader's zone or its
    own."""
    assert format_utc(parse_instant(text, now=NOON_BEFORE, zone=PACIFIC)) == expected


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("noon", "not a time"),
        ("tomorrow", "add a time of day"),
        ("2004-11-09", "add a time of day"),
        ("11/09/2004", "add a time of day"),
        ("7200", "@7200"),
        ("1100012400000", "milliseconds"),
        ("-1h", "past"),
        ("07:00_13/09/2004", "month first"),
        ("2004-02-30T07:00", "YYYY-MM-DD"),
        ("25:00", "no such time of day"),
        ("24:01", "no such time of day"),
        ("07:60_11/09/2004", "no such time of day"),
        ("2004-11-09T07:00+25:00", "no such offset"),
        ("2004-11-09T07:00-07:00 America/Los_Angeles", "-08:00"),
        ("1969-12-31T07:00", "1970"),
        ("1960-01-01T07:00", "1970"),
        ("9999-12-31T23:00", "1970 to 9999"),
        ("999999999999", "1970 to 9999"),
        ("1970-01-01T00:00+01:00", "1970 to 9999"),
        ("+1y", "not a duration"),
        ("+99999999h", "ten years"),
        ("7" * 200, "too long"),
        ("\N{ARABIC-INDIC DIGIT SEVEN}:00", "not a time"),
        ("07:00 PST", "America/Los_Angeles or Asia/Manila"),
        ("07:00 cst", "America/Chicago or Asia/Shanghai"),
        ("07:00 EST", "America/New_York"),
        ("07:00 Berlin", "Europe/Berlin"),
        ("07:00 america/los_angeles", "America/Los_Angeles"),
        ("07:00 America/Los_Angels", "America/Los_Angeles"),
        ("07:00 America/Argentina", "no time zone"),
        ("07:00 Qwxyz", "IANA name"),
        ("07:00 a/../../etc/passwd", "not a time"),
    ],
)
def test_what_is_no_time_is_refused_with_the_way_out(text: str, told: str) -> None:
    """Text that means no instant is one InputError whose message or hint names the next step."""
    with pytest.raises(InputError) as caught:
        parse_instant(text, now=NOON_BEFORE, zone=PACIFIC)
    assert told in str(caught.value)


def test_a_local_time_the_clocks_skip_names_both_sides() -> None:
    """A time within the gap of spring is refused; the message has the last time before and the
    first after."""
    with pytest.raises(InputError) as caught:
        parse_instant("02:30_04/04/2004", now=0, zone=PACIFIC)
    assert "from 02:00 straight to 2004-04-04 03:00" in caught.value.message
    assert "before 2004-04-04 02:00, or 2004-04-04 03:00 or later" in (caught.value.hint or "")


@pytest.mark.parametrize("text", ["01:59:59_04/04/2004", "03:00_04/04/2004"])
def test_the_edges_of_a_gap_exist(text: str) -> None:
    """The second before the gap and the second after it are read without a note; they are
    neighbours."""
    reading = read_instant(text, now=0, zone=PACIFIC)
    assert reading.note is None
    assert reading.instant in (1_081_072_799, 1_081_072_800)


def test_a_whole_day_can_be_missing() -> None:
    """Samoa skipped 30 December 2011: the far side of the gap is told with its date."""
    with pytest.raises(InputError, match="straight to 2011-12-31 00:00"):
        parse_instant("2011-12-30T12:00", now=0, zone=ZoneInfo("Pacific/Apia"))


def test_of_a_local_time_that_happens_twice_the_first_is_taken_and_said() -> None:
    """In the fold of autumn the earlier instant is taken; the note tells how to write the later
    one."""
    reading = read_instant("01:30_10/31/2004", now=0, zone=PACIFIC)
    assert format_utc(reading.instant) == "2004-10-31T08:30:00Z"
    assert reading.note is not None
    assert "happens twice" in reading.note
    second = reading.note.rsplit(" ", 1)[-1]
    assert parse_instant(second, now=0, zone=PACIFIC) == reading.instant + 3600


def test_fractions_of_a_second_are_dropped_and_said() -> None:
    """Time inside is whole seconds; a fraction that is not zero is noted."""
    assert read_instant("2004-11-09T15:00:00.5Z", now=0, zone=PACIFIC).note is not None
    assert read_instant("2004-11-09T15:00:00.000Z", now=0, zone=PACIFIC).note is None
    assert read_instant("2004-11-09T07:00:00,25", now=0, zone=PACIFIC).instant == SC2004


def test_an_instant_is_shown_in_utc_and_in_a_zone() -> None:
    """The same instant for scripts and for people, and both can be read again."""
    assert format_utc(SC2004) == "2004-11-09T15:00:00Z"
    assert format_in_zone(SC2004, PACIFIC) == "2004-11-09 07:00:00 -08:00 America/Los_Angeles"
    assert format_in_zone(SC2004, ZoneInfo("UTC")) == "2004-11-09 15:00:00 UTC"
    assert format_in_zone(0, ZoneInfo("Africa/Monrovia")).endswith("-00:44:30 Africa/Monrovia")


def test_the_last_instant_can_be_shown_everywhere() -> None:
    """The bound on instants leaves room for the zone that is farthest ahead."""
    assert format_in_zone(INSTANT_LIMIT, ZoneInfo("Pacific/Kiritimati")).startswith("9999-12-30")


@pytest.mark.parametrize("name", ["UTC", "utc", "Z", "GMT"])
def test_utc_has_several_names(name: str) -> None:
    """UTC is the one zone that may be written short."""
    assert find_zone(name).key == "UTC"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7200", 7200),
        ("0", 0),
        ("7200s", 7200),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("90m", 5400),
        ("1d", 86_400),
        ("1D2H3M4S", 93_784),
        ("01:30:00", 5400),
        ("100:00:01", 360_001),
        (" 2h ", 7200),
        ("10h0m", 36_000),
    ],
)
def test_every_form_of_duration_is_read(text: str, seconds: int) -> None:
    """Seconds, units and HH:MM:SS all mean a number of seconds."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is not a duration"),
        ("-2h", "never negative"),
        ("1.5h", "1h30m"),
        ("2 fortnights", "is not a duration"),
        ("30m1h", "is not a duration"),
        ("01:30", "hours and minutes, or minutes and seconds"),
        ("01:60:00", "is not a duration"),
        ("9" * 12, "ten years"),
        ("9" * 100, "too long"),
        ("h", "is not a duration"),
        ("²h", "is not a duration"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_way_out(text: str, told: str) -> None:
    """Ambiguous, negative and endless lengths are each refused with a hint."""
    with pytest.raises(InputError) as caught:
        parse_duration(text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (45, "45s"),
        (7200, "2h"),
        (5400, "1h30m"),
        (93_784, "1d2h3m4s"),
        (DURATION_TEXT_LIMIT_S, "3660d"),
    ],
)
def test_a_duration_is_shown_in_its_units(seconds: int, text: str) -> None:
    """The largest units first, none that is zero."""
    assert format_duration(seconds) == text


def test_a_negative_duration_is_never_shown() -> None:
    """A negative length is a mistake of the caller's and not hidden by the format."""
    with pytest.raises(InputError):
        format_duration(-1)
