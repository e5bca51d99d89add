"""A manager's sum over its children, made again and again while time and children move on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.manager.shadows.roll_up import RollingSum, roll_up, tells_more
from tests.support.builders import a_calendar, a_request, some_rules

LADDER = SlotLadder.parse("3x20, 4x60, *x240")
HORIZON_S = 1_000
steps = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(5, 700), st.integers(0, 90)),
    min_size=1,
    max_size=12,
)


def a_child(name: str) -> Calendar:
    """Four nodes of one class."""
    return a_calendar(4, site=name, rules=some_rules(horizon_s=HORIZON_S))


def told(child: Calendar, now: int) -> CalendarSummary:
    """What the child publishes."""
    return summarise(child, LADDER, now, horizon_s=HORIZON_S)


def book(child: Calendar, name: str, nodes: int, ahead_s: int, now: int) -> bool:
    """Reserve at once; False when it is refused."""
    request = a_request(name, nodes=nodes, start=now + ahead_s, duration_s=130)
    _, events = child.decide_reserve(request, "ada", None, now)
    for event in events:
        child.apply(event)
    return bool(events)


@given(steps)
def test_a_sum_that_remembers_equals_a_sum_made_anew(
    moves: list[tuple[int, int, int, int]],
) -> None:
    """Only what changed is worked out again, and nothing of it is ever wrong."""
    children = [a_child(f"c{number}") for number in range(3)]
    now, total = 1_000, RollingSum(LADDER, HORIZON_S)
    summaries = [told(each, now) for each in children]
    for number, (position, nodes, ahead_s, pause_s) in enumerate(moves):
        book(children[position], f"wish-{number}", nodes, ahead_s, now)
        summaries[position] = told(children[position], now)
        now += pause_s
        present = summaries[: 2 + number % 2]
        version = CalendarVersion("e", number)
        remembered = roll_up("north", present, total, version=version, now=now)
        anew = roll_up("north", present, RollingSum(LADDER, HORIZON_S), version=version, now=now)
        assert remembered == anew


@given(steps)
def test_time_alone_is_no_news_and_a_booking_is(moves: list[tuple[int, int, int, int]]) -> None:
    """A heartbeat moves slots on; only another version, or other room in a slot, is passed up. What
    a queue takes without another version counts as well.
    """
    child, now = a_child("c"), 1_000
    for number, (_, nodes, ahead_s, pause_s) in enumerate(moves):
        before = told(child, now)
        assert not tells_more(before, told(child, now + pause_s % 20))
        if book(child, f"wish-{number}", nodes, ahead_s, now):
            assert tells_more(before, told(child, now))
        before = told(child, now)
        start = child.free["node"].earliest_fit(1, 130, now)
        assert start is not None
        child.free["node"].book(1, start, start + 130)
        assert tells_more(before, told(child, now)) or start >= now + HORIZON_S
        now += pause_s


def test_what_was_idle_and_is_taken_is_news() -> None:
    """The first summary of a child is passed up, and the first booking of an idle one, and its end;
    with or without another version.
    """
    child = a_child("c")
    idle = told(child, 1_000)
    assert tells_more(None, idle)
    child.free["node"].book(1, 1_100, 1_200)
    busy = told(child, 1_000)
    assert tells_more(idle, busy)
    assert tells_more(busy, idle)
    assert not tells_more(busy, told(child, 1_300)), "it is over by itself"
