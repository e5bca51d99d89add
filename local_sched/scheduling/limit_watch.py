"""Running jobs and the end of what is booked for them: who is past it, who is told to stop, whose
nodes are booked on.

A job counts as there until its end is reported, whatever its limit says. At its limit it is stopped
if somebody else is promised its nodes, otherwise after a grace (Catalina's MAXJOBOVERRUN). From the
next second on its nodes are booked further, step by step, so that nobody plans with them."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.config import OverrunRule
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.reservation_jobs import ReservationJobs


class LimitWatch:
    """Watches the running jobs of one scheduler; part of it."""

    __slots__ = ("_due", "_pools", "_reservation_jobs", "_rule", "is_needed", "next_at")

    def __init__(
        self,
        pools: Mapping[str, ResourcePool],
        reservation_jobs: ReservationJobs,
        rule: OverrunRule,
    ) -> None:
        self._pools = pools
        self._reservation_jobs = reservation_jobs
        self._rule = rule
        self._due: list[tuple[Instant, int, Job]] = []
        """Heap of (``watch_at``, rank, job); may name jobs that are over."""
        self.is_needed = not rule.trusts_limits and rule.step_s > 0
        self.next_at: Instant = FAR
        """No running job is past its booked time before this (a lower bound, cheap to ask)."""

    def add(self, job: Job) -> None:
        """A job has started; its booked time is known."""
        if self.is_needed:
            until = job.booked_until
            job.watch_at = until
            heappush(self._due, (until, job.sequence, job))
            if until < self.next_at:
                self.next_at = until

    def next_due(self) -> Instant:
        """When a running job reaches the end of its booked time; ``FAR`` when none does."""
        due = self._due
        while due:
            watched_at, _, job = due[0]
            state = job.state
            is_there = state is JobState.STARTING or state is JobState.RUNNING
            if is_there and job.watch_at == watched_at:
                self.next_at = watched_at
                return watched_at
            heappop(due)
        self.next_at = FAR
        return FAR

    def look(self, now: Instant, stops: list[Job]) -> None:
        """Step 2 of the cycle: whoever is due is booked on, or stopped and added to ``stops``."""
        if self.next_at > now:
            return
        while self.next_due() <= now:
            _, rank, job = heappop(self._due)
            if self._is_to_stop(job, now):
                stops.append(job)
            if now > job.booked_until:
                self._book_on(job, now)
            job.watch_at = max(job.booked_until, now + 1)
            heappush(self._due, (job.watch_at, rank, job))

    def take_over(self, job: Job, now: Instant, stops: list[Job]) -> None:
        """A job whose reservation ended under it: it keeps its nodes if nobody else was promised
        them meanwhile, and is stopped otherwise."""
        job.booked_until = max(job.booked_until, now + 1)
        if not self._pools[job.class_name].profile.fits(job.nodes, now, job.booked_until):
            stops.append(job)
        self._book(job, now, job.booked_until)
        self.add(job)

    def _is_to_stop(self, job: Job, now: Instant) -> bool:
        assert job.started_at is not None
        if now >= job.started_at + job.limit_s + self._rule.grace_s:
            return True
        if not job.is_booked:
            reservation = self._reservation_jobs.book.reservations.get(job.reservation_id)
            return reservation is None or now >= reservation.end
        profile = self._pools[job.class_name].profile
        return not profile.fits(job.nodes, max(now, job.booked_until), now + self._rule.step_s)

    def _book_on(self, job: Job, now: Instant) -> None:
        """Extend the booked time of a job that is past its own by one step."""
        until = now + self._rule.step_s
        if not job.is_booked:
            reservation = self._reservation_jobs.book.reservations.get(job.reservation_id)
            if reservation is not None and reservation.state.is_live and now < reservation.end:
                job.booked_until = min(until, reservation.end)
                return
        self._book(job, now, until)
        job.booked_until = until

    def _book(self, job: Job, now: Instant, until: Instant) -> None:
        """Take the nodes out of the plan, promised or not; the job is the queue's from now on."""
        if not job.is_booked:
            self._reservation_jobs.job_ended(job)
            job.is_booked = True
        pool = self._pools[job.class_name]
        pool.profile.advance(now)
        pool.profile.withdraw(job.nodes, now, until)
        if pool.drains.are_any:
            pool.drains.occupied(job.node_mask, until, now)
        pool.backfill.availability_shrank()
