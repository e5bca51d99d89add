"""One party of a trip: a site with a book of legs, those that keep the trips' outcomes, and time
that is virtual.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from gridtravel.gridcore.booking.reservations import (
    Begin,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripLeg,
    TripRef,
    next_state,
)
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    VoteQuestion,
)
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.sites.trip_keeping import Proposers
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.gridio.sites.trip_voting import TripQuestions
from tests.support.builders import a_request, a_reservation
from tests.support.cards import an_acceptor
from tests.support.keeper_scenes import FakeAcceptor
from tests.support.virtual_time import START, LoopClock, run_virtually

COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
KEEPERS = ("a", "b", "c")
SITES = (*KEEPERS, "d", "e", "f", "g", "h")
BEGIN = START + 100
"""When the legs of the trip start, two at a time; the loop's time is START at first."""
TRIP = TripRef(
    trip_id="trip-1",
    leg="la",
    participants=SITES,
    acceptors=tuple(an_acceptor(name) for name in KEEPERS),
    legs=(
        TripLeg(leg="la", site="a", start=BEGIN),
        TripLeg(leg="lb", site="b", start=BEGIN),
        TripLeg(leg="lc", site="c", start=BEGIN + 500),
    ),
    ends_at=BEGIN + 900,
)
TOGETHER = replace(TRIP, begin=Begin.TOGETHER)
NEXT = replace(TRIP, attempt=2)
"""The attempt that a change makes."""
MANIFEST = Manifest(contacts=(("la", "lab:21000"),))
DOUBT_MAX_S = 50


class Keeper(FakeAcceptor):
    """Knows when it was asked what; ``hears`` says which questions come through, and ``hangs``
    which of them are never answered.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: list[tuple[float, VoteQuestion]] = []
        self.hears: Callable[[VoteQuestion], bool] = lambda _: True
        self.hangs: Callable[[VoteQuestion], bool] = lambda _: False

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Answer, unless the line is dead."""
        self.asked.append((START + asyncio.get_running_loop().time(), question))
        if self.hangs(question):
            await asyncio.get_running_loop().create_future()
        self.is_dead = not self.hears(question)
        return await super().vote(question)


