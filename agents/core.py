"""What everything inside a node agent may see: its state, and the one way to change it.

``record`` is that way: decide (in ``gridcore`` and ``local_sched``), journal, apply, without an
``await`` in between; then the answer waits for the disk. Ports (``calendar_port``, ``site_port``)
and maintenance (``site_maintenance``, ``slots``) work on an ``AgentCore``; what drives time and
puts the parts together is ``node_agent``, which none of them imports.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from gridtravel.agents.cashier import Cashier
from gridtravel.agents.jobs.inputs import InputKeeper
from gridtravel.agents.jobs.runner import JobRunner
from gridtravel.agents.journal.compaction import compacted
from gridtravel.agents.journal.events import (
    CODEC,
    AgentEvent,
    JobOver,
    JobResized,
    JobStarting,
    NumbersGiven,
    SiteEvent,
    TripEvent,
)
from gridtravel.agents.journal.state import SiteState
from gridtravel.agents.notices import NoticeSender
from gridtravel.agents.quote_desk import QuoteDesk
from gridtravel.agents.trips.site_trips import SiteTrips
from gridtravel.gridcore.booking.calendar_events import (
    CalendarEvent,
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import NotAuthorisedError, UnavailableError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridio.journal.compaction import history_of, rewrite
from gridtravel.gridio.journal.contract import JournalFailed
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.sites.neighbours import Neighbours
from gridtravel.gridio.sites.publishing import CalendarPublisher
from gridtravel.gridio.system.alarms import Alarm
from gridtravel.gridio.system.notify import Notice
from gridtravel.local_sched.scheduling.queries import waiting_reason
from gridtravel.local_sched.scheduling.site_scheduler import put_together_again

if TYPE_CHECKING:
    from gridtravel.agents.agent_parts import AgentParts
    from gridtravel.gridcore.ports import CalendarPort
    from gridtravel.gridio.journal.contract import Record, Ticket
    from gridtravel.local_sched.reservations.broken import BrokenReservation
    from gridtravel.local_sched.reservations.standing import StandingReservation

log = logging.getLogger(__name__)


class Maintenance(Protocol):
    """What a site does by itself, beside its queue, as the ports and the loop see it."""

    def standing(self) -> tuple[StandingReservation, ...]:
        """The rules of recurring reservations, of the configuration and by order."""

    def standing_changed(self, now: Instant) -> None:
        """A rule was made or taken back: its instances follow at once."""

    def keep_standing(self, now: Instant) -> None:
        """Before each cycle: make the instances that are missing."""

    def look_after(self, now: Instant) -> None:
        """After each cycle: notices of broken reservations, prologues and epilogues."""

    def broken(self, now: Instant) -> list[BrokenReservation]:
        """The reservations that lack nodes by the plan of the last cycle."""

    def next_due(self) -> Instant | None:
        """When time alone gives something to do."""

    async def close(self) -> None:
        """End what runs."""


class AgentCore:
    """The state of one node agent. All methods belong to its event loop.

    ``own_calendar``: this site's calendar as the site itself is served, for votes that it casts as
    an acceptor of its own trips. ``maintenance``: made here because it works on this core.
    """

    def __init__(
        self,
        parts: AgentParts,
        *,
        own_calendar: Callable[[], CalendarPort],
        maintenance: Callable[[AgentCore], Maintenance],
    ) -> None:
        self.parts = parts
        self.calendar = parts.calendar
        self.scheduler = parts.scheduler
        self.jobs = parts.jobs
        self.clock = parts.clock
        self.state = SiteState()
        self.notice_sender = NoticeSender(parts.notifier)
        self.publisher = CalendarPublisher(self.summary, parts.clock)
        self.job_listeners: dict[Alarm, str] = {}
        """Whoever watches a job, with the job's id."""
        self.background = BackgroundTasks()
        self.neighbours = Neighbours(parts.calendar.site, parts.cards, parts.connect, parts.clock)
        self.trips = SiteTrips(
            parts.calendar,
            parts.clock,
            self.neighbours,
            self.background,
            own_port=own_calendar,
            record=self.record,
            released=lambda leg, reason: self.runner.reservation_ended(leg, reason),
            ready=self.leg_is_ready,
        )
        self.runner = JobRunner(
            calendar=parts.calendar,
            scheduler=parts.scheduler,
            jobs=parts.jobs,
            state=self.state,
            resource_manager=parts.resource_manager,
            work_dirs=parts.work_dirs,
            clock=parts.clock,
            kill_grace_s=parts.kill_grace_s,
            task_limits=parts.task_limits,
            record=self.record,
            wake=lambda: self.alarm.ring(),
            trips=self.trips,
        )
        self.inputs = InputKeeper(
            calendar=parts.calendar,
            scheduler=parts.scheduler,
            jobs=parts.jobs,
            runner=self.runner,
            work_dirs=parts.work_dirs,
            record=self.record,
        )
        self.cashier = Cashier(parts.ledger, parts.calendar.site)
        self.quote_desk = QuoteDesk(parts.calendar.site, parts.quote_signer, parts.quotes_hold_s)
        self.alarm = Alarm(parts.clock)
        """Rung when something has changed that the next tick must look at."""
        self._summary: CalendarSummary | None = None
        self._summarised_at: Instant = 0
        self._epoch = parts.calendar.epoch
        self._clock_set_back = 0
        """How often, since the start."""
        self.maintenance = maintenance(self)

    # -- time --------------------------------------------------------------------------------------

    def follow_clock(self, now: Instant) -> None:
        """Before anything is looked at or decided at ``now``. What is past is forgotten; when the
        clock was ahead and has been set right, what it made us forget is put together again from
        the promises, as at a restart, and whoever has a copy of the calendar gets a new one.
        """
        looked_at = int(self.scheduler.shared.as_of)
        step_s = max(self.calendar.known_from, self._summarised_at, looked_at) - now
        if step_s > 0:
            put_together_again(self.calendar, self.scheduler, now)
            self.runner.measure_soon()
            self._clock_set_back += 1
            self.calendar.epoch = f"{self._epoch}.{self._clock_set_back}"
            self._summary, self._summarised_at = None, now
            self.publisher.changed()
            log.warning("the clock was set back by %d s", step_s)
        self.calendar.advance(now)

    # -- what is known -----------------------------------------------------------------------------

    def beneficiary(self, subject: str) -> Caller:
        """Somebody for whom a manager asks, as this site maps them."""
        login = self.parts.login_of(subject)
        if login is None:
            raise NotAuthorisedError(
                f"{subject} is mapped to no account at {self.calendar.site}",
                hint="ask the site for an entry in its grid-mapfile",
            )
        return Caller(subject=subject, login=login, accounts=self.parts.accounts_of(subject))

    def availability(self, now: Instant, account: str = "") -> Mapping[str, AvailabilityProfile]:
        """Where reservations may go: what the queue leaves, in every class (GUR and Catalina paper,
        section 3, policy 1: only after all currently queued jobs are scheduled). ``account``: may
        be entitled to a shortpool.
        """
        self.follow_clock(now)
        classes, scheduler = self.calendar.classes, self.scheduler
        return {name: scheduler.free_after_queue(name, now, account) for name in classes}

    def view(self, job_id: str) -> JobView:
        """A job as its owner is shown it: what is journaled, and where it stands in the plan."""
        view = self.jobs.views[job_id]
        running = self.scheduler.running.get(job_id)
        if running is not None and running.class_name in self.scheduler.shared:
            return replace(view, shares=self.scheduler.shared.shares_of(running))
        job = self.scheduler.waiting.get(job_id)
        if job is None or view.state is not JobState.QUEUED:
            return view
        reason = self.jobs.lacks(job_id) or waiting_reason(self.scheduler, job).value
        return replace(view, planned_start=job.planned_start, reason=reason)

    def shown(self, entry: Reservation) -> Reservation:
        """An entry of the book as its owner is shown it, with the job that is bound to it."""
        job_id = self.jobs.legs.bound.get(entry.reservation_id)
        return entry if job_id is None else replace(entry, job_id=job_id)

    def leg_is_ready(self, reservation_id: str) -> bool:
        """True when a committed leg could begin as far as this site is concerned: it has no job, or
        its job stands and every input is there. A file that comes from a stage before does not
        count: the job waits for that by itself.
        """
        kept = self.calendar.reservations.get(reservation_id)
        if kept is None or kept.state is not ReservationState.COMMITTED:
            return False
        job_id = self.jobs.legs.bound.get(reservation_id)
        if job_id is None:
            return True
        is_over = self.jobs.views[job_id].state.is_over
        return not is_over and not self.jobs.lacks(job_id)

    def tell_job_owner(self, job_id: str, what: str, text: str) -> None:
        """A notice about a job, to the address its owner gave; logged in any case."""
        view = self.jobs.views[job_id]
        log.info("job %s %s", job_id, what)
        body = f"Job {job_id} ({view.spec.name}) at {self.calendar.site} {what}.\n{text}\n"
        subject = f"[{self.calendar.site}] job {job_id} {what}"
        self.notice_sender.send_soon(Notice(to=view.spec.notify_email, subject=subject, text=body))

    def tell_job_displaced(self, job_id: str) -> None:
        """A waiting job lost its planned start to a reservation of the site."""
        self.tell_job_owner(
            job_id,
            "makes way for a reservation of the site",
            f"Its planned start may be later now; see: catalina why {job_id}",
        )

    # -- promises ----------------------------------------------------------------------------------

    def record(self, events: Sequence[AgentEvent], *, manifest: Manifest = NO_CONTACTS) -> Ticket:
        """Journal and apply; the ticket comes back when the disk has it. An empty list is a
        barrier: what an answer to a repeated request must wait for.

        A hold that is committed by ``events``, however its commit came, leaves its job bound in the
        same write. ``manifest``: what came with the commit.
        """
        now = self.clock.now()
        kept = self.calendar.reservations
        bound = self.jobs.bound_by(events, kept, dict(manifest.contacts), now)
        renewed = {each.job_id for each in bound}
        resized = self.jobs.resized_by(events, kept)
        events = (*events, *bound, *(each for each in resized if each.job_id not in renewed))
        try:
            ticket = self.parts.journal.append([CODEC.encode(event, at=now) for event in events])
        except JournalFailed:
            self.alarm.ring()
            raise
        for event in events:
            self.apply(event)
        for each in bound:
            self.runner.queue(each.job_id)
        if events:
            self.alarm.ring()
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
                | RequestTombstoned()
                | FinishedForgotten()
            ):
                self._apply_to_calendar(event)
            case _ if isinstance(event, TripEvent):
                self.trips.apply(event)
            case NumbersGiven():
                self.calendar.ids_given, self.jobs.ids_given = event.reservations, event.jobs
            case _ if isinstance(event, SiteEvent):
                self.state.apply(event)
            case _:
                if isinstance(event, JobStarting | JobOver):
                    self.state.forget_planned_start(event.job_id)
                self.jobs.apply(event)
                if isinstance(event, JobOver):
                    self.cashier.note_job(self.jobs.views[event.job_id], by_site=event.by_site)
                if isinstance(event, JobResized):
                    self.scheduler.resize_bound(event.job_id, event.nodes, event.limit_s)
                self._tell_watchers(getattr(event, "job_id", ""))

    def _apply_to_calendar(self, event: CalendarEvent) -> None:
        participant = self.trips.participant
        if isinstance(event, ReservationMoved):
            old = self.calendar.get(event.reservation.reservation_id)
            participant.note_moved(old, event.reservation)
            self.cashier.note_price(event.reservation)
        if isinstance(event, ReservationChanged) and event.event is ReservationEvent.WITHDRAW:
            participant.note_withdrawn(self.calendar.get(event.reservation_id))
        if isinstance(event, ReservationChanged):
            self.cashier.note_reservation(self.calendar.get(event.reservation_id), event)
        self.calendar.apply(event)
        if isinstance(event, ReservationChanged):
            self.jobs.apply(event)
            self.trips.tell()
            if event.event is ReservationEvent.COMMIT:
                participant.note_committed(self.calendar.get(event.reservation_id))

    async def settle(self, now: Instant) -> None:
        """Let accounts pay for what is over, once the disk has it."""
        if self.cashier.has_dues:
            dues = self.cashier.take_dues()
            await self.record([]).durable()
            try:
                self.cashier.settle(dues, self.calendar.reservations, now)
            except UnavailableError as fault:
                log.error("accounts are settled later: %s", fault)
                self.cashier.put_back(dues)

    def replay(self) -> int:
        """Read the journal into the empty agent; returns the number of events. Before ``run``."""
        count = 0
        for event in self._history():
            self.apply(event)
            count += 1
        self.trips.after_replay()
        self.cashier.begin(
            self.calendar.reservations,
            [view.job_id for view in self.jobs.active()],
            self.clock.now(),
        )
        self.calendar.validate()
        self.jobs.validate()
        return count

    async def compact(self) -> bool:
        """Rewrite the journal without what is forgotten. False: others kept writing; try again."""
        now = self.clock.now()

        def remembered() -> Iterator[Record]:
            kept = chain(
                compacted(self._history(), self.calendar, self.jobs, self.trips.is_remembered),
                self.state.history(self.calendar.reservations, now),
            )
            return (CODEC.encode(event, at=now) for event in kept)

        return await rewrite(self.parts.journal, lambda: self.record([]), remembered, now)

    def _history(self) -> Iterator[AgentEvent]:
        return (CODEC.decode(each) for each in history_of(self.parts.journal))

    def summary(self) -> CalendarSummary:
        """What the calendar looks like from outside, at the resolution the site publishes.

        Within one epoch its time never goes back: whoever holds a copy would take the newer summary
        for an older one.
        """
        now = self.clock.now()
        if now < self._summarised_at:
            self.follow_clock(now)
        self._summarised_at = now
        if self._summary is None or self._summary.as_of < now:
            self._summary = summarise(
                self.calendar, self.parts.ladder, now, horizon_s=self.parts.published_horizon_s
            )
        return self._summary

    def availability_grew(self) -> None:
        """Slots were split: more is free than the last summary shows."""
        self._summary = None
        self.publisher.changed()

    # -- inside ------------------------------------------------------------------------------------

    def _tell_watchers(self, job_id: str) -> None:
        for alarm, watched in self.job_listeners.items():
            if watched == job_id:
                alarm.ring()
