"""Another size for a job that waits for its reservation: it has no place in the queue that could
change with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from local_sched.scheduler import LocalScheduler


def resize_bound(scheduler: LocalScheduler, job_id: str, nodes: int, limit_s: int) -> None:
    """Give a waiting job another size; one that does not wait for a reservation is left alone."""
    job = scheduler.reservation_jobs.waiting.get(job_id)
    if job is not None:
        job.nodes, job.limit_s = nodes, limit_s
