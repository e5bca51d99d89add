"""The frozen view a policy is given, taken from the scheduler at one moment."""

from __future__ import annotations

from gridcore.instants import Instant
from local_sched.policies.policy import view_of_running, view_of_waiting
from local_sched.policies.site_view import SiteView
from local_sched.scheduler import LocalScheduler


def site_view(scheduler: LocalScheduler, class_name: str, now: Instant) -> SiteView:
    """One class at ``now``: its queue in order, what runs, and the room without any waiting
    job's place.
    """
    pool = scheduler.pools[class_name]
    room = pool.room_without_queue(now)
    waiting = pool.in_order(now)
    running = [job for job in scheduler.running.values() if job.class_name == class_name]
    return SiteView(
        now=now,
        nodes=pool.nodes_up,
        capacity=pool.profile.capacity,
        waiting=tuple(view_of_waiting(job) for job in waiting),
        running=tuple(view_of_running(job, now) for job in running),
        room_steps=tuple(room.steps()),
    )
