"""A site's keeper of trips, with acceptors that answer or do not, and time that passes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from gridtravel.agents.journal.events import TripEvent
from gridtravel.agents.trips.site_trips import SiteTrips
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    AcceptorState,
    Phase,
    VoteQuestion,
    answer_vote,
)
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.sites.neighbours import Neighbours
from gridtravel.gridio.sites.trip_voting import TripVoting
from gridtravel.gridio.system.clock import ManualClock
from tests.support.cards import CARDS, an_acceptor

NAMES = ("a", "b", "c")
TRIP = TripRef(
    trip_id="trip-1",
    leg="lab",
    participants=NAMES,
    acceptors=tuple(an_acceptor(name) for name in NAMES),
    ends_at=1000,
)


class FakeAcceptor:
    """An acceptor with a memory, and a line that may be dead."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.states: dict[str, AcceptorState] = {}
        self.proposers: list[str] = []
        self.beside: dict[str, FakeAcceptor] = {}
        """All acceptors, whom it asks when it is to settle a question."""
        self.settled = 0

    @property
    def calendar(self) -> FakeAcceptor:
        """The connection's calendar is the acceptor itself."""
        return self

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer, unless the line is dead."""
        if self.is_dead:
            raise UnavailableError(f"{self.name} is dead")
        if question.phase is Phase.SETTLE:
            await self._settle(question)
        if question.phase is Phase.PREPARE:
            self.proposers.append(question.ballot.proposer)
        known = self.states.get(question.instance) or AcceptorState(instance=question.instance)
        state, answer = answer_vote(known, question, self.name)
        if state is not known:
            self.states[question.instance] = state
        beside = [replace(question, instance=each, beside=()) for each in question.beside]
        return replace(
            answer, beside=tuple([await FakeAcceptor.vote(self, each) for each in beside])
        )

    async def _settle(self, question: VoteQuestion) -> None:
        assert question.outcome is not None
        self.settled += 1
        voting = TripVoting(question.instance, self.beside, f"{self.name}:run:{self.settled}")
        await voting.settle(question.outcome)

    async def close(self) -> None:
        """Nothing is open."""


def some_acceptors(names: Sequence[str] = NAMES) -> dict[str, FakeAcceptor]:
    """One of each name; they know each other."""
    acceptors = {name: FakeAcceptor(name) for name in names}
    for each in acceptors.values():
        each.beside = acceptors
    return acceptors


def a_keeper(
    calendar: Calendar, acceptors: dict[str, FakeAcceptor], clock: ManualClock
) -> SiteTrips:
    """The trips of ``calendar``'s site, which is no acceptor and reaches these."""

    def record(events: Any, *, manifest: Any = None) -> Any:
        for event in events:
            if isinstance(event, TripEvent):
                trips.apply(event)
            else:
                calendar.apply(event)

        async def durable() -> None:
            return

        return SimpleNamespace(durable=durable)

    def connect(site: str, endpoint: str) -> Any:
        return acceptors[site]

    def own_port() -> Any:
        raise AssertionError("this site is no acceptor")

    async def released(reservation_id: str, reason: str) -> None:
        """Nothing runs here."""

    trips = SiteTrips(
        calendar,
        clock,
        Neighbours(calendar.site, CARDS, connect, clock),
        BackgroundTasks(),
        own_port=own_port,
        record=record,
        released=released,
        ready=lambda _: True,
    )
    return trips


async def some_seconds(clock: ManualClock) -> None:
    """Four seconds pass, and whoever waits gets his turns."""
    for _ in range(40):
        for _ in range(20):
            await clock.sleep_until(0)
        clock.advance(0.1)
