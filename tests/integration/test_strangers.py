"""Nobody acts for another: what a user may not do to somebody else's trip, over the real wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.reservations import ReservationRequest
from gridtravel.gridcore.errors import GridError, NotAuthorisedError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import SystemClock
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
