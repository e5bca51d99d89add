"""Pipelines over real daemons: each stage after the one before, its input moved from site to site."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridcore.itineraries import InputWay, Itinerary, TripState
from gridcore.jobs import JobState
from gridcore.metajobs import Metajob
from gridcore.timetext import format_utc
from gridio.clock import SystemClock
from tests.grid_world import GridWorld, until
from travel_agent.legs import LegChange
from travel_agent.metajob_files import parse_metajob

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
    """Stages of one node as (name, site, shell line); ``receives``: TOML list by stage."""
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
        f'name = "chain"\nusage_pattern = "pipeline"\nduration = "{duration_s}s"\n'
        f'transfer = "{transfer_s}s"\nearliest_start = "{format_utc(earliest)}"\n'
        f'latest_end = "{format_utc(earliest + 3600)}"\n{machines}{tables}'
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
        trip = await agent.book(three(CLOCK.now() + 6))
        assert trip.state is TripState.BOOKED, trip.decline
        assert [leg.name for leg in trip.legs] == ["first", "second", "third"]
        assert [leg.input_by for leg in trip.legs] == [None, InputWay.SITES, InputWay.SITES]
        for before, leg in zip(trip.legs, trip.legs[1:], strict=False):
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
            assert leg.start <= (started[leg.name] or 0) < leg.start + 3
        report = await agent.status(trip.trip_id)
        assert report.itinerary.state is TripState.COMPLETED
        fetched = await agent.fetch(trip.trip_id, tmp_path)
        assert (tmp_path / "third" / "last").read_text() == "line\n42\ndone\n"
        outputs = {
            name: next(path for path in paths if path.name.endswith(".stdout")).read_text()
            for name, paths in fetched.items()
        }
    assert outputs["first"].split() == ["GRID_LEG=first", "GRID_LEG_AFTER=second"]
    assert "GRID_LEG_BEFORE=first" in outputs["second"].split()
    assert "GRID_LEG_AFTER=third" in outputs["second"].split()
