"""The demonstration at SC2004 (GUR paper, section 4) over real daemons, with a start seconds ahead.

Ten nodes, one and one at three sites, from a job file in the paper's own form; ``tests/sim`` has it
at its own date.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.metajob_file.reader import read_metajob_file
from gridtravel.travel_agent.output.rendering import report_json, spread_line
from gridtravel.travel_agent.running.jobs import LegChange
from tests.support.grid_world import GridWorld
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

SHARES = {"alpha": 10, "beta": 1, "gamma": 1}
AHEAD_S = 8
"""The probe needs a few seconds of it."""
MACHINE = """\
  '{site}-machine' : {{
    'username_string' : 'ada',
    'account_string' : 'default',
    'email_notify' : 'ada@example.org',
    'min_int' : {nodes},
    'max_int' : {nodes}
  }}"""
FILE = """\
[metajob]
total_nodes=12
machine_preference=alpha-machine,beta-machine,gamma-machine
machine_preference_reorder=yes
duration=5
earliest_start={start}
latest_end={end}
usage_pattern=multiple
machines_dict_string = {{
{machines}
}}
"""


@pytest.mark.parametrize("search", [SearchChoice.SWEEP, SearchChoice.PROBE])
async def test_ten_one_and_one_node_really_start_together(
    grid: GridWorld, tmp_path: Path, search: SearchChoice
) -> None:
    """All legs are booked for one second, all jobs run there to their end, and the spread of their
    actual starts is known and told.
    """
    clock = SystemClock()
    now, ahead_s = clock.now(), at_this_speed(AHEAD_S)
    path = tmp_path / "sc2004.gur"
    path.write_text(
        FILE.format(
            start=now + ahead_s,
            end=now + ahead_s + 600,
            machines=",\n".join(MACHINE.format(site=s, nodes=n) for s, n in SHARES.items()),
        ),
        encoding="utf-8",
    )
    found = read_metajob_file(path, now=now, zone=ZoneInfo("UTC"))
    task = TaskSpec(command=("/bin/sh", "-c", "echo here; sleep 2"))
    metajob = replace(found.metajob, task=task)
    async with grid.laptop("ada", search=search) as laptop:
        trip = await laptop.book(metajob)
        assert trip.state is TripState.BOOKED
        assert {leg.site: leg.nodes for leg in trip.legs} == SHARES
        assert len({leg.start for leg in trip.legs}) == 1
        states: dict[str, JobState] = {}
        spreads = []
        async for each in laptop.follow(trip.trip_id):
            if isinstance(each, LegChange):
                states[each.leg] = each.view.state
                if list(states.values()) == [JobState.RUNNING] * len(SHARES):
                    spreads.append(await laptop.status(trip.trip_id))
    assert states == {leg.name: JobState.COMPLETED for leg in trip.legs}
    report = spreads[0]
    assert report.spread is not None
    assert "all legs started within" in spread_line(report)
    assert report_json(report)["spread_s"] is not None
    assert not grid.holds()
