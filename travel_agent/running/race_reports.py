"""A race as its sites tell of it, and what follows for the copies that have lost (``booking.race``
begins and ends races).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, TripState
from gridtravel.travel_agent.running.reports import LegLook, TripReport
from gridtravel.travel_agent.sites.destinations import Destination

RACERS: Final = (LegState.RUNNING, LegState.COMPLETED, LegState.FAILED)
"""States of the one copy that runs, or ran."""


def race_report(itinerary: Itinerary, looks: list[LegLook]) -> TripReport:
    """A race as its sites tell of it: it stands where its winner stands."""
    legs = tuple(_leg_now(each.leg, each.job) for each in looks)
    states = [leg.state for leg in legs]
    if LegState.COMPLETED in states:
        state = TripState.COMPLETED
    elif LegState.RUNNING in states:
        state = TripState.RUNNING
    elif LegState.FAILED in states:
        state = TripState.FAILED
    elif LegState.PLANNED in states:
        state = itinerary.state
    else:
        state = TripState.FAILED
    return TripReport(
        itinerary=replace(itinerary, state=state, legs=legs),
        jobs={each.leg.name: each.job for each in looks if each.job is not None},
        notes=tuple(each.problem for each in looks if each.problem),
    )


async def withdraw_losers(report: TripReport, destinations: Mapping[str, Destination]) -> None:
    """Take the copies that wait still out of their queues once another has won: they would find it
    out at their start, and keep a place until then. Who cannot be told finds it out so.
    """
    if report.itinerary.state is TripState.BOOKED:
        return

    async def withdraw(leg: Leg) -> None:
        try:
            await destinations[leg.machine].connection.site.cancel_job(leg.job_id or "")
        except GridError:
            return

    waiting = [leg for leg in report.itinerary.legs if leg.state is LegState.PLANNED and leg.job_id]
    await asyncio.gather(*(withdraw(leg) for leg in waiting))


def _leg_now(leg: Leg, job: JobView | None) -> Leg:
    if job is None:
        return leg
    states = {
        JobState.QUEUED: LegState.PLANNED,
        JobState.STARTING: LegState.PLANNED,
        JobState.RUNNING: LegState.RUNNING,
        JobState.COMPLETED: LegState.COMPLETED,
        JobState.CANCELLED: LegState.RELEASED,
    }
    start = job.started_at or job.planned_start or leg.start
    interval = Interval(start, start + job.spec.limit_s)
    return replace(leg, state=states.get(job.state, LegState.FAILED), interval=interval)
