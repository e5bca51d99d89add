"""Nodes that several jobs share (Libra, Libra+$, edf-dollar): who is on them, who gets how much.

Everything is exact: instants are seconds with their fraction, a rate is the part of a node that a
task gets, work is processor time in seconds. Whole seconds for the ends of tasks changed up to half
of the decisions, rates in millionths a third. They are rounded when the operating system gets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, WouldPass

SETTLED_S: Final = 1e-3
"""What is left of a task's estimate up to this counts as nothing; without it a last 1e-9 s has no
need and lingers."""
FULL: Final = 1.0 + 1e-6
"""Most that the needs of a node's tasks may add up to."""
NEVER: Final = float("inf")


@dataclass(slots=True, eq=False)
class SharedTask:
    """A job's part on one node. Tasks of a job go on independently of each other."""

    job_id: str
    sequence: int
    """The job's rank by submission."""
    estimate_s: float
    """Processor time it was said to need (RE)."""
    patience_s: float
    """Time from submission to deadline (D)."""
    deadline: float
    memory_mb: float = 0.0
    disk_mb: float = 0.0
    received_s: float = 0.0
    """Processor time it has had: measured at a live site, else the sum of its rates."""
    rate: float = 0.0
    """Part of the node that it gets at present."""


@dataclass(slots=True, eq=False)
class SharedNode:
    """One node and the tasks on it, in the order of their jobs."""

    number: int
    """Position in its class."""
    tasks: list[SharedTask] = field(default_factory=list)
    updated_at: float = 0.0
    """The instant up to which ``received_s`` of its tasks is right."""
    is_up: bool = True
    """False: it failed, or is drained; nobody is admitted to it."""
    memory_mb: float = NEVER
    disk_mb: float = NEVER


class SharingPolicy(Protocol):
    """Whoever is admitted starts at once, on nodes that the policy names."""

    def admit(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Admitted | Decline:
        """May the job come in, on which nodes, at what price? All nodes are up to date."""
        ...

    def would_pass(
        self, nodes: Sequence[SharedNode], job: PolicyJob, now: float
    ) -> tuple[WouldPass, ...]:
        """For a job that is refused: terms that are admitted at this moment, all else as it is."""
        ...

    def rates(self, node: SharedNode, now: float) -> Sequence[float]:
        """The part of the node that each of its tasks gets from ``now`` on; in sum at most 1."""
        ...

    def next_change(self, node: SharedNode, now: float) -> float:
        """When the rates of the node change by time alone, if nobody comes or goes: after ``now``,
        or infinity. Rates are those that the tasks have.
        """
        ...


def task_of(job: PolicyJob) -> SharedTask:
    """A job's part on one node, before it has run. The job has a deadline."""
    assert job.deadline is not None
    return SharedTask(
        job_id=job.job_id,
        sequence=job.sequence,
        estimate_s=job.work_s,
        patience_s=job.patience_s,
        deadline=job.deadline,
        memory_mb=job.memory_mb,
        disk_mb=job.disk_mb,
    )


def has_space(node: SharedNode, job: PolicyJob) -> bool:
    """True when the memory and the disk that the job needs are free on the node at this moment."""
    if not (job.memory_mb or job.disk_mb):
        return True
    memory_mb = sum(task.memory_mb for task in node.tasks) + job.memory_mb
    disk_mb = sum(task.disk_mb for task in node.tasks) + job.disk_mb
    return memory_mb <= node.memory_mb and disk_mb <= node.disk_mb


def refuse_at_sight(nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Decline | None:
    """What refuses a job whatever runs on the nodes: no deadline, one that is over, too few nodes;
    ``None``: nothing does.
    """
    nodes_up = sum(node.is_up for node in nodes)
    if job.nodes > nodes_up:
        told = f"{job.nodes} nodes were asked for, {nodes_up} are up"
        return Decline(rule=DeclineRule.TOO_LARGE, message=told, nodes_now=nodes_up)
    if job.deadline is None:
        told = "a job on shared nodes needs a deadline"
        return Decline(rule=DeclineRule.DEADLINE, message=told)
    if job.deadline <= now or job.patience_s <= 0:
        return Decline(rule=DeclineRule.DEADLINE, message="its deadline is over")
    return None


def refuse_by_deadline(job: PolicyJob, nodes_now: int) -> Decline:
    """Too few nodes could finish it in time (``cannot_meet_deadline`` of Libra+$)."""
    told = f"{nodes_now} of {job.nodes} nodes could finish it by its deadline"
    return Decline(rule=DeclineRule.DEADLINE, message=told, nodes_now=nodes_now)


def refuse_by_budget(job: PolicyJob, nodes_now: int = 0) -> Decline:
    """Too few nodes could finish it within its budget (``cannot_meet_budget`` of Libra+$)."""
    told = f"its budget of {job.budget:.3f} credits is below the price"
    return Decline(rule=DeclineRule.BUDGET, message=told, nodes_now=nodes_now)
