"""A trip and its machines as their sites tell of them now, beside what the laptop remembers.

The sites are right, whatever the laptop remembers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridcore.errors import NotFoundError, UnavailableError
from gridcore.itineraries import Itinerary, Leg, LegState, TripState
from gridcore.jobs import JobState, JobView
from gridcore.ports import SiteDescription
from gridcore.reservations import Reservation, ReservationState
from gridio.connections import ClockSkew
from travel_agent.grid_config import MachineEntry
from travel_agent.searching import Destination


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What is known of one machine now."""

    machine: MachineEntry
    description: SiteDescription | None
    skew: ClockSkew | None
    transport: str = ""
    """What carried the answer."""
    problem: str = ""
    """Why there is no description."""

    @property
    def reached_by(self) -> str:
        """The endpoint or the login that led there."""
        machine = self.machine
        return f"ssh:{machine.ssh}" if self.transport == "ssh" else machine.endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TripReport:
    """A trip as the sites' books show it now, beside what the laptop remembers."""

    itinerary: Itinerary
    jobs: dict[str, JobView]
    """By leg."""
    notes: tuple[str, ...] = ()
    """Where a site could not be asked, or says something else than the laptop remembers."""


async def look_at(
    leg: Leg, destination: Destination
) -> tuple[Leg, Reservation | None, JobView | None, str]:
    """One leg in its site's book: its reservation, its job, or why they are not known."""
    port = destination.connection.site
    try:
        kept = await port.reservations(everybody=False)
        jobs = await port.jobs(job_ids=[leg.job_id]) if leg.job_id else []
    except (UnavailableError, NotFoundError) as fault:
        return leg, None, None, f"{leg.name}: {fault}"
    found = next((each for each in kept if each.reservation_id == leg.reservation_id), None)
    note = "" if found else f"{leg.name}: {leg.site} no longer knows {leg.reservation_id}"
    return leg, found, jobs[0] if jobs else None, note


def report_on(
    itinerary: Itinerary,
    looks: list[tuple[Leg, Reservation | None, JobView | None, str]],
) -> TripReport:
    """What the sites say, put together; the sites are right, whatever the laptop remembers."""
    legs = tuple(_leg_now(leg, kept, job) for leg, kept, job, _ in looks)
    notes = tuple(note for _, _, _, note in looks if note)
    jobs = {leg.name: job for leg, _, job, _ in looks if job is not None}
    states = [leg.state for leg in legs]
    state = itinerary.state
    if state in (TripState.BOOKED, TripState.RUNNING):
        if any(each in (LegState.FAILED, LegState.RELEASED) for each in states):
            # While another leg may still run the trip is not over: somebody has to cancel it.
            is_waiting = any(each is LegState.BOOKED for each in states)
            state = state if is_waiting else TripState.FAILED
            if is_waiting:
                notes = (*notes, "a leg has failed and another one waits: `gur cancel` frees it")
        elif all(each is LegState.COMPLETED for each in states):
            state = TripState.COMPLETED
        elif any(each in (LegState.RUNNING, LegState.COMPLETED) for each in states):
            state = TripState.RUNNING
    if state is TripState.FAILED and any(each is LegState.RUNNING for each in states):
        state = TripState.RUNNING
    return TripReport(itinerary=replace(itinerary, state=state, legs=legs), jobs=jobs, notes=notes)


def _leg_now(leg: Leg, kept: Reservation | None, job: JobView | None) -> Leg:
    if job is not None and job.state is not JobState.QUEUED:
        if job.state in (JobState.RUNNING, JobState.STARTING):
            return replace(leg, state=LegState.RUNNING)
        done = LegState.COMPLETED if job.state is JobState.COMPLETED else LegState.FAILED
        return replace(leg, state=done)
    if kept is None:
        return leg
    by_book = {
        ReservationState.HELD: LegState.HELD,
        ReservationState.COMMITTED: LegState.BOOKED,
        ReservationState.COMPLETED: LegState.COMPLETED,
    }
    return replace(leg, state=by_book.get(kept.state, LegState.RELEASED))
