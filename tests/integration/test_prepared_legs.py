"""What comes between the start of a leg and its program: compiling, waiting for the other legs."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.running.jobs import LegChange
from tests.support.grid_world import GridWorld, metajob_text
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

LEAD_S = 8
"""From the booking to the start."""
WORKS = 'compile = ["/bin/sh", "-c", "echo made > program"]'
FAILS = 'compile = ["/bin/false"]'
PROGRAM = ["/bin/sh", "-c", "cat program > result"]


async def run(grid: GridWorld, task: str, folder: Path) -> dict[str, JobView]:
    """Book two legs with this preparation, wait for their ends, bring their results home."""
    now, lead_s = SystemClock().now(), at_this_speed(LEAD_S)
    text = metajob_text(
        {"alpha": (1, 1), "beta": (1, 1)},
        2,
        earliest=now + lead_s,
        latest=now + lead_s + 600,
        duration_s=at_this_speed(60),
        command=PROGRAM,
    ).replace("[task]\n", f"[task]\n{task}\n", 1)
    metajob = parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob
    views: dict[str, JobView] = {}
    async with grid.laptop() as agent:
        trip = await agent.book(metajob)
        assert trip.state is TripState.BOOKED
        async for item in agent.follow(trip.trip_id):
            if isinstance(item, LegChange):
                views[item.leg] = item.view
        await agent.fetch(trip.trip_id, folder)
    return views


async def test_legs_are_prepared_and_meet_before_they_work(grid: GridWorld, tmp_path: Path) -> None:
    """The compile step has run when the program begins, and the barrier lets both legs through."""
    views = await run(grid, f"{WORKS}\nbarrier = true", tmp_path)
    assert {view.state for view in views.values()} == {JobState.COMPLETED}
    for leg in ("alpha-machine", "beta-machine"):
        assert (tmp_path / "trip" / leg / "result").read_text() == "made\n"


async def test_a_leg_that_cannot_be_prepared_does_not_run(grid: GridWorld, tmp_path: Path) -> None:
    """Exit code 126 tells it from a program that failed, and the program has done nothing."""
    views = await run(grid, FAILS, tmp_path)
    assert {(view.state, view.exit_code) for view in views.values()} == {(JobState.FAILED, 126)}
    assert not any((tmp_path / "trip" / leg / "result").exists() for leg in views)
