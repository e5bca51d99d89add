"""A workload log served by the production scheduler in virtual time.

The driver owns time and the true run times, nothing else: it tells the scheduler of submissions and
ends, in the order of the chosen tie rule, and calls its cycle when the scheduler asks to be called.
No rule of scheduling is in here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from typing import Final

from gridtravel.gridcore.capacity.node_sets import NamedNodes, NodeSetProfile
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.local_sched.scheduling.config import OverrunRule, SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.simulator.replay.swf import TraceJob

CLASS_NAME: Final = "nodes"
PROGRESS_JOBS: Final = 2_000
"""Jobs between two calls of the progress function."""


class TieRule(enum.StrEnum):
    """What comes first when several things happen in the same second."""

    SEQUENTIAL = "sequential"
    """Arrivals one by one, then ends one by one, a cycle after each; a job whose estimate runs out
    at this
    very instant counts as gone already (Feitelson's pyss)."""
    ENDS_FIRST = "ends-first"
    """Ends one by one, then arrivals one by one, a cycle after each; a job counts as there until
    its end is
    told (CQSim)."""
    BATCH = "batch"
    """All ends and all arrivals, then one cycle: what a live site does (AccaSim, batsched)."""


NAMED_PREFIX: Final = "named-"
"""``named-easy``: the same policy on a machine where a job keeps particular processors."""


def policy(name: str) -> SchedulerConfig:
    """A scheduler's configuration with the policy called ``name``; ``InputError`` lists the
    known.
    """
    chosen = policy_named(name.removeprefix(NAMED_PREFIX))
    return SchedulerConfig(order=chosen.order, backfill=chosen.backfill)


def policy_for_log(name: str) -> SchedulerConfig:
    """The same, for the jobs of a log; ``InputError`` where they give the policy nothing to go by,
    and it would silently be another.
    """
    chosen = policy_named(name.removeprefix(NAMED_PREFIX))
    if chosen.sharing is not None or chosen.queue is not None:
        raise InputError(
            f"{name}: the jobs of a workload log have no deadlines and no budgets",
            hint="gurlab decide takes a workload that has",
        )
    config = policy(name)
    if config.order.needs_deadlines:
        raise InputError(
            f"{name}: the jobs of a workload log have no deadlines, so it would be fcfs",
            hint="say fcfs, or sjf to serve the shortest first",
        )
    return config


def replay(
    jobs: Sequence[TraceJob],
    procs: int,
    config: SchedulerConfig,
    ties: TieRule = TieRule.BATCH,
    progress: Callable[[int], None] | None = None,
    *,
    keeps_nodes: bool = False,
) -> list[Instant]:
    """Serve a whole trace on an empty machine; the start of each job, in the order given.

    ``jobs`` in submit order. ``progress`` is called with the number of jobs submitted so far.
    ``keeps_nodes``: a job keeps particular processors, the lowest free ones, for its whole stay.
    """
    origin = jobs[0].submit if jobs else 0
    profile = (NodeSetProfile if keeps_nodes else AvailabilityProfile)(procs, origin)
    world = ReplayWorld(jobs, _replay_scheduler(profile, config, ties), ties)
    world.run(progress)
    return world.starts


def _replay_scheduler(
    profile: AvailabilityProfile, config: SchedulerConfig, ties: TieRule
) -> LocalScheduler:
    """The production scheduler on a machine that takes no reservations."""
    pool = ResourcePool(CLASS_NAME, profile, config.backfill, config.order)
    overrun = OverrunRule(trusts_limits=ties is TieRule.SEQUENTIAL)
    return LocalScheduler({CLASS_NAME: pool}, replace(config, overrun=overrun, history_jobs_max=0))


class ReplayWorld:
    """One machine and its users: they submit, and their jobs end when they truly end.

    The class of the machine is ``CLASS_NAME``. A world with more in it (reservations) extends
    ``next_event`` and ``happen``."""

    def __init__(self, jobs: Sequence[TraceJob], scheduler: LocalScheduler, ties: TieRule) -> None:
        self.jobs = jobs
        self.scheduler = scheduler
        self.keeps_nodes = scheduler.pools[CLASS_NAME].profile.names_nodes
        self.happen: Callable[[Instant], None] = {
            TieRule.SEQUENTIAL: self.arrival_or_end,
            TieRule.ENDS_FIRST: self.end_or_arrival,
            TieRule.BATCH: self.everything,
        }[ties]
        """Tell the scheduler what happens at an instant, by the tie rule."""
        self.starts: list[Instant] = [-1] * len(jobs)
        self.ends: list[tuple[Instant, Instant, int, int]] = []
        """Heap of (end, start, order of decision, index) of what runs."""
        self.decided = 0
        self.arrived = 0
        self.wakeup: Instant | None = None

    def next_event(self) -> Instant | None:
        """When the world changes by itself; ``None`` when every job is over."""
        if self.arrived < len(self.jobs):
            submit = self.jobs[self.arrived].submit
            return self.ends[0][0] if self.ends and self.ends[0][0] < submit else submit
        return self.ends[0][0] if self.ends else None

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Until nothing happens any more."""
        reported = 0
        happen, cycle, next_event = self.happen, self.cycle, self.next_event
        while (now := next_event()) is not None:
            wakeup = self.wakeup
            if wakeup is not None and wakeup < now:
                cycle(wakeup)
                continue
            happen(now)
            cycle(now)
            if progress is not None and self.arrived >= reported + PROGRESS_JOBS:
                reported = self.arrived
                progress(reported)
        if -1 in self.starts:
            stuck = self.starts.index(-1)
            raise InputError(f"job {self.jobs[stuck].job_id} can never start on this machine")

    def arrival_or_end(self, now: Instant) -> None:
        """Sequential: one thing at a time, arrivals before ends."""
        if self.arrived < len(self.jobs) and self.jobs[self.arrived].submit == now:
            self.submit(now)
        else:
            self.end(now)

    def end_or_arrival(self, now: Instant) -> None:
        """Ends first: one thing at a time, ends before arrivals."""
        if self.ends and self.ends[0][0] == now:
            self.end(now)
        else:
            self.submit(now)

    def everything(self, now: Instant) -> None:
        """Batch: all that happens in this second."""
        while self.ends and self.ends[0][0] == now:
            self.end(now)
        while self.arrived < len(self.jobs) and self.jobs[self.arrived].submit == now:
            self.submit(now)

    def submit(self, now: Instant) -> None:
        """Tell the scheduler what the next user would tell it, and no more."""
        index = self.arrived
        self.arrived = index + 1
        job = self.jobs[index]
        self.scheduler.submit(
            Job(
                str(index),
                NamedNodes(job.procs) if self.keeps_nodes else job.procs,
                job.estimate_s,
                now,
                str(job.user),
                str(job.group),
                CLASS_NAME,
            ),
            now,
        )

    def end(self, now: Instant) -> None:
        """The next job that is due is over."""
        index = heappop(self.ends)[3]
        self.scheduler.job_ended(str(index), now)

    def cycle(self, now: Instant) -> None:
        """Let the scheduler decide, and let the jobs it starts run their true time."""
        result = self.scheduler.cycle(now)
        self.wakeup = result.next_wakeup
        for job in result.starts:
            index = int(job.job_id)
            self.starts[index] = now
            heappush(self.ends, (now + self.jobs[index].run_s, now, self.decided, index))
            self.decided += 1
