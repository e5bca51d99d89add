"""A job as the scheduler knows it: what the user said, where it stands, and why it waits.

Never its true run time: that belongs to the simulated world (``simulator.replay.swf.TraceJob``).
Not the value that crosses the wire either (``gridcore.jobs.job.JobView``), which the agent makes of
it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobTerms
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import PolicyJob

MILLI: Final = 1_000
"""Millicredits of a credit: money is in credits inside policies, as in the papers."""


class WaitReason(enum.StrEnum):
    """Why a waiting job does not run; each is one sentence a user can act on."""

    NEW = "the scheduler has not looked at it yet"
    NO_ROOM = "not enough nodes are free; it has a planned start"
    BEHIND_OTHERS = "jobs before it in the queue have the next reservations"
    QUEUE_BLOCKED = "the job at the head of the queue waits, and nothing may overtake it"
    HELD = "it was put on hold by its owner or an administrator"
    HANDOVER = "it waits for the stage before it, and for what it takes over from there"
    INPUTS = "it waits for input files that its owner has to send"
    SITE_SUSPENDED = "the site does not start jobs at the moment"
    USER_LIMIT = "its user has as many jobs or nodes running as one user may have"
    ACCOUNT_LIMIT = "its account has as many jobs or nodes running as one account may have"
    RESERVATION_AHEAD = "its reservation has not begun"
    RESERVATION_FULL = "other jobs fill its reservation"
    RESERVATION_SHORT = "what is left of its reservation is too short or too small for it"
    RESERVATION_OVER = "every reservation it is bound to is over"
    RESERVATION_CLOSED = "its reservation belongs to somebody else, or is kept for other jobs"
    NODES_BUSY = "nodes that are promised to it are still in use or being repaired"
    ADMITTED = "it was admitted to nodes that jobs share, and starts at once"
    TOO_FEW_NODES = "more nodes are down than the site can spare; it waits for repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What its owner said of a job's worth and nature, for policies that ask."""

    estimate_s: float = 0.0
    """Processor time it needs on each node, which is no limit; 0: its limit."""
    budget: float | None = None
    """Most it may cost, in credits; ``None``: anything."""
    is_restartable: bool = False
    memory_mb: float = 0.0
    """That it needs on each node, where jobs share nodes."""
    disk_mb: float = 0.0


NO_WISHES: Final = Wishes()


def _wishes_of(spec: JobSpec) -> Wishes:
    budget = spec.budget_millicredits
    return Wishes(
        estimate_s=float(spec.estimate_s or 0),
        budget=None if budget is None else budget / MILLI,
        is_restartable=spec.is_restartable,
        memory_mb=float(spec.memory_mb or 0),
        disk_mb=float(spec.disk_mb or 0),
    )


class Job:
    """One job from submission to its end. Changed only by ``LocalScheduler`` and what it is made
    of.
    """

    __slots__ = (
        "account",
        "booked_until",
        "bound_to",
        "class_name",
        "deadline",
        "ended_at",
        "exit_code",
        "hold_reason",
        "is_booked",
        "job_id",
        "kills",
        "limit_s",
        "node_mask",
        "nodes",
        "owner",
        "plan",
        "planned_start",
        "policy_view",
        "priority_boost",
        "promised_start",
        "reason",
        "reservation_id",
        "sequence",
        "spec",
        "started_at",
        "state",
        "submitted_at",
        "terms",
        "watch_at",
        "wishes",
    )

    def __init__(
        self,
        job_id: str,
        nodes: int,
        limit_s: int,
        submitted_at: Instant,
        owner: str,
        account: str,
        class_name: str,
        spec: JobSpec | None = None,
    ) -> None:
        self.job_id = job_id
        self.nodes = nodes
        self.limit_s = limit_s
        """Wall-clock limit the user gave, in seconds; planning believes it."""
        self.submitted_at = submitted_at
        self.owner = owner
        self.account = account
        self.class_name = class_name
        self.spec = spec
        """What to run; ``None`` in a replay, where nothing is launched."""
        self.sequence = 0
        """Rank by submission; every tie between jobs ends here."""
        self.state = JobState.QUEUED
        self.reason = WaitReason.NEW
        self.planned_start: Instant | None = None
        """While waiting: its start in the plan, booked in the profile; ``None``: it has none."""
        self.promised_start: Instant | None = None
        """Earliest start it was ever told; a promise where planned starts are kept, else a
        forecast."""
        self.started_at: Instant | None = None
        self.booked_until: Instant = 0
        """While running: end of what is booked for it, its limit plus any extension."""
        self.ended_at: Instant | None = None
        self.exit_code: int | None = None
        self.node_mask = 0
        """Names of its nodes as bits of the class's node list; chosen at the start."""
        self.bound_to: tuple[str, ...] = ()
        """Reservations it may run in; empty: the open queue."""
        self.reservation_id = ""
        """Reservation it runs inside; its nodes are booked by the reservation, not again."""
        self.is_booked = True
        """While running: its time is booked in the profile on its own account; false inside a
        reservation.
        """
        self.watch_at: Instant = 0
        """When the scheduler looks next whether it is past the time booked for it."""
        self.hold_reason: WaitReason | None = None
        """``HELD``, ``HANDOVER`` or ``INPUTS``: it is passed over; ``None``: it is in line."""
        self.priority_boost = 0
        """Administrator's addend to the priority (Catalina's local admin term)."""
        self.deadline = None if spec is None else spec.deadline
        """As asked for; once the job is accepted, as promised."""
        self.wishes = NO_WISHES if spec is None else _wishes_of(spec)
        self.plan: tuple[tuple[str, Instant], ...] = ()
        """Starts of waiting jobs on which its admission rests, until it joins the queue."""
        self.kills: tuple[tuple[str, Instant], ...] = ()
        """Running jobs that make way for it, and when their nodes are free; until the same moment.
        """
        self.terms: JobTerms | None = None
        """What was agreed with its owner; ``None``: its class has no policy."""
        self.policy_view: tuple[Wishes, PolicyJob] | None = None
        """What a policy was shown of it last; kept by ``policy_views``."""

    def __repr__(self) -> str:
        """Short form for failing tests."""
        return (
            f"Job({self.job_id}, {self.nodes} x {self.limit_s} s, {self.state}, planned "
            f"{self.planned_start}, started {self.started_at})"
        )
