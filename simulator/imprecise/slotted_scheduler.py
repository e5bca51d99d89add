"""First fit and backfill on an imprecise calendar: the scheduler of the calendar paper, section
2.3.

Every job gets slots when it comes, first come first served. When slots are split and when a job
ends before its time, those that wait move earlier in turn, none later. On the ladder ``EXACT`` this
is conservative backfilling, start by start that of ``backfill``.

It believes limits: a job is over, and said to be, ``limit_s`` after its start at the latest;
whoever launches jobs enforces that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gridtravel.gridcore.capacity.slot_grid import NEVER
from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.jobs.job import JobState

if TYPE_CHECKING:
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.local_sched.scheduling.jobs import Job
    from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar


class SlottedCycle(NamedTuple):
    """What follows from one look at the calendar."""

    starts: list[Job]
    """Jobs to start now."""
    next_wakeup: Instant | None
    """When to be called again, if nothing else happens before; ``None``: nobody waits."""


class SlottedScheduler:
    """One cluster's jobs on its calendar. ``limit_s`` of a job is told for nodes of speed 1000."""

    def __init__(self, calendar: ImpreciseCalendar) -> None:
        self.calendar = calendar
        self.arrivals: list[Job] = []
        """Submitted since the last cycle; they have no place yet."""
        self.waiting: dict[str, Job] = {}
        """With a place, in order of arrival, which is the order of backfill."""
        self.running: dict[str, Job] = {}
        self._next_start = NEVER
        """Nobody waiting is planned before this (a lower bound)."""

    # -- what the users and the nodes report -------------------------------------------------------

    def submit(self, job: Job) -> None:
        """A job has come; the next cycle gives it its place."""
        self.arrivals.append(job)

    def job_ended(self, job_id: str, now: Instant) -> Job:
        """A running job is over; the rest of its slots is free for others."""
        job = self.running.pop(job_id, None)
        if job is None:
            raise NotFoundError(f"no running job {job_id!r}", hint="name one that is there")
        self.calendar.advance(now)
        self.calendar.release(job_id)
        job.ended_at = now
        job.state = JobState.COMPLETED
        return job

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, now: Instant) -> SlottedCycle:
        """Refine, backfill, place who came, start who is due."""
        self.advance(now)
        self.backfill(self.waiting)
        for job in self.arrivals:
            start = self.first_start(job)
            if start is not None:
                self.place(job, start)
        self.arrivals.clear()
        return SlottedCycle(self.start_due(now), self.next_wakeup())

    def advance(self, now: Instant) -> None:
        """Let the calendar consume and split its slots."""
        self.calendar.advance(now)

    def backfill(self, order: Iterable[str]) -> None:
        """Use new room, if there is any, for these jobs in this order."""
        calendar = self.calendar
        if not calendar.has_new_room:
            return
        for job_id in calendar.backfill(order):
            self.moved(self.waiting[job_id], calendar.bookings[job_id].start)

    def first_start(self, job: Job, before: Instant = NEVER) -> Instant | None:
        """When a job without a place could start here at the earliest; ``None``: not before
        ``before``, or never.
        """
        calendar = self.calendar
        duration_s = calendar.duration_here_s(job.limit_s)
        return calendar.first_fit(job.nodes, duration_s, calendar.now, before)

    def place(self, job: Job, start: Instant) -> None:
        """Book the place that ``first_start`` found."""
        calendar = self.calendar
        calendar.book(job.job_id, job.nodes, calendar.duration_here_s(job.limit_s), start)
        self.waiting[job.job_id] = job
        self.moved(job, start)

    def give_up(self, job: Job) -> None:
        """A waiting job leaves (cancelled, or its manager found a better place elsewhere)."""
        del self.waiting[job.job_id]
        self.calendar.release(job.job_id)
        job.planned_start = None

    def moved(self, job: Job, start: Instant) -> None:
        """Remember a job's new place, told to its user as a promise."""
        job.planned_start = job.promised_start = start
        if start < self._next_start:
            self._next_start = start

    def start_due(self, now: Instant) -> list[Job]:
        """Turn the places that are due into running jobs."""
        if self._next_start > now:
            return []
        due = []
        self._next_start = NEVER
        for job in self.waiting.values():
            planned = job.planned_start
            if planned is None or planned > now:
                self._next_start = min(self._next_start, NEVER if planned is None else planned)
                continue
            due.append(job)
        for job in due:
            del self.waiting[job.job_id]
            self.running[job.job_id] = job
            job.started_at = now
            job.state = JobState.STARTING
        return due

    def next_wakeup(self) -> Instant | None:
        """The next planned start or split, if anybody waits for one."""
        if not self.waiting:
            return None
        return min(self._next_start, self.calendar.next_split)
