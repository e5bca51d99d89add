"""What a policy is shown of the site, and what it may answer. Values only.

Times are instants, room is whole nodes over time. A node that is shared by several jobs (Libra)
shows as the sum of the shares committed on it; a share is in millionths of a node, so that sums are
exact."""

from __future__ import annotations

from dataclasses import dataclass, field

from gridcore.errors import InputError
from gridcore.instants import Instant
from gridcore.profile import AvailabilityProfile

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
    """One resource class at one moment. ``room`` is a copy: a policy may plan on it as it likes."""

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

    def room(self) -> AvailabilityProfile:
        """A fresh profile of the room, to plan on."""
        return AvailabilityProfile.from_steps(self.capacity, self.room_steps)


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
