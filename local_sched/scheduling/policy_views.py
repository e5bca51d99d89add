"""What a policy is shown of the scheduler: values, made anew for each question."""

from __future__ import annotations

from collections.abc import Iterable

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import PolicyJob, QueueView
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.pool import ResourcePool


def queue_view(pool: ResourcePool, running: Iterable[Job], now: Instant) -> QueueView:
    """One class at ``now``: its queue in order, those of ``running`` that are in it, and the room
    without any waiting job's place.
    """
    availability = pool.availability_without_queue(now)
    return QueueView(
        now=now,
        nodes=pool.nodes_up,
        capacity=pool.profile.capacity,
        waiting=tuple(policy_job(job) for job in pool.in_order(now)),
        running=tuple(policy_job(job) for job in running if job.class_name == pool.name),
        room_steps=tuple(availability.steps()),
    )


def policy_job(job: Job) -> PolicyJob:
    """A job as a policy may know it. Made anew only when something of it has changed: a policy is
    asked of every waiting job in each cycle.
    """
    wishes = job.wishes
    booked_until = None if job.started_at is None else job.booked_until
    if job.policy_view is not None:
        of_wishes, view = job.policy_view
        if (
            of_wishes is wishes
            and view.deadline == job.deadline
            and view.started_at == job.started_at
            and view.planned_start == job.planned_start
            and view.booked_until == booked_until
            and view.sequence == job.sequence
            and view.limit_s == job.limit_s
            and view.nodes == job.nodes
        ):
            return view
    view = PolicyJob(
        job_id=job.job_id,
        nodes=job.nodes,
        limit_s=job.limit_s,
        estimate_s=wishes.estimate_s,
        submitted_at=job.submitted_at,
        sequence=job.sequence,
        owner=job.owner,
        account=job.account,
        deadline=job.deadline,
        budget=wishes.budget,
        is_restartable=wishes.is_restartable,
        planned_start=job.planned_start,
        started_at=job.started_at,
        booked_until=booked_until,
        memory_mb=wishes.memory_mb,
        disk_mb=wishes.disk_mb,
    )
    job.policy_view = wishes, view
    return view
