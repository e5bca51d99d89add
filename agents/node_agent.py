"""The autonomous node agent: it owns one calendar and one queue, and it may say no.

Everything the agent promises goes through ``record``: decide (in ``gridcore`` and ``local_sched``),
journal, apply, without an ``await`` in between; then the answer waits for the disk. ``run`` drives
time: it lets holds expire, completes reservations, calls the scheduler's cycle and carries its
decisions out.

Not here: the verbs (``calendar_desk``, ``site_desk``), the files (``areas``), processes and sockets
(``daemon``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Final

from agents.agent_events import (
    AGENT_EVENTS,
    AcceptorChanged,
    AcceptorsForgotten,
    AgentEvent,
    JobOver,
    JobResized,
    JobStarting,
    NumbersGiven,
)
from agents.calendar_desk import CalendarDesk
from agents.changed_legs import jobs_follow
from agents.compaction import compacted
from agents.job_runner import JobRunner
from agents.notice_post import NoticePost
from agents.racing import Racing
from agents.receiving import Receiving
from agents.site_desk import SiteDesk
from agents.site_events import SiteEvent
from agents.site_state import SiteState
from agents.site_upkeep import SiteUpkeep
from agents.slot_upkeep import SlotUpkeep
from agents.trip_keeper import TripKeeper
from gridcore.calendar_events import (
    FinishedForgotten,
    RequestBuried,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridcore.callers import Caller, Role
from gridcore.errors import GridError, NotAuthorisedError
from gridcore.instants import Instant
from gridcore.jobs import JobState, JobView
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import ReservationEvent
from gridcore.summaries import CalendarSummary
from gridcore.summarising import summarise
from gridio.alarms import Alarm
from gridio.history import COMPACT_ABOVE, history_of, rewrite
from gridio.journal import JournalFailed
from gridio.notify import Notice
from gridio.publishing import CalendarPublisher
from gridio.records import EventCodec
from local_sched.queries import waiting_reason
from local_sched.resizing import resize_bound

if TYPE_CHECKING:
    from agents.agent_parts import AgentParts
    from gridio.journal import Record, Ticket

log = logging.getLogger(__name__)

CODEC: Final = EventCodec(AGENT_EVENTS)
_COMMIT: Final = ReservationEvent.COMMIT
BREATH_S: Final = 0.02
"""Changes within this time are looked at together; what is due at an instant is not delayed."""
IDLE_WAKE_S: Final = 60
"""Time looks after itself at least this often, so that a clock that was set is noticed."""


class NodeAgent:
    """One node's owner. All methods belong to its event loop."""

    def __init__(self, parts: AgentParts) -> None:
        self.parts = parts
        self.calendar = parts.calendar
        self.scheduler = parts.scheduler
        self.jobs = parts.jobs
        self.clock = parts.clock
        self.state = SiteState()
        self.post = NoticePost(parts.notifier)
        self.publisher = CalendarPublisher(self.summary, parts.clock)
        self.job_listeners: dict[Alarm, str] = {}
        """Whoever watches a job, with the job's id."""
        self.runner = JobRunner(
            calendar=parts.calendar,
            scheduler=parts.scheduler,
            jobs=parts.jobs,
            state=self.state,
            resource_manager=parts.resource_manager,
            areas=parts.areas,
            clock=parts.clock,
            kill_grace_s=parts.kill_grace_s,
            record=self.record,
            claim=lambda race, is_wanted: self.racing.claim(race, is_wanted),
        )
        site = parts.calendar.site
        itself = Caller(subject=f"site:{site}", role=Role.SITE, site=site)
        self.trips = TripKeeper(
            parts.calendar,
            parts.clock,
            parts.connect,
            lambda: CalendarDesk(self, itself),
            self.record,
        )
        self.racing = Racing(self.trips, parts.clock)
        self.receiving = Receiving(self, itself)
        self.upkeep = SiteUpkeep(self)
        self.slots = SlotUpkeep(self)
        self._alarm = Alarm(parts.clock)
        self._chores: asyncio.TaskGroup | None = None
        """While the agent runs: where work goes that nothing waits for."""
        self._summary: CalendarSummary | None = None
        self._summarised_at: Instant = 0

    # -- who comes -------------------------------------------------------------------------------

    def calendar_port(self, caller: Caller) -> CalendarDesk:
        """See ``gridcore.ports.SiteServices``."""
        return CalendarDesk(self, caller)

    def site_port(self, caller: Caller) -> SiteDesk:
        """See ``gridcore.ports.SiteServices``."""
        return SiteDesk(self, caller)

    def beneficiary(self, subject: str) -> Caller:
        """Somebody for whom a manager asks, as this site maps them."""
        login = self.parts.login_of(subject)
        if login is None:
            raise NotAuthorisedError(
                f"{subject} is mapped to no account at {self.calendar.site}",
                hint="ask the site for an entry in its grid-mapfile",
            )
        return Caller(subject=subject, login=login, accounts=self.parts.accounts_of(subject))

    # -- what is known -----------------------------------------------------------------------------

    def room(self, now: Instant, account: str = "") -> Mapping[str, AvailabilityProfile]:
        """Where reservations may go: what the queue leaves, in every class (GUR and Catalina paper,
        section 3, policy 1: only after all currently queued jobs are scheduled). ``account``: may
        be entitled to a shortpool.
        """
        self.calendar.advance(now)
        classes, scheduler = self.calendar.classes, self.scheduler
        return {name: scheduler.free_after_queue(name, now, account) for name in classes}

    def view(self, job_id: str) -> JobView:
        """A job as its owner is shown it: what is journaled, and where it stands in the plan."""
        view = self.jobs.views[job_id]
        job = self.scheduler.waiting.get(job_id)
        if job is None or view.state is not JobState.QUEUED:
            return view
        reason = waiting_reason(self.scheduler, job)
        return replace(view, planned_start=job.planned_start, reason=reason.value)

    def tell_job_owner(self, job_id: str, what: str, text: str) -> None:
        """A notice about a job, to the address its owner gave; logged in any case."""
        view = self.jobs.views[job_id]
        log.info("job %s %s", job_id, what)
        body = f"Job {job_id} ({view.spec.name}) at {self.calendar.site} {what}.\n{text}\n"
        subject = f"[{self.calendar.site}] job {job_id} {what}"
        self.post.send_soon(Notice(to=view.spec.notify_email, subject=subject, text=body))

    def tell_job_displaced(self, job_id: str) -> None:
        """A waiting job lost its place to a reservation of the site."""
        self.tell_job_owner(
            job_id,
            "makes way for a reservation of the site",
            f"Its planned start may be later now; see: catalina why {job_id}",
        )

    # -- promises ----------------------------------------------------------------------------------

    def record(self, events: Sequence[AgentEvent]) -> Ticket:
        """Journal and apply; the ticket comes back when the disk has it. An empty list is a
        barrier: what an answer to a repeated request must wait for.
        """
        now = self.clock.now()
        events = (*events, *jobs_follow(events, self.calendar.reservations, self.jobs))
        try:
            ticket = self.parts.journal.append([CODEC.encode(event, at=now) for event in events])
        except JournalFailed:
            self._alarm.ring()
            raise
        for event in events:
            self.apply(event)
        if events:
            self._alarm.ring()
            self._summary = None
            self.publisher.changed()
        return ticket

    def apply(self, event: AgentEvent) -> None:
        """Carry out one journaled event."""
        match event:
            case (
                ReservationGranted()
                | ReservationMoved()
                | ReservationChanged()
                | RequestBuried()
                | FinishedForgotten()
            ):
                if isinstance(event, ReservationMoved):
                    old = self.calendar.get(event.reservation.reservation_id)
                    self.trips.note_moved(old, event.reservation)
                self.calendar.apply(event)
                if isinstance(event, ReservationChanged) and event.event is _COMMIT:
                    self.trips.note_committed(self.calendar.get(event.reservation_id))
            case AcceptorChanged() | AcceptorsForgotten():
                self.trips.apply(event)
            case NumbersGiven():
                self.calendar.ids_given, self.jobs.ids_given = event.reservations, event.jobs
            case _ if isinstance(event, SiteEvent):
                self.state.apply(event)
            case _:
                if isinstance(event, JobStarting | JobOver):
                    self.state.forget_place(event.job_id)
                self.jobs.apply(event)
                if isinstance(event, JobResized):
                    resize_bound(self.scheduler, event.job_id, event.nodes, event.limit_s)
                self._tell_watchers(getattr(event, "job_id", ""))

    def replay(self) -> int:
        """Read the journal into the empty agent; returns the number of events. Before ``run``."""
        count = 0
        for event in self._history():
            self.apply(event)
            count += 1
        self.calendar.validate()
        self.jobs.validate()
        return count

    async def compact(self) -> bool:
        """Rewrite the journal without what is forgotten. False: others kept writing; try again."""
        now = self.clock.now()

        def remembered() -> Iterator[Record]:
            kept = chain(
                compacted(self._history(), self.calendar, self.jobs, self.trips.states),
                self.state.history(self.calendar.reservations, now),
            )
            return (CODEC.encode(event, at=now) for event in kept)

        return await rewrite(self.parts.journal, lambda: self.record([]), remembered, now)

    def _history(self) -> Iterator[AgentEvent]:
        return (CODEC.decode(each) for each in history_of(self.parts.journal))

    def summary(self) -> CalendarSummary:
        """What the calendar looks like from outside, at the resolution the site publishes.

        Within one run its time never goes back, also when the clock is set back: whoever holds a
        copy would take the newer summary for an older one.
        """
        now = self._summarised_at = max(self.clock.now(), self._summarised_at)
        if self._summary is None or self._summary.as_of < now:
            self._summary = summarise(
                self.calendar, self.parts.ladder, now, horizon_s=self.parts.published_horizon_s
            )
        return self._summary

    # -- time --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Drive time until cancelled. ``JournalFailed`` ends it: what is applied may be ahead of
        the disk, so the daemon must start again.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self.trips.open(group)
                self.receiving.open(group)
                self._chores = group
                while True:
                    looked_at = self.clock.now_precise()
                    wake_at = await self.tick()
                    await self._alarm.wait(wake_at)
                    await self.clock.sleep_until(min(looked_at + BREATH_S, wake_at))
        except* GridError as faults:
            raise faults.exceptions[0] from None
        finally:
            self._alarm.close()
            await self.trips.close()
            await self.upkeep.close()
            await self.post.close()

    async def tick(self) -> float:
        """Everything that is due now; returns when to look again. ``JournalFailed`` when the disk
        has refused a write: memory is ahead of it, so nothing here may be believed any more.
        """
        now = self.clock.now()
        self.record([])
        self.calendar.advance(now)
        self._end_holds(now)
        self.trips.check_soon(now)
        self.trips.call_off_soon(now)
        self.receiving.look()
        self.upkeep.keep_standing(now)
        swept = (*self.calendar.decide_sweep(now), *self.trips.decide_sweep(now))
        if swept:
            self.record(swept)
        if self._chores and any(isinstance(each, FinishedForgotten) for each in swept):
            self._chores.create_task(self._clean_areas(now), name="areas")
        if self.parts.journal.replay_count > COMPACT_ABOVE:
            await self.compact()
        if self.slots.look(now):
            self._summary = None
        result = self.scheduler.cycle(now)
        self._note_places()
        self.slots.move_up(now)
        self.upkeep.look_after(now)
        await self.runner.settle_reservations()
        await self.runner.start(result.starts, now)
        for job in result.stops:
            await self.runner.stop(job.job_id, "its time is over")
        next_expiry = self.calendar.next_expiry(passing_over=self.trips.in_doubt)
        moments = (
            result.next_wakeup,
            next_expiry,
            self.calendar.next_end(),
            self.trips.next_check(),
            self.upkeep.next_due(),
            self.slots.next_due(),
        )
        return float(min([each for each in moments if each is not None] + [now + IDLE_WAKE_S]))

    def _note_places(self) -> None:
        """Journal where waiting jobs stand, so that a restart makes no place later. Where places
        are dealt anew they are forecasts, and nothing is kept.
        """
        rule = self.scheduler.config.backfill
        if rule.depth is None and rule.keeps_places:
            places = self.state.new_places(self.scheduler.waiting.values())
            if places is not None:
                self.record([places])

    def _end_holds(self, now: Instant) -> None:
        """Holds whose lifetime is over expire; those that others decide about ask first."""
        for hold in self.calendar.due_holds(now):
            if self.trips.must_ask(hold):
                self.trips.settle_soon(hold)
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
        await self.parts.areas.clean(keep, before=now - self.calendar.rules.tombstone_s)

    def _tell_watchers(self, job_id: str) -> None:
        for alarm, watched in self.job_listeners.items():
            if watched == job_id:
                alarm.ring()
