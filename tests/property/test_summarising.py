"""Summaries of a calendar against the array of its seconds, and what they show of its room."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.booking import fitting
from gridtravel.gridcore.booking.calendar_rules import FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Availability, Decline, DeclineRule, Reservation
from gridtravel.gridcore.booking.summaries import (
    ClassSummary,
    ShadowCalendar,
    SummarySlot,
    delta_between,
)
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.errors import InputError
from tests.support.builders import (
    a_calendar,
    a_request,
    book,
    carry_out,
    free_per_second,
    room_shown,
    some_rules,
)

CLASSES = [
    ResourceClass(name="slim", nodes=4, features=("disk",)),
    ResourceClass(name="wide", nodes=2, features=("disk", "gpu")),
]
RULES = some_rules(horizon_s=120, offers_max=500)
LADDERS = [EXACT, SlotLadder.parse("4x2, 3x8, *x16"), SlotLadder.parse("*x7")]

bookings = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 30), st.integers(0, 80)), max_size=8
)
ladders = st.sampled_from(LADDERS)
moments = st.integers(0, 60)


def filled(wishes: list[tuple[int, int, int]], *, first: int = 0) -> Calendar:
    """A calendar with whatever of these (nodes, duration, earliest start) fits."""
    calendar = a_calendar(classes=CLASSES, rules=RULES, tariff=FlatTariff(3600))
    fill(calendar, wishes, first=first)
    return calendar


def fill(calendar: Calendar, wishes: list[tuple[int, int, int]], *, first: int = 0) -> None:
    """Book what fits."""
    for number, (nodes, duration_s, earliest) in enumerate(wishes, start=first):
        request = a_request(
            f"request-{number}", nodes=nodes, duration_s=duration_s, earliest=earliest
        )
        answer, events = calendar.decide_reserve(request, "ada", None, 0)
        carry_out(calendar, events)
        assert isinstance(answer, Reservation | Decline)


@given(bookings, ladders, moments, st.booleans())
def test_slots_are_right_to_the_second(
    wishes: list[tuple[int, int, int]], ladder: SlotLadder, now: int, forgets: bool
) -> None:
    """Least and sum of each slot are those of its seconds; slots begin now, follow the ladder
    without a gap, are not merged, and end once everything behind is free.
    """
    calendar = filled(wishes)
    if forgets:
        calendar.advance(now)
    summary = summarise(calendar, ladder, now, horizon_s=RULES.horizon_s)
    assert (summary.site, summary.version, summary.as_of) == ("lab", calendar.version, now)
    assert summary.millicredits_per_node_hour == 3600
    for each, resource in zip(summary.classes, CLASSES, strict=True):
        assert (each.name, each.features) == (resource.name, resource.features)
        assert each.capacity == resource.nodes
        free = free_per_second(calendar, range(400), each.name)
        edges = [now, *(edge for edge in ladder.edges(now, 400) if edge > now)]
        shown = [now, *(slot.end for slot in each.slots)]
        assert shown == edges[: len(shown)]
        for slot in each.slots:
            seconds = free[slot.start : slot.end]
            assert (slot.free_min, slot.free_node_s) == (min(seconds), sum(seconds))
        assert set(free[shown[-1] :]) == {resource.nodes}
        if each.slots:
            assert min(free[each.slots[-1].start :]) < resource.nodes


@dataclass(frozen=True)
class Question:
    """A request, before it is said."""

    size: tuple[int, int]
    duration_s: int
    earliest: int
    slack_s: int
    features: tuple[str, ...]
    budget_millicredits: int | None


questions = st.builds(
    Question,
    size=st.sampled_from([(1, 1), (1, 4), (2, 3), (4, 4), (5, 6)]),
    duration_s=st.integers(1, 40),
    earliest=st.integers(0, 120),
    slack_s=st.integers(0, 60),
    features=st.sampled_from([(), ("gpu",), ("tape",)]),
    budget_millicredits=st.sampled_from([None, None, 30, 0]),
)


@given(bookings, ladders, moments, questions)
@settings(max_examples=200)
def test_a_fresh_summary_is_never_more_hopeful_than_the_owner(
    wishes: list[tuple[int, int, int]], ladder: SlotLadder, now: int, question: Question
) -> None:
    """What fits into the room that a summary shows, the owner offers too; and a refusal that is
    found in that room names nothing better than the owner's own. On the exact ladder both agree.
    """
    calendar = filled(wishes)
    summary = summarise(calendar, ladder, now, horizon_s=RULES.horizon_s)
    request = a_request(
        "question",
        nodes=question.size,
        duration_s=question.duration_s,
        earliest=question.earliest,
        until=question.earliest + question.duration_s + question.slack_s,
        features=question.features,
        budget_millicredits=question.budget_millicredits,
    )
    expected = fitting.find(calendar, request, now, room_shown(summary), lead_s=RULES.lead_s)
    answer = calendar.inquire(request, now)
    if isinstance(expected, Availability):
        assert isinstance(answer, Availability)
        granted = per_second(answer)
        for key, (nodes, price) in per_second(expected).items():
            assert granted[key][0] >= nodes
            assert granted[key][1] <= price
        assert (expected.version, expected.known_until) == (answer.version, answer.known_until)
    elif isinstance(answer, Decline):
        assert expected.rule in (answer.rule, DeclineRule.NO_ROOM)
        assert expected.nodes_now <= answer.nodes_now
        if expected.earliest is not None:
            assert answer.earliest is not None
            assert expected.earliest >= answer.earliest
    if ladder is EXACT:
        assert expected == answer


def per_second(answer: Availability) -> dict[tuple[int, str], tuple[int, int]]:
    """(start, class) -> (nodes, price)."""
    return {
        (start, offer.resource_class): (offer.nodes, offer.unit_price_millicredits)
        for offer in answer.offers
        for start in range(offer.start, offer.start_until)
    }


@given(st.lists(st.tuples(bookings, st.integers(0, 9)), min_size=1, max_size=5), ladders)
def test_a_shadow_that_saw_all_changes_equals_the_summary(
    steps: list[tuple[list[tuple[int, int, int]], int]], ladder: SlotLadder
) -> None:
    """However many changes lie between two deltas, and however much time."""
    calendar, shadow, now = filled([]), ShadowCalendar("lab"), 0
    last = summarise(calendar, ladder, now, horizon_s=RULES.horizon_s)
    shadow.replace(last)
    for number, (wishes, later_s) in enumerate(steps):
        now += later_s
        fill(calendar, wishes, first=100 * number)
        fresh = summarise(calendar, ladder, now, horizon_s=RULES.horizon_s)
        assert shadow.update(delta_between(last, fresh))
        assert shadow.summary == fresh
        last = fresh
    assert shadow.gaps == 0


def test_an_empty_calendar_needs_no_slots() -> None:
    """All of it is free, and the capacity says so."""
    summary = summarise(a_calendar(4), EXACT, 5, horizon_s=100)
    assert summary.classes == (ClassSummary(name="node", capacity=4),)


def test_bookings_without_end_are_shown_up_to_the_horizon() -> None:
    """Slots reach the horizon and no further; a reader that knows it is not misled."""
    calendar = a_calendar(4)
    calendar.free["node"].book(1, 10, None)
    (only,) = summarise(calendar, SlotLadder.parse("*x8"), 0, horizon_s=20).classes
    assert only.slots == (
        SummarySlot(0, 8, 4, 32),
        SummarySlot(8, 16, 3, 26),
        SummarySlot(16, 24, 3, 24),
    )


def test_failed_nodes_leave_no_less_than_nothing() -> None:
    """Where more is promised than there is, a slot shows no room, and only what is really free
    counts into its sum.
    """
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=2, duration_s=4))
    calendar.free["node"].withdraw(2, 0, 8)
    calendar.free["node"].withdraw(4, 12, 13)
    calendar.free["node"].withdraw(1, 12, None)
    (only,) = summarise(calendar, SlotLadder.parse("*x4"), 0, horizon_s=16).classes
    assert only.slots == (
        SummarySlot(0, 4, 0, 4),
        SummarySlot(4, 8, 0, 4),
        SummarySlot(8, 12, 4, 16),
        SummarySlot(12, 16, 0, 9),
    )


def test_a_forgotten_past_is_not_summarised() -> None:
    """When the clock stepped back behind what the profile knows, slots begin where it does."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=2, duration_s=20))
    calendar.advance(10)
    (only,) = summarise(calendar, SlotLadder.parse("*x8"), 5, horizon_s=50).classes
    assert [(slot.start, slot.end) for slot in only.slots] == [(10, 16), (16, 24)]
    assert summarise(calendar, EXACT, 5, horizon_s=4).classes[0].slots == ()


def test_a_summary_must_look_ahead() -> None:
    """And a ladder too fine for how far is refused."""
    with pytest.raises(InputError, match="must look ahead"):
        summarise(a_calendar(4), EXACT, 0, horizon_s=0)
    calendar = a_calendar(4)
    calendar.free["node"].book(1, 10, None)
    with pytest.raises(InputError, match="use longer far slots"):
        summarise(calendar, EXACT, 0, horizon_s=10**6)


def test_ladder_edges_survive_in_the_summary() -> None:
    """All edges but the first are the ladder's, so that summaries of several sites add up."""
    calendar = a_calendar(4)
    book(calendar, a_request(nodes=3, start=90, duration_s=20))
    ladder = SlotLadder.parse("4x2, 3x8, *x16")
    (only,) = summarise(calendar, ladder, 5, horizon_s=500).classes
    for slot, after in pairwise(only.slots):
        assert slot.end == after.start
        assert after.start % (after.end - after.start) == 0
