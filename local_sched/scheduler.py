"""The scheduler of one site: a state machine that serves live jobs and replayed ones alike.

No clock, no IO, no waiting: every method takes ``now`` and returns at once. ``cycle`` says what to
start and to stop and when it wants to be called next; the shell around it launches, journals and
tells it what happened.

A cycle, in the order of Catalina's iteration (GUR and Catalina paper, section 3; peers.md A.5):

1. resources: forget the past, see which nodes there are
2. overruns: jobs still there at the end of their limit are booked on, then stopped
3. running reservations: their jobs start inside them, without touching the queue's room
4. priorities: a changing order is sorted anew
5. eligibility: jobs on hold or over a cap are left out, each with its reason
6. reservations of queued jobs, in order, up to the reservation depth, and backfill
7. starts: nodes get their names, usage is counted

User-settable reservations are not in the list because they are made between cycles, by the owner of
the calendar, in what ``room_after_queue`` says is left: after all queued jobs, which is the paper's
promise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from gridcore.errors import InputError, NotFoundError
from gridcore.instants import Instant
from gridcore.jobs import JobState
from local_sched.backfill import FAR
from local_sched.jobs import Job
from local_sched.resource_pools import ResourcePool
from local_sched.scheduler_config import SchedulerConfig
from local_sched.usage import UsageBook


class CycleResult(NamedTuple):
    """What a cycle wants done (a tuple: a replay makes two a job)."""

    starts: list[Job]
    """To launch now; booked, named and counted already."""
    stops: list[Job]
    """To be told to end; they count as running until ``job_ended``."""
    next_wakeup: Instant | None
    """When time alone may change something; ``None``: nothing to wait for."""


class LocalScheduler:
    """All jobs of one site, from submission to end. Mutable, one owner."""

    def __init__(self, pools: Mapping[str, ResourcePool], config: SchedulerConfig) -> None:
        if not pools:
            raise InputError("a scheduler needs at least one resource class")
        self.config = config
        self.pools = dict(pools)
        if config.overrun.trusts_limits:
            for pool in self.pools.values():
                pool.backfill.idle = FAR
        self.waiting: dict[str, Job] = {}
        """By id, in order of submission: everything that has not started."""
        self.running: dict[str, Job] = {}
        """By id, in order of start: everything that occupies nodes."""
        self.finished: OrderedDict[str, Job] = OrderedDict()
        """By id, oldest end first, at most ``history_jobs_max``."""
        self.usage = UsageBook()
        self._limits_due: list[tuple[Instant, int, Job]] = []
        """Heap of (end of booked room, rank, job) of running jobs; may name jobs that are over."""
        self._submitted = 0

    # -- events in ---------------------------------------------------------------------------------

    def submit(self, job: Job, now: Instant) -> None:
        """A new job joins the queue; it is planned in the next cycle."""
        self._submitted += 1
        job.sequence = self._submitted
        self.waiting[job.job_id] = job
        self.usage.job_submitted(job)
        self.pools[job.class_name].queue.add(job, now)

    def job_ended(self, job_id: str, now: Instant, exit_code: int | None = 0) -> Job:
        """A running job is gone; what was booked for it beyond now is free for others."""
        job = self.running.pop(job_id, None)
        if job is None:
            raise NotFoundError(f"no running job {job_id!r}")
        pool = self.pools[job.class_name]
        profile, until = pool.profile, job.room_until
        profile.advance(now)
        if until > now:
            profile.unbook(job.nodes, now, until)
        pool.backfill.idle += job.nodes
        pool.backfill.room_appeared(now, max(until, now))
        if pool.nodes is not None:
            pool.nodes.give_back(job.node_mask)
        job.ended_at = now
        job.exit_code = exit_code
        job.state = JobState.COMPLETED if exit_code == 0 else JobState.FAILED
        self.usage.job_ended(job, now)
        self._remember(job)
        return job

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, now: Instant) -> CycleResult:
        """Everything that follows from what is known at ``now``; calling it again changes nothing
        more.
        """
        starts: list[Job] = []
        stops: list[Job] = []
        wakeup: Instant | None = None
        if self._limits_due and self._limits_due[0][0] < now:
            self._extend_overruns(now, stops)
        for pool in self.pools.values():
            profile = pool.profile
            profile.advance(now)
            queue = pool.queue
            if not queue.order.is_fixed:
                queue.sort(now)
            started = pool.backfill.cycle(queue, now)
            for job in started:
                self._start(pool, job, now)
            starts += started
            if len(profile.times) > 1 and (wakeup is None or profile.times[1] < wakeup):
                wakeup = profile.times[1]
        return CycleResult(starts, stops, wakeup)

    def _start(self, pool: ResourcePool, job: Job, now: Instant) -> None:
        """Step 7: from waiting to running. Its room is booked already."""
        if pool.nodes is not None:
            job.node_mask = pool.nodes.take(job.nodes)
        job.state = JobState.STARTING
        job.started_at = now
        job_id = job.job_id
        del self.waiting[job_id]
        self.running[job_id] = job
        self.usage.job_started(job)
        heappush(self._limits_due, (job.room_until, job.sequence, job))

    def _extend_overruns(self, now: Instant, stops: list[Job]) -> None:
        """Step 2, from the second after its limit on: a job counts as there until its end is
        reported, so its nodes are booked on.

        Where somebody else was promised them the job is stopped at once; otherwise after the grace.
        """
        rule = self.config.overrun
        due = self._limits_due
        while due and due[0][0] < now:
            until, rank, job = heappop(due)
            if job.room_until != until or job.job_id not in self.running or rule.trusts_limits:
                continue
            pool = self.pools[job.class_name]
            pool.profile.advance(now)
            job.room_until = now + rule.step_s
            heappush(due, (job.room_until, rank, job))
            is_in_the_way = not pool.profile.fits(job.nodes, now, job.room_until)
            pool.profile.withdraw(job.nodes, now, job.room_until)
            pool.backfill.room_vanished()
            assert job.started_at is not None
            if is_in_the_way or now >= job.started_at + job.limit_s + rule.grace_s:
                stops.append(job)

    # -- inside ------------------------------------------------------------------------------------

    def _remember(self, job: Job) -> None:
        finished = self.finished
        finished[job.job_id] = job
        if len(finished) > self.config.history_jobs_max:
            finished.popitem(last=False)
