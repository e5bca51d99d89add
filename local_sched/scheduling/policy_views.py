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
    """A job as a policy may know it."""
    wishes = job.wishes
    return PolicyJob(
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
        started_at=job.started_at,
    )
