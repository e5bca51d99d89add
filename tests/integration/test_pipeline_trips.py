"""Pipelines over real daemons: one stage after another, the input moved from site to site."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import InputWay, Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.output.rendering import input_lines
from gridtravel.travel_agent.running.jobs import LegChange
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.grid_world import GridWorld, until
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration
CLOCK = SystemClock()

FIRST = "mkdir -p out/deep; echo 42 > out/deep/answer; echo line > log; env | grep ^GRID_LEG | sort"
SECOND = (
    "test $(cat in/deep/answer) = 42 && cat log in/deep/answer > both; env | grep ^GRID_LEG | sort"
)
THIRD = "cat both > last; echo done >> last"


def a_pipeline(
    *stages: tuple[str, str, str],
    earliest: int,
    duration_s: int = 3,
    transfer_s: int = 4,
    receives: Mapping[str, str] | None = None,
) -> Metajob:
    """Stages of one node as (name, site, shell line); ``receives``: TOML list by stage. Both times
    are those of an idle machine.
    """
    wanted = receives or {}
    sites = dict.fromkeys(site for _, site, _ in stages)
    machines = "".join(f'[[machines]]\nname = "{site}-machine"\nnodes_max = 4\n' for site in sites)
    tables = "".join(
        f'[[stages]]\nname = "{name}"\nmachine = "{site}-machine"\nnodes = 1\n'
        + (f"receive = {wanted[name]}\n" if name in wanted else "")
        + f'[stages.task]\ncommand = [\'/bin/sh\', \'-c\', """{line}"""]\n'
        for name, site, line in stages
    )
    text = (
        f'name = "chain"\nusage_pattern = "pipeline"\nduration = "{at_this_speed(duration_s)}s"\n'
        f'transfer = "{at_this_speed(transfer_s)}s"\nearliest_start = "{format_utc(earliest)}"\n'
        f'latest_end = "{format_utc(earliest + 10 * 3600)}"\n{machines}{tables}'
    )
    return parse_metajob(text, now=CLOCK.now(), zone=ZoneInfo("UTC"), form="toml").metajob


def handed(**stages: str) -> dict[str, str]:
    """What each stage receives."""
    return stages


def three(earliest: int, **others: int) -> Metajob:
    """alpha, beta, and alpha again: two legs at one site, and files and folders between."""
    return a_pipeline(
        ("first", "alpha", FIRST),
        ("second", "beta", SECOND),
        ("third", "alpha", THIRD),
        earliest=earliest,
        receives=handed(second='[{ source = "out", destination = "in" }, "log"]', third='["both"]'),
        **others,
    )


def area(grid: GridWorld, itinerary: Itinerary, stage: str) -> Path:
    """The folder of a stage at its site."""
    leg = itinerary.leg(stage)
    assert leg is not None
    return grid.folder.site(leg.site) / "state" / "areas" / (leg.reservation_id or "")


async def test_a_pipeline_moves_its_data_from_site_to_site(grid: GridWorld, tmp_path: Path) -> None:
    """Three stages at two sites run one after the other; files and folders go from site to site,
    also within one; each job starts at its reserved start and knows its neighbours.
    """
    async with grid.laptop() as agent:
        trip = await agent.book(three(CLOCK.now() + at_this_speed(6)))
        assert trip.state is TripState.BOOKED, trip.decline
        assert [leg.name for leg in trip.legs] == ["first", "second", "third"]
        assert [leg.input_by for leg in trip.legs] == [None, InputWay.SITES, InputWay.SITES]
        for before, leg in pairwise(trip.legs):
            assert leg.start >= before.end + 4
        until(
            lambda: bool(grid.tasks("alpha")) or (area(grid, trip, "first") / "log").exists(),
            "runs",
        )
        seen = [item async for item in agent.follow(trip.trip_id)]
        states = {x.leg: x.view.state for x in seen if isinstance(x, LegChange)}
        assert states == dict.fromkeys(("first", "second", "third"), JobState.COMPLETED)
        started = {x.leg: x.view.started_precise for x in seen if isinstance(x, LegChange)}
        for leg in trip.legs:
            assert leg.start <= (started[leg.name] or 0) < leg.start + at_this_speed(3)
        report = await agent.status(trip.trip_id)
        assert report.itinerary.state is TripState.COMPLETED
        fetched = await agent.fetch(trip.trip_id, tmp_path)
        assert (tmp_path / trip.name / "third" / "last").read_text() == "line\n42\ndone\n"
        outputs = {
            name: next(path for path in paths if path.name.endswith(".stdout")).read_text()
            for name, paths in fetched.items()
        }
    assert outputs["first"].split() == ["GRID_LEG=first", "GRID_LEG_AFTER=second"]
    assert "GRID_LEG_BEFORE=first" in outputs["second"].split()
    assert "GRID_LEG_AFTER=third" in outputs["second"].split()


@pytest.mark.parametrize(
    "dead", ["beta", "alpha"], ids=["the one that takes", "the one that gives"]
)
async def test_a_site_killed_in_the_midst_of_a_handover_goes_on(grid: GridWorld, dead: str) -> None:
    """Kill -9 while the file is on its way, and a new start: the part that had arrived is kept, the
    whole arrives unharmed, and the second stage starts on time.
    """
    size = 150_000_000
    make = f"head -c {size} /dev/zero | tr '\\\\0' x > big"
    wish = a_pipeline(
        ("first", "alpha", make),
        ("second", "beta", "wc -c < big"),
        earliest=CLOCK.now() + at_this_speed(6),
        duration_s=12,
        transfer_s=30,
        receives=handed(second='["big"]'),
    )
    async with grid.laptop() as agent:
        trip = await agent.book(wish)
        assert trip.state is TripState.BOOKED, trip.decline
        part = area(grid, trip, "second") / "big.part"
        until(
            lambda: part.exists() and part.stat().st_size > 0,
            "the file is on its way",
            pass_s=0.02,
        )
        grid.kill(dead)
        arrived = part.stat().st_size if part.exists() else 0
        assert 0 < arrived < size
        grid.start(dead)
        seen = [item async for item in agent.follow(trip.trip_id)]
    (view,) = [x.view for x in seen if isinstance(x, LegChange) and x.leg == "second"][-1:]
    assert view.state is JobState.COMPLETED, view.reason
    second = trip.leg("second")
    assert second is not None
    assert second.start <= (view.started_precise or 0) < second.start + at_this_speed(3)
    assert (area(grid, trip, "second") / "big").stat().st_size == size
    assert not part.exists()


async def test_a_stage_that_fails_takes_the_rest_with_it(grid: GridWorld) -> None:
    """The second stage never starts and says why, the third says the same of the second; what was
    reserved for them is free again, without the laptop.
    """
    wish = a_pipeline(
        ("first", "alpha", "exit 3"),
        ("second", "beta", "touch ran"),
        ("third", "gamma", "touch ran"),
        earliest=CLOCK.now() + at_this_speed(5),
    )
    async with grid.laptop() as agent:
        trip = await agent.book(wish)
        seen = [item async for item in agent.follow(trip.trip_id)]
        views = {x.leg: x.view for x in seen if isinstance(x, LegChange)}
        assert [views[leg.name].state for leg in trip.legs] == [JobState.FAILED] * 3
        assert views["second"].reason == "stage first at alpha ended as FAILED"
        assert views["third"].reason == "stage second at beta ended as FAILED"
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.FAILED
        assert not (area(grid, trip, "second") / "ran").exists()
    for site in ("beta", "gamma"):
        assert not grid.live(site, trip.trip_id)


async def test_a_pipeline_that_has_begun_is_cancelled_at_once(grid: GridWorld) -> None:
    """Nobody waits for the start of the last stage, which is an hour away."""
    wish = a_pipeline(
        ("first", "alpha", "sleep 100"),
        ("second", "beta", "true"),
        earliest=CLOCK.now() + at_this_speed(5),
        duration_s=120,
        transfer_s=1800,
    )
    async with grid.laptop() as agent:
        trip = await agent.book(wish)
        until(lambda: bool(grid.tasks("alpha")), "the first stage runs")
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.RUNNING
        assert (await agent.cancel(trip.trip_id)).state is TripState.CANCELLED
    assert not grid.live("alpha", trip.trip_id)
    assert not grid.live("beta", trip.trip_id)
    until(lambda: grid.tasks("alpha") == [], "its processes end")


def a_local_list(grid: GridWorld, path: Path) -> Path:
    """A list of machines in which alpha is reached by its local socket, which nobody else does."""
    socket = grid.folder.site("alpha") / "state" / "agent.sock"
    credential = grid.folder.user("ada") / "credential"
    path.write_text(
        f'credential = "{credential}"\n'
        f'[machines.alpha-machine]\nsite = "alpha"\nendpoint = "unix:{socket}"\n'
        f'[machines.beta-machine]\nsite = "beta"\nendpoint = "{grid.endpoint("beta")}"\n'
    )
    return path


@pytest.mark.parametrize("by", ["watch", "resume"])
async def test_the_laptop_brings_what_no_site_can_fetch(
    grid: GridWorld, tmp_path: Path, by: str
) -> None:
    """The first site is reached by this user alone: the second stage's job waits for its input,
    which a laptop brings that watches, or where ``gur resume`` is typed; the itinerary says so.
    """
    config = load_grid_config(a_local_list(grid, tmp_path / "sites.toml"))
    agent = open_travel_agent(config, grid.new_state())
    wish = a_pipeline(
        ("first", "alpha", FIRST),
        ("second", "beta", SECOND),
        earliest=CLOCK.now() + at_this_speed(6),
        transfer_s=6,
        receives=handed(second='[{ source = "out", destination = "in" }, "log"]'),
    )
    try:
        trip = await agent.book(wish)
        assert trip.state is TripState.BOOKED, trip.decline
        assert [leg.input_by for leg in trip.legs] == [None, InputWay.LAPTOP]
        assert "keep `gur watch" in input_lines(trip)[0]
        assert all(leg.job_id for leg in trip.legs)
        if by == "resume":
            first = trip.legs[0]
            early = await agent.resume(trip.trip_id)
            assert early.done == "nothing to do"
            site = agent.connection(first.machine).site
            async for view in site.watch_job(first.job_id or ""):
                assert not view.state.is_over or view.state is JobState.COMPLETED
            resumed = await agent.resume(trip.trip_id)
            assert "brought the input of second" in resumed.done
        seen = [item async for item in agent.follow(trip.trip_id)]
        states = {x.leg: x.view.state for x in seen if isinstance(x, LegChange)}
        assert states == {"first": JobState.COMPLETED, "second": JobState.COMPLETED}
        assert (area(grid, trip, "second") / "both").read_text() == "line\n42\n"
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.COMPLETED
    finally:
        await agent.close()
