"""A site's keeper of trips, with acceptors that answer or do not, and time that passes by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gridtravel.agents.trips.participant import TripParticipant
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
from gridtravel.gridio.sites.neighbours import Neighbours
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
) -> TripParticipant:
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

    neighbours = Neighbours(calendar.site, CARDS, connect, clock)
    return TripParticipant(calendar, clock, neighbours, own_port, record)


async def some_seconds(clock: ManualClock) -> None:
    """Four seconds pass, and whoever waits gets his turns."""
    for _ in range(40):
        for _ in range(20):
            await clock.sleep_until(0)
        clock.advance(0.1)
