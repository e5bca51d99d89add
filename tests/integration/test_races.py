"""A race over real sites: copies queued everywhere, exactly one runs, whoever is killed."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.itineraries import Itinerary, LegState, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.log.events import RaceOpened, TripOpened, UndoAsked
from gridtravel.travel_agent.log.folders import TripFolders
from gridtravel.travel_agent.log.trip_log import CODEC, JournaledTripLog
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.grid_world import GridWorld, metajob_text

pytestmark = pytest.mark.integration

SITES = ("alpha", "beta", "gamma")
PASS_S = 0.1
PATIENCE_S = 180


def a_race(
    mark: Path, *, sites: tuple[str, ...] = SITES, extra: str = "", duration_s: int = 60
) -> Metajob:
    """One node anywhere; each copy that runs leaves a line in ``mark``."""
    now = SystemClock().now()
    text = metajob_text(
        dict.fromkeys(sites, (1, 4)),
        1,
        pattern="single",
        earliest=now,
        latest=now + 3540 + duration_s,
        duration_s=duration_s,
        command=["/bin/sh", "-c", f"echo ran >> {mark}; echo $GRID_SITE > where"],
        extra=f"race = true\n{extra}",
    )
    return parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob


async def until_over(agent: TravelAgent, trip_id: str) -> Itinerary:
    """The trip as soon as its winner has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = (await agent.status(trip_id)).itinerary
            if found.state.is_over:
                return found
            await asyncio.sleep(PASS_S)


async def test_exactly_one_copy_runs(grid: GridWorld, tmp_path: Path) -> None:
    """All sites are idle, so all copies come to their start at the same moment."""
    mark = tmp_path / "mark"
    async with grid.laptop() as agent:
        for turn in range(1, 4):
            trip = await agent.book(a_race(mark, extra="budget_credits = 5\nestimate = 30\n"))
            assert trip.state is TripState.BOOKED
            assert len(trip.legs) == len(SITES)
            over = await until_over(agent, trip.trip_id)
            assert over.state is TripState.COMPLETED
            states = [leg.state for leg in over.legs]
            assert states.count(LegState.COMPLETED) == 1
            assert mark.read_text().count("ran") == turn
            fetched = await agent.fetch(trip.trip_id, tmp_path / str(turn))
            (paths,) = fetched.values()
            assert (tmp_path / str(turn) / trip.name / next(iter(fetched)) / "where").is_file()
            assert paths


async def test_a_race_is_won_while_a_site_is_killed(grid: GridWorld, tmp_path: Path) -> None:
    """One of three sites dies as the copies are queued, and comes back: still one copy runs."""
    mark = tmp_path / "mark"
    async with grid.laptop() as agent:
        trip = await agent.book(a_race(mark))
        grid.kill("alpha")
        grid.start("alpha")
        over = await until_over(agent, trip.trip_id)
        assert over.state is TripState.COMPLETED
        assert mark.read_text() == "ran\n"


async def test_a_race_that_is_called_off_runs_nowhere(grid: GridWorld, tmp_path: Path) -> None:
    """Cancelled before any copy could start: the machines are full, and no copy fits before they
    are. No copy waits any more.
    """
    mark = tmp_path / "mark"
    async with grid.laptop() as agent:
        full = await agent.book(blocker())
        gap_s = max(leg.start for leg in full.legs) - SystemClock().now()
        trip = await agent.book(a_race(mark, sites=("beta", "gamma"), duration_s=gap_s + 60))
        cancelled = await agent.cancel(trip.trip_id)
        assert cancelled.state is TripState.CANCELLED
        await agent.cancel(full.trip_id)
        for leg in trip.legs:
            site = agent.connection(leg.machine).site
            (job,) = await site.jobs(job_ids=[leg.job_id or ""])
            assert job.state.is_over
    assert not mark.exists()


async def test_a_race_that_its_keepers_never_heard_of_is_called_off(
    grid: GridWorld, tmp_path: Path
) -> None:
    """The sites that keep the outcome were gone when the copies were queued, so they vote on no
    such race; when they are back, ``gur resume`` calls it off, and no copy runs or waits.
    """
    mark, state = tmp_path / "mark", tmp_path / "state"
    async with grid.laptop(state=state) as agent:
        full = await agent.book(blocker())
        gap_s = max(leg.start for leg in full.legs) - SystemClock().now()
        wish = a_race(mark, sites=("beta", "gamma"), duration_s=gap_s + 60)
        told = await agent.book(wish)
        folders = TripFolders(state / "trips")
        opened, race = map(CODEC.decode, folders.read(told.trip_id).records[:2])
        assert isinstance(opened, TripOpened)
        unheard = "trip-unheard"
        log = JournaledTripLog(folders.create(unheard), SystemClock())
        for event in (replace(opened, trip_id=unheard), race, UndoAsked(reason="cancelled")):
            assert isinstance(event, TripOpened | RaceOpened | UndoAsked)
            await log.write(event)
        log.close()
        resumed = await agent.resume(unheard)
        assert resumed.itinerary.state is TripState.CANCELLED
        await agent.cancel(told.trip_id)
        await agent.cancel(full.trip_id)
        for leg in told.legs:
            jobs = await agent.connection(leg.machine).site.jobs()
            assert all(job.state.is_over for job in jobs if job.spec.race is not None)
    assert not mark.exists()


def blocker() -> Metajob:
    """All nodes of two sites for a while, soon."""
    now = SystemClock().now()
    text = metajob_text(
        {"beta": (8, 8), "gamma": (4, 4)}, 12, earliest=now, latest=now + 7200, duration_s=3600
    )
    return parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob


async def test_what_a_race_cannot_do_is_refused(grid: GridWorld, tmp_path: Path) -> None:
    """Before anybody is asked, with the reason."""
    text = metajob_text(
        {"alpha": (1, 1), "beta": (1, 1)},
        1,
        pattern="single",
        earliest=SystemClock().now(),
        latest=SystemClock().now() + 3600,
        command=["/bin/true"],
        extra="race = true\n",
    )
    text = text.replace("[task]\n", '[task]\nstage_in = ["here"]\n')
    metajob = parse_metajob(
        text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml"
    ).metajob
    async with grid.laptop() as agent:
        with pytest.raises(InputError, match="brings no files"):
            await agent.book(metajob)
        assert agent.trips() == []


def test_the_commands_know_races(grid: GridWorld, tmp_path: Path) -> None:
    """``gur book``, ``gur status``, ``gur history``; a quote says that there is none."""
    now = SystemClock().now()
    file = tmp_path / "race.toml"
    file.write_text(
        metajob_text(
            {"alpha": (1, 1), "beta": (1, 1)},
            1,
            pattern="single",
            earliest=now,
            latest=now + 3600,
            command=["/bin/true"],
            extra="race = true",
        )
    )
    state = grid.new_state()
    assert grid.gur("quote", str(file), state=state).code == 2
    said = grid.gur("book", str(file), "--json", state=state)
    assert said.code == 0
    trip = json.loads(said.out)["trip"]
    assert "race of alpha-machine, beta-machine" in grid.gur("history", trip, state=state).out
    assert grid.gur("status", trip, state=state).code == 0
