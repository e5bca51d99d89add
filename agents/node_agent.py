"""The autonomous node agent: it owns one calendar and one queue, and it may say no.

``NodeAgent`` puts the parts together and drives time: it lets holds expire, completes reservations,
calls the scheduler's cycle and carries its decisions out. What is promised, and how it is recorded,
is in ``core``.

Not here: the verbs (``ports.calendar_port``, ``ports.site_port``), the files (``work_dirs``),
processes and sockets (``daemon``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from gridtravel.agents.core import AgentCore
from gridtravel.agents.maintenance.site_maintenance import SiteMaintenance
from gridtravel.agents.maintenance.slots import SlotMaintenance
from gridtravel.agents.ports.calendar_port import CalendarEndpoint
from gridtravel.agents.ports.site_port import SiteEndpoint
from gridtravel.agents.trips.handover import HandoverReceiver
from gridtravel.gridcore.booking.calendar_events import FinishedForgotten
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.journal.compaction import COMPACT_ABOVE

if TYPE_CHECKING:
    from gridtravel.agents.agent_parts import AgentParts

BREATH_S: Final = 0.02
"""Changes within this time are looked at together; what is due at an instant is not delayed."""
IDLE_WAKE_S: Final = 60
"""Time looks after itself at least this often, so that a clock that was set is noticed."""


class NodeAgent(AgentCore):
    """One node's owner. All methods belong to its event loop."""

    def __init__(self, parts: AgentParts) -> None:
        site = parts.calendar.site
        itself = Caller(subject=f"site:{site}", role=Role.SITE, site=site)
        super().__init__(
            parts, own_calendar=lambda: CalendarEndpoint(self, itself), maintenance=SiteMaintenance
        )
        self.handover_receiver = HandoverReceiver(
            calendar=self.calendar,
            scheduler=self.scheduler,
            jobs=self.jobs,
            runner=self.runner,
            clock=self.clock,
            neighbours=self.neighbours,
            record=self.record,
            own=self,
            itself=itself,
        )
        self.slots = SlotMaintenance(self)
        self._chores: asyncio.TaskGroup | None = None
        """While the agent runs: where work goes that nothing waits for."""

    # -- who comes -------------------------------------------------------------------------------

    def calendar_port(self, caller: Caller) -> CalendarEndpoint:
        """See ``gridcore.ports.SiteServices``."""
        return CalendarEndpoint(self, caller)

    def site_port(self, caller: Caller) -> SiteEndpoint:
        """See ``gridcore.ports.SiteServices``."""
        return SiteEndpoint(self, caller)

    # -- time --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive time until cancelled. ``JournalFailed`` ends it: what is applied may be ahead of
        the disk, so the daemon must start again.
        """
        try:
            async with self.background.open(), asyncio.TaskGroup() as group:
                self.handover_receiver.open(group)
                self.inputs.open(group)
                self._chores = group
                while True:
                    looked_at = self.clock.now_precise()
                    wake_at = await self.tick()
                    await self.alarm.wait(wake_at)
                    breath_until = min(looked_at, self.clock.now_precise()) + BREATH_S
                    await self.clock.sleep_until(min(breath_until, wake_at))
        except* GridError as faults:
            raise faults.exceptions[0] from None
        finally:
            self.alarm.close()
            await self.trips.close()
            await self.maintenance.close()
            await self.notice_sender.close()

    async def tick(self) -> float:
        """Everything that is due now; returns when to look again. ``JournalFailed`` when the disk
        has refused a write: memory is ahead of it, so nothing here may be believed any more.
        """
        self.record([])
        if self.runner.next_measure <= self.clock.now_precise():
            await self.runner.measure()
        now = self.clock.now()
        self.follow_clock(now)
        self._end_holds(now)
        self.trips.participant.look(now)
        self.handover_receiver.look()
        self.inputs.look()
        self.maintenance.keep_standing(now)
        swept = (*self.calendar.decide_sweep(now), *self.trips.decide_sweep(now))
        if swept:
            self.record(swept)
        await self.settle(now)
        if self._chores and any(isinstance(each, FinishedForgotten) for each in swept):
            self._chores.create_task(self._clean_areas(now), name="areas")
        if self.parts.journal.replay_count > COMPACT_ABOVE:
            await self.compact()
        if self.slots.look(now):
            self.availability_grew()
        result = self.scheduler.cycle(now, self.clock.now_precise())
        self._note_planned_starts()
        self.slots.move_up(now)
        self.maintenance.look_after(now)
        await self.runner.settle_reservations()
        await self.inputs.give_up(now)
        await self.runner.set_shares(result.shares)
        await self.runner.start(result.starts, now)
        for job, why in result.given_up:
            await self.runner.over(job.job_id, JobState.CANCELLED, None, why)
        for job in result.stops:
            await self.runner.stop(job.job_id, "its time is over")
        next_expiry = self.calendar.next_expiry(passing_over=self.trips.participant.in_doubt)
        moments = (
            result.next_wakeup,
            next_expiry,
            self.calendar.next_end(),
            self.trips.participant.next_due(),
            self.maintenance.next_due(),
            self.inputs.next_due(),
            self.slots.next_due(),
        )
        exact = (result.next_share_change, self.runner.next_measure, float(now + IDLE_WAKE_S))
        return float(min([*exact, *(each for each in moments if each is not None)]))

    def _note_planned_starts(self) -> None:
        """Journal where waiting jobs stand, so that a restart makes no start later. Where all is
        planned anew they are forecasts, and nothing is kept.
        """
        config, pools = self.scheduler.config, self.scheduler.pools
        kept = {name for name in pools if config.rule_of(name).promises_starts}
        if kept:
            waiting = self.scheduler.waiting.values()
            told = self.state.new_planned_starts(
                waiting if len(kept) == len(pools) else [j for j in waiting if j.class_name in kept]
            )
            if told is not None:
                self.record([told])

    def _end_holds(self, now: Instant) -> None:
        """Holds whose lifetime is over expire; those that others decide about ask first."""
        for hold in self.calendar.due_holds(now):
            if self.trips.participant.must_ask(hold):
                self.trips.participant.settle_soon(hold)
                continue
            self.record(
                self.calendar.decide_release(
                    hold.reservation_id, None, now, event=ReservationEvent.EXPIRE
                )
            )

    # -- inside ------------------------------------------------------------------------------------

    async def _clean_areas(self, now: Instant) -> None:
        """Remove the files of reservations and jobs that are forgotten, beside everything else."""
        keep = {*self.calendar.reservations, *self.jobs.views}
        keep.update(view.spec.reservation_id for view in self.jobs.views.values())
        await self.parts.work_dirs.clean(keep, before=now - self.calendar.rules.tombstone_s)
