"""``gur fetch``: where the results of several trips come to lie; none takes another's place."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.grid_world import GridWorld, metajob_text
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

LEAD_S = 8
"""From the booking to the start."""
LEG = "alpha-machine"


async def travel(grid: GridWorld, state: Path, name: str, word: str) -> str:
    """A trip of this name that leaves a file with this word; its id."""
    now, lead_s = SystemClock().now(), at_this_speed(LEAD_S)
    text = metajob_text(
        {"alpha": (1, 1)},
        1,
        earliest=now + lead_s,
        latest=now + lead_s + 600,
        duration_s=at_this_speed(60),
        command=["/bin/sh", "-c", f"echo {word} > said"],
        name=name,
    )
    metajob = parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob
    async with grid.laptop(state=state) as agent:
        trip = await agent.book(metajob)
        assert trip.state is TripState.BOOKED, trip.decline
        async for _ in agent.follow(trip.trip_id):
            continue
    return trip.trip_id


async def test_results_of_different_trips_do_not_meet(grid: GridWorld, tmp_path: Path) -> None:
    """Each trip has a folder of its name. A trip that shares its name leaves the other's files
    alone, in one line with the next step, until it is told otherwise; a second fetch is no fault.
    """
    state, home = grid.new_state(), tmp_path / "home"
    wishes = [("red", "one"), ("blue", "two"), ("red", "three")]
    first, other, later = await asyncio.gather(
        *(travel(grid, state, name, word) for name, word in wishes)
    )

    def fetch(trip: str, *words: str) -> list[Path]:
        said = grid.gur("fetch", trip, "--to", str(home), "--json", *words, state=state)
        assert said.code == 0, said
        return [Path(each) for each in json.loads(said.out)[LEG]]

    for trip in (first, other):
        paths = fetch(trip)
        assert fetch(trip) == paths
    found = {name: (home / name / LEG / "said").read_text() for name in ("red", "blue")}
    assert found == {"red": "one\n", "blue": "two\n"}

    refused = grid.gur("fetch", later, "--to", str(home), state=state)
    assert refused.code == 2, refused
    assert len(refused.faults) == 1, refused
    assert str(home / "red" / LEG / "said") in refused.err
    assert "--overwrite" in refused.err
    assert (home / "red" / LEG / "said").read_text() == "one\n"
    names = {path.name for path in (home / "red" / LEG).iterdir()}
    fetch(later, "--overwrite")
    assert (home / "red" / LEG / "said").read_text() == "three\n"
    added = {path.name for path in (home / "red" / LEG).iterdir()} - names
    assert {Path(each).suffix for each in added} == {".stdout", ".stderr"}
