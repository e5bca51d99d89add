"""A calendar manager: to its parent, and to a travel agent, what an agent is to it.

It owns no nodes. It keeps shadows of its children, asks the owners before it promises anything, and
takes groups of them through hold and commit. ``CalendarManager`` drives time; what is promised, and
how it is recorded, is in ``core``.

Not here: the verbs for one caller (``port``), processes and sockets (``daemon``).
"""

from __future__ import annotations

import asyncio
from typing import Final

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.journal.compaction import COMPACT_ABOVE
from gridtravel.manager.core import ManagerCore, ManagerParts
from gridtravel.manager.port import ManagerEndpoint
from gridtravel.manager.two_phase.earlier_starts import EarlierStarts

IDLE_WAKE_S: Final = 60
"""Time looks after itself at least this often, so that a clock that was set is noticed."""


class CalendarManager(ManagerCore):
    """One manager. All methods belong to its event loop."""

    def __init__(self, parts: ManagerParts) -> None:
        super().__init__(parts)
        self.earlier_starts = EarlierStarts(
            self.book, self.keeper, self.inquirer, parts.clock, self.coordinator.amend
        )

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """The manager's calendar as ``caller`` may use it."""
        return ManagerEndpoint(self, caller)

    async def run(self) -> None:
        """Drive the manager until cancelled: first what a restart left undone, then time.

        ``JournalFailed`` ends it, within an exception group: what is applied may be ahead of the
        disk, so the daemon must start again.
        """
        try:
            async with self.background.open(), asyncio.TaskGroup() as upkeep:
                self.coordinator.resume()
                upkeep.create_task(self.keeper.run(), name="shadows")
                upkeep.create_task(self._pass_time(), name="time")
        finally:
            self.alarm.close()
            await self.neighbours.close()

    async def _pass_time(self) -> None:
        compact_above = COMPACT_ABOVE
        while True:
            self.coordinator.sweep()
            self._look_at_trips()
            if self.parts.journal.replay_count > compact_above:
                compact_above = COMPACT_ABOVE if await self.compact() else 2 * compact_above
            now = self.clock.now()
            moments = (
                self.book.next_moment(now),
                self.trips.next_due(),
                self.earlier_starts.pass_time(self._move_up),
            )
            due = [each for each in moments if each is not None]
            await self.alarm.wait(float(min([*due, now + IDLE_WAKE_S])))

    def _look_at_trips(self) -> None:
        now = self.clock.now()
        for group in self.book.in_doubt(now):
            self.trips.settle_soon(group.reservation)
        self.trips.look(now)

    def _move_up(self) -> None:
        self.background.start("move up", self.earlier_starts.look)
