"""Catalina's priority: a weighted sum of named terms, with the expansion factor against starvation.

priority = sum of weight x term. The terms (GUR and Catalina paper, section 3; peers.md A.5):

=================  ============================================================================
resources          nodes asked for: large jobs would otherwise lose to small ones that backfill
expansion_factor   (wait + limit) / limit: grows without bound, fastest for short jobs
queue_time         seconds waited: grows without bound for all jobs alike
wall_time          seconds of limit
quality_of_service the site's number for the service the user asked for
administrator      the job's own addend, set by an administrator
target_expansion,  grow as 1 / (target - value) and jump to the service's greatest priority
target_queue_time  when the target is reached
=================  ============================================================================

Every weight must keep the sum growing with waiting (``queue_time`` or ``expansion_factor`` above
0), or jobs could starve; the configuration is refused otherwise. SUBMIT_TIME of the original is
left out: with whole seconds of waiting it says the same as ``queue_time``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.job_queue import QueueOrder, SortKey
from gridtravel.local_sched.scheduling.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityWeights:
    """Weight of each term, in points for one unit of it; the defaults are Catalina's."""

    resources: float = 250.0
    """Points for one node, counted as a share of ``nodes_full``."""
    expansion_factor: float = 1.0
    queue_time: float = 0.03
    """Points for one second."""
    wall_time: float = 0.0
    """Points for one second."""
    quality_of_service: float = 425.0
    administrator: float = 0.004
    target_expansion: float = 1.0
    target_queue_time: float = 1.0

    def __post_init__(self) -> None:
        if (
            self.queue_time < 0
            or self.expansion_factor < 0
            or self.queue_time + self.expansion_factor <= 0
        ):
            raise InputError(
                "priority weights let jobs starve: queue_time and expansion_factor must not be"
                " negative, and one of them above 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOfService:
    """A class of service a user may ask for by name."""

    priority: float = 0.0
    """The value of the quality_of_service term."""
    priority_max: float = 10_000.0
    """What a reached target is worth, before its weight."""
    target_expansion: float | None = None
    """Expansion factor that should not be exceeded."""
    target_queue_time_s: int | None = None
    """Wait that should not be exceeded."""
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    """Who may ask for it, by login or by account; with both empty everybody may."""

    def is_for(self, owner: str, account: str) -> bool:
        """True when a job of ``owner`` on ``account`` may ask for it."""
        return not (self.users or self.accounts) or owner in self.users or account in self.accounts

    def __post_init__(self) -> None:
        if self.target_expansion is not None and self.target_expansion <= 1:
            raise InputError(
                "a target expansion factor is above 1, which is that of a job that never waits"
            )
        if self.target_queue_time_s is not None and self.target_queue_time_s <= 0:
            raise InputError("a target queue time is above 0 seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRule:
    """Weights, services, and the size that counts as a whole machine."""

    weights: PriorityWeights = field(default_factory=PriorityWeights)
    services: Mapping[str, QualityOfService] = field(default_factory=dict)
    """By name; jobs that name none, or an unknown one, get the one called ``""`` or nothing."""
    nodes_full: int = 1
    """A job of so many nodes has the resources term 1."""

    def __post_init__(self) -> None:
        if self.nodes_full < 1:
            raise InputError("nodes_full is at least 1")

    def terms(self, job: Job, now: Instant) -> dict[str, float]:
        """Weighted terms by name; their sum is the priority."""
        weights = self.weights
        wait_s = max(now - job.submitted_at, 0)
        expansion = (wait_s + job.limit_s) / job.limit_s
        service = self._service_of(job)
        return {
            "resources": weights.resources * job.nodes / self.nodes_full,
            "expansion_factor": weights.expansion_factor * expansion,
            "queue_time": weights.queue_time * wait_s,
            "wall_time": weights.wall_time * job.limit_s,
            "quality_of_service": weights.quality_of_service * service.priority,
            "administrator": weights.administrator * job.priority_boost,
            "target_expansion": weights.target_expansion
            * _towards(expansion, service.target_expansion, service.priority_max),
            "target_queue_time": weights.target_queue_time
            * _towards(wait_s, service.target_queue_time_s, service.priority_max),
        }

    def priority(self, job: Job, now: Instant) -> float:
        """The sum of the terms; higher is served first. Written out, for it is asked of every
        waiting job in every cycle."""
        weights = self.weights
        limit_s = job.limit_s
        wait_s = now - job.submitted_at
        if wait_s < 0:
            wait_s = 0
        total = (
            weights.resources * job.nodes / self.nodes_full
            + weights.expansion_factor * (wait_s + limit_s) / limit_s
            + weights.queue_time * wait_s
            + weights.wall_time * limit_s
            + weights.administrator * job.priority_boost
        )
        return total + self._service_points(job, wait_s) if self.services else total

    def _service_points(self, job: Job, wait_s: int) -> float:
        """What the quality of service adds."""
        weights = self.weights
        service = self._service_of(job)
        expansion = (wait_s + job.limit_s) / job.limit_s
        return (
            weights.quality_of_service * service.priority
            + weights.target_expansion
            * _towards(expansion, service.target_expansion, service.priority_max)
            + weights.target_queue_time
            * _towards(wait_s, service.target_queue_time_s, service.priority_max)
        )

    def _service_of(self, job: Job) -> QualityOfService:
        name = job.spec.quality_of_service if job.spec is not None else ""
        return self.services.get(name) or self.services.get("") or _NO_SERVICE


_NO_SERVICE = QualityOfService()


def _towards(value: float, target: float | None, most: float) -> float:
    """0 without a target; else 1 / distance, and ``most`` from the target on."""
    if target is None:
        return 0.0
    return most if value >= target else min(1 / (target - value), most)


def by_priority(rule: PriorityRule) -> QueueOrder:
    """The queue order of a priority rule: highest first, then first come."""

    def key(job: Job, now: Instant) -> SortKey:
        return -rule.priority(job, now), job.sequence

    return QueueOrder(name="priority", key=key, is_fixed=False, terms=rule.terms)
