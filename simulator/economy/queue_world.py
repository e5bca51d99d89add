"""A workload on whole nodes in turn: the scheduler of a live site, in virtual time.

The scheduler's instants are whole numbers without a unit; here they are milliseconds. The world
tells it of ends and arrivals, in this order within an instant, and calls one cycle after them;
never between, since nothing else happens (``docs/policies.md`` says what a live site does besides).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.admission.registry import SitePolicy
from gridtravel.local_sched.policies.policy import Admitted
from gridtravel.local_sched.scheduling.config import OverrunRule, SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job, Wishes
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.simulator.economy.workload import Decision, EconomyJob

TICKS_A_SECOND: Final = 1000
CLASS_NAME: Final = "nodes"


def ticks(seconds: float) -> Instant:
    """Seconds as instants of this world."""
    return round(seconds * TICKS_A_SECOND)


class QueueWorld:
    """One machine of ``procs`` processors and its users. A job that runs is never stopped."""

    def __init__(self, jobs: Sequence[EconomyJob], procs: int, chosen: SitePolicy) -> None:
        self.jobs = jobs
        self.procs = procs
        profile = AvailabilityProfile(procs, ticks(jobs[0].submit) if jobs else 0)
        self.pool = ResourcePool(
            CLASS_NAME, profile, chosen.backfill, chosen.order, policy=chosen.queue
        )
        config = SchedulerConfig(
            order=chosen.order,
            backfill=chosen.backfill,
            # The estimate is no limit: a job past it goes on, and is expected to end at once.
            overrun=OverrunRule(step_s=0),
            history_jobs_max=0,
        )
        self.scheduler = LocalScheduler({CLASS_NAME: self.pool}, config)
        self.decisions = [Decision() for _ in jobs]
        self._prices: dict[str, float] = {}
        self._ends: list[tuple[Instant, int]] = []

    def run(self) -> list[Decision]:
        """Until nobody comes and nothing runs any more."""
        arrivals = [
            (ticks(job.submit), index)
            for index, job in enumerate(self.jobs)
            if job.procs <= self.procs
        ]
        arrived = 0
        planned: Instant | None = None
        while arrived < len(arrivals) or self._ends or planned is not None:
            moments = [] if planned is None else [planned]
            moments += [self._ends[0][0]] if self._ends else []
            moments += [arrivals[arrived][0]] if arrived < len(arrivals) else []
            now = min(moments)
            while self._ends and self._ends[0][0] == now:
                self.scheduler.job_ended(str(heappop(self._ends)[1]), now)
            while arrived < len(arrivals) and arrivals[arrived][0] == now:
                self._submit(arrivals[arrived][1], now)
                arrived += 1
            result = self.scheduler.cycle(now)
            for job in result.starts:
                self._start(job, now)
            # A plan that is kept has starts of its own; elsewhere only ends and arrivals count.
            keeps_a_plan = self.pool.backfill.rule.depth is None and self.scheduler.waiting
            planned = result.next_wakeup if keeps_a_plan else None
        return self.decisions

    def _submit(self, index: int, now: Instant) -> None:
        row = self.jobs[index]
        limit = max(1, ticks(row.estimate_s))
        job = Job(str(index), row.procs, limit, now, "", "", CLASS_NAME)
        job.deadline = ticks(row.deadline)
        job.wishes = Wishes(estimate_s=row.estimate_s, budget=row.budget)
        policy = self.pool.policy
        if policy is not None:
            view = queue_view(self.pool, self.scheduler.running.values(), now)
            answer = policy.admit(view, policy_job(job))
            if not isinstance(answer, Admitted):
                return
            self._prices[job.job_id] = answer.price
            job.plan = answer.plan  # nobody here is restartable, so nobody makes way
        self.scheduler.submit(job, now)

    def _start(self, job: Job, now: Instant) -> None:
        index = int(job.job_id)
        end = now + max(1, ticks(self.jobs[index].run_s))
        heappush(self._ends, (end, index))
        self.decisions[index] = Decision(
            cost=self._prices.pop(job.job_id, 0.0), end=end / TICKS_A_SECOND
        )
