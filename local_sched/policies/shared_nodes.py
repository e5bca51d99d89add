"""Nodes that several jobs share (Libra, Libra+$, edf-dollar): who is on them, who gets how much.

Everything is exact: instants are seconds with their fraction, a rate is the part of a node that a
task gets, work is processor time in seconds. Whole seconds for the ends of tasks changed up to half
of the decisions, rates in millionths a third. They are rounded when the operating system gets them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob

SETTLED_S: Final = 1e-3
"""What is left of a task's estimate below this counts as nothing; without it a last 1e-9 s has no
need and lingers."""


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
    received_s: float = 0.0
    """Processor time it has had: measured at a live site, else the sum of its rates."""
    rate: float = 0.0
    """Part of the node that it gets at present."""

    @property
    def estimate_left_s(self) -> float:
        """Processor time left by the estimate, at least 0."""
        left_s = self.estimate_s - self.received_s
        return left_s if left_s > SETTLED_S else 0.0


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


class SharingPolicy(Protocol):
    """Whoever is admitted starts at once, on nodes that the policy names."""

    def admit(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Admitted | Decline:
        """May the job come in, on which nodes, at what price? All nodes are up to date.

        A refusal names a deadline or a budget that then does pass, all else as it is.
        """
        ...

    def rates(self, node: SharedNode, now: float) -> Sequence[float]:
        """The part of the node that each of its tasks gets from ``now`` on; in sum at most 1."""
        ...

    def next_change(self, node: SharedNode, now: float) -> float:
        """When the rates of the node change by time alone, if nobody comes or goes; or infinity."""
        ...
