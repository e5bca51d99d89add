"""The policy interface: ``admit``, ``prioritise``, ``place``; and the family that is
backfilling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from gridcore.instants import Instant
from gridcore.reservations import Decline
from local_sched.backfill import BackfillRule
from local_sched.jobs import Job
from local_sched.ordering import FIRST_COME, QueueOrder
from local_sched.policies.site_view import Admitted, Placement, PolicyJob, SiteView


class Policy(Protocol):
    """Three questions, each answered from the view alone."""

    @property
    def name(self) -> str:
        """What users and configuration files call it."""
        ...

    @property
    def backfill(self) -> BackfillRule:
        """The rule of the loop that serves the jobs for which ``place`` has no answer."""
        ...

    def admit(self, view: SiteView, job: PolicyJob) -> Admitted | Decline:
        """May the job come in, at what price, with what promise? A refusal says what would pass."""
        ...

    def prioritise(self, view: SiteView) -> tuple[str, ...]:
        """All waiting jobs by id, the one to be served first in front."""
        ...

    def place(self, view: SiteView, job: PolicyJob) -> Placement | None:
        """Where the job starts now; ``None`` leaves it to backfilling on whole nodes."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPolicy:
    """Everybody is admitted, an order serves, the loop places: FCFS, SJF, EDF, EASY,
    conservative.
    """

    name: str
    order: QueueOrder = FIRST_COME
    backfill: BackfillRule = field(default_factory=BackfillRule)

    def admit(self, view: SiteView, job: PolicyJob) -> Admitted | Decline:
        """Whoever fits the machine is welcome; nothing is promised beyond the place in the plan."""
        del view, job
        return Admitted()

    def prioritise(self, view: SiteView) -> tuple[str, ...]:
        """By the order's key."""
        jobs = sorted(view.waiting, key=lambda job: self.order.key(_as_job(job), view.now))
        return tuple(job.job_id for job in jobs)

    def place(self, view: SiteView, job: PolicyJob) -> Placement | None:
        """The loop finds the place."""
        del view, job
        return None


def _as_job(job: PolicyJob) -> Job:
    """The fields an order may look at."""
    made = Job(job.job_id, job.nodes, job.limit_s, job.submitted_at, job.owner, job.account, "")
    made.sequence = job.sequence
    made.deadline = job.deadline
    return made


def view_of_running(job: Job, now: Instant) -> PolicyJob:
    """A running job with the node time it has had."""
    assert job.started_at is not None
    return PolicyJob(
        job_id=job.job_id,
        nodes=job.nodes,
        limit_s=job.limit_s,
        submitted_at=job.submitted_at,
        sequence=job.sequence,
        owner=job.owner,
        account=job.account,
        deadline=job.deadline,
        started_at=job.started_at,
        done_s=max(now - job.started_at, 0),
    )


def view_of_waiting(job: Job) -> PolicyJob:
    """A job that has not started."""
    return PolicyJob(
        job_id=job.job_id,
        nodes=job.nodes,
        limit_s=job.limit_s,
        submitted_at=job.submitted_at,
        sequence=job.sequence,
        owner=job.owner,
        account=job.account,
        deadline=job.deadline,
    )
