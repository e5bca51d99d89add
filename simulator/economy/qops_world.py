"""Users of a site that serves by QoPS: they ask for deadlines, take or leave what is offered
instead, and their jobs may be ended for others (slides, "Understanding User Tolerance" and "Kill
and Restart"). Policy, queue and cycle are those of a live site; time is in whole seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import Admitted, Refused
from gridtravel.local_sched.policies.qops import Qops
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job, Wishes
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

CLASS_NAME: Final = "nodes"


class QopsJob(NamedTuple):
    """A job and what its user wants. Its estimate is exact."""

    submit: Instant
    run_s: int
    procs: int
    deadline: Instant
    """As asked for first."""
    has_deadline: bool
    """False: it is a loose one, against starving, and any other is as good."""


@dataclass(slots=True)
class Fate:
    """What became of a job."""

    agreed: Instant | None = None
    """The deadline it was admitted with; ``None``: it was not."""
    end: Instant | None = None
    kills: int = 0
    """How often it was ended for another job."""
    as_asked: bool = False
    """True when it was admitted with the deadline that was asked for first."""


class QopsWorld:
    """One machine of ``procs`` processors."""

    def __init__(
        self, jobs: Sequence[QopsJob], procs: int, policy: Qops, *, tolerance: float
    ) -> None:
        """``tolerance``: a user takes another deadline when its span from the arrival, slack
        included, is below so many times the span that was asked for (TF).
        """
        self.jobs = jobs
        self.tolerance = tolerance
        self.policy = policy
        config = SchedulerConfig(policy=policy, history_jobs_max=0)
        profile = AvailabilityProfile(procs, jobs[0].submit if jobs else 0)
        self.pool = ResourcePool(CLASS_NAME, profile, config.backfill, config.order, policy=policy)
        self.scheduler = LocalScheduler({CLASS_NAME: self.pool}, config)
        self.fates = [Fate() for _ in jobs]
        self._ends: list[tuple[Instant, int, int]] = []
        """(end, execution, index): of what runs, and of what was ended earlier."""
        self._gone: list[tuple[Instant, int]] = []
        """(when, index): jobs whose nodes are free then, since they made way for others."""
        self._executions = [0] * len(jobs)
        self._wakeup: Instant | None = None

    def run(self) -> list[Fate]:
        """Until nobody comes and nothing waits or runs."""
        arrived = 0
        while True:
            moments = [heap[0][0] for heap in (self._ends, self._gone) if heap]
            if arrived < len(self.jobs):
                moments.append(self.jobs[arrived].submit)
            if self.scheduler.waiting and self._wakeup is not None:
                moments.append(self._wakeup)
            if not moments:
                return self.fates
            now = min(moments)
            self._end_due(now)
            while arrived < len(self.jobs) and self.jobs[arrived].submit == now:
                self._arrive(arrived, now)
                arrived += 1
            while self._gone and self._gone[0][0] <= now:
                self.scheduler.requeue(str(heappop(self._gone)[1]), now)
            result = self.scheduler.cycle(now)
            self._wakeup = result.next_wakeup
            for job in result.starts:
                self._start(int(job.job_id), now)

    def _end_due(self, now: Instant) -> None:
        while self._ends and self._ends[0][0] == now:
            _, execution, index = heappop(self._ends)
            if execution == self._executions[index]:
                self.scheduler.job_ended(str(index), now)
                self.fates[index].end = now

    def _arrive(self, index: int, now: Instant) -> None:
        """Ask; take what is offered instead, if it is good enough."""
        row, fate = self.jobs[index], self.fates[index]
        answer = self._ask(index, row.deadline, now)
        fate.as_asked = isinstance(answer, Admitted)
        if isinstance(answer, Refused) and answer.would_pass:
            offered = int(answer.would_pass[0].deadline)
            is_near = offered - row.submit < self.tolerance * (row.deadline - row.submit)
            if is_near or not row.has_deadline:
                answer = self._ask(index, offered, now)
                assert isinstance(answer, Admitted), "what is said to pass passes"
        if not isinstance(answer, Admitted) or answer.deadline is None:
            return
        job = self._job(index, int(answer.deadline), now)
        job.plan, job.kills = answer.plan, answer.kills
        fate.agreed = int(answer.deadline)
        self.scheduler.submit(job, now)
        for victim, free_from in answer.kills:
            self.fates[int(victim)].kills += 1
            self._executions[int(victim)] += 1
            heappush(self._gone, (free_from, int(victim)))

    def _ask(self, index: int, deadline: Instant, now: Instant) -> object:
        view = queue_view(self.pool, self.scheduler.running.values(), now)
        return self.policy.admit(view, policy_job(self._job(index, deadline, now)))

    def _job(self, index: int, deadline: Instant, now: Instant) -> Job:
        row = self.jobs[index]
        job = Job(str(index), row.procs, row.run_s, now, "", "", CLASS_NAME)
        job.sequence = self.scheduler.next_sequence
        job.deadline = deadline
        job.wishes = Wishes(is_restartable=True)
        return job

    def _start(self, index: int, now: Instant) -> None:
        heappush(self._ends, (now + self.jobs[index].run_s, self._executions[index], index))
