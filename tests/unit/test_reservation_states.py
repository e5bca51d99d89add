"""The states of a reservation, and what makes a request a request."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import (
    DURATION_LIMIT_S,
    NODES_LIMIT,
    TRANSITIONS,
    Acceptor,
    Offer,
    ReservationEvent,
    ReservationState,
    TripRef,
    next_state,
)
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.timing.instants import Interval
from tests.support.builders import a_request, a_reservation

ALLOWED = [
    ("HELD", "commit", "COMMITTED"),
    ("HELD", "release", "RELEASED"),
    ("HELD", "expire", "EXPIRED"),
    ("HELD", "withdraw", "EXPIRED"),
    ("HELD", "merge", "SUPERSEDED"),
    ("COMMITTED", "release", "RELEASED"),
    ("COMMITTED", "supersede", "SUPERSEDED"),
    ("COMMITTED", "complete", "COMPLETED"),
]
REFUSED = [
    (state.value, event.value)
    for state in ReservationState
    for event in ReservationEvent
    if (state.value, event.value) not in {(before, event) for before, event, _ in ALLOWED}
]


@pytest.mark.parametrize(("state", "event", "after"), ALLOWED)
def test_allowed_transitions(state: str, event: str, after: str) -> None:
    """The transitions there are."""
    entry = a_reservation(state=ReservationState(state))
    assert entry.after(ReservationEvent(event)).state is ReservationState(after)


@pytest.mark.parametrize(("state", "event"), REFUSED)
def test_refused_transitions(state: str, event: str) -> None:
    """Every other pair is a conflict that names the state and the event, and changes nothing."""
    entry = a_reservation(state=ReservationState(state))
    with pytest.raises(ConflictError, match=f"cannot {event} a reservation that is {state}"):
        entry.after(ReservationEvent(event))
    assert entry == a_reservation(state=ReservationState(state))


def test_table_is_complete() -> None:
    """Each state has its row, and exactly the states that can still change are live."""
    assert list(TRANSITIONS) == list(ReservationState)
    assert len(ALLOWED) + len(REFUSED) == len(ReservationState) * len(ReservationEvent)
    for state in ReservationState:
        assert state.is_live == bool(TRANSITIONS[state])
        assert all(
            next_state(state, event) is TRANSITIONS[state][event] for event in TRANSITIONS[state]
        )


@pytest.mark.parametrize(
    ("state", "now", "phase"),
    [
        ("COMMITTED", 19, "COMMITTED"),
        ("COMMITTED", 20, "ACTIVE"),
        ("COMMITTED", 29, "ACTIVE"),
        ("COMMITTED", 30, "COMMITTED"),
        ("HELD", 25, "HELD"),
        ("RELEASED", 25, "RELEASED"),
    ],
)
def test_phase_for_people(state: str, now: int, phase: str) -> None:
    """Only a committed reservation within its time is called active."""
    entry = a_reservation(state=ReservationState(state), interval=Interval(20, 30))
    assert entry.phase(now) == phase


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"request_id": ""}, "request id"),
        ({"request_id": "x" * 129}, "request id"),
        ({"request_id": "two words"}, "characters"),
        ({"request_id": "gruß"}, "characters"),
        ({"nodes": (0, 1)}, "nodes must satisfy"),
        ({"nodes": (3, 2)}, "nodes must satisfy"),
        ({"nodes": NODES_LIMIT + 1}, "nodes must satisfy"),
        ({"duration_s": 0}, "duration"),
        ({"duration_s": DURATION_LIMIT_S + 1}, "duration"),
        ({"earliest": -1}, "before 1970"),
        ({"until": 9}, "the window of 9 s is shorter than the duration of 10 s"),
        ({"budget_millicredits": -1}, "budget"),
    ],
)
def test_requests_that_contradict_themselves(wrong: dict[str, object], named: str) -> None:
    """A request that cannot be meant is an input error which names what is wrong."""
    with pytest.raises(InputError, match=named):
        a_request(**({"request_id": "request-1"} | wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("account", ["", "x" * 129])
def test_requests_name_an_account(account: str) -> None:
    """Somebody has to pay."""
    values = {name: getattr(a_request(), name) for name in a_request().__dataclass_fields__}
    with pytest.raises(InputError, match="account"):
        type(a_request())(**(values | {"account": account}))


def test_features_are_sorted_and_single() -> None:
    """Two ways of saying the same are the same request."""
    said = a_request(features=("gpu", "disk", "gpu"))
    assert said == a_request(features=("disk", "gpu"))


def test_request_at_an_exact_place() -> None:
    """`at` asks for exactly so many nodes from exactly then, under the same or a new id."""
    request = a_request(nodes=(1, 4), duration_s=10)
    exact = request.at(50, 3)
    assert (exact.nodes_min, exact.nodes_max) == (3, 3)
    assert (exact.earliest_start, exact.latest_end) == (50, 60)
    assert exact.request_id == request.request_id
    assert request.at(50, 3, request_id="request-2").request_id == "request-2"


def test_attempts_of_a_trip_have_names_of_their_own() -> None:
    """An outcome is asked for by trip and attempt, and its cancellation apart from it."""
    trip = TripRef(trip_id="trip-1", leg="left", attempt=2)
    assert trip.instance == "trip-1/2"
    assert trip.cancellation == "trip-1/2/cancel"
    with pytest.raises(InputError, match="counted from 1"):
        TripRef(trip_id="trip-1", leg="left", attempt=0)


def test_trips_and_offers() -> None:
    """A trip's names are checked like any id; an offer is priced for each node."""
    assert TripRef(trip_id="trip-1", leg="left").participants == ()
    with pytest.raises(InputError, match="leg name"):
        TripRef(trip_id="trip-1", leg="")
    with pytest.raises(InputError, match="site"):
        Acceptor(site="", endpoint="host:1")
    offer = Offer(start=0, start_until=1, nodes=4, resource_class="node", unit_price_millicredits=7)
    assert offer.price_millicredits(3) == 21
