"""No ballot is used twice, and no two legs hear different answers to one question."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from agents.trip_keeper import TripKeeper
from gridcore.calendars import Calendar
from gridcore.errors import UnavailableError
from gridcore.reservations import Acceptor, Reservation, ReservationState, TripRef
from gridcore.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Outcome,
    Phase,
    VoteQuestion,
    answer_vote,
)
from gridio.clock import ManualClock
from tests.builders import OWNER, a_calendar, a_request, carry_out

NAMES = ("a", "b", "c")
TRIP = TripRef(
    trip_id="trip-1",
    leg="lab",
    participants=NAMES,
    acceptors=tuple(Acceptor(site=name, endpoint=f"{name}:1") for name in NAMES),
    ends_at=1000,
)


class FakeAcceptor:
    """An acceptor with a memory, and a line that may be dead."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.states: dict[str, AcceptorState] = {}
        self.proposers: list[str] = []

    @property
    def calendar(self) -> FakeAcceptor:
        """The connection's calendar is the acceptor itself."""
        return self

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer, unless the line is dead."""
        if self.is_dead:
            raise UnavailableError(f"{self.name} is dead")
        if question.phase is Phase.PREPARE:
            self.proposers.append(question.ballot.proposer)
        known = self.states.get(question.instance)
        self.states[question.instance], answer = answer_vote(known, question, self.name)
        return answer

    async def close(self) -> None:
        """Nothing is open."""


def a_keeper(
    calendar: Calendar, acceptors: dict[str, FakeAcceptor], clock: ManualClock
) -> TripKeeper:
    """A keeper of ``calendar`` that reaches these acceptors."""

    def record(events: Any) -> Any:
        for event in events:
            calendar.apply(event)

        async def durable() -> None:
            return

        return SimpleNamespace(durable=durable)

    def connect(site: str, endpoint: str) -> Any:
        return acceptors[site]

    def own_port() -> Any:
        raise AssertionError("this site is no acceptor")

    return TripKeeper(calendar, clock, connect, own_port, record)


async def some_seconds(clock: ManualClock) -> None:
    """Four seconds pass, and whoever waits gets his turns."""
    for _ in range(40):
        for _ in range(20):
            await clock.sleep_until(0)
        clock.advance(0.1)


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
    acceptors = {name: FakeAcceptor(name) for name in NAMES}
    chosen = VoteQuestion(
        instance=TRIP.cancellation, phase=Phase.ACCEPT, outcome=Outcome.COMMIT, keep_until=1000
    )
    for name in ("a", "b"):
        await acceptors[name].vote(chosen)
    acceptors["b"].is_dead = True
    calendar = a_calendar(4)
    leg = a_leg(calendar, "leg")
    clock = ManualClock(10)
    keeper = a_keeper(calendar, acceptors, clock)
    async with asyncio.TaskGroup() as group:
        keeper.open(group)
        keeper.note_committed(leg)
        keeper.check_soon(10)
        await some_seconds(clock)
    assert calendar.get(leg.reservation_id).state is ReservationState.RELEASED


async def test_two_legs_of_one_trip_at_one_site_never_share_a_ballot() -> None:
    """Each question has a proposer of its own, also within one run of one site."""
    acceptors = {name: FakeAcceptor(name) for name in NAMES}
    calendar = a_calendar(4)
    clock = ManualClock(10)
    keeper = a_keeper(calendar, acceptors, clock)
    async with asyncio.TaskGroup() as group:
        keeper.open(group)
        for name in ("first", "second"):
            keeper.note_committed(a_leg(calendar, name))
        keeper.check_soon(10)
        await some_seconds(clock)
    proposers = acceptors["a"].proposers
    assert len(proposers) == len(set(proposers)) >= 1
    assert all(entry.state is ReservationState.COMMITTED for entry in calendar.live())
