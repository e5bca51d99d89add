"""No ballot is used twice, and no two legs hear different answers to one question."""

from __future__ import annotations

from dataclasses import replace

import pytest

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


def a_leg(calendar: Calendar, name: str, *, trip: TripRef = TRIP, start: int = 15) -> Reservation:
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


TOGETHER = replace(
    TRIP,
    participants=("lab", *NAMES),
    legs=(
        TripLeg(leg="lab", site="lab", start=40),
        TripLeg(leg="far", site="a", start=40),
        TripLeg(leg="there", site="b", start=40),
    ),
    begin=Begin.TOGETHER,
)


class Noting(FakeAcceptor):
    """An acceptor that remembers what it was asked, and when."""

    def __init__(self, name: str, clock: ManualClock, *, is_old: bool = False) -> None:
        super().__init__(name)
        self._clock = clock
        self._is_old = is_old
        self.asked: list[tuple[VoteQuestion, float]] = []

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """``is_old``: of a release that knew of no questions beside another."""
        self.asked.append((question, self._clock.now_precise()))
        return await super().vote(replace(question, beside=()) if self._is_old else question)

    def when(self, phase: Phase, instance: str) -> list[float]:
        """When it was asked that."""
        return [at for each, at in self.asked if (each.phase, each.instance) == (phase, instance)]


def noting(clock: ManualClock, *, is_old: bool = False) -> dict[str, Noting]:
    """One of each name."""
    acceptors = {name: Noting(name, clock, is_old=is_old) for name in NAMES}
    for each in acceptors.values():
        each.beside = dict(acceptors)
    return acceptors


async def ready(acceptors: dict[str, Noting], *legs: str) -> None:
    """The acceptors have heard that these legs are ready."""
    for leg in legs:
        said = VoteQuestion(
            instance=TOGETHER.readiness(leg), phase=Phase.ACCEPT, outcome=Outcome.COMMIT
        )
        for each in acceptors.values():
            await each.vote(said)


async def a_start(acceptors: dict[str, Noting], clock: ManualClock) -> ReservationState:
    """What becomes of a leg that others begin with, from ten seconds before its start on."""
    calendar = a_calendar(4)
    leg = a_leg(calendar, "leg", trip=TOGETHER, start=40)
    keeper = a_keeper(calendar, dict(acceptors), clock)
    async with keeper.background.open():
        keeper.participant.note_committed(leg)
        keeper.participant.look(30)
        for _ in range(4):
            await some_seconds(clock)
    return calendar.get(leg.reservation_id).state


async def test_nobody_is_asked_to_settle_before_it_is_time() -> None:
    """A site that keeps no outcome asks those that do when their clocks say so too, and only
    learns until then.
    """
    clock = ManualClock(30)
    acceptors = noting(clock)
    await ready(acceptors, "there")
    assert await a_start(acceptors, clock) is ReservationState.RELEASED
    for question, earliest in (
        (TOGETHER.cancellation, 40 - CHECK_BEFORE_S),
        (TOGETHER.readiness("far"), 40),
    ):
        (at,) = [at for each in acceptors.values() for at in each.when(Phase.SETTLE, question)]
        assert at >= earliest + CLOCKS_APART_S


@pytest.mark.parametrize("is_old", [False, True])
async def test_one_message_asks_which_legs_are_ready(*, is_old: bool) -> None:
    """Each acceptor once, however many legs begin together; again and again only while some are
    not. One of an earlier release answers the first, and is asked for the rest.
    """
    clock = ManualClock(30)
    acceptors = noting(clock, is_old=is_old)
    await ready(acceptors, "lab", "far", "there")
    for each in acceptors.values():
        each.asked.clear()
    assert await a_start(acceptors, clock) is ReservationState.COMMITTED
    for each in acceptors.values():
        learned = [q for q, _ in each.asked if q.phase is Phase.LEARN and "/ready/" in q.instance]
        assert len(learned) == (3 if is_old else 1)
        assert not [q for q, _ in each.asked if q.phase is Phase.SETTLE and "/ready/" in q.instance]
