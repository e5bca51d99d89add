"""Nobody acts for another: what a user may not do to somebody else's trip, over the real wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    ReservationRequest,
    TripRef,
)
from gridtravel.gridcore.errors import GridError, InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.trip_consensus import Ballot, Outcome, Phase, VoteQuestion
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.grid_world import NOBODY, GridWorld, metajob_text, until

pytestmark = pytest.mark.integration


async def one_chunk() -> AsyncIterator[OutputChunk]:
    """A file of five bytes."""
    yield OutputChunk(offset=0, content=b"mine!")


async def read_all(items: AsyncIterator[object]) -> None:
    """The end of a stream."""
    async for _ in items:
        continue


async def a_booked_trip(grid: GridWorld) -> Itinerary:
    """A trip of ada's at alpha, with a job, far away."""
    start, end = grid.window()
    text = metajob_text(
        {"alpha": (1, 1)}, 1, earliest=start, latest=end, command=["/bin/true"], pattern="single"
    )
    wish = parse_metajob(text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml").metajob
    async with grid.laptop("ada") as ada:
        return await ada.book(wish)


def a_request(trip: Itinerary, **changes: object) -> ReservationRequest:
    """What somebody else would ask for."""
    assert trip.start is not None
    assert trip.end is not None
    wanted: dict[str, object] = {
        "request_id": f"stranger.{trip.trip_id}",
        "account": "default",
        "nodes_min": 1,
        "nodes_max": 1,
        "duration_s": 60,
        "earliest_start": trip.start + 3600,
        "latest_end": trip.end + 7200,
    }
    return ReservationRequest(**(wanted | changes))  # type: ignore[arg-type]


def a_job(trip: Itinerary, reservation_id: str) -> JobSpec:
    """A job that wants to run in somebody else's reservation."""
    return JobSpec(
        request_id=f"stranger.{trip.trip_id}.job",
        name="stranger",
        account="default",
        nodes=1,
        limit_s=60,
        argv=("/bin/true",),
        reservation_id=reservation_id,
    )


Try = Callable[[SiteConnection, Itinerary, str, str], Awaitable[object]]

TRIES: dict[str, Try] = {
    "commit": lambda at, trip, kept, job: at.calendar.commit(kept),
    "release": lambda at, trip, kept, job: at.calendar.release(kept),
    "amend": lambda at, trip, kept, job: at.calendar.amend(kept, a_request(trip)),
    "replace": lambda at, trip, kept, job: at.calendar.reserve(
        a_request(trip, replaces=kept), ttl_s=30
    ),
    "replace at once": lambda at, trip, kept, job: at.site.set_reservation(
        a_request(trip, replaces=kept), is_dry_run=False
    ),
    "bind": lambda at, trip, kept, job: at.site.bind(kept, [job]),
    "unbind": lambda at, trip, kept, job: at.site.unbind(kept, [job]),
    "bind the job": lambda at, trip, kept, job: at.site.bind_job(job, [kept]),
    "unbind the job": lambda at, trip, kept, job: at.site.unbind_job(job, [kept]),
    "submit into it": lambda at, trip, kept, job: at.site.submit(a_job(trip, kept)),
    "cancel the job": lambda at, trip, kept, job: at.site.cancel_job(job),
    "watch the job": lambda at, trip, kept, job: read_all(at.site.watch_job(job)),
    "follow the job": lambda at, trip, kept, job: read_all(at.site.follow_output(job, "stdout", 0)),
    "ask why": lambda at, trip, kept, job: at.site.query("why", {"job": job}),
    "list files": lambda at, trip, kept, job: at.site.list_files(kept, "", with_checksums=False),
    "get a file": lambda at, trip, kept, job: read_all(at.site.get_file(kept, "file", 0)),
    "put a file": lambda at, trip, kept, job: at.site.put_file(
        kept, "file", one_chunk(), mode=0o600, sha256=""
    ),
    "charge another": lambda at, trip, kept, job: at.calendar.reserve(
        a_request(trip, account="ada"), ttl_s=30
    ),
}


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
    before = grid.sizes()
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


def attacks(trip: TripRef) -> dict[str, VoteQuestion]:
    """What once cancelled, tore or froze a trip, from anybody who knew its id."""
    lowest, highest = Ballot(1, "beta:mine:1"), Ballot(1_000_000, "beta:mine:1")

    def say(
        question: str, phase: Phase, outcome: Outcome | None = None, ballot: Ballot | None = None
    ) -> VoteQuestion:
        return VoteQuestion(
            instance=question, phase=phase, outcome=outcome, ballot=ballot or Ballot(0)
        )

    commit, abort = Outcome.COMMIT, Outcome.ABORT
    return {
        "cancel it": say(trip.cancellation, Phase.ACCEPT, commit),
        "tear it": say(trip.cancellation, Phase.ACCEPT, abort, Ballot(2, "beta:mine:1")),
        "freeze it": say(trip.instance, Phase.PREPARE, ballot=highest),
        "freeze its cancellation": say(trip.cancellation, Phase.PREPARE, ballot=highest),
        "abort it": say(trip.instance, Phase.ACCEPT, abort, lowest),
        "commit it": say(trip.instance, Phase.ACCEPT, commit),
        "have it aborted": say(trip.instance, Phase.SETTLE, abort),
        "have it cancelled": say(trip.cancellation, Phase.SETTLE, commit),
        "call a leg ready": say(trip.readiness(trip.leg), Phase.ACCEPT, commit),
        "call a leg late": say(trip.readiness(trip.leg), Phase.SETTLE, abort),
        "look": say(trip.instance, Phase.LEARN),
        "say nothing": say("trip", Phase.LEARN),
    }


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
        before = grid.sizes()
        answers: dict[tuple[str, str], object] = {}
        async with grid.laptop(stranger) as agent:
            for site in SITES:
                at = agent.connection(f"{site}-machine")
                for name, attack in attacks(kept.request.trip).items():
                    with pytest.raises((NotAuthorisedError, InputError)):
                        answers[site, name] = await at.calendar.vote(attack)
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
        later = replace(known, attempt=9, nonce="grace")
        other = replace(known, participants=known.participants[:2])
        for who, named in ((grace, known), (grace, later), (ada, other)):
            named_so = f"mine.{named.attempt}.{len(named.participants)}"
            asked = replace(a_request(trip, request_id=named_so), trip=named)
            answer = await who.connection("alpha-machine").calendar.reserve(asked, ttl_s=30)
            assert isinstance(answer, Decline), answer
            assert answer.rule is DeclineRule.TRIP
        await ada.cancel(trip.trip_id)
    assert not grid.holds()
