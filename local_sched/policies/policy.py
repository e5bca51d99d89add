"""What a policy is: what it is shown of the site, what it may answer, and the policies there are.

A policy answers three questions, ``admit``, ``prioritise`` and ``place``, from a ``SiteView`` that
was taken from the scheduler at one moment. View and answers are values. Times are instants, room is
whole nodes over time. A node that is shared by several jobs (Libra) shows as the sum of the shares
committed on it; a share is in millionths of a node, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.job_queue import (
    EARLIEST_DEADLINE,
    FIRST_COME,
    SHORTEST_FIRST,
    QueueOrder,
)
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

WHOLE_NODE = 1_000_000
"""The share of a job that has a node for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyJob:
    """A job as a policy may know it."""

    job_id: str
    nodes: int
    limit_s: int
    """The user's estimate (E in the papers)."""
    submitted_at: Instant
    sequence: int
    owner: str = ""
    account: str = ""
    deadline: Instant | None = None
    """When it must be over (D), as promised or as asked for; ``None``: any time."""
    budget_millicredits: int | None = None
    """Most it may cost (B)."""
    started_at: Instant | None = None
    done_s: int = 0
    """Node time it has received so far, for a job that runs; its remaining run time is
    ``limit_s - done_s``.
    """

    @property
    def remaining_s(self) -> int:
        """Run time left by the user's estimate, at least 0."""
        return max(self.limit_s - self.done_s, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """One node with the jobs on it and the share each is owed."""

    node: int
    """Position in the class's list."""
    shares: tuple[tuple[str, int], ...] = ()
    """(job id, millionths)."""

    @property
    def committed(self) -> int:
        """Sum of the shares."""
        return sum(share for _, share in self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteView:
    """One resource class at one moment. ``availability`` is a copy: a policy may plan on it as it
    likes.
    """

    now: Instant
    nodes: int
    """Nodes of the class that are up."""
    capacity: int
    """Nodes of the class, up or down."""
    waiting: tuple[PolicyJob, ...]
    """In the order they are served at present."""
    running: tuple[PolicyJob, ...]
    """In order of start."""
    room_steps: tuple[tuple[Instant, int], ...]
    """Free nodes over time with running jobs and reservations taken out, waiting jobs not."""
    loads: tuple[NodeLoad, ...] = ()
    """Node by node, where nodes are shared; empty elsewhere."""

    def availability(self) -> AvailabilityProfile:
        """A fresh profile of the room, to plan on."""
        return AvailabilityProfile.from_steps(self.capacity, self.room_steps)


def site_view(scheduler: LocalScheduler, class_name: str, now: Instant) -> SiteView:
    """One class at ``now``: its queue in order, what runs, and the room without any waiting
    job's place.
    """
    pool = scheduler.pools[class_name]
    availability = pool.availability_without_queue(now)
    waiting = pool.in_order(now)
    running = [job for job in scheduler.running.values() if job.class_name == class_name]
    return SiteView(
        now=now,
        nodes=pool.nodes_up,
        capacity=pool.profile.capacity,
        waiting=tuple(view_of_waiting(job) for job in waiting),
        running=tuple(_view_of_running(job, now) for job in running),
        room_steps=tuple(availability.steps()),
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


def _view_of_running(job: Job, now: Instant) -> PolicyJob:
    """The same, with the node time it has had."""
    assert job.started_at is not None
    done_s = max(now - job.started_at, 0)
    return replace(view_of_waiting(job), started_at=job.started_at, done_s=done_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Yes: the job is accepted, on these terms."""

    price_millicredits: int = 0
    deadline: Instant | None = None
    """The promise: asked for, or made looser by slack; ``None``: none is given."""
    kills: tuple[str, ...] = ()
    """Running jobs that are stopped and start over later so that the promise holds (QoPS)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A start now on chosen nodes with a share of each; ``share`` below ``WHOLE_NODE`` needs a back
    end that enforces it."""

    nodes: tuple[int, ...]
    share: int = WHOLE_NODE
    shares_of_others: tuple[tuple[str, int], ...] = field(default=())
    """(job id, millionths) of running jobs whose share changes with this start."""

    def __post_init__(self) -> None:
        if not self.nodes or len(set(self.nodes)) != len(self.nodes):
            raise InputError("a placement names each of its nodes once")
        if not 0 < self.share <= WHOLE_NODE:
            raise InputError(f"a share is 1 to {WHOLE_NODE} millionths: {self.share}")


class Policy(Protocol):
    """Three questions, each answered from the view alone."""

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
    """The family that is backfilling (FCFS, SJF, EDF, EASY, conservative): everybody is admitted,
    an order serves, the loop places.
    """

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


POLICIES: Final[Mapping[str, BackfillPolicy]] = MappingProxyType(
    {
        "fcfs": BackfillPolicy(backfill=BackfillRule(depth=0)),
        "sjf": BackfillPolicy(order=SHORTEST_FIRST, backfill=BackfillRule(depth=0)),
        "edf": BackfillPolicy(order=EARLIEST_DEADLINE, backfill=BackfillRule(depth=0)),
        "easy": BackfillPolicy(backfill=BackfillRule(depth=1)),
        "easy-sjbf": BackfillPolicy(backfill=BackfillRule(depth=1, fillers=SHORTEST_FIRST)),
        "conservative": BackfillPolicy(backfill=BackfillRule(compression_jobs_max=None)),
        "replan": BackfillPolicy(backfill=BackfillRule(keeps_planned_starts=False)),
    }
)
"""Every policy that a site or a study can name; nothing is discovered."""


def policy_named(name: str) -> BackfillPolicy:
    """The policy called ``name``; ``InputError`` lists the known ones."""
    try:
        return POLICIES[name]
    except KeyError:
        known = ", ".join(POLICIES)
        raise InputError(f"unknown policy {name[:40]!r}", hint=f"known: {known}") from None
