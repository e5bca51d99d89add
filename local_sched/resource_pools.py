"""The nodes of one resource class with everything that is planned on them.

Nodes are counted for the future and named at the start: with interchangeable nodes, whenever the
count allows a start, that many nodes are idle then. The names are bits of one integer
(performance.md, 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from gridcore.errors import ConflictError, InputError
from gridcore.profile import AvailabilityProfile
from local_sched.backfill import Backfill, BackfillRule
from local_sched.job_queue import JobQueue
from local_sched.jobs import Job
from local_sched.ordering import QueueOrder


class NodeNames:
    """Which nodes are idle, and which are down; bit *i* stands for ``names[i]``."""

    __slots__ = ("down", "idle", "names")

    def __init__(self, names: Sequence[str]) -> None:
        if len(set(names)) != len(names):
            raise InputError("two nodes have the same name")
        self.names = tuple(names)
        self.idle = (1 << len(names)) - 1
        """Nodes that no job runs on and that are up."""
        self.down = 0

    def take(self, count: int) -> int:
        """Take the ``count`` lowest idle nodes; ``ConflictError`` when there are fewer."""
        mask = lowest_bits(self.idle, count)
        if mask is None:
            raise ConflictError(
                f"{count} nodes are to start a job, {self.idle.bit_count()} are idle"
            )
        self.idle ^= mask
        return mask

    def give_back(self, mask: int) -> None:
        """Nodes of a job that is over; those that are down stay out of use."""
        self.idle |= mask & ~self.down

    def named(self, mask: int) -> tuple[str, ...]:
        """The names behind a mask, in order of the class's list."""
        return tuple(name for bit, name in enumerate(self.names) if mask >> bit & 1)

    def bit_of(self, name: str) -> int:
        """The bit of one node; ``InputError`` when the class has no such node."""
        try:
            return 1 << self.names.index(name)
        except ValueError:
            raise InputError(f"no node is called {name[:80]!r}") from None


def lowest_bits(mask: int, count: int) -> int | None:
    """The ``count`` lowest set bits of ``mask``, or ``None``; by bisection, not bit by bit."""
    if mask.bit_count() < count:
        return None
    low, high = 0, mask.bit_length()
    while low < high:
        middle = (low + high) // 2
        if (mask & ((1 << middle) - 1)).bit_count() >= count:
            high = middle
        else:
            low = middle + 1
    return mask & ((1 << low) - 1)


class ResourcePool:
    """Profile, queue, plan and node names of one class. Mutable, owned by the scheduler."""

    __slots__ = ("backfill", "features", "name", "nodes", "profile", "queue")

    def __init__(
        self,
        name: str,
        profile: AvailabilityProfile,
        rule: BackfillRule,
        order: QueueOrder,
        *,
        features: tuple[str, ...] = (),
        node_names: Sequence[str] | None = None,
    ) -> None:
        if node_names is not None and len(node_names) != profile.capacity:
            raise InputError(
                f"class {name!r} has {profile.capacity} nodes and {len(node_names)} node names"
            )
        self.name = name
        self.features = frozenset(features)
        self.profile = profile
        """Shared with the site's calendar: running jobs, places and reservations in one sum."""
        self.queue = JobQueue(order)
        self.backfill = Backfill(profile, rule)
        self.nodes = None if node_names is None else NodeNames(node_names)
        """``None``: nothing is launched here, counts are enough (a replay)."""

    def bind_nodes(self, job: Job) -> None:
        """Choose the nodes a starting job runs on."""
        if self.nodes is not None:
            job.node_mask = self.nodes.take(job.nodes)

    def validate(self, running: Sequence[Job]) -> None:
        """Assert that names agree with running jobs and every place is within the queue."""
        self.profile.validate()
        if self.nodes is not None:
            used = 0
            for job in running:
                assert job.node_mask.bit_count() == job.nodes, f"{job} has its nodes"
                assert not used & job.node_mask, "no node runs two jobs"
                used |= job.node_mask
            assert not used & self.nodes.idle, "a node is idle or busy, not both"
