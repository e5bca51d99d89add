"""Sites killed with -9 keep what they promised, and promise nothing that was not decided."""

from __future__ import annotations

import asyncio
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.agents.journal.events import CODEC
from gridtravel.gridcore.booking.calendar_events import ReservationChanged
from gridtravel.gridcore.booking.reservations import ReservationEvent, ReservationState
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.running.jobs import LegChange, LegOutput
from tests.support.grid_world import GridWorld, metajob_text, until
from tests.support.gur_runner import PATIENCE_S
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration
CLOCK = SystemClock()


def a_trip(
    command: str,
    *,
    sites: tuple[str, ...] = ("alpha", "beta"),
    in_s: int = 4,
    duration_s: int = 10,
    name: str = "trip",
) -> Metajob:
    """One node at each site, some seconds from now, running a shell line."""
    now = CLOCK.now()
    text = metajob_text(
        dict.fromkeys(sites, (1, 1)),
        len(sites),
        earliest=now + in_s,
        latest=now + 3600,
        duration_s=duration_s,
        command=["/bin/sh", "-c", command],
        name=name,
    )
    return parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob


async def output_of(agent: TravelAgent, trip: str) -> dict[str, bytes]:
    """Standard output of every leg, followed to the end."""
    found: dict[str, bytes] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for item in agent.follow(trip):
            if isinstance(item, LegOutput) and item.stream == "stdout":
                found[item.leg] = found.get(item.leg, b"") + item.content
    return found


async def texts_of(agent: TravelAgent, trip: Itinerary, grid: GridWorld) -> dict[str, str]:
    """What the legs of a trip left as files, other than their standard output and error."""
    fetched = await agent.fetch(trip.trip_id, grid.new_state())
    paths = [path for paths in fetched.values() for path in paths]
    return {
        path.name: path.read_text() for path in paths if path.suffix not in (".stdout", ".stderr")
    }


async def last_states(agent: TravelAgent, trip: str) -> dict[str, JobState]:
    """The state in which each leg's job ended."""
    found: dict[str, JobState] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for item in agent.follow(trip):
            if isinstance(item, LegChange):
                found[item.leg] = item.view.state
    return found


async def test_legs_run_at_their_time_though_their_site_died_after_the_commit(
    grid: GridWorld,
) -> None:
    """Killed after the commit was acknowledged and started again before the start: the leg runs at
    its time, once, together with the other. The same with deaths before, at and after the start.
    """
    async with grid.laptop() as agent:
        trip = await agent.book(a_trip("echo run; date +%s", in_s=at_this_speed(4)))
        often = await agent.book(
            a_trip(
                "echo began >> began; sleep 4",
                sites=("gamma",),
                in_s=at_this_speed(3),
                duration_s=at_this_speed(14),
            )
        )
        for name in ("beta", "gamma", "gamma", "gamma"):
            grid.kill(name)
            grid.start(name)
        output = await output_of(agent, trip.trip_id)
        assert [content.split()[0] for content in output.values()] == [b"run", b"run"]
        assert all(content.count(b"run") == 1 for content in output.values())
        report = await agent.status(trip.trip_id)
        assert report.itinerary.state is TripState.COMPLETED
        starts = [job.started_precise for job in report.jobs.values()]
        assert trip.start is not None
        assert all(
            each is not None and 0 <= each - trip.start < at_this_speed(2) for each in starts
        )
        states = await last_states(agent, often.trip_id)
        assert states == {"gamma-machine": JobState.COMPLETED}
        assert await texts_of(agent, often, grid) == {"began": "began\n"}
    for leg in (*trip.legs, *often.legs):
        assert leg.reservation_id is not None
        assert grid.starts(leg.site, leg.reservation_id) == 1


async def test_jobs_go_on_while_their_sites_are_dead(grid: GridWorld) -> None:
    """Killed while a job runs: it goes on, and its end and output are found afterwards, be it good
    or bad. A leg whose whole time was slept through does not run late, and does not wait for ever.
    """
    soon_s = at_this_speed(3)
    async with grid.laptop() as agent:
        line = "echo first; sleep 2; echo second; echo result > file"
        good = await agent.book(
            a_trip(line, sites=("beta",), in_s=soon_s, duration_s=at_this_speed(12))
        )
        line = "sleep 1; echo why >&2; exit 7"
        bad = await agent.book(
            a_trip(line, sites=("gamma",), in_s=soon_s, duration_s=at_this_speed(8))
        )
        late = await agent.book(a_trip("echo late", sites=("alpha",), in_s=soon_s, duration_s=1))
        grid.kill("alpha")
        until(lambda: bool(grid.tasks("beta") and grid.tasks("gamma")), "the tasks run")
        grid.kill("beta")
        grid.kill("gamma")
        until(lambda: not (grid.tasks("beta") or grid.tasks("gamma")), "they ended by themselves")
        assert late.end is not None
        await CLOCK.sleep_until(late.end + 0.1)
        grid.start("alpha", "beta", "gamma")
        assert await output_of(agent, good.trip_id) == {"beta-machine": b"first\nsecond\n"}
        assert (await texts_of(agent, good, grid))["file"] == "result\n"
        assert await last_states(agent, bad.trip_id) == {"gamma-machine": JobState.FAILED}
        assert await last_states(agent, late.trip_id) == {"alpha-machine": JobState.FAILED}
        reports = [await agent.status(each.trip_id) for each in (good, bad, late)]
    states = [report.itinerary.state for report in reports]
    assert states == [TripState.COMPLETED, TripState.FAILED, TripState.FAILED]
    codes = [job.exit_code for report in reports for job in report.jobs.values()]
    assert codes == [0, 7, None]
    (job,) = reports[2].jobs.values()
    assert job.reason == "its reservation was over before it could start"


