"""No ballot is used twice, and no two legs hear different answers to one question."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Begin,
    Reservation,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S, CLOCKS_APART_S
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    Outcome,
    Phase,
    VoteQuestion,
)
from gridtravel.gridio.system.clock import ManualClock
from tests.support.builders import OWNER, a_calendar, a_request, carry_out
from tests.support.keeper_scenes import (
    NAMES,
    TRIP,
    FakeAcceptor,
    a_keeper,
    some_acceptors,
    some_seconds,
)


def a_leg(
    calendar: Calendar, name: str, *, trip: TripRef = TRIP, start: int = 15
) -> Reservation:
    """A committed leg of the trip."""
    request = replace(a_request(name, start=start), trip=trip)
    held, events = calendar.decide_reserve(request, OWNER, 5, 10)
    carry_out(calendar, events)
    assert isinstance(held, Reservation)
    _, events = calendar.decide_late_commit(held.reservation_id, 10)
    carry_out(calendar, events)
    return calendar.get(held.reservation_id)


async def test_legs_that_hear_different_majorities_hear_the_same_answer() -> None:
    """A cancellation accepted by a and b: a leg that hears only a and c is released as well."""
    acceptors = some_acceptors()
    chosen = VoteQuestion(instance=TRIP.cancellation, phase=Phase.ACCEPT, outcome=Outcome.COMMIT)
    for name in ("a", "b"):
        await acceptors[name].vote(chosen)
    acceptors["b"].is_dead = True
    calendar = a_calendar(4)
    leg = a_leg(calendar, "leg")
    clock = ManualClock(10)
    keeper = a_keeper(calendar, acceptors, clock)
    async with keeper.background.open():
        keeper.participant.note_committed(leg)
        keeper.participant.look(10)
        await some_seconds(clock)
    assert calendar.get(leg.reservation_id).state is ReservationState.RELEASED


async def test_two_legs_of_one_trip_at_one_site_never_share_a_ballot() -> None:
    """Each question has a proposer of its own, also within one run of one site."""
    acceptors = some_acceptors()
    calendar = a_calendar(4)
    clock = ManualClock(10)
    keeper = a_keeper(calendar, acceptors, clock)
    async with keeper.background.open():
        for name in ("first", "second"):
            keeper.participant.note_committed(a_leg(calendar, name))
        keeper.participant.look(10)
        await some_seconds(clock)
    proposers = acceptors["a"].proposers
    assert len(proposers) == len(set(proposers)) >= 1
    assert all(entry.state is ReservationState.COMMITTED for entry in calendar.live())


async def test_nobody_is_asked_to_settle_before_it_is_time() -> None:
    """A site that keeps no outcome asks those that do when their clocks say so too, and only
    learns until then.
    """
    clock = ManualClock(10)
    asked: dict[str, list[float]] = {}

    class Noting(FakeAcceptor):
        async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
            if question.phase is Phase.SETTLE:
                asked.setdefault(question.instance, []).append(clock.now_precise())
            return await super().vote(question)

    acceptors: dict[str, FakeAcceptor] = {name: Noting(name) for name in NAMES}
    for each in acceptors.values():
        each.beside = acceptors
    legs = (TripLeg(leg="lab", site="lab", start=40), TripLeg(leg="far", site="a", start=40))
    trip = replace(TRIP, participants=("lab", *NAMES), legs=legs, begin=Begin.TOGETHER)
    calendar = a_calendar(4)
    leg = a_leg(calendar, "leg", trip=trip, start=40)
    keeper = a_keeper(calendar, acceptors, clock)
    async with keeper.background.open():
        keeper.participant.note_committed(leg)
        keeper.participant.look(30)
        for _ in range(10):
            await some_seconds(clock)
    assert min(asked[trip.cancellation]) >= 40 - CHECK_BEFORE_S
    assert min(asked[trip.readiness("far")]) >= 40 + CLOCKS_APART_S
    assert len(asked[trip.readiness("far")]) == 1
    assert calendar.get(leg.reservation_id).state is ReservationState.RELEASED