class Book:
    """The entries of a site, and what was done about them (``LegBook``)."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.legs: dict[str, Reservation] = {}
        self.replacing: dict[str, Reservation] = {}
        self.ready: set[str] = set()
        self.begun: dict[str, float] = {}
        self.ended: dict[str, tuple[ReservationEvent, str, float]] = {}
        self.committed: dict[str, Manifest] = {}
        self.flushed_at: list[float] = []

    def leg(self, reservation_id: str) -> Reservation | None:
        """An entry."""
        return self.legs.get(reservation_id)

    def is_open(self, reservation_id: str) -> bool:
        """True for a hold."""
        found = self.legs.get(reservation_id)
        return found is not None and found.state is ReservationState.HELD

    def undecided_until(self, hold: Reservation) -> Instant:
        """Its start."""
        return hold.start

    def replacement_of(self, reservation_id: str) -> Reservation | None:
        """The hold that is to replace an entry."""
        hold = self.replacing.get(reservation_id)
        return hold if hold is not None and self.is_open(hold.reservation_id) else None

    def is_ready(self, reservation_id: str) -> bool:
        """As a test says."""
        return reservation_id in self.ready

    def runs(self, reservation_id: str) -> bool:
        """True when it was written down."""
        return reservation_id in self.begun

    async def commit(self, reservation_id: str, manifest: Manifest) -> None:
        """A hold is committed."""
        self.committed[reservation_id] = manifest
        self.change(reservation_id, ReservationEvent.COMMIT)

    async def end(self, reservation_id: str, event: ReservationEvent, reason: str = "") -> None:
        """An entry ends; once."""
        assert reservation_id not in self.ended
        self.ended[reservation_id] = (event, reason, now())
        self.change(reservation_id, event)

    async def note_runs(self, reservation_id: str) -> None:
        """A leg runs; told once."""
        assert reservation_id not in self.begun
        self.begun[reservation_id] = now()

    async def durable(self) -> None:
        """All of it is on the disk."""
        self.flushed_at.append(now())

    def change(self, reservation_id: str, event: ReservationEvent) -> None:
        """An entry goes to its next state."""
        old = self.legs[reservation_id]
        self.legs[reservation_id] = replace(old, state=next_state(old.state, event))


def now() -> float:
    """By the loop."""
    return START + asyncio.get_running_loop().time()


class Scene:
    """One site, and the three that keep the outcomes; no real time passes."""

    def __init__(self, site: str = "d") -> None:
        self.keepers = {name: Keeper(name) for name in KEEPERS}
        for each in self.keepers.values():
            each.beside = dict(self.keepers)
        self.book = Book(site)
        self.clock = LoopClock()
        self.background = BackgroundTasks()
        self.party = TripParticipant(
            self.book,
            self.clock,
            self.background,
            ports=lambda acceptors: {each.site: self.keepers[each.site] for each in acceptors},
            proposers=Proposers(site, "run"),
            doubt_max_s=DOUBT_MAX_S,
        )

    def leg(
        self,
        name: str = "leg",
        trip: TripRef | None = TRIP,
        *,
        start: Instant = BEGIN,
        duration_s: int = 300,
        **others: Any,
    ) -> Reservation:
        """An entry of the book, committed unless told otherwise."""
        made = a_reservation(
            name,
            request=a_request(f"for-{name}", trip=trip, replaces=others.pop("replaces", None)),
            interval=Interval(start, start + duration_s),
            **others,
        )
        self.book.legs[name] = made
        return made

    def hold(self, name: str = "hold", *, expires_at: Instant | None, **others: Any) -> Reservation:
        """A hold whose lifetime ends then."""
        return self.leg(name, state=ReservationState.HELD, hold_expires_at=expires_at, **others)

    async def live(self, until: float) -> None:
        """What a daemon does: look again each second."""
        while now() < until:
            self.party.look(self.clock.now())
            await self.clock.sleep_until(min(now() + 1, until))

    def cut_off(self, hears: Callable[[VoteQuestion], bool] = lambda _: False) -> None:
        """No keeper hears anything else."""
        for each in self.keepers.values():
            each.hears = hears

    def asked(self, question: str, *phases: Phase) -> list[float]:
        """When the first keeper was asked a question, in any phase unless told."""
        return [
            at
            for at, each in self.keepers["a"].asked
            if each.instance == question and (not phases or each.phase in phases)
        ]

    async def chosen(self, question: str) -> Outcome | None:
        """What a majority says by now."""
        return await TripQuestions(question, self.keepers).learn()

    async def choose(
        self, question: str, outcome: Outcome, manifest: Manifest | None = None
    ) -> None:
        """Somebody has had it chosen."""
        ballot = Ballot(1, "z:run:1")
        first = VoteQuestion(instance=question, phase=Phase.ACCEPT, outcome=outcome, ballot=ballot)
        if manifest is not None:
            first = replace(first, manifest=manifest)
        for each in self.keepers.values():
            await each.vote(first)
            each.asked.clear()

    async def choose_unheard(self, question: str, outcome: Outcome = COMMIT) -> None:
        """The same, by those whom the site cannot hear."""
        heard = {name: each.hears for name, each in self.keepers.items()}
        self.cut_off(lambda _: True)
        await self.choose(question, outcome)
        for name, hears in heard.items():
            self.keepers[name].hears = hears


def pauses_of(asked: list[float]) -> list[float]:
    """Between one question and the next."""
    return [after - before for before, after in itertools.pairwise(asked)]


def play(story: Callable[[Scene], Coroutine[Any, Any, None]], site: str = "d") -> None:
    """A story of one site, in virtual time; at its end nothing goes on."""

    async def whole() -> None:
        scene = Scene(site)
        async with scene.background.open():
            await story(scene)

    run_virtually(whole)
