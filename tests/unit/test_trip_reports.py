"""What is made of the sites' words about a trip: spread of the starts, zones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.timing.zones import find_zone as zone
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, Transport, TripState
from gridtravel.gridio.sites.connections import ClockSkew
from gridtravel.travel_agent.output.rendering import spread_line, zone_lines
from gridtravel.travel_agent.running.reports import LegLook, TripReport, report_on
from tests.support.builders import a_request

NOON = 1_100_000_000


def leg(name: str, *, where: str = "") -> Leg:
    """A running leg."""
    return Leg(
        name=name,
        machine=name,
        site=name,
        nodes=1,
        interval=Interval(NOON, NOON + 600),
        transport=Transport.GRPC,
        state=LegState.BOOKED,
        reservation_id=f"{name}.1",
        zone=where,
    )


def look(
    name: str, started: float | None, skew_s: float | None, *, doubt_s: float = 0.001
) -> LegLook:
    """What a site says of a leg whose job began then by its own clock."""
    spec = JobSpec(request_id="r", name="n", account="a", nodes=1, limit_s=600, argv=("true",))
    job = JobView(
        job_id=f"{name}.j",
        site=name,
        owner="ada",
        spec=spec,
        state=JobState.RUNNING,
        submitted_at=NOON,
        started_precise=started,
    )
    skew = None if skew_s is None else ClockSkew(skew_s=skew_s, uncertainty_s=doubt_s)
    return LegLook(leg=leg(name), job=job, skew=skew)


def report(*looks: LegLook) -> TripReport:
    """Of a booked trip."""
    legs = tuple(each.leg for each in looks)
    trip = Itinerary(trip_id="t", name="n", state=TripState.BOOKED, legs=legs)
    return report_on(trip, looks)


def test_the_spread_is_taken_on_one_clock() -> None:
    """A site whose clock is a minute ahead did not start a minute late."""
    spread = report(look("east", NOON + 0.25, 0.0), look("west", NOON + 60.27, 60.0)).spread
    assert spread is not None
    assert spread.spread_s == pytest.approx(0.02)
    assert spread.uncertainty_s == pytest.approx(0.002)


@pytest.mark.parametrize(("started", "skew_s"), [(None, 0.0), (NOON + 0.25, None)])
def test_a_spread_is_never_guessed(started: float | None, skew_s: float | None) -> None:
    """A leg that has not begun, or a clock that nobody measured: no figure."""
    found = report(look("east", NOON + 0.25, 0.0), look("west", started, skew_s))
    assert found.spread is None
    assert spread_line(found) == ""


def test_only_foreign_clocks_are_told() -> None:
    """The legs' local times stand below the table where they are not the user's own."""
    legs = (leg("home", where="Europe/Berlin"), leg("sdsc", where="America/Los_Angeles"))
    trip = Itinerary(trip_id="t", name="n", state=TripState.BOOKED, legs=legs)
    (line,) = zone_lines(trip, zone("Europe/Berlin"))
    assert line == "  sdsc starts 2004-11-09 03:33:20 -08:00 America/Los_Angeles"


def in_book(name: str, state: ReservationState) -> LegLook:
    """What a site's book says of a leg that no job runs in yet."""
    request = a_request(name, nodes=1, start=NOON)
    kept = Reservation(
        reservation_id=f"{name}.1",
        site=name,
        owner="ada",
        request=request,
        resource_class="node",
        nodes=1,
        interval=Interval(NOON, NOON + 600),
        state=state,
        created_at=NOON - 100,
    )
    return LegLook(leg=leg(name), reservation=kept)


def remembered(state: TripState, *looks: LegLook) -> TripReport:
    """Of a trip that the laptop remembers so."""
    legs = tuple(each.leg for each in looks)
    return report_on(Itinerary(trip_id="t", name="n", state=state, legs=legs), looks)


def test_booked_by_its_sites_is_booked() -> None:
    """The laptop died before it wrote down that every site has committed."""
    kept = ReservationState.COMMITTED
    found = remembered(TripState.HELD, in_book("east", kept), in_book("west", kept))
    assert found.itinerary.state is TripState.BOOKED
    assert any("gur resume" in note for note in found.notes)
    held = in_book("west", ReservationState.HELD)
    assert remembered(TripState.HELD, in_book("east", kept), held).itinerary.state is TripState.HELD


def test_a_trip_that_lost_a_leg_is_not_shown_as_booked() -> None:
    """Nor is it over while another leg waits, which somebody has to free."""
    gone = in_book("west", ReservationState.RELEASED)
    found = remembered(TripState.BOOKED, in_book("east", ReservationState.COMMITTED), gone)
    assert found.itinerary.state is TripState.FAILED
    assert not found.is_over
    assert any("gur cancel" in note for note in found.notes)
    both = remembered(TripState.BOOKED, in_book("east", ReservationState.RELEASED), gone)
    assert both.is_over


def test_a_leg_that_was_released_with_its_job_is_gone() -> None:
    """What was queued in it was cancelled, and did not fail: the trip is not whole any more."""
    cancelled = look("west", None, None)
    assert cancelled.job is not None
    gone = replace(
        cancelled,
        job=replace(cancelled.job, state=JobState.CANCELLED),
        reservation=in_book("west", ReservationState.RELEASED).reservation,
    )
    found = remembered(TripState.BOOKED, in_book("east", ReservationState.COMMITTED), gone)
    assert [leg.state for leg in found.itinerary.legs] == [LegState.BOOKED, LegState.RELEASED]
    assert found.itinerary.state is TripState.FAILED
    assert not found.is_over


def test_a_leg_that_ran_nothing_is_told() -> None:
    """It has no job, or one that still waits though its time has gone by: the trip has failed,
    whatever the other leg did, and the reason is remembered. Mere time has nothing to run.
    """
    over = replace(in_book("east", ReservationState.COMPLETED), runs=True)
    done = look("west", NOON + 0.25, 0.0)
    job = done.job
    assert job is not None
    done = replace(done, job=replace(job, state=JobState.COMPLETED))
    waiting = replace(job, state=JobState.QUEUED, reason="its input 'in.dat' is missing")
    for idle, words in ((over, "ran nothing"), (replace(over, job=waiting), "in.dat")):
        found = report(idle, done)
        states = [each.state for each in found.itinerary.legs]
        assert states == [LegState.FAILED, LegState.COMPLETED]
        assert found.itinerary.state is TripState.FAILED
        assert words in found.last_words
    given_up = replace(
        in_book("east", ReservationState.HELD),
        runs=True,
        job=replace(
            job, state=JobState.CANCELLED, started_at=None, reason="its leg was never committed"
        ),
    )
    found = remembered(TripState.HELD, given_up, in_book("west", ReservationState.HELD))
    assert found.itinerary.legs[0].state is LegState.FAILED
    assert found.idle == ("east: it ran nothing: its leg was never committed",)
    time_alone = replace(over, runs=False)
    assert report(time_alone, done).itinerary.state is TripState.COMPLETED
