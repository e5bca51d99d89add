"""Nobody acts for another: what a user may not do to somebody else's trip, over the real wire."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from gridtravel.agents.journal.events import AcceptorChanged
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, TripRef
from gridtravel.gridcore.errors import GridError, InputError, NotAuthorisedError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.trip_consensus import Phase, VoteQuestion
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.attacks import TRIES, a_request, attacks, seized
from tests.support.grid_world import NOBODY, GridWorld, metajob_text, until

pytestmark = pytest.mark.integration


async def a_booked_trip(grid: GridWorld) -> Itinerary:
    """A trip of ada's at alpha, with a job, far away."""
    start, end = grid.window()
    text = metajob_text(
        {"alpha": (1, 1)}, 1, earliest=start, latest=end, command=["/bin/true"], pattern="single"
    )
    wish = parse_metajob(text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml").metajob
    async with grid.laptop("ada") as ada:
        return await ada.book(wish)


@pytest.mark.parametrize("stranger", ["grace", NOBODY])
async def test_what_belongs_to_another_is_refused_and_stays_as_it_is(
    grid: GridWorld, stranger: str
) -> None:
    """Every verb on somebody else's reservation, job or files: NotAuthorisedError (exit code 5), in
    one line, and no site has a record more. For a user with a login there, and for one without.
    """
    trip = await a_booked_trip(grid)
    (leg,) = trip.legs
    assert leg.reservation_id is not None
    assert leg.job_id is not None
    before = grid.sizes_at_rest()
    answers: dict[str, object] = {}
    async with grid.laptop(stranger) as agent:
        at = agent.connection("alpha-machine")
        for name, attempt in TRIES.items():
            try:
                answers[name] = await attempt(at, trip, leg.reservation_id, leg.job_id)
            except NotAuthorisedError as fault:
                answers[name] = (fault.exit_code, len(fault.message.splitlines()))
            except GridError as fault:
                answers[name] = fault
    assert answers == dict.fromkeys(TRIES, (5, 1))
    assert grid.sizes() == before
    (kept,) = grid.live("alpha", trip.trip_id)
    assert kept.owner == "ada"


async def test_strangers_see_that_time_is_taken_but_not_by_whom_or_for_what(
    grid: GridWorld,
) -> None:
    """The lists of everybody's reservations and jobs show no name, command, request or contact."""
    trip = await a_booked_trip(grid)
    (leg,) = trip.legs
    async with grid.laptop("grace") as agent:
        at = agent.connection("alpha-machine")
        shown = await at.site.reservations(everybody=True)
        (kept,) = [each for each in shown if each.reservation_id == leg.reservation_id]
        assert (kept.nodes, kept.interval) == (leg.nodes, leg.interval)
        assert "ada" not in repr(kept)
        assert trip.trip_id not in repr(kept)
        own = await at.site.reservations(everybody=False)
        assert {each.owner for each in own} <= {"grace"}
        (job,) = [each for each in await at.site.jobs(everybody=True) if each.job_id == leg.job_id]
        assert "ada" not in repr(job)
        assert "/bin/true" not in repr(job)
        assert trip.trip_id not in repr(job)


async def test_a_request_id_of_anothers_is_not_anothers_reservation(grid: GridWorld) -> None:
    """Request ids are known by owner: saying somebody else's gives a booking of one's own, and
    releasing it does not touch theirs.
    """
    trip = await a_booked_trip(grid)
    (kept,) = grid.live("alpha", trip.trip_id)
    async with grid.laptop("grace") as agent:
        at = agent.connection("alpha-machine")
        same = replace(kept.request, account="default", trip=None)
        own = await at.calendar.reserve(same, ttl_s=30)
        assert getattr(own, "owner", None) == "grace"
        assert getattr(own, "reservation_id", None) != kept.reservation_id
        await at.calendar.release_request(kept.request.request_id)
    assert [each.reservation_id for each in grid.live("alpha", trip.trip_id)] == [
        kept.reservation_id
    ]
    assert not grid.holds()


async def test_an_administrator_looks_after_everything(grid: GridWorld) -> None:
    """Whoever the site names as its administrator may release what others booked."""
    trip = await a_booked_trip(grid)
    (leg,) = trip.legs
    async with grid.laptop("edsger") as agent:
        await agent.connection("alpha-machine").calendar.release(leg.reservation_id or "")
    assert grid.live("alpha", trip.trip_id) == []
    until(lambda: grid.jobs("alpha").views[leg.job_id or ""].state.is_over, "its job is over")


SITES = ("alpha", "beta", "gamma")


async def a_trip_over_three_sites(grid: GridWorld, agent: TravelAgent) -> Itinerary:
    """One of ada's, with an outcome that its sites keep."""
    start, end = grid.window()
    text = metajob_text(
        dict.fromkeys(SITES, (1, 1)), 3, earliest=start, latest=end, command=["/bin/true"]
    )
    wish = parse_metajob(text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml").metajob
    return await agent.book(wish)


def all_are_ready(grid: GridWorld, trip: TripRef) -> bool:
    """Whether the sites have nothing more to say to each other of a trip that was just booked."""
    wanted = {trip.readiness(each.leg) for each in trip.legs}
    return all(
        wanted <= {event.state.instance for _, event in grid.records(site) if is_vote(event)}
        for site in SITES
    )


def is_vote(event: object) -> bool:
    """Something that was accepted, in a site's journal."""
    return isinstance(event, AcceptorChanged) and event.state.vote is not None


@pytest.mark.parametrize("stranger", ["grace", NOBODY])
async def test_who_knows_a_trips_id_has_no_say_in_it(grid: GridWorld, stranger: str) -> None:
    """Every vote of somebody else is refused at every site, and leaves no record; the trip is as it
    was, and its owner cancels it.
    """
    state = grid.new_state()
    async with grid.laptop("ada", state) as ada:
        trip = await a_trip_over_three_sites(grid, ada)
        (kept,) = grid.live("alpha", trip.trip_id)
        assert kept.request.trip is not None
        known = kept.request.trip
        until(lambda: all_are_ready(grid, known), "every site has heard that each leg is ready")
        before = grid.sizes_at_rest()
        answers: dict[tuple[str, str], object] = {}
        async with grid.laptop(stranger) as agent:
            for site in SITES:
                at = agent.connection(f"{site}-machine")
                for name, attack in attacks(known).items():
                    with pytest.raises(NotAuthorisedError):
                        answers[site, name] = await at.calendar.vote(attack)
                with pytest.raises(InputError):
                    await at.calendar.vote(VoteQuestion(instance="trip", phase=Phase.LEARN))
        assert not answers
        assert grid.sizes() == before
        assert (await ada.status(trip.trip_id)).itinerary.state is TripState.BOOKED
        cancelled = await ada.cancel(trip.trip_id)
        assert cancelled.state is TripState.CANCELLED
    assert all(grid.live(site, trip.trip_id) == [] for site in SITES)


async def test_a_trip_belongs_to_whoever_held_it_first(grid: GridWorld) -> None:
    """A hold under somebody else's trip is refused where that trip has a leg, also as a later
    attempt, and so is the same attempt described in another way.
    """
    async with grid.laptop("ada") as ada, grid.laptop("grace") as grace:
        trip = await a_trip_over_three_sites(grid, ada)
        (kept,) = grid.live("alpha", trip.trip_id)
        known = kept.request.trip
        assert known is not None
        other = replace(known, participants=known.participants[:2])
        described = replace(a_request(trip, request_id="other"), trip=other)
        for who, asked in (*((grace, each) for each in seized(trip, known)), (ada, described)):
            answer = await who.connection("alpha-machine").calendar.reserve(asked, ttl_s=30)
            assert isinstance(answer, Decline), answer
            assert answer.rule is DeclineRule.TRIP
        await ada.cancel(trip.trip_id)
    assert not grid.holds()
