"""After a restart: from what the journal remembers of jobs to a scheduler that knows them.

Reservations come first (the calendar was replayed), then running jobs, failed nodes, and the queue
in its old order, each job at the start it was told as far as its nodes are still free; so a restart
makes no start later. The first cycle plans the others behind them.
"""

from __future__ import annotations

import logging

from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.journal.state import SiteState
from gridtravel.gridcore.booking.reservations import Decline, ReservationState
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.local_sched.admission.admit import choose_class
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

log = logging.getLogger(__name__)

NO_CLASS = "its site no longer has nodes for it"


def restore_jobs(
    scheduler: LocalScheduler,
    jobs: JobTable,
    state: SiteState,
    now: int,
    moment: float | None = None,
) -> list[str]:
    """Tell the scheduler all jobs that are not over; returns those it has no nodes for any more.
    ``moment``: ``now`` to its fraction.
    """
    at = float(now) if moment is None else moment
    without_class: list[str] = []
    active = jobs.active()
    for view in active:
        if view.state is JobState.QUEUED:
            continue
        job = scheduler_job(scheduler, jobs, view)
        if job is None:
            without_class.append(view.job_id)
            continue
        job.started_at = view.started_at
        scheduler.restore_running(
            job,
            jobs.booked_until[view.job_id],
            jobs.runs_inside.get(view.job_id, ""),
            view.node_names,
            moment=at,
        )
    for event in jobs.makes_way.values():
        if event.job_id in scheduler.running:
            scheduler.make_way(event.job_id, max(event.free_from, now), event.again_at)
    restore_site(scheduler, state, now)
    for view in active:
        if view.state is not JobState.QUEUED:
            continue
        job = scheduler_job(scheduler, jobs, view)
        if job is None:
            without_class.append(view.job_id)
        else:
            scheduler.submit(job, now, at)
    for reservation_id, job_ids in jobs.bound_jobs.items():
        scheduler.bind_reservation(reservation_id, job_ids)
    restore_reservations(scheduler, state, now)
    restore_planned_starts(scheduler, state)
    return without_class


def restore_site(scheduler: LocalScheduler, state: SiteState, now: int) -> None:
    """The mode, and the nodes that had failed."""
    scheduler.mode = state.mode
    for name in state.nodes_down:
        class_name = class_of_node(scheduler, name)
        if class_name is None:
            log.warning("node %s was down and is no longer part of the site", name)
        else:
            scheduler.node_down(class_name, name, now)


def restore_reservations(scheduler: LocalScheduler, state: SiteState, now: int) -> None:
    """Which nodes and which users the site's own reservations are for. After the queue, whose
    longest limit counts, and before the planned starts, which must leave the nodes alone.
    """
    reservations = scheduler.reservation_jobs.book.reservations
    for reservation_id, access in state.access.items():
        scheduler.reservation_jobs.open_to(reservation_id, access)
    for reservation_id, names in state.fixed.items():
        kept = reservations.get(reservation_id)
        if kept is None or kept.state is not ReservationState.COMMITTED:
            continue
        known = [each for each in names if class_of_node(scheduler, each) == kept.resource_class]
        if len(known) < len(names):
            log.warning("reservation %s names nodes that the site lost", reservation_id)
        scheduler.drain_nodes(kept, known, now)


def restore_planned_starts(scheduler: LocalScheduler, state: SiteState) -> None:
    """Give waiting jobs the starts they were told, the earliest first."""
    for job_id, start in sorted(state.told.items(), key=lambda each: each[1]):
        job = scheduler.waiting.get(job_id)
        if job is not None and not job.bound_to:
            scheduler.pools[job.class_name].backfill.keep_planned_start(job, start)


def class_of_node(scheduler: LocalScheduler, name: str) -> str | None:
    """The resource class that a node belongs to."""
    for class_name, pool in scheduler.pools.items():
        if pool.nodes is not None and name in pool.nodes.names:
            return class_name
    return scheduler.shared.class_of_node(name)


def scheduler_job(scheduler: LocalScheduler, jobs: JobTable, view: JobView) -> Job | None:
    """The job as the scheduler knows it; ``None`` when no resource class can take it."""
    spec = view.spec
    class_name: str | Decline | None = _class_of(scheduler, jobs, view)
    if class_name is None and not (view.terms and view.terms.node_numbers):
        class_name = choose_class(scheduler, spec)
    if not isinstance(class_name, str):
        return None
    job = Job(
        view.job_id,
        spec.nodes,
        spec.limit_s,
        view.submitted_at,
        view.owner,
        spec.account,
        class_name,
        spec,
    )
    job.bound_to = jobs.bound_reservations.get(view.job_id, ())
    job.priority_boost = jobs.boosts.get(view.job_id, 0)
    job.hold_reason = jobs.hold_reason(view.job_id)
    if view.terms is not None:
        job.terms, job.deadline = view.terms, view.terms.deadline
    return job


def _class_of(scheduler: LocalScheduler, jobs: JobTable, view: JobView) -> str | None:
    """The class that the job was accepted for, if the site still has it and room for the job."""
    class_name = jobs.classes.get(view.job_id, "")
    if view.terms is not None and view.terms.node_numbers:
        return class_name if scheduler.shared.has_nodes_of(class_name, view.terms) else None
    pool = scheduler.pools.get(class_name)
    if pool is None:
        return None
    fits = pool.profile.capacity >= view.spec.nodes and pool.features.issuperset(view.spec.features)
    return pool.name if fits else None
