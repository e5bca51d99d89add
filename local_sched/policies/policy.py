"""What a policy is shown of a job and of a queue, and what it may answer.

Instants of a queue are whole numbers in the clock's unit (seconds at a live site), those of shared
nodes are exact (``shared_nodes``). Money is in credits here, as the papers have it; a ledger counts
whole millicredits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyJob:
    """A job as a policy may know it."""

    job_id: str
    nodes: int
    limit_s: int
    """Its nodes are planned for so long, and it is ended then; on shared nodes nobody asks."""
    estimate_s: float = 0.0
    """Processor time it needs on each node (E in the papers), which is no limit; 0: ``limit_s``."""
    submitted_at: float
    sequence: int
    """Rank by submission; every tie between jobs ends here."""
    owner: str = ""
    account: str = ""
    deadline: float | None = None
    """The instant by which it must be over, as promised or as asked for; ``None``: any time."""
    budget: float | None = None
    """Most it may cost, in credits (B); ``None``: anything."""
    is_restartable: bool = False
    """True: it may be ended and run again from its beginning."""
    planned_start: Instant | None = None
    """While it waits: its start in the queue's plan; ``None``: it has none."""
    started_at: float | None = None
    booked_until: Instant | None = None
    """While it runs: end of what is booked for it."""
    memory_mb: float = 0.0
    """Memory that it needs on each node; asked for on shared nodes only."""
    disk_mb: float = 0.0

    def __post_init__(self) -> None:
        # Comparisons are false for NaN. A view of a long queue makes thousands of these.
        if not (
            0 <= self.estimate_s < inf
            and 0 <= self.memory_mb < inf
            and 0 <= self.disk_mb < inf
            and (self.budget is None or 0 <= self.budget < inf)
            and (self.deadline is None or -inf < self.deadline < inf)
        ):
            raise InputError(
                "a job's estimate, budget, memory and disk must be numbers, at least 0, and its"
                f" deadline an instant: {self.estimate_s}, {self.budget}, {self.memory_mb},"
                f" {self.disk_mb}, {self.deadline}"
            )

    @property
    def work_s(self) -> float:
        """Processor time it needs on each node, by its owner's word."""
        return self.estimate_s or self.limit_s

    @property
    def patience_s(self) -> float:
        """Time from its submission to its deadline (D in the papers); without one, infinite."""
        return inf if self.deadline is None else self.deadline - self.submitted_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Yes: the job is accepted, on these terms."""

    price: float = 0.0
    """Credits for the whole job."""
    deadline: float | None = None
    """The promise: as asked for, or made looser by slack; ``None``: none is given."""
    node_numbers: tuple[int, ...] = ()
    """Where nodes are shared: those it runs on, by their position in the class."""
    kills: tuple[tuple[str, Instant], ...] = ()
    """Running restartable jobs that are ended and queue again to keep the promise (QoPS), and when
    their nodes are free."""
    plan: tuple[tuple[str, Instant], ...] = ()
    """Starts of waiting jobs, this one among them, on which the promise rests: the queue takes them
    over as they are. Empty: the queue plans by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldPass:
    """Terms on which a refused job would be admitted at this moment, all else as it is."""

    deadline: float
    budget: float | None
    """Credits; ``None``: it set no budget, and needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Decline):
    """A policy's refusal, with the terms that would pass; its message tells them too."""

    would_pass: tuple[WouldPass, ...] = ()
    """The least change first; empty: nothing passes until jobs end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One class of whole nodes at one moment. ``availability`` makes a copy: a policy may plan on
    it as it likes.
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

    def availability(self) -> AvailabilityProfile:
        """A fresh profile of the room, to plan on."""
        return AvailabilityProfile.from_steps(self.capacity, self.room_steps)


class QueuePolicy(Protocol):
    """What is decided beside the order and the backfill rule of a queue."""

    def admit(self, view: QueueView, job: PolicyJob) -> Admitted | Decline:
        """May the job come in, at what price, with what promise? A refusal says what would pass."""
        ...

    def prioritise(self, view: QueueView) -> Sequence[str] | None:
        """All waiting jobs by id, the one to be served first in front; ``None``: in the queue's
        own order.
        """
        ...

    def gives_up(self, job: PolicyJob, now: Instant) -> str:
        """Why a waiting job leaves the queue unserved, for its owner; empty: it stays."""
        ...