async def test_a_site_killed_before_the_commit_and_back_in_time_commits(grid: GridWorld) -> None:
    """A hold survives kill -9: the traveller says the commit again, and the trip is whole."""
    told: list[Step] = []

    def listen(news: News) -> None:
        told.append(news.step)
        if news.step is Step.DECIDED:
            grid.kill("beta")
            grid.start("beta")

    async with grid.laptop() as agent:
        trip = await agent.book(a_trip("true", in_s=at_this_speed(20)), listener=listen)
        assert trip.state is TripState.BOOKED
        assert told.count(Step.DECIDED) == 1
        for site in ("alpha", "beta"):
            (kept,) = grid.live(site, trip.trip_id)
            assert kept.state is ReservationState.COMMITTED
        await agent.cancel(trip.trip_id)
    assert not grid.live("beta", trip.trip_id)


async def test_a_site_killed_between_hold_and_commit_leaves_no_trip(
    grid: GridWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between hold and commit and away until the hold is over: the trip is absent from every
    site's own book, and resume says what it found and did.
    """
    # The connection insists as often as ever, and is quicker about it.
    monkeypatch.setattr("gridtravel.gridio.rpc.client.channel_wire.RECONNECT_WAIT_S", 0.03)
    state, metajob = grid.new_state(), a_trip("true", in_s=3)

    def listen(news: News) -> None:
        if news.step is Step.DECIDED:
            grid.kill("beta")

    async with grid.laptop(state=state) as agent:
        with pytest.raises(UnavailableError, match=r"could not be undone everywhere"):
            await agent.book(metajob, listener=listen)
        (trip,) = agent.trips()
        assert not grid.live("alpha", trip)
        grid.start("beta")
        until(lambda: not grid.live("beta", trip), "the hold expires")
        resumed = await agent.resume(trip)
        assert resumed.found.startswith("it was to be undone (a hold was lost before its commit")
        assert resumed.done == "released every leg"
        assert resumed.itinerary.state is TripState.DECLINED
        again = await agent.resume(trip)
        assert again.done == "nothing to do"
    assert not any(grid.live(site, trip) for site in ("alpha", "beta", "gamma"))
    assert not any(grid.active_jobs(site, trip) for site in ("alpha", "beta"))


async def test_a_release_that_was_written_down_is_carried_through(grid: GridWorld) -> None:
    """Killed at the very moment when the release of a running leg was safe on disk and nothing else
    had happened: the site stops the leg's processes when it is started again.
    """
    async with grid.laptop() as agent:
        line = "trap '' TERM; sleep 60 & wait; sleep 60"
        trip = await agent.book(a_trip(line, sites=("beta",), in_s=3, duration_s=120))
        (kept,) = grid.live("beta", trip.trip_id)
        until(lambda: bool(grid.tasks("beta")), "the task runs")
        grid.kill("beta")
        await write_down(
            grid,
            "beta",
            ReservationChanged(
                reservation_id=kept.reservation_id, event=ReservationEvent.RELEASE, at=CLOCK.now()
            ),
        )
        assert grid.tasks("beta")
        grid.start("beta")
        until(lambda: not grid.tasks("beta"), "its processes are stopped")
        until(lambda: not grid.active_jobs("beta", trip.trip_id), "its jobs are over")
        assert (await agent.cancel(trip.trip_id)).state is TripState.CANCELLED


async def write_down(grid: GridWorld, site: str, event: object) -> None:
    """Put a last record into the journal of a site that is dead."""
    journal = SqliteJournal(grid.folder.site(site) / "state" / JOURNAL_FILE)
    try:
        await journal.append([CODEC.encode(event, at=CLOCK.now())]).durable()
    finally:
        journal.close()


def test_what_an_earlier_test_of_this_file_left_is_nothing(grid: GridWorld) -> None:
    """The books hold no live reservation whose time is over, and the folders no stray part."""
    now = CLOCK.now()
    for site in ("alpha", "beta", "gamma"):
        assert not [each for each in grid.live(site) if each.end < now - 2]
        assert not list(Path(grid.folder.site(site)).rglob("*.part"))
