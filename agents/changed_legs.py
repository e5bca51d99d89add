"""Jobs that wait for a leg of a trip follow it when the trip is changed.

A leg's job takes the whole leg. When the leg becomes smaller or shorter such a job could never
start; when it becomes longer the job would be ended too early. So a queued job that had the size of
the leg, or exceeds what the leg has now, takes the leg's new size, in the same breath, also when
its traveller is gone. What the job is told of its companions only the traveller can know
(``travel_agent.amending``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.agent_events import AgentEvent, JobResized
from agents.job_table import JobTable
from gridcore.calendar_events import ReservationMoved
from gridcore.jobs import JobState
from gridcore.reservations import Reservation


def jobs_follow(
    events: Sequence[AgentEvent], reservations: Mapping[str, Reservation], jobs: JobTable
) -> tuple[JobResized, ...]:
    """What becomes of waiting jobs by ``events``, which are about to be carried out."""
    return tuple(
        resized
        for event in events
        if isinstance(event, ReservationMoved) and event.reservation.request.trip is not None
        for resized in _resized(reservations[event.reservation.reservation_id], event, jobs)
    )


def _resized(old: Reservation, event: ReservationMoved, jobs: JobTable) -> list[JobResized]:
    new, found = event.reservation, []
    for view in jobs.active():
        bound = jobs.bound_reservations.get(view.job_id, ())
        if view.state is not JobState.QUEUED or bound != (new.reservation_id,):
            continue
        nodes = _following(view.spec.nodes, old.nodes, new.nodes)
        limit_s = _following(view.spec.limit_s, old.interval.duration_s, new.interval.duration_s)
        if (nodes, limit_s) != (view.spec.nodes, view.spec.limit_s):
            found.append(JobResized(job_id=view.job_id, nodes=nodes, limit_s=limit_s))
    return found


def _following(wanted: int, old: int, new: int) -> int:
    return new if wanted == old or wanted > new else wanted
