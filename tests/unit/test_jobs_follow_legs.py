"""Jobs that wait for a leg take its new size when the trip is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridtravel.agents.journal.events import JobAccepted, JobResized, JobStarting
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_events import ReservationMoved
from gridtravel.gridcore.booking.reservations import Reservation, TripRef
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from gridtravel.gridcore.timing.instants import Interval
from tests.support.builders import a_request, a_reservation

TRIP = TripRef(trip_id="t", leg="lab", participants=("lab",))
OLD = a_reservation(nodes=4, interval=Interval(100, 200), request=a_request("r", trip=TRIP))


def a_table(**spec: Any) -> JobTable:
    """One job, ``1.lab``, that waits for the leg."""
    values: dict[str, Any] = {
        "request_id": "j",
        "name": "job",
        "account": "physics",
        "nodes": 4,
        "limit_s": 100,
        "argv": ("run",),
        "reservation_id": OLD.reservation_id,
    }
    jobs = JobTable("lab")
    job = JobSpec(**(values | spec))
    jobs.apply(JobAccepted(job_id="1.lab", owner="ada", spec=job, at=0))
    return jobs


def following(jobs: JobTable, new: Reservation) -> tuple[JobResized, ...]:
    """What becomes of the job when the leg is ``new``."""
    moved = ReservationMoved(reservation=new, at=10)
    return jobs.resized_by([moved], {OLD.reservation_id: OLD})


@pytest.mark.parametrize(
    ("wanted", "new", "after"),
    [
        ((4, 100), (2, 50), (2, 50)),
        ((4, 100), (6, 300), (6, 300)),
        ((1, 20), (6, 300), None),
        ((3, 60), (2, 300), (2, 60)),
        ((4, 100), (4, 100), None),
    ],
    ids=["smaller", "larger", "it never took the whole leg", "no longer fits", "only moved"],
)
def test_a_waiting_job_takes_the_new_size(
    wanted: tuple[int, int], new: tuple[int, int], after: tuple[int, int] | None
) -> None:
    """A job of the leg's size keeps to it; another one is cut to what there is, and else left
    alone.
    """
    jobs = a_table(nodes=wanted[0], limit_s=wanted[1])
    leg = replace(OLD, nodes=new[0], interval=Interval(500, 500 + new[1]))
    found = following(jobs, leg)
    if after is None:
        assert found == ()
        return
    assert found == (JobResized(job_id="1.lab", nodes=after[0], limit_s=after[1]),)
    jobs.apply(found[0])
    spec = jobs.views["1.lab"].spec
    assert (spec.nodes, spec.limit_s, spec.argv) == (*after, ("run",))


def test_who_is_left_alone() -> None:
    """Jobs that run, that wait elsewhere too, and those of reservations without a trip."""
    smaller = replace(OLD, nodes=1)
    elsewhere = a_table(reservation_id="lab.9")
    assert following(elsewhere, smaller) == ()
    alone = replace(smaller, request=a_request("r"))
    assert following(a_table(), alone) == ()
    running = a_table()
    running.apply(
        JobStarting(
            job_id="1.lab", at=100, until=200, reservation_id=OLD.reservation_id, node_names=("n",)
        )
    )
    assert running.views["1.lab"].state is JobState.STARTING
    assert following(running, smaller) == ()
