"""What everything inside a manager may see: its state, and the one way to change it.

``record`` is that way: decide (in ``book.decisions``), journal, apply, without an ``await`` in
between; then the answer waits for the disk. The verbs for one caller (``port``) work on a
``ManagerCore``; what drives time is ``calendar_manager``, which they do not import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gridtravel.gridcore.booking.reservations import Acceptor, ReservationEvent
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.journal.compaction import history_of, rewrite
from gridtravel.gridio.journal.contract import Journal, Record, Ticket
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.sites.neighbours import Connect, Neighbours
from gridtravel.gridio.sites.publishing import CalendarPublisher
from gridtravel.gridio.sites.trip_keeping import Proposers
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.gridio.system.alarms import Alarm
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.trust.cards import CardVerifier
from gridtravel.manager.book.compaction import compacted
from gridtravel.manager.book.decisions import CompositeCalendar, ManagerRules
from gridtravel.manager.book.events import (
    MANAGER_EVENTS,
    GroupCommitted,
    GroupEnded,
    ManagerEvent,
    TripVoteKept,
    TripVotesForgotten,
)
from gridtravel.manager.search.escalation import Escalator
from gridtravel.manager.search.inquiry import Inquirer
from gridtravel.manager.shadows.children import Child
from gridtravel.manager.shadows.keeper import KeeperRules, ShadowKeeper
from gridtravel.manager.shadows.own_summary import OwnSummary
from gridtravel.manager.two_phase.coordinator import Coordinator, CoordinatorParts
from gridtravel.manager.two_phase.legs import GroupLegs

CODEC: Final = EventCodec(MANAGER_EVENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerParts:
    """What a manager is made of; ``daemon`` and the simulator choose."""

    name: str
    children: Sequence[Child]
    journal: Journal
    clock: Clock
    ids: IdSource
    rules: ManagerRules
    ladder: SlotLadder
    published_horizon_s: int
    subject_of: Callable[[Caller], str]
    """On whose behalf the children are asked for a caller; ``NotAuthorisedError`` for somebody whom
    they could not know.
    """
    connect: Connect
    """The way to other sites, for the outcome of trips."""
    cards: CardVerifier
    """Tells where other sites say that they are."""
    keeper_rules: KeeperRules = field(default_factory=KeeperRules)
    shadow_age_max_s: int = 300
    """A shadow older than this is not told to the parent any more."""
    time_zone: str = "UTC"
    parent: Child | None = None
    """Whom to ask for what the children cannot give; ``None``: nobody."""
    patience_s: int = 3600
    """How much later than it could a request may start before the parent is asked as well."""


class ManagerCore:
    """The state of one manager. All methods belong to its event loop."""

    def __init__(self, parts: ManagerParts) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.book = CompositeCalendar(parts.name, parts.rules)
        self.background = BackgroundTasks()
        self.keeper = ShadowKeeper(
            parts.name,
            parts.children,
            parts.clock,
            rules=parts.keeper_rules,
            on_change=lambda: self.publisher.changed(),
            parent=parts.parent,
        )
        self.own_summary = OwnSummary(
            self.keeper,
            parts.ladder,
            parts.clock,
            parts.ids,
            horizon_s=parts.published_horizon_s,
            shadow_age_max_s=parts.shadow_age_max_s,
        )
        self.publisher = CalendarPublisher(self.own_summary.current, parts.clock)
        self.inquirer = Inquirer(self.keeper, parts.clock, parts.rules)
        self.escalator = (
            None if parts.parent is None else Escalator(self.keeper, parts.parent, parts.patience_s)
        )
        self.coordinator = Coordinator(
            CoordinatorParts(
                book=self.book,
                keeper=self.keeper,
                inquirer=self.inquirer,
                escalator=self.escalator,
                clock=parts.clock,
                ids=parts.ids,
                background=self.background,
                record=self.record,
            )
        )
        self.trips = TripParticipant(
            GroupLegs(
                self.book,
                parts.clock,
                record=self.record,
                carry_on=self.coordinator.carry_on,
            ),
            parts.clock,
            self.background,
            ports=lambda acceptors: {each.site: self._calendar_of(each) for each in acceptors},
            proposers=Proposers(parts.name, parts.ids.new_id("run")),
            doubt_max_s=parts.rules.calendar.doubt_max_s,
        )
        self.neighbours = Neighbours(parts.name, parts.cards, parts.connect, parts.clock)
        """Acceptors of trips that are not among the children."""
        self.alarm = Alarm(parts.clock)
        """Rung when something has changed that time must look at."""

    def record(self, events: Sequence[ManagerEvent], sync: bool) -> Ticket:
        """Journal and apply; the ticket comes back when the disk has it. An empty list is a
        barrier: what an answer to a repeated request must wait for.
        """
        now = self.clock.now()
        records = [CODEC.encode(event, at=now) for event in events]
        ticket = self.parts.journal.append(records, sync=sync)
        for event in events:
            self.apply(event)
        if events:
            self.alarm.ring()
        return ticket

    def apply(self, event: ManagerEvent) -> None:
        """Carry out one journaled event."""
        match event:
            case TripVoteKept() | TripVotesForgotten():
                pass  # of an earlier release; a manager keeps no outcome any more
            case _:
                self.book.apply(event)
        match event:
            case GroupCommitted() if event.group_id in self.book.groups:
                self.trips.note_committed(self.book.groups[event.group_id].reservation)
            case GroupEnded(event=ReservationEvent.WITHDRAW):
                self.trips.note_withdrawn(self.book.groups[event.group_id].reservation)
            case _:
                pass

    def replay(self) -> int:
        """Read the journal into the empty manager, before ``run``; how many records."""
        count = 0
        for event in self._history():
            self.apply(event)
            count += 1
        self.book.validate()
        return count

    async def compact(self) -> bool:
        """Rewrite the journal without what is forgotten. False: others kept writing; try again."""
        now = self.clock.now()

        def remembered() -> Iterator[Record]:
            kept = compacted(self._history, self.book)
            return (CODEC.encode(event, at=now) for event in kept)

        journal = self.parts.journal
        return await rewrite(journal, lambda: self.record((), True), remembered, now)

    def _history(self) -> Iterator[ManagerEvent]:
        return (CODEC.decode(each) for each in history_of(self.parts.journal))

    def _calendar_of(self, acceptor: Acceptor) -> CalendarPort:
        """A child by the way that the manager's own file names, any other site under its card."""
        child = self.keeper.neighbour(acceptor.site)
        return child.calendar if child is not None else self.neighbours.way_to(acceptor).calendar
