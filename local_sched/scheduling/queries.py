"""Read-only questions about the queue: why a job waits, when it would start, what fits now, in
which order jobs are served, and what the nodes are doing.

They answer from copies; asking changes nothing, however often it is done.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a job is where it is."""

    job_id: str
    state: JobState
    reason: str
    """One sentence; empty for a job that runs or is over."""
    planned_start: Instant | None = None
    """As planned, or the forecast of a job that has no planned start."""
    is_promised: bool = False
    """True when the start is booked and can only become earlier."""
    jobs_before: int = 0
    """Jobs of the same class that are served first."""
    priority_terms: dict[str, float] = field(default_factory=dict)
    """Weighted terms of the priority by name; empty where the order is not by priority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillWindow:
    """What is free for a job that starts now: ``nodes`` nodes for ``duration_s`` seconds."""

    resource_class: str
    nodes: int
    duration_s: int | None
    """``None``: without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """Where a waiting job stands among those that wait for the same nodes."""

    job: Job
    position: int
    """1 is served next; jobs that are bound to reservations, or were admitted to shared nodes, are
    not in line and have 0."""
    reason: WaitReason
    terms: Mapping[str, float]
    """Weighted terms of the priority by name; empty where the order is not by priority."""

    @property
    def priority(self) -> float | None:
        """Their sum; ``None`` where the order is not by priority."""
        return sum(self.terms.values()) if self.terms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """What the nodes of a class do at one moment; ``busy + idle + down`` is ``nodes``."""

    resource_class: str
    nodes: int
    busy: int
    """Up, and with a job on them."""
    idle: int
    """Up, without a job."""
    reserved: int
    """Of the idle ones: kept for a running reservation, whatever its jobs use."""
    down: int


def why(scheduler: LocalScheduler, job_id: str, now: Instant) -> Explanation:
    """The planned start and the reason of a job that is waiting, running or still remembered."""
    job = scheduler.waiting.get(job_id)
    if job is None:
        known = scheduler.running.get(job_id) or scheduler.finished.get(job_id)
        if known is None:
            raise NotFoundError(
                f"no job {job_id!r}",
                hint="it may have started or ended meanwhile: catalina show-q, catalina history",
            )
        return Explanation(job_id=job_id, state=known.state, reason="")
    if job.bound_to or job.class_name in scheduler.shared:
        return Explanation(
            job_id=job_id, state=job.state, reason=str(waiting_reason(scheduler, job))
        )
    starts = scheduler.plan_of_queue(job.class_name, now)[1]
    pool = scheduler.pools[job.class_name]
    order = pool.in_order(now)
    terms = pool.queue.order.terms
    return Explanation(
        job_id=job_id,
        state=job.state,
        reason=str(waiting_reason(scheduler, job)),
        planned_start=starts.get(job_id),
        is_promised=job.planned_start is not None and pool.backfill.rule.keeps_planned_starts,
        jobs_before=order.index(job),
        priority_terms=dict(terms(job, now)) if terms is not None else {},
    )


def waiting_reason(scheduler: LocalScheduler, job: Job) -> WaitReason:
    """Why a job that waits does not run."""
    if job.hold_reason is not None:
        return job.hold_reason
    if job.bound_to or job.class_name in scheduler.shared:
        return job.reason
    pool = scheduler.pools[job.class_name]
    return _reason(scheduler, job, pool.set_aside, pool.queue.arrivals)


def _reason(
    scheduler: LocalScheduler, job: Job, aside: Container[Job], arrivals: Container[Job]
) -> WaitReason:
    if scheduler.mode is not SchedulerMode.RUNNING:
        return WaitReason.SITE_SUSPENDED
    if job in aside:
        return job.reason
    if job in arrivals:
        return WaitReason.NEW
    if job.planned_start is not None:
        return WaitReason.NO_ROOM
    depth = scheduler.pools[job.class_name].backfill.rule.depth
    if depth is None:
        return WaitReason.TOO_FEW_NODES
    return WaitReason.QUEUE_BLOCKED if depth == 0 else WaitReason.BEHIND_OTHERS


def estimate(
    scheduler: LocalScheduler, class_name: str, nodes: int, limit_s: int, now: Instant
) -> Instant | None:
    """When a job submitted now would start, after all that are queued; ``None``: never (too
    large).
    """
    return scheduler.free_after_queue(class_name, now).earliest_fit(nodes, limit_s, now)


def backfill_windows(
    scheduler: LocalScheduler, class_name: str, now: Instant
) -> list[BackfillWindow]:
    """What could start now without moving anybody's planned start, widest first (Catalina's
    show_bf)."""
    profile = scheduler.free_after_queue(class_name, now)
    windows = []
    steps = profile.steps()
    nodes = steps[0][1]
    for start, free in steps[1:]:
        if nodes <= 0:
            break
        if free < nodes:
            windows.append(
                BackfillWindow(resource_class=class_name, nodes=nodes, duration_s=start - now)
            )
            nodes = free
    if nodes > 0:
        windows.append(BackfillWindow(resource_class=class_name, nodes=nodes, duration_s=None))
    return windows


def service_order(scheduler: LocalScheduler, now: Instant) -> list[QueueEntry]:
    """Everything that waits: class by class as it would be served, then what is bound to
    reservations. O(n log n); no plan is made for it.
    """
    entries = []
    for pool in scheduler.pools.values():
        terms = pool.queue.order.terms
        aside, arrivals = frozenset(pool.set_aside), frozenset(pool.queue.arrivals)
        for position, job in enumerate(pool.in_order(now), start=1):
            entries.append(
                QueueEntry(
                    job=job,
                    position=position,
                    reason=_reason(scheduler, job, aside, arrivals),
                    terms={} if terms is None else terms(job, now),
                )
            )
    entries += [
        QueueEntry(job=job, position=0, reason=job.reason, terms={})
        for job in scheduler.reservation_jobs.waiting.values()
    ]
    entries += [
        QueueEntry(job=job, position=0, reason=job.reason, terms={})
        for job in scheduler.shared.admitted
    ]
    return entries


def node_counts(scheduler: LocalScheduler, now: Instant) -> list[NodeCount]:
    """What every class's nodes do, for classes whose nodes have names (all of a live site). A
    shared node with any job on it is busy.
    """
    kept = dict.fromkeys(scheduler.pools, 0)
    for reservation in scheduler.reservation_jobs.running_now(now):
        kept[reservation.resource_class] += scheduler.reservation_jobs.unused_nodes(reservation)
    counts = []
    for name, pool in scheduler.pools.items():
        if pool.nodes is None:
            continue
        nodes, idle = len(pool.nodes.names), pool.nodes.idle.bit_count()
        down = pool.nodes.down.bit_count()
        counts.append(
            NodeCount(
                resource_class=name,
                nodes=nodes,
                busy=nodes - idle - down,
                idle=idle,
                reserved=min(kept[name], idle),
                down=down,
            )
        )
    for name, shared in scheduler.shared.classes.items():
        down = sum(not node.is_up for node in shared.nodes)
        busy = sum(node.is_up and bool(node.tasks) for node in shared.nodes)
        nodes = len(shared.nodes)
        counts.append(
            NodeCount(
                resource_class=name,
                nodes=nodes,
                busy=busy,
                idle=nodes - busy - down,
                reserved=0,
                down=down,
            )
        )
    return counts
