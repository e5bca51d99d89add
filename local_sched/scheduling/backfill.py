"""The one backfill loop. EASY, conservative and first-come-first-served are numbers given to it.

Everything happens on one ``AvailabilityProfile`` that also carries running jobs and reservations: a
job that gets a *place* is booked in it, so whatever is planned later stays clear of it by itself.

=============  =====  ============  ==========================================================
name           depth  keeps places  what it does
=============  =====  ============  ==========================================================
FCFS           0      -             the first job that does not fit blocks all behind it
EASY           1      yes           the first that does not fit gets a place; others may start
                                    if they leave that place alone
conservative   all    yes           a place for each job as it comes; when room appears each
                                    job in turn may move earlier, and none ever moves later
replan         all    no            when room appears all places are dealt again, in order
=============  =====  ============  ==========================================================

"Conservative" is the definition in which a place, once told, is a promise (Feitelson's pyss,
batsched); dealing again (CQSim, kamelot) breaks promises and is called *replan* here. The means
differ by a tenth on real logs.

Two things keep it fast without changing any answer. Where nothing but the tail of the queue has
changed since the last pass and no place is due, older jobs are not looked at again: room only
shrinks as jobs start.
And where room did appear, only a job that finds more of it than before can move: see
``compression``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.compression import FAR, Compression

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gridtravel.gridcore.capacity.profile import AvailabilityProfile
    from gridtravel.local_sched.scheduling.job_queue import JobQueue, QueueOrder
    from gridtravel.local_sched.scheduling.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRule:
    """How many jobs get a place, whether places are promises, and who fills the gaps first."""

    depth: int | None = None
    """Number of waiting jobs that hold a place; ``None``: all. Catalina's RESERVATION_DEPTH."""
    keeps_places: bool = True
    fillers: QueueOrder | None = None
    """Order in which jobs without a place are tried; ``None``: the order of the queue."""
    compression_jobs_max: int | None = 500
    """Jobs that are searched for when room appears; ``None``: all, however long the queue
    (studies).
    """
    late_start_max_s: int = 30
    """A planned job that starts this late keeps the end of its place; later than that it is planned
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

    Between passes: ``planned_start`` is set on exactly the jobs that hold a place, and that place
    is booked.
    """

    __slots__ = (
        "_compression",
        "_has_left_room",
        "_holders",
        "_is_blocked",
        "_is_roomier",
        "_is_tighter",
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
        """Where the depth is a number: jobs with a place, in order of the queue when it was dealt.
        """
        self._is_blocked = False
        """True when the last pass used up the depth, so that a newcomer can only fill a gap."""
        self._has_left_room = False
        """True when a place moved earlier in the last round, so that those before it may do so too.
        """
        self._is_roomier = False
        """True when room was given back since the last pass, even if none of it is useful."""
        self._is_tighter = False
        """True when something was booked over places (an overrun, a failed node)."""
        self._compression = Compression(rule.compression_jobs_max)
        self.next_planned = FAR
        """No waiting job is planned before this (a lower bound); ``FAR``: none is planned."""
        self._same_until = -FAR
        """End of the profile's first step as of the last pass; before it, time alone frees nothing.
        A place may be due earlier: where it begins just as a job of its size is to end, there is no
        step.
        """

    # -- what the scheduler reports ----------------------------------------------------------------

    def room_appeared(self, start: Instant, end: Instant) -> None:
        """Nodes came free in ``[start, end)`` ahead of plan; an empty stretch still calls for a
        pass.
        """
        self._is_roomier = True
        self._compression.room_appeared(start, end)

    def room_vanished(self) -> None:
        """Something was booked that no search found (a failed node, an overrun)."""
        self._is_tighter = True

    def give_up_place(self, job: Job) -> None:
        """A waiting job leaves the plan (cancelled, held); its place is free again."""
        planned = job.planned_start
        if planned is None:
            return
        self._unplace(job)
        if job in self._holders:
            self._holders.remove(job)
        self.room_appeared(max(planned, self.profile.origin), planned + job.limit_s)

    def keep_place(self, job: Job, start: Instant) -> None:
        """After a restart: a waiting job has the place it was told before, where places are
        promises and the room is there; otherwise the next pass plans it.
        """
        if self.rule.depth is not None or not self.rule.keeps_places:
            return
        end = start + job.limit_s
        if end > self.profile.origin and self.profile.fits(job.nodes, start, end):
            self._place(job, start)

    def set_back(self, jobs: Iterable[Job], now: Instant) -> None:
        """The profile was made anew without the places of these waiting jobs: they keep them as far
        as there is room, and the next pass plans all of them from ``now`` on.
        """
        told = [(job.planned_start, job) for job in jobs if job.planned_start is not None]
        for _, job in told:
            job.planned_start = None
        self.next_planned, self._same_until = FAR, -FAR
        for start, job in sorted(told, key=lambda each: each[0]):
            if self.profile.fits(job.nodes, start, start + job.limit_s):
                self._place(job, start)
        self._holders = [job for job in self._holders if job.planned_start is not None]
        self.room_appeared(now, FAR)

    def give_up_all(self, jobs: Iterable[Job]) -> None:
        """All places are taken back; the next pass deals them anew."""
        for job in jobs:
            self._unplace(job)
        self._holders = []
        self.next_planned = FAR

    # -- the pass ----------------------------------------------------------------------------------

    def cycle(self, queue: JobQueue, now: Instant) -> list[Job]:
        """Give places by the rule and return the jobs that start now, booked from now on and taken
        out
        of the queue. The profile must have been advanced to ``now``."""
        if self._is_tighter or self.next_planned < now:
            self._repair(queue.jobs, now)
        if not queue.jobs:
            self._is_blocked = self._is_roomier = queue.is_reordered = False
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
        queue.is_reordered = self._is_roomier = False
        times = self.profile.times
        self._same_until = times[1] if len(times) > 1 else FAR
        return started

    # -- depth a number: FCFS, EASY and in between -------------------------------------------------

    def _plan_some(self, queue: JobQueue, now: Instant, depth: int) -> list[Job]:
        """Places for the first, in rounds while one that moves leaves room for one before it, so
        that a second call has nothing to add; then whoever fits beside them.
        """
        jobs = queue.jobs
        started: list[Job] = []
        may_differ = self._is_roomier or queue.is_reordered or not self._is_blocked
        if may_differ or now >= self._same_until or now >= self.next_planned:
            served = self._serve_heads(jobs, now, depth, started)
            while self._has_left_room:
                jobs = [*self._holders, *jobs[served:]]
                served = self._serve_heads(jobs, now, depth, started)
            fillers = jobs[served:]
        else:
            fillers = queue.arrivals
        if depth and fillers:
            self._fill_gaps(fillers, now, started)
        return started

    def _serve_heads(self, jobs: list[Job], now: Instant, depth: int, started: list[Job]) -> int:
        """Start from the head on, give the first ``depth`` that must wait a place; how many were
        served.
        """
        profile = self.profile
        holders = self._holders
        if holders and jobs[: len(holders)] != holders:
            for holder in holders:
                self._unplace(holder)
            holders = []
        self._holders = []
        self.next_planned = FAR
        self._is_blocked = self._has_left_room = False
        for served, job in enumerate(jobs, start=1):
            if profile.names_nodes:
                self._unplace(job)  # its nodes are chosen anew as well
            planned = job.planned_start
            if planned is None:
                start = profile.earliest_fit(job.nodes, job.limit_s, now)
                if start is None:
                    continue  # more than is up: it waits for repair and blocks nobody
            else:
                start = profile.earlier(job.nodes, job.limit_s, now, planned)
                if start < planned and self._holders:
                    self._has_left_room = True
            if start <= now and job.nodes <= self.idle:
                self._start(job, now)
                started.append(job)
                continue
            if depth == 0:
                self._is_blocked = True
                return served
            self._place(job, start)
            self._holders.append(job)
            if len(self._holders) >= depth:
                self._is_blocked = True
                return served
        return len(jobs)

    def _fill_gaps(self, fillers: Sequence[Job], now: Instant, started: list[Job]) -> None:
        """Start whoever fits beside all that is booked, without moving it. Room only shrinks
        meanwhile, so what was too long for so many nodes once is too long to the end of the pass.
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
                job.room_until = end
                self.idle -= nodes
                started.append(job)
                availability = min(free[0], self.idle)
                if availability <= 0:
                    return

    # -- depth all: conservative and replan --------------------------------------------------------

    def _plan_all(self, queue: JobQueue, now: Instant) -> list[Job]:
        jobs = queue.jobs
        if not self.rule.keeps_places and (self._is_roomier or queue.is_reordered):
            self._deal_again(jobs, now)
        else:
            if self._is_roomier:
                moved = self._compression.run(self.profile, jobs, now, self._find_place)
                self.next_planned = min(self.next_planned, moved)
            arrivals = queue.arrivals
            if queue.is_reordered and len(arrivals) > 1:
                arrivals = sorted(arrivals, key=lambda job: queue.order.key(job, now))
            for job in arrivals:
                if job.planned_start is None:
                    self._find_place(job, now)
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

    def _find_place(self, job: Job, now: Instant) -> None:
        """A place for a job that has none; it stays without when it can never fit."""
        start = self.profile.earliest_fit(job.nodes, job.limit_s, now)
        if start is not None:
            self._place(job, start)

    def _deal_again(self, jobs: Iterable[Job], now: Instant) -> None:
        self.give_up_all(jobs)
        for job in jobs:
            self._find_place(job, now)

    # -- places ------------------------------------------------------------------------------------

    def _place(self, job: Job, start: Instant) -> None:
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

    def _unplace(self, job: Job) -> None:
        planned = job.planned_start
        if planned is not None:
            end = planned + job.limit_s
            if end > self.profile.origin:
                self.profile.unbook(job.nodes, planned, end)
            job.planned_start = None

    def is_missed(self, job: Job, now: Instant) -> bool:
        """True when the job's place is over, or so long overdue that it is planned anew (a
        suspended site, nodes that are still in use past a limit).
        """
        planned = job.planned_start
        if planned is None or planned >= now:
            return False
        return planned + job.limit_s <= now or planned < now - self.rule.late_start_max_s

    def _start(self, job: Job, now: Instant) -> None:
        """Turn a place that is due into room from now on.

        A cycle that comes late (a busy daemon) must not cost the job its place: it starts at once
        and keeps the whole limit if the room allows, else the end of its place.
        """
        profile = self.profile
        nodes, limit_s, planned = job.nodes, job.limit_s, job.planned_start
        end = now + limit_s
        if planned is None:
            profile.book(nodes, now, end)
        elif planned == now:
            job.planned_start = None
        else:
            self._unplace(job)
            if not profile.fits(nodes, now, end):
                end = planned + limit_s
            profile.book(nodes, now, end)
        job.room_until = end
        self.idle -= nodes

    def _repair(self, jobs: Sequence[Job], now: Instant) -> None:
        """Give up places that were missed, and others until nothing waiting is booked where room is
        missing, then place those jobs again in their order.

        The only way a place ever gets later: nodes failed, a running job was allowed past its
        limit, or the site started nothing for a while.
        """
        profile = self.profile
        moved = []
        keeps_others = self.rule.keeps_places and self.rule.depth is None
        gives_up_all = self._is_tighter and not keeps_others
        short = profile.shortages() if self._is_tighter and keeps_others else []
        for job in reversed(jobs):
            planned = job.planned_start
            if planned is None:
                continue
            end = planned + job.limit_s
            is_in_the_way = any(
                start < end and (until is None or until > planned) for start, until, _ in short
            )
            if gives_up_all or is_in_the_way or self.is_missed(job, now):
                self._unplace(job)
                self.room_appeared(max(planned, now), end)
                moved.append(job)
                short = profile.shortages() if short else short
        self._holders = [job for job in self._holders if job.planned_start is not None]
        if self.rule.depth is None:
            for job in reversed(moved):
                self._find_place(job, now)
        self._is_roomier = self._is_roomier or self._is_tighter
        self._is_tighter = False
