"""What links the parts of a scheduler, for tests and simulated worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridcore.jobs import JobState

if TYPE_CHECKING:
    from local_sched.scheduler import LocalScheduler


def check_scheduler(scheduler: LocalScheduler) -> None:
    """Assert what links jobs, pools and usage."""
    running, waiting = scheduler.running.values(), scheduler.waiting.values()
    bound = scheduler.reservation_jobs.waiting
    for name, pool in scheduler.pools.items():
        pool.validate([job for job in running if job.class_name == name])
    for job in waiting:
        assert job.state is JobState.QUEUED, f"{job} waits"
        assert (job.job_id in bound) == bool(job.bound_to), f"{job} waits in one place"
    queued = sum(len(pool.queue) + len(pool.set_aside) for pool in scheduler.pools.values())
    assert queued + len(bound) == len(waiting), "nobody is lost"
    assert sum(each.jobs_running for each in scheduler.usage.users.values()) == len(running)
