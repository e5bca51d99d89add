"""What a site decides about its scheduler; plain values, validated, with the reason for each
default.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.job_queue import FIRST_COME, QueueOrder
from gridtravel.local_sched.scheduling.priority import QualityOfService


class SchedulerMode(enum.StrEnum):
    """What the administrator allows (Catalina's state:running|suspended|stopped)."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    """Jobs are accepted, none is started; those that had a planned start keep it."""
    STOPPED = "stopped"
    """Neither accepted nor started; running jobs go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """Caps on what one user or one account may have at a time; ``None``: no cap."""

    jobs_waiting_max_per_user: int | None = None
    jobs_running_max_per_user: int | None = None
    nodes_running_max_per_user: int | None = None
    jobs_waiting_max_per_account: int | None = None
    jobs_running_max_per_account: int | None = None
    nodes_running_max_per_account: int | None = None
    jobs_waiting_max: int = 100_000
    """Of the whole site; a submission beyond it is refused, so that memory has a bound."""
    limit_max_s: int | None = None
    """Longest wall-clock limit a job may ask for, in seconds."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InputError(f"{name} must not be negative: {value}")

    @property
    def restricts_starts(self) -> bool:
        """True when a waiting job may have to wait for a job of its own user or account."""
        caps = (
            self.jobs_running_max_per_user,
            self.nodes_running_max_per_user,
            self.jobs_running_max_per_account,
            self.nodes_running_max_per_account,
        )
        return any(cap is not None for cap in caps)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrunRule:
    """What happens when a job is still there at the end of its limit."""

    step_s: int = 30
    """Its nodes are booked this much further at a time, until its end is reported. 0: not at all;
    it is expected to end at once, nobody starts on its nodes before it has, and it is not stopped
    (a rule of replays).
    """
    grace_s: int = 120
    """It is told to stop this long after its limit (Catalina's MAXJOBOVERRUN), or at once when
    somebody
    else is promised its nodes."""
    trusts_limits: bool = False
    """True: its nodes count as free from the limit on, whatever is reported (a replay rule only).
    """

    def __post_init__(self) -> None:
        if self.step_s < 0 or self.grace_s < 0:
            raise InputError("an overrun step and its grace must not be negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRule:
    """How the queue of a class of whole nodes is served."""

    order: QueueOrder = FIRST_COME
    backfill: BackfillRule = field(default_factory=BackfillRule)
    policy: QueuePolicy | None = None

    @property
    def promises_starts(self) -> bool:
        """True when every waiting job has a planned start, which can only become earlier."""
        return self.backfill.depth is None and self.backfill.keeps_planned_starts


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """The scheduler of one site."""

    order: QueueOrder = FIRST_COME
    backfill: BackfillRule = field(default_factory=BackfillRule)
    """The default gives every job a planned start and keeps it: the paper's promise to queued jobs
    in its strongest form (Catalina's RESERVATION_DEPTH=None)."""
    policy: QueuePolicy | None = None
    """Who is let in and at what price, who leaves, and an order of its own; ``None``: everybody is
    let in."""
    by_class: Mapping[str, QueueRule] = field(default_factory=dict)
    """Classes whose queues are served otherwise."""
    limits: JobLimits = field(default_factory=JobLimits)
    services: Mapping[str, QualityOfService] = field(default_factory=dict)
    """Qualities of service by name. Where there are any, no job may ask for another."""
    overrun: OverrunRule = field(default_factory=OverrunRule)
    history_jobs_max: int = 10_000
    """Jobs that are over and still shown; the oldest are forgotten first."""

    def __post_init__(self) -> None:
        if self.history_jobs_max < 0:
            raise InputError("history_jobs_max must not be negative")

    def rule_of(self, class_name: str) -> QueueRule:
        """How the queue of a class is served."""
        own = self.by_class.get(class_name)
        if own is not None:
            return own
        return QueueRule(order=self.order, backfill=self.backfill, policy=self.policy)
