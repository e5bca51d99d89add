"""A trip and its machines as their sites tell of them now, beside what the laptop remembers.

The sites are right, whatever the laptop remembers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.errors import GridError, NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.ports import SiteDescription
from gridtravel.gridcore.timing.zones import find_zone
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, TripState
from gridtravel.gridio.sites.connections import ClockSkew
from gridtravel.travel_agent.sites.config import MachineEntry
from gridtravel.travel_agent.sites.destinations import Destination

_GONE: Final = (ReservationState.RELEASED, ReservationState.EXPIRED)
_KEPT: Final = (LegState.BOOKED, LegState.RUNNING, LegState.COMPLETED)
_LIVE: Final = (LegState.HELD, LegState.BOOKED, LegState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteReport:
    """What is known of one machine now."""

    machine: MachineEntry
    description: SiteDescription | None
    skew: ClockSkew | None
    transport: str = ""
    """What carried the answer."""
    fault: GridError | None = None
    """Why there is no description."""

    @property
    def problem(self) -> str:
        """The fault in words; empty where there is none."""
        return "" if self.fault is None else str(self.fault)

    @property
    def reached_by(self) -> str:
        """The endpoint or the login that led there."""
        machine = self.machine
        if machine.batch is not None:
            return machine.ways[0]
        return f"ssh:{machine.ssh}" if self.transport == "ssh" else machine.endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TripReport:
    """A trip as the sites' books show it now, beside what the laptop remembers."""

    itinerary: Itinerary
    jobs: dict[str, JobView]
    """By leg."""
    skews: dict[str, ClockSkew] = field(default_factory=dict)
    """By leg, of its site's clock; only where it was measured."""
    notes: tuple[str, ...] = ()
    """Where a site could not be asked, or says something else than the laptop remembers."""
    idle: tuple[str, ...] = ()
    """Legs that ran nothing though they should have, in words."""

    @property
    def is_over(self) -> bool:
        """True when nothing more will happen; a trip that is not whole any more is over only when
        none of its legs waits or runs.
        """
        legs = self.itinerary.legs
        return self.itinerary.state.is_over and not any(each.state in _LIVE for each in legs)

    @property
    def last_words(self) -> str:
        """What is worth remembering of a trip that is over: why each leg failed, else how far the
        starts lay apart. Its sites forget it some day.
        """
        failed = [
            f"{name}: {job.reason or job.state}"
            for name, job in self.jobs.items()
            if job.state in (JobState.FAILED, JobState.TIMED_OUT)
        ]
        failed += self.idle
        spread = self.spread
        return "; ".join(failed) if failed or spread is None else spread.words

    @property
    def spread(self) -> StartSpread | None:
        """How far the actual starts of all legs lie apart; ``None`` unless all were to start
        together and have begun, on clocks that were measured.
        """
        legs = [leg.name for leg in self.itinerary.legs]
        starts, doubts = [], []
        for name in legs:
            job, skew = self.jobs.get(name), self.skews.get(name)
            if job is None or job.started_precise is None or skew is None:
                return None
            starts.append(job.started_precise - skew.skew_s)
            doubts.append(skew.uncertainty_s)
        if len(legs) < 2 or len({leg.start for leg in self.itinerary.legs}) > 1:
            return None
        return StartSpread(
            spread_s=max(starts) - min(starts), uncertainty_s=sum(sorted(doubts)[-2:])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSpread:
    """Between the first and the last actual start of a trip's legs, each on the laptop's clock."""

    spread_s: float
    uncertainty_s: float
    """How far it may be off: what is not known of the two worst clocks."""

    @property
    def words(self) -> str:
        """In one line, for people."""
        return (
            f"all legs started within {self.spread_s * 1000:.1f} ms"
            f" (clocks known to {self.uncertainty_s * 1000:.1f} ms)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LegLook:
    """One leg in its site's book."""

    leg: Leg
    reservation: Reservation | None = None
    job: JobView | None = None
    skew: ClockSkew | None = None
    problem: str = ""
    """Why reservation or job are not known."""
    runs: bool = False
    """It is not mere time: something was to run in it."""

    @property
    def ran_nothing(self) -> bool:
        """What was to run has never begun, and never will: its time has gone by, or its job has
        given up before it began, in a reservation that is still there.
        """
        if not self.runs or self.reservation is None:
            return False
        if self.job is not None and self.job.state is not JobState.QUEUED:
            is_idle = self.job.state is JobState.CANCELLED and self.job.started_at is None
            return is_idle and self.reservation.state not in _GONE
        return self.reservation.state is ReservationState.COMPLETED


async def look_at(leg: Leg, destination: Destination, *, runs: bool = False) -> LegLook:
    """What the site's own book says of a leg; ``runs``: it has something to run."""
    connection = destination.connection
    try:
        kept = await connection.site.reservations(everybody=False)
        found = next((each for each in kept if each.reservation_id == leg.reservation_id), None)
        if leg.job_id is None and found is not None and found.job_id:
            leg = replace(leg, job_id=found.job_id)  # its commit came without the laptop
        jobs = await connection.site.jobs(job_ids=[leg.job_id]) if leg.job_id else []
    except (UnavailableError, NotFoundError) as fault:
        return LegLook(leg=leg, problem=f"{leg.name}: {fault}")
    is_lost = found is None and leg.reservation_id is not None
    problem = f"{leg.name}: {leg.site} no longer knows {leg.reservation_id}" if is_lost else ""
    return LegLook(
        leg=await in_its_zone(leg, destination),
        reservation=found,
        job=jobs[0] if jobs else None,
        skew=connection.skew_s(),
        problem=problem,
        runs=runs,
    )


async def in_its_zone(leg: Leg, destination: Destination) -> Leg:
    """The leg with its site's time zone; as it is when the site cannot be asked, or names one that
    is not known here.
    """
    if leg.zone:
        return leg
    try:
        zone = find_zone((await destination.connection.calendar.describe()).time_zone)
    except GridError:
        return leg
    return replace(leg, zone=zone.key or "UTC")


def report_on(itinerary: Itinerary, looks: Sequence[LegLook]) -> TripReport:
    """What the sites say, put together; the sites are right, whatever the laptop remembers."""
    legs = tuple(_leg_now(each) for each in looks)
    notes = tuple(each.problem for each in looks if each.problem)
    jobs = {each.leg.name: each.job for each in looks if each.job is not None}
    skews = {each.leg.name: each.skew for each in looks if each.skew is not None}
    states = [leg.state for leg in legs]
    state = itinerary.state
    if state is TripState.HELD and all(each in _KEPT for each in states):
        # The laptop did not live to hear it.
        state = TripState.BOOKED
        notes = (*notes, "its sites have booked it: `gur resume` writes that down here")
    if state in (TripState.BOOKED, TripState.RUNNING):
        is_waiting = any(each is LegState.BOOKED for each in states)
        if LegState.RELEASED in states:
            state = TripState.FAILED
            if is_waiting:
                notes = (*notes, "a leg is gone and another one waits: `gur cancel` frees it")
        elif LegState.FAILED in states:
            # While another leg may still run the trip is not over: somebody has to cancel it.
            state = state if is_waiting else TripState.FAILED
            if is_waiting:
                notes = (*notes, "a leg has failed and another one waits: `gur cancel` frees it")
        elif all(each is LegState.COMPLETED for each in states):
            state = TripState.COMPLETED
        elif any(each in (LegState.RUNNING, LegState.COMPLETED) for each in states):
            state = TripState.RUNNING
    if state is TripState.FAILED and any(each is LegState.RUNNING for each in states):
        state = TripState.RUNNING
    now = replace(itinerary, state=state, legs=legs)
    idle = tuple(_nothing_ran(each) for each in looks if each.ran_nothing)
    found = TripReport(itinerary=now, jobs=jobs, skews=skews, notes=notes, idle=idle)
    return found if found.is_over else replace(found, notes=(*notes, *idle))


def _nothing_ran(look: LegLook) -> str:
    why = f": {look.job.reason}" if look.job is not None and look.job.reason else ""
    is_over = look.reservation is not None and (
        look.reservation.state is ReservationState.COMPLETED
    )
    when = "its time went by, and it" if is_over else "it"
    return f"{look.leg.name}: {when} ran nothing{why}"


def _leg_now(look: LegLook) -> Leg:
    leg, kept, job = look.leg, look.reservation, look.job
    if look.ran_nothing:
        return replace(leg, state=LegState.FAILED)
    if job is not None and job.state is not JobState.QUEUED:
        if job.state in (JobState.RUNNING, JobState.STARTING):
            return replace(leg, state=LegState.RUNNING)
        if job.state is JobState.CANCELLED and kept is not None and kept.state in _GONE:
            return replace(leg, state=LegState.RELEASED)
        done = LegState.COMPLETED if job.state is JobState.COMPLETED else LegState.FAILED
        return replace(leg, state=done)
    if kept is None:
        return leg
    if kept.state is ReservationState.COMMITTED:
        # A change of the trip may have been decided when the laptop was gone.
        leg = replace(leg, nodes=kept.nodes, interval=kept.interval)
    by_book = {
        ReservationState.HELD: LegState.HELD,
        ReservationState.COMMITTED: LegState.BOOKED,
        ReservationState.COMPLETED: LegState.COMPLETED,
    }
    return replace(leg, state=by_book.get(kept.state, LegState.RELEASED))
