"""After a restart: from what the journal remembers of jobs to a scheduler that knows them.

Reservations come first (the calendar was replayed), then running jobs, then the queue in its old
order; so everything finds the room it had.
"""

from __future__ import annotations

from agents.job_table import JobTable
from gridcore.jobs import JobState, JobView
from local_sched.admission import choose_class
from local_sched.jobs import Job
from local_sched.scheduler import LocalScheduler

NO_CLASS = "its site no longer has nodes for it"


def restore_jobs(scheduler: LocalScheduler, jobs: JobTable, now: int) -> list[str]:
    """Tell the scheduler all jobs that are not over; returns those it has no nodes for any more."""
    homeless: list[str] = []
    active = jobs.active()
    for view in active:
        if view.state is JobState.QUEUED:
            continue
        job = scheduler_job(scheduler, jobs, view)
        if job is None:
            homeless.append(view.job_id)
            continue
        job.started_at = view.started_at
        scheduler.restore_running(
            job,
            jobs.room_until[view.job_id],
            jobs.runs_inside.get(view.job_id, ""),
            view.node_names,
        )
    for view in active:
        if view.state is not JobState.QUEUED:
            continue
        job = scheduler_job(scheduler, jobs, view)
        if job is None:
            homeless.append(view.job_id)
        else:
            scheduler.submit(job, now)
    for reservation_id, job_ids in jobs.bound_jobs.items():
        scheduler.bind_reservation(reservation_id, job_ids)
    return homeless


def scheduler_job(scheduler: LocalScheduler, jobs: JobTable, view: JobView) -> Job | None:
    """The job as the scheduler knows it; ``None`` when no resource class can take it."""
    spec = view.spec
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
    return job
