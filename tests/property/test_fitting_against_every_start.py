"""The search behind an inquiry against a try of every start in every class."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.calendar_rules import FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from tests.support.builders import a_calendar, a_request, some_rules

NODES = {"small": 2, "large": 4}
HORIZON_S = 80
HOUR_PRICE = 3_600
"""A node-second costs one millicredit."""

promised = st.tuples(
    st.sampled_from(list(NODES)), st.integers(1, 4), st.integers(0, 60), st.integers(1, 20)
)


def busy(bookings: list[tuple[str, int, int, int]], offers_max: int) -> Calendar:
    """Two classes with something booked on them."""
    calendar = a_calendar(
        classes=[ResourceClass(name=name, nodes=nodes) for name, nodes in NODES.items()],
        rules=some_rules(horizon_s=HORIZON_S, offers_max=offers_max),
        tariff=FlatTariff(HOUR_PRICE),
    )
    for name, nodes, start, length_s in bookings:
        profile = calendar.free[name]
        if profile.fits(nodes, start, start + length_s):
            profile.book(nodes, start, start + length_s)
    return calendar


def room_at(calendar: Calendar, name: str, request: ReservationRequest, start: int) -> int:
    """Nodes that somebody with this budget could have from then on, second by second."""
    window = range(start, start + request.duration_s)
    free = min(calendar.free[name].free_at(second) for second in window)
    unit = request.duration_s
    budget = request.budget_millicredits
    return min(free, request.nodes_max if budget is None else budget // unit)


@given(
    bookings=st.lists(promised, max_size=8),
    offers_max=st.sampled_from([1, 2, 3, 500]),
    nodes=st.integers(1, 5),
    more=st.integers(0, 2),
    duration_s=st.integers(1, 20),
    earliest=st.integers(0, 60),
    slack_s=st.integers(0, 40),
    budget=st.sampled_from([None, 10, 30, 60]),
)
def test_what_is_offered_in_pages_is_every_start(
    bookings: list[tuple[str, int, int, int]],
    offers_max: int,
    nodes: int,
    more: int,
    duration_s: int,
    earliest: int,
    slack_s: int,
    budget: int | None,
) -> None:
    """However short the answers are cut, asking on from where they end tells every start with its
    size, and a refusal names the first start and the largest size that there are.
    """
    calendar = busy(bookings, offers_max)
    request = a_request(
        nodes=(nodes, nodes + more),
        duration_s=duration_s,
        earliest=earliest,
        until=earliest + duration_s + slack_s,
        budget_millicredits=budget,
    )
    soonest = max(earliest, calendar.rules.lead_s)
    behind = min(request.latest_end, HORIZON_S) - duration_s + 1
    expected, largest = {}, 0
    for start in range(soonest, behind):
        for name in NODES:
            found = min(room_at(calendar, name, request, start), request.nodes_max)
            largest = max(largest, found)
            if found >= nodes:
                expected[start, name] = found
    told: dict[tuple[int, str], int] = {}
    answer = calendar.inquire(request, 0)
    if isinstance(answer, Decline):
        assert expected == {}
        assert answer.nodes_now == largest
        starts = range(soonest, HORIZON_S - duration_s + 1)
        possible = (
            start
            for start in starts
            if any(room_at(calendar, name, request, start) >= nodes for name in NODES)
        )
        assert answer.earliest == next(possible, None)
        return
    while isinstance(answer, Availability):
        starts_told = {offer.start for offer in answer.offers}
        assert len(answer.offers) <= offers_max or len(starts_told) == 1, "cut where it can be"
        for offer in answer.offers:
            for start in range(offer.start, offer.start_until):
                if start < answer.known_until:
                    told[start, offer.resource_class] = offer.nodes
        if answer.known_until >= behind:
            break
        answer = calendar.inquire(replace(request, earliest_start=answer.known_until), 0)
    assert told == expected


@dataclass(frozen=True)
class SteppedTariff:
    """Prices of a node-second, by class, that change every ``price_step_s`` seconds of the start,
    round and round.
    """

    rates: tuple[int, ...]
    price_step_s: int

    def unit_price_millicredits(self, resource_class: str, start: int, duration_s: int) -> int:
        """One node for the whole duration."""
        step = start // self.price_step_s + (resource_class == "large")
        return self.rates[step % len(self.rates)] * duration_s

    def highest_millicredits_per_node_hour(self, resource_class: str) -> int:
        """The dearest step's, for an hour."""
        del resource_class
        return max(self.rates) * 3_600


@given(
    bookings=st.lists(promised, max_size=6),
    rates=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    step_s=st.integers(1, 15),
    nodes=st.integers(1, 3),
    duration_s=st.integers(1, 20),
    earliest=st.integers(0, 60),
    slack_s=st.integers(0, 40),
    budget=st.sampled_from([None, 0, 10, 40]),
)
def test_the_price_of_a_run_is_that_of_each_start(
    bookings: list[tuple[str, int, int, int]],
    rates: list[int],
    step_s: int,
    nodes: int,
    duration_s: int,
    earliest: int,
    slack_s: int,
    budget: int | None,
) -> None:
    """Where prices change with the start, every start is told with its own price, none that the
    budget does not pay for, and a refusal names the first that it does pay for; what is then
    reserved costs what was told.
    """
    calendar = busy(bookings, 500)
    calendar.tariff = tariff = SteppedTariff(tuple(rates), step_s)
    request = a_request(
        nodes=nodes,
        duration_s=duration_s,
        earliest=earliest,
        until=earliest + duration_s + slack_s,
        budget_millicredits=budget,
    )

    def possible(start: int) -> dict[tuple[int, str], int]:
        found = {}
        for name in NODES:
            window = range(start, start + duration_s)
            free = min(calendar.free[name].free_at(second) for second in window)
            price = tariff.unit_price_millicredits(name, start, duration_s)
            if free >= nodes and (budget is None or price * nodes <= budget):
                found[start, name] = price
        return found

    soonest = max(earliest, calendar.rules.lead_s)
    behind = min(request.latest_end, HORIZON_S) - duration_s + 1
    expected = {
        each: price for start in range(soonest, behind) for each, price in possible(start).items()
    }
    answer = calendar.inquire(request, 0)
    if isinstance(answer, Decline):
        assert expected == {}
        later = (start for start in range(soonest, HORIZON_S - duration_s + 1) if possible(start))
        assert answer.earliest == next(later, None)
        return
    told = {
        (start, offer.resource_class): offer.unit_price_millicredits
        for offer in answer.offers
        for start in range(offer.start, offer.start_until)
    }
    assert told == expected
    first = answer.offers[0]
    held, _ = calendar.decide_reserve(request, "ann", 60, 0)
    assert isinstance(held, Reservation)
    assert (held.start, held.resource_class) == (first.start, first.resource_class)
    assert held.price_millicredits == first.price_millicredits(nodes)
