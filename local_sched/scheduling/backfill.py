"""The one backfill loop. EASY, conservative and first-come-first-served are numbers given to it.

Everything happens on one ``AvailabilityProfile`` that also carries running jobs and reservations: a
job that gets a *planned start* is booked in it, so whatever is planned later stays clear of it by
itself.

=============  =====  ============  ==========================================================
name           depth  keeps starts  what it does
=============  =====  ============  ============================================================
FCFS           0      -             the first job that does not fit blocks all behind it
EASY           1      yes           the first that does not fit gets a planned start; others
                                    may start if they do not delay it
conservative   all    yes           a planned start for each job as it comes; when nodes come
                                    free each job in turn may move earlier, and none ever moves
                                    later
replan         all    no            when nodes come free all are planned again, in order
=============  =====  ============  ============================================================

"Conservative" is the definition in which a planned start, once told, is a promise (Feitelson's
pyss, batsched); planning again (CQSim, kamelot) breaks promises and is called *replan* here. The
means differ by a tenth on real logs.

Two things keep it fast without changing any answer. Where nothing but the tail of the queue has
changed since the last pass and no planned start is due, older jobs are not looked at again:
availability only shrinks as jobs start. And where nodes did come free, only a job that finds more
of them than before can move: see ``compression``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.compression import FAR, Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gridtravel.gridcore.capacity.profile import AvailabilityProfile
    from gridtravel.local_sched.scheduling.job_queue import JobQueue, QueueOrder
    from gridtravel.local_sched.scheduling.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRule:
    """How many jobs get a planned start, whether that is a promise, and who fills gaps first."""

    depth: int | None = None
    """Number of waiting jobs with a planned start; ``None``: all. Catalina's RESERVATION_DEPTH."""
    keeps_planned_starts: bool = True
    fillers: QueueOrder | None = None
    """Order in which jobs without a planned start are tried; ``None``: the order of the queue."""
    compression_jobs_max: int | None = 500
    """Jobs that are searched for when nodes come free; ``None``: all, however long the queue
    (studies).
    """
    late_start_max_s: int = 30
    """A planned job that starts this late keeps its planned end; later than that it is planned
    anew.
    """

    def __post_init__(self) -> None:
        if self.depth is not None and self.depth < 0:
            raise InputError(f"a reservation depth is 0 or more, or all: {self.depth}")
        if self.compression_jobs_max is not None and self.compression_jobs_max < 1:
            raise InputError("compression_jobs_max is at least 1, or all")
        if self.late_start_max_s < 0:
            raise InputError("late_start_max_s must not be negative")


