"""What is written about a time can be read back, in every zone and around every change of the
clocks."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.durations import DURATION_TEXT_LIMIT_S
from gridtravel.gridcore.timing.timetext import (
    INSTANT_LIMIT,
    format_duration,
    format_in_zone,
    format_utc,
    parse_duration,
    parse_instant,
    read_instant,
)

ZONES = st.sampled_from(
    [
        "UTC",
        "America/Los_Angeles",
        "Europe/Berlin",
        "Asia/Kolkata",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "America/St_Johns",
        "Africa/Casablanca",
        "Africa/Monrovia",
    ]
).map(ZoneInfo)
INSTANTS = st.one_of(
    st.integers(0, INSTANT_LIMIT),
    st.integers(1_081_072_800 - 7200, 1_081_072_800 + 7200),
    st.integers(1_099_213_200 - 7200, 1_099_213_200 + 7200),
)
"""Any, and densely around the gap and the fold of 2004 on the Pacific coast."""


@given(instant=INSTANTS, zone=ZONES, reader=ZONES)
def test_a_shown_instant_is_read_back(instant: int, zone: ZoneInfo, reader: ZoneInfo) -> None:
    """Both ways of showing an instant name it without doubt, whatever the reader's zone."""
    assert parse_instant(format_utc(instant), now=0, zone=reader) == instant
    assert parse_instant(format_in_zone(instant, zone), now=0, zone=reader) == instant


@given(instant=INSTANTS, zone=ZONES)
def test_a_wall_clock_time_is_the_first_of_its_readings(instant: int, zone: ZoneInfo) -> None:
    """A local time that exists is read as the earliest instant that shows it; a note tells when
    there are two."""
    shown = format_in_zone(instant, zone)
    reading = read_instant(shown[:19], now=0, zone=zone)
    assert reading.instant <= instant
    assert (reading.instant == instant) or reading.note is not None
    assert format_in_zone(reading.instant, zone)[:19] == shown[:19]


@given(seconds=st.integers(0, DURATION_TEXT_LIMIT_S))
def test_a_shown_duration_is_read_back(seconds: int) -> None:
    """``format_duration`` and ``parse_duration`` are inverse."""
    assert parse_duration(format_duration(seconds)) == seconds


_WORDS = st.sampled_from(
    [
        "now",
        "+",
        "today",
        "mon",
        "07:00",
        "_11/09/2004",
        "2004-11-09",
        "T",
        "Z",
        "-08:00",
        " ",
        "@",
        "99999999999",
        "America/Los_Angeles",
        "PST",
        "[",
        "]",
        "24:00",
        "1h",
        "9999-12-30",
        "02:30_04/04/2004",
    ]
)


@given(
    text=st.one_of(st.text(max_size=40), st.lists(_WORDS, max_size=6).map("".join)),
    now=INSTANTS,
    zone=ZONES,
)
def test_any_text_is_a_time_or_an_input_error(text: str, now: int, zone: ZoneInfo) -> None:
    """No text crashes the reader; what it accepts lies within bounds and can be shown."""
    try:
        reading = read_instant(text, now=now, zone=zone)
    except InputError:
        return
    assert 0 <= reading.instant <= INSTANT_LIMIT
    format_in_zone(reading.instant, reading.zone)


@given(text=st.text(alphabet="0123456789:dhms .-", max_size=20))
def test_any_text_is_a_duration_or_an_input_error(text: str) -> None:
    """No text crashes the reader of durations; what it accepts lies within bounds."""
    try:
        seconds = parse_duration(text)
    except InputError:
        return
    assert 0 <= seconds <= DURATION_TEXT_LIMIT_S
