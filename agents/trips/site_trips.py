"""A site's part in trips: what its calendar has to do with their outcome.

``SiteTrips`` puts together what agents and managers share (the acceptor and the participant of
``gridio.sites``), with the agent's book and journal behind it. docs/protocol.md is the
specification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from gridtravel.agents.journal.events import (
    AcceptorChanged,
    AcceptorsForgotten,
    AgentEvent,
    LegRuns,
    TripEvent,
    TripRegistered,
)
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.registers import (
    TripRegister,
    TripRegisters,
    register_of,
)
from gridtravel.gridio.sites.neighbours import Neighbours
from gridtravel.gridio.sites.trip_keeping import Proposers, TripAcceptor
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.gridio.sites.trip_voting import Votes

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.callers import Caller
    from gridtravel.gridcore.jobs.races import Race
    from gridtravel.gridcore.ports import CalendarPort
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridcore.trips.trip_consensus import (
        AcceptorAnswer,
        VoteQuestion,
    )
    from gridtravel.gridio.journal.contract import Ticket
    from gridtravel.gridio.sites.background import BackgroundTasks
    from gridtravel.gridio.system.clock import Clock


class Record(Protocol):
    """Journals and applies, as ``AgentCore.record``."""

    def __call__(self, events: Sequence[AgentEvent], *, manifest: Manifest = NO_CONTACTS) -> Ticket:
        """The ticket comes back when the disk has it."""


class SiteTrips:
    """The trips of one site: registers and votes, doubts, and which legs run."""

    def __init__(
        self,
        calendar: Calendar,
        clock: Clock,
        neighbours: Neighbours,
        background: BackgroundTasks,
        *,
        own_port: Callable[[], CalendarPort],
        record: Record,
        released: Callable[[str, str], Awaitable[None]],
        ready: Callable[[str], bool],
    ) -> None:
        """``own_port``: this site's calendar as it serves itself. ``released``: ends what runs in a
        leg that is released, with the reason. ``ready``: whether a committed leg could begin.
        """
        self._calendar = calendar
        self._clock = clock
        self._neighbours = neighbours
        self._own_port = own_port
        self.background = background
        self.registers = TripRegisters(calendar.site)
        self.runs: dict[str, str] = {}
        """Leg -> the attempt in which it is known to run."""
        self.being_written: set[str] = set()
        """Of these legs it is known, and not on the disk yet: what begins now and is not known
        after a crash would be let go while the others run.
        """
        self._news = asyncio.Event()
        """Set, and replaced, when something has changed that a leg waits for."""
        proposers = Proposers(calendar.site, calendar.epoch)
        self.acceptor = TripAcceptor(
            self.registers,
            clock,
            record=lambda state: record([AcceptorChanged(state=state)] if state else []),
            ports=self._ports,
            proposers=proposers,
        )
        self.participant = TripParticipant(
            _Legs(self, calendar, clock, record, released, ready),
            clock,
            background,
            ports=self._ports,
            proposers=proposers,
            doubt_max_s=calendar.rules.doubt_max_s,
        )

    # -- what is journaled -------------------------------------------------------------------------

    def apply(self, event: TripEvent) -> None:
        """Take a journaled fact into account."""
        match event:
            case AcceptorChanged(state=state):
                self.registers.change(state)
            case TripRegistered(register=register):
                self.registers.open(register)
            case LegRuns():
                self.runs[event.reservation_id] = event.instance
                self.tell()
            case AcceptorsForgotten(before=before):
                self.registers.forget(before)
                kept = self._calendar.reservations
                self.runs = {key: each for key, each in self.runs.items() if key in kept}

    def after_replay(self) -> None:
        """Journals of earlier releases have no registers: what is live opens its own. What had
        begun then goes on.
        """
        now = self._clock.now()
        for kept in self._calendar.unordered_live():
            trip = kept.request.trip
            if trip is None:
                continue
            self.registers.open(register_of(trip, kept.owner))
            if not trip.legs and kept.start <= now:
                self.runs[kept.reservation_id] = trip.instance

    def is_remembered(self, event: TripEvent) -> bool:
        """False for a record that a compacted journal does without."""
        match event:
            case AcceptorChanged(state=state):
                return self.registers.states.get(state.instance) == state
            case TripRegistered(register=register):
                return self.registers.registers.get(register.key) == register
            case LegRuns():
                return self.runs.get(event.reservation_id) == event.instance
            case _:
                return False

    def registering(
        self, wanted: TripRegister, now: Instant
    ) -> Decline | tuple[TripRegistered, ...]:
        """What a hold or a copy of that trip adds to its own events, or why it may not be."""
        refusal = self.registers.refuse(wanted, now, self._calendar.rules.horizon_s)
        if refusal is not None:
            return refusal
        is_known = wanted.key in self.registers.registers
        return () if is_known else (TripRegistered(register=wanted),)

    def decide_sweep(self, now: Instant) -> tuple[AcceptorsForgotten, ...]:
        """Outcomes of trips that ended long ago may be forgotten."""
        before = now - self._calendar.rules.tombstone_s
        return (AcceptorsForgotten(before=before),) if self.registers.is_any_older(before) else ()

    # -- what others ask ---------------------------------------------------------------------------

    async def vote(self, question: VoteQuestion, caller: Caller) -> AcceptorAnswer:
        """See ``CalendarPort.vote``."""
        return await self.acceptor.vote(question, caller)

    async def claim(self, race: Race, is_wanted: Callable[[], bool]) -> bool:
        """See ``TripParticipant.claim``."""
        return await self.participant.claim(race, is_wanted)

    def may_begin(self, reservation_id: str) -> bool | None:
        """Whether a leg runs; ``None``: not known yet. What is no leg of a trip over several sites
        asks nobody.
        """
        leg = self._calendar.reservations.get(reservation_id)
        if leg is None or leg.state is not ReservationState.COMMITTED:
            return False
        trip = leg.request.trip
        if trip is None or not trip.acceptors:
            return True
        is_known = self.runs.get(reservation_id) == trip.instance
        return True if is_known and reservation_id not in self.being_written else None

    async def begins(self, reservation_id: str) -> bool:
        """The same, when it is known."""
        while (answer := self.may_begin(reservation_id)) is None:
            await self._news.wait()
        return answer

    def tell(self) -> None:
        """Something has changed that a leg may wait for."""
        self._news.set()
        self._news = asyncio.Event()

    async def close(self) -> None:
        """End the connections to other sites."""
        await self._neighbours.close()

    def _ports(self, acceptors: Sequence[Acceptor]) -> Mapping[str, Votes]:
        """The acceptors' calendars; this site's own without a wire."""
        ports: dict[str, Votes] = {}
        for acceptor in acceptors:
            if acceptor.site == self._calendar.site:
                ports[acceptor.site] = self._own_port()
                continue
            ports[acceptor.site] = self._neighbours.way_to(acceptor).calendar
        return ports


class _Legs:
    """The agent's calendar as a participant needs it (``LegBook``)."""

    def __init__(
        self,
        trips: SiteTrips,
        calendar: Calendar,
        clock: Clock,
        record: Record,
        released: Callable[[str, str], Awaitable[None]],
        ready: Callable[[str], bool],
    ) -> None:
        self._ready = ready
        self._trips = trips
        self._calendar = calendar
        self._clock = clock
        self._record = record
        self._released = released

    @property
    def site(self) -> str:
        return self._calendar.site

    def leg(self, reservation_id: str) -> Reservation | None:
        return self._calendar.reservations.get(reservation_id)

    def is_open(self, reservation_id: str) -> bool:
        hold = self.leg(reservation_id)
        return hold is not None and hold.state is ReservationState.HELD

    def undecided_until(self, hold: Reservation) -> Instant:
        return self._calendar.undecided_until(hold)

    def replacement_of(self, reservation_id: str) -> Reservation | None:
        return self._calendar.replacement_of(reservation_id)

    def is_ready(self, reservation_id: str) -> bool:
        return self._ready(reservation_id)

    def runs(self, reservation_id: str) -> bool:
        return bool(self._trips.may_begin(reservation_id))

    async def commit(self, reservation_id: str, manifest: Manifest) -> None:
        _, events = self._calendar.decide_late_commit(reservation_id, self._clock.now())
        await self._record(events, manifest=manifest).durable()

    async def end(self, reservation_id: str, event: ReservationEvent, reason: str = "") -> None:
        leg = self.leg(reservation_id)
        if leg is None or not leg.state.is_live:
            return
        now = self._clock.now()
        events = self._calendar.decide_release(reservation_id, None, now, event=event)
        await self._record(events).durable()
        if event is ReservationEvent.RELEASE:
            await self._released(reservation_id, reason)

    async def durable(self) -> None:
        await self._record([]).durable()

    async def note_runs(self, reservation_id: str) -> None:
        leg = self.leg(reservation_id)
        if leg is not None and leg.request.trip is not None:
            runs = LegRuns(reservation_id=reservation_id, instance=leg.request.trip.instance)
            self._trips.being_written.add(reservation_id)
            await self._record([runs]).durable()
            self._trips.being_written.discard(reservation_id)
            self._trips.tell()
