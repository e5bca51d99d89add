"""Itineraries: a trip's states and what follows from its legs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import (
    TRANSITIONS,
    Itinerary,
    Leg,
    LegState,
    Transport,
    TripState,
)

REFUSAL = Decline(rule=DeclineRule.NO_ROOM, message="full until Tuesday", earliest=500)


def leg(name: str = "ocean", **changes: Any) -> Leg:
    """A booked leg of ten nodes for a hundred seconds, changed."""
    whole = Leg(
        name=name,
        machine="datastar",
        site="sdsc",
        nodes=10,
        interval=Interval(100, 200),
        transport=Transport.GRPC,
        price_millicredits=70,
        state=LegState.BOOKED,
        reservation_id="sdsc.1",
    )
    return replace(whole, **changes)


def trip(**changes: Any) -> Itinerary:
    """A booked trip of two legs, changed."""
    whole = Itinerary(
        trip_id="t-1",
        name="trip",
        state=TripState.BOOKED,
        legs=(leg(), leg("air", nodes=1, interval=Interval(90, 210), price_millicredits=5)),
    )
    return replace(whole, **changes)


def test_a_trip_spans_its_legs() -> None:
    """Start, end, price and nodes of a trip follow from its legs."""
    booked = trip()
    assert (booked.start, booked.end) == (90, 210)
    assert booked.price == booked.price_millicredits == 75
    assert booked.nodes == 11
    assert (leg().start, leg().end) == (100, 200)


def test_a_trip_without_legs_has_no_times() -> None:
    """A declined trip has neither start nor end, and costs nothing."""
    refused = trip(state=TripState.PLANNED).declined(REFUSAL)
    assert refused.state is TripState.DECLINED
    assert (refused.start, refused.end, refused.price, refused.legs) == (None, None, 0, ())
    assert refused.decline == REFUSAL


@pytest.mark.parametrize(("before", "after"), list(product(TripState, TripState)))
def test_the_table_of_transitions_is_the_law(before: TripState, after: TripState) -> None:
    """A trip moves as the table says and not otherwise; the same state again changes nothing."""
    decline = REFUSAL if before is TripState.DECLINED else None
    start = trip(state=before, decline=decline)
    if after is before:
        assert start.moved_to(after) is start
    elif after is TripState.DECLINED and after in TRANSITIONS[before]:
        assert start.declined(REFUSAL).state is after
    elif after in TRANSITIONS[before]:
        assert start.moved_to(after).state is after
    else:
        with pytest.raises(ConflictError):
            start.moved_to(after)


def test_only_an_undecided_trip_is_declined() -> None:
    """What is booked cannot turn out to be refused."""
    with pytest.raises(ConflictError):
        trip().declined(REFUSAL)


def test_states_say_what_they_mean() -> None:
    """Over: nothing follows. Occupying: sites keep room."""
    over = [state for state in TripState if state.is_over]
    assert over == [
        TripState.COMPLETED,
        TripState.FAILED,
        TripState.CANCELLED,
        TripState.DECLINED,
        TripState.ABSENT,
    ]


def test_a_leg_is_replaced_by_name_or_added() -> None:
    """``with_leg`` keeps the order of the legs."""
    moved = leg(state=LegState.RUNNING)
    assert trip().with_leg(moved).legs[0] == moved
    assert [found.name for found in trip().with_leg(leg("ice")).legs] == ["ocean", "air", "ice"]
    assert trip().leg("ice") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"site": "two words"},
        {"nodes": 0},
        {"price_millicredits": -1},
        {"reservation_id": None},
    ],
)
def test_a_leg_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    """A leg has a place and a size, and a booked one its reservation."""
    with pytest.raises(InputError):
        leg(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"trip_id": ""},
        {"legs": (leg(), leg())},
        {"legs": ()},
        {"decline": REFUSAL},
        {"state": TripState.DECLINED},
    ],
)
def test_a_trip_that_cannot_be_is_refused(changes: dict[str, Any]) -> None:
    """Legs have different names; a refusal belongs to DECLINED alone; what is booked has legs."""
    with pytest.raises(InputError):
        trip(**changes)
