"""No ballot is used twice, and no two legs hear different answers to one question."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.trips.trip_consensus import Outcome, Phase, VoteQuestion
from gridtravel.gridio.system.clock import ManualClock
from tests.support.builders import OWNER, a_calendar, a_request, carry_out
from tests.support.keeper_scenes import TRIP, a_keeper, some_acceptors, some_seconds


def a_leg(calendar: Calendar, name: str) -> Reservation:
    """A committed leg of the trip."""
    request = replace(a_request(name, start=15), trip=TRIP)
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
