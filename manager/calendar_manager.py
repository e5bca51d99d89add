"""A calendar manager: to its parent, and to a travel agent, what an agent is to it.

It owns no nodes. It keeps shadows of its children, asks the owners before it promises anything, and
takes groups of them through hold and commit. Everything it promises goes through ``record``: decide
(in ``composite_calendar``), journal, apply, without an ``await`` in between; then the answer waits
for the disk.

Not here: the verbs for one caller (``manager_desk``), processes and sockets (``daemon``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gridcore.callers import Caller, Role
from gridcore.ladders import SlotLadder
from gridcore.ports import CalendarPort
from gridio.alarms import Alarm
from gridio.clock import Clock
from gridio.connections import SiteConnection
from gridio.history import COMPACT_ABOVE, history_of, rewrite
from gridio.ids import IdSource
from gridio.journal import Journal, Record, Ticket
from gridio.publishing import CalendarPublisher
from gridio.records import EventCodec
from manager.asking import Inquirer
from manager.children import Child
from manager.compaction import compacted
from manager.composite_calendar import CompositeCalendar, ManagerRules
from manager.coordinator import Coordinator, CoordinatorParts
from manager.errands import Errands
from manager.escalating import Escalator
from manager.manager_desk import ManagerDesk
from manager.manager_events import (
    MANAGER_EVENTS,
    ManagerEvent,
    TripVoteKept,
    TripVotesForgotten,
)
from manager.moving_up import MovingUp
from manager.own_summary import OwnSummary
from manager.shadows import KeeperRules, ShadowKeeper
from manager.trip_part import TripPart, TripParts

log = logging.getLogger(__name__)

CODEC: Final = EventCodec(MANAGER_EVENTS)
OWN: Final = Caller(subject="the manager itself", role=Role.ADMIN, login="manager")
"""As whom a manager asks itself."""
IDLE_WAKE_S: Final = 60
"""Time looks after itself at least this often, so that a clock that was set is noticed."""


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
    connect: Callable[[str, str], SiteConnection]
    """The way to other sites, for the outcome of trips, by name and endpoint."""
    keeper_rules: KeeperRules = field(default_factory=KeeperRules)
    shadow_age_max_s: int = 300
    """A shadow older than this is not told to the parent any more."""
    time_zone: str = "UTC"
    parent: Child | None = None
    """Whom to ask for what the children cannot give; ``None``: nobody."""
    patience_s: int = 3600
    """How much later than it could a request may start before the parent is asked as well."""


class CalendarManager:
    """One manager. All methods belong to its event loop."""

    def __init__(self, parts: ManagerParts) -> None:
        self.parts = parts
        self.clock = parts.clock
        self.book = CompositeCalendar(parts.name, parts.rules)
        self.errands = Errands()
        self.keeper = ShadowKeeper(
            parts.name,
            parts.children,
            parts.clock,
            rules=parts.keeper_rules,
            on_change=self._shadow_changed,
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
                errands=self.errands,
                record=self.record,
            )
        )
        self.trips = TripPart(
            TripParts(
                book=self.book,
                clock=parts.clock,
                errands=self.errands,
                record=self.record,
                connect=self._other_site,
                own_port=lambda: ManagerDesk(self, OWN),
                carry_on=self.coordinator.carry_on,
                proposer=f"{parts.name}:{parts.ids.new_id('run')}",
            )
        )
        self.moving_up = MovingUp(
            self.book, self.keeper, self.inquirer, parts.clock, self.coordinator.amend
        )
        self._others: dict[tuple[str, str], SiteConnection] = {}
        """Connections to acceptors of trips, by name and endpoint."""
        self._alarm = Alarm(parts.clock)

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The manager's calendar as ``caller`` may use it."""
        return ManagerDesk(self, caller)

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
            self._alarm.ring()
        return ticket

    def apply(self, event: ManagerEvent) -> None:
        """Carry out one journaled event."""
        match event:
            case TripVoteKept() | TripVotesForgotten():
                self.trips.apply(event)
            case _:
                self.book.apply(event)

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
            kept = compacted(self._history, self.book, self.trips.states)
            return (CODEC.encode(event, at=now) for event in kept)

        journal = self.parts.journal
        return await rewrite(journal, lambda: self.record((), True), remembered, now)

    def _history(self) -> Iterator[ManagerEvent]:
        return (CODEC.decode(each) for each in history_of(self.parts.journal))

    async def run(self) -> None:
        """Drive the manager until cancelled: first what a restart left undone, then time.

        ``JournalFailed`` ends it, within an exception group: what is applied may be ahead of the
        disk, so the daemon must start again.
        """
        try:
            async with self.errands.open(), asyncio.TaskGroup() as upkeep:
                self.coordinator.resume()
                upkeep.create_task(self.keeper.run(), name="shadows")
                upkeep.create_task(self._pass_time(), name="time")
        finally:
            self._alarm.close()
            await asyncio.gather(*(each.close() for each in self._others.values()))
            self._others.clear()

    async def _pass_time(self) -> None:
        compact_above = COMPACT_ABOVE
        while True:
            self.coordinator.sweep()
            self.trips.sweep()
            if self.parts.journal.replay_count > compact_above:
                compact_above = COMPACT_ABOVE if await self.compact() else 2 * compact_above
            now = self.clock.now()
            moments = (
                self.book.next_moment(now),
                self.trips.next_moment(now),
                self.moving_up.pass_time(self._move_up),
            )
            due = [each for each in moments if each is not None]
            await self._alarm.wait(float(min([*due, now + IDLE_WAKE_S])))

    def _other_site(self, name: str, endpoint: str) -> CalendarPort:
        neighbour = self.keeper.neighbour(name)
        if neighbour is not None:
            return neighbour.calendar
        key = (name, endpoint)
        if key not in self._others:
            self._others[key] = self.parts.connect(name, endpoint)
        return self._others[key].calendar

    def _move_up(self) -> None:
        self.errands.start("move up", self.moving_up.look)

    def _shadow_changed(self) -> None:
        self.publisher.changed()