class Backfill:
    """Plans one resource class on its profile. The scheduler calls it; it calls nobody.

    Between passes: ``planned_start`` is set on exactly the jobs whose time is booked
    in the profile.
    """

    __slots__ = (
        "_compression",
        "_has_grown",
        "_has_moved_earlier",
        "_has_shrunk",
        "_holders",
        "_is_blocked",
        "_same_until",
        "idle",
        "next_planned",
        "profile",
        "rule",
    )

    def __init__(self, profile: AvailabilityProfile, rule: BackfillRule) -> None:
        self.profile = profile
        self.rule = rule
        self.idle = profile.capacity
        """Nodes that nothing runs on at this moment. The profile knows what is promised; a job
        whose limit has run out is gone by promise and may still be there in fact, and nobody
        starts on its nodes."""
        self._holders: list[Job] = []
        """Where the depth is a number: jobs with a planned start, in the order of the queue when
        they were planned."""
        self._is_blocked = False
        """True when the last pass used up the depth, so that a newcomer can only fill a gap."""
        self._has_moved_earlier = False
        """True when a job moved earlier in the last round, so that those before it may do so too.
        """
        self._has_grown = False
        """True when nodes came free since the last pass, even if nobody can use them."""
        self._has_shrunk = False
        """True when something was booked over planned starts (an overrun, a failed node)."""
        self._compression = Compression(rule.compression_jobs_max)
        self.next_planned = FAR
        """No waiting job is planned before this (a lower bound); ``FAR``: none is planned."""
        self._same_until = -FAR
        """End of the profile's first step as of the last pass; before it, time alone frees nothing.
        A planned start may be due earlier: where it is just as a job of its size is to end, there
        is no step.
        """

    # -- what the scheduler reports ----------------------------------------------------------------

    def availability_grew(self, start: Instant, end: Instant) -> None:
        """Nodes came free in ``[start, end)`` ahead of plan; an empty stretch still calls for a
        pass.
        """
        self._has_grown = True
        self._compression.availability_grew(start, end)

    def availability_shrank(self) -> None:
        """Something was booked that no search found (a failed node, an overrun)."""
        self._has_shrunk = True

    @property
    def has_news(self) -> bool:
        """True when nodes came free or went since the last pass."""
        return self._has_grown or self._has_shrunk

    def drop_planned_start(self, job: Job) -> None:
        """A waiting job leaves the plan (cancelled, held); its time is free again."""
        planned = job.planned_start
        if planned is None:
            return
        self._unplan(job)
        if job in self._holders:
            self._holders.remove(job)
        self.availability_grew(max(planned, self.profile.origin), planned + job.limit_s)

    def keep_planned_start(self, job: Job, start: Instant) -> None:
        """After a restart: a waiting job has the start it was told before, where those are
        promises and the nodes are free; otherwise the next pass plans it.
        """
        if self.rule.depth is not None or not self.rule.keeps_planned_starts:
            return
        end = start + job.limit_s
        if end > self.profile.origin and self.profile.fits(job.nodes, start, end):
            self._plan_at(job, start)

    def adopt(self, jobs: Iterable[Job], plan: Mapping[str, Instant]) -> None:
        """Waiting jobs, none of them planned, get the starts of a plan that was found for all of
        them together; whoever it does not name is planned in the next pass.
        """
        for job in jobs:
            start = plan.get(job.job_id)
            if start is not None:
                self._plan_at(job, start)
                job.promised_start = start

    def expect(self, job: Job, start: Instant) -> None:
        """A job that made way for another waits again; its time is booked already."""
        job.planned_start = job.promised_start = start
        self.next_planned = min(self.next_planned, start)

    def set_back(self, jobs: Iterable[Job], now: Instant) -> None:
        """The profile was made anew without the planned starts of these waiting jobs: they
        keep them as far as there is room, and the next pass plans all of them from ``now`` on.
        """
        told = [(job.planned_start, job) for job in jobs if job.planned_start is not None]
        for _, job in told:
            job.planned_start = None
        self.next_planned, self._same_until = FAR, -FAR
        for start, job in sorted(told, key=lambda each: each[0]):
            if self.profile.fits(job.nodes, start, start + job.limit_s):
                self._plan_at(job, start)
        self._holders = [job for job in self._holders if job.planned_start is not None]
        self.availability_grew(now, FAR)

    def drop_all_planned_starts(self, jobs: Iterable[Job]) -> None:
        """All planned starts are taken back; the next pass plans anew."""
        for job in jobs:
            self._unplan(job)
        self._holders = []
        self.next_planned = FAR

    # -- the pass ----------------------------------------------------------------------------------

    def cycle(self, queue: JobQueue, now: Instant) -> list[Job]:
        """Plan by the rule and return the jobs that start now, booked from now on and taken out of
        the queue. The profile must have been advanced to ``now``.
        """
        if self._has_shrunk or self.next_planned < now:
            self._repair(queue.jobs, now)
        if not queue.jobs:
            self._is_blocked = self._has_grown = queue.is_reordered = False
            self.next_planned = FAR
            return []
        depth = self.rule.depth
        if depth is None:
            started = self._plan_all(queue, now)
        else:
            started = self._plan_some(queue, now, depth)
        if started:
            queue.take(started)
        queue.arrivals.clear()
        queue.is_reordered = self._has_grown = False
        times = self.profile.times
        self._same_until = times[1] if len(times) > 1 else FAR
        return started

    # -- depth a number: FCFS, EASY and in between -------------------------------------------------

    def _plan_some(self, queue: JobQueue, now: Instant, depth: int) -> list[Job]:
        """Plan the first, in rounds while one that moves frees nodes for one before it, so
        that a second call has nothing to add; then whoever fits beside them.
        """
        jobs = queue.jobs
        started: list[Job] = []
        may_differ = self._has_grown or queue.is_reordered or not self._is_blocked
        if may_differ or now >= self._same_until or now >= self.next_planned:
            served = self._serve_heads(jobs, now, depth, started)
            while self._has_moved_earlier:
                jobs = [*self._holders, *jobs[served:]]
                served = self._serve_heads(jobs, now, depth, started)
            fillers = jobs[served:]
        else:
            fillers = queue.arrivals
        if depth and fillers:
            self._fill_gaps(fillers, now, started)
        return started

    def _serve_heads(self, jobs: list[Job], now: Instant, depth: int, started: list[Job]) -> int:
        """Start from the head on, plan the first ``depth`` that must wait; how many were served."""
        profile = self.profile
        holders = self._holders
        if holders and jobs[: len(holders)] != holders:
            for holder in holders:
                self._unplan(holder)
            holders = []
        self._holders = []
        self.next_planned = FAR
        self._is_blocked = self._has_moved_earlier = False
        for served, job in enumerate(jobs, start=1):
            if profile.names_nodes:
                self._unplan(job)  # its nodes are chosen anew as well
            planned = job.planned_start
            if planned is None:
                start = profile.earliest_fit(job.nodes, job.limit_s, now)
                if start is None:
                    continue  # more than is up: it waits for repair and blocks nobody
            else:
                start = profile.earlier(job.nodes, job.limit_s, now, planned)
                if start < planned and self._holders:
                    self._has_moved_earlier = True
            if start <= now and job.nodes <= self.idle:
                self._start(job, now)
                started.append(job)
                continue
            if depth == 0:
                self._is_blocked = True
                return served
            self._plan_at(job, start)
            self._holders.append(job)
            if len(self._holders) >= depth:
                self._is_blocked = True
                return served
        return len(jobs)

    def _fill_gaps(self, fillers: Sequence[Job], now: Instant, started: list[Job]) -> None:
        """Start whoever fits beside all that is booked, without moving it. Availability only
        shrinks meanwhile, so what was too long for so many nodes once is too long to the end of the
        pass.
        """
        profile = self.profile
        free = profile.free
        availability = min(free[0], self.idle)
        if availability <= 0:
            return
        order = self.rule.fillers
        if order is not None:
            fillers = sorted(
                (job for job in fillers if job.nodes <= availability),
                key=lambda job: order.key(job, now),
            )
        refused: dict[int, int] = {}
        for job in fillers:
            nodes = job.nodes
            if nodes <= availability and job.planned_start is None:
                limit_s = job.limit_s
                if nodes in refused and limit_s >= refused[nodes]:
                    continue
                end = now + limit_s
                if not profile.fits(nodes, now, end):
                    refused[nodes] = limit_s
                    continue
                profile.book(nodes, now, end)
                job.booked_until = end
                self.idle -= nodes
                started.append(job)
                availability = min(free[0], self.idle)
                if availability <= 0:
                    return

    # -- depth all: conservative and replan --------------------------------------------------------

    def _plan_all(self, queue: JobQueue, now: Instant) -> list[Job]:
        jobs = queue.jobs
        if not self.rule.keeps_planned_starts and (self._has_grown or queue.is_reordered):
            self._replan(jobs, now)
        else:
            if self._has_grown:
                moved = self._compression.run(self.profile, jobs, now, self._plan_start)
                self.next_planned = min(self.next_planned, moved)
            arrivals = queue.arrivals
            if queue.is_reordered and len(arrivals) > 1:
                arrivals = sorted(arrivals, key=lambda job: queue.order.key(job, now))
            for job in arrivals:
                if job.planned_start is None:
                    self._plan_start(job, now)
        if self.next_planned > now:
            return []
        started: list[Job] = []
        earliest = FAR
        for job in jobs:
            planned = job.planned_start
            if planned is None:
                continue
            if planned <= now and job.nodes <= self.idle:
                self._start(job, now)
                started.append(job)
            elif planned < earliest:
                earliest = planned
        self.next_planned = earliest
        return started

    def _plan_start(self, job: Job, now: Instant) -> None:
        """Plan a job that is not planned; it stays so when it can never fit."""
        start = self.profile.earliest_fit(job.nodes, job.limit_s, now)
        if start is not None:
            self._plan_at(job, start)

    def _replan(self, jobs: Iterable[Job], now: Instant) -> None:
        self.drop_all_planned_starts(jobs)
        for job in jobs:
            self._plan_start(job, now)

    # -- planned starts ----------------------------------------------------------------------------

    def _plan_at(self, job: Job, start: Instant) -> None:
        """Book ``[start, start + limit)`` for a waiting job, instead of what it holds."""
        if start < self.next_planned:
            self.next_planned = start
        planned = job.planned_start
        if planned == start:
            return
        profile = self.profile
        if planned is not None:
            profile.unbook(job.nodes, planned, planned + job.limit_s)
        profile.book(job.nodes, start, start + job.limit_s)
        job.planned_start = start
        if job.promised_start is None or start < job.promised_start:
            job.promised_start = start

    def _unplan(self, job: Job) -> None:
        planned = job.planned_start
        if planned is not None:
            end = planned + job.limit_s
            if end > self.profile.origin:
                self.profile.unbook(job.nodes, planned, end)
            job.planned_start = None

    def is_missed(self, job: Job, now: Instant) -> bool:
        """True when the job's planned time is over, or so long overdue that it is planned anew (a
        suspended site, nodes that are still in use past a limit).
        """
        planned = job.planned_start
        if planned is None or planned >= now:
            return False
        return planned + job.limit_s <= now or planned < now - self.rule.late_start_max_s

    def _start(self, job: Job, now: Instant) -> None:
        """Book a job that starts from now on, instead of from its planned start.

        A cycle that comes late (a busy daemon) must not cost the job its turn: it starts at once
        and keeps the whole limit if that fits, else its planned end.
        """
        profile = self.profile
        nodes, limit_s, planned = job.nodes, job.limit_s, job.planned_start
        end = now + limit_s
        if planned is None:
            profile.book(nodes, now, end)
        elif planned == now:
            job.planned_start = None
        else:
            self._unplan(job)
            if not profile.fits(nodes, now, end):
                end = planned + limit_s
            profile.book(nodes, now, end)
        job.booked_until = end
        self.idle -= nodes

    def _repair(self, jobs: Sequence[Job], now: Instant) -> None:
        """Give up planned starts that were missed, and others until nothing waiting is booked where
        nodes are missing, then plan those jobs again in their order.

        The only way a planned start ever gets later: nodes failed, a running job was allowed past
        its limit, or the site started nothing for a while.
        """
        profile = self.profile
        moved = []
        keeps_others = self.rule.keeps_planned_starts and self.rule.depth is None
        drops_all = self._has_shrunk and not keeps_others
        short = profile.shortages() if self._has_shrunk and keeps_others else []
        for job in reversed(jobs):
            planned = job.planned_start
            if planned is None:
                continue
            end = planned + job.limit_s
            is_in_the_way = any(
                start < end and (until is None or until > planned) for start, until, _ in short
            )
            if drops_all or is_in_the_way or self.is_missed(job, now):
                self._unplan(job)
                self.availability_grew(max(planned, now), end)
                moved.append(job)
                short = profile.shortages() if short else short
        self._holders = [job for job in self._holders if job.planned_start is not None]
        if self.rule.depth is None:
            for job in reversed(moved):
                self._plan_start(job, now)
        self._has_grown = self._has_grown or self._has_shrunk
        self._has_shrunk = False
