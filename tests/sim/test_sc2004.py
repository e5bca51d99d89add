"""The demonstration at SC2004 (GUR paper, section 4): 10 nodes of SDSC's DataStar, one of its Linux
cluster and one of Purdue's SP, all from 07:00 Pacific time on 9 November 2004.

From a job file in the paper's own form, on unmodified agents, at a virtual time that is the evening
before. The two SDSC machines have users of their own; Purdue's is a test system, as it was.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents.journal.events import JobStarting
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, TripWish
from gridtravel.simulator.grid.simulated_site import SitePlan
from gridtravel.simulator.grid.world import LocalWish, World, WorldPlan, WorldRecord, WorldTypes
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.metajob_file.reader import read_metajob_file
from tests.support.metajob_builders import PACIFIC, SC2004

FILE = Path(__file__).resolve().parents[1] / "support" / "metajobs" / "sc2004_metajob.gur"
NODES = {"datastar655": 158, "sdsc-ia64": 128, "purduesp": 2}
EVENING = SC2004 - 10 * 3600
"""21:00 Pacific time, 8 November 2004."""
SHIFT_S = EVENING - WORLD_BEGIN
"""All clocks of the world agree that it is then."""


def production_load() -> list[LocalWish]:
    """What SDSC's own users want: jobs that fill the machines for the evening, and reservations in
    the morning that leave eleven and three nodes.
    """
    jobs = [
        LocalWish(
            site=site,
            name=f"{site}-job-{number}",
            at_s=0.5 + 0.01 * number,
            nodes=nodes,
            limit_s=hours * 3600,
            is_reservation=False,
        )
        for site, sizes in (
            ("datastar655", ((100, 4), (58, 6), (120, 3), (32, 2))),
            ("sdsc-ia64", ((128, 5), (64, 3))),
        )
        for number, (nodes, hours) in enumerate(sizes)
    ]
    kept = [
        LocalWish(
            site=site,
            name=f"{site}-class",
            at_s=1.0,
            nodes=nodes,
            limit_s=3 * 3600,
            is_reservation=True,
            ahead_s=10 * 3600 - 1200,
        )
        for site, nodes in (("datastar655", 147), ("sdsc-ia64", 125))
    ]
    return [*jobs, *kept]


def the_evening_before(search: SearchChoice) -> tuple[Metajob, WorldPlan]:
    """The trip as the file says, with a program on every leg, and the world it is booked in."""
    found = read_metajob_file(FILE, now=EVENING, zone=PACIFIC)
    assert found.notes == ()
    metajob = replace(found.metajob, task=TaskSpec(command=("demonstration",)))
    laptop = LaptopPlan(
        name="kenneth",
        wishes=(TripWish(at_s=60.0, metajob=metajob),),
        skew_s=SHIFT_S,
        search=search,
        accounts=tuple(dict.fromkeys(each.account for each in metajob.machines if each.account)),
    )
    sites = tuple(
        SitePlan(name=name, nodes=nodes, skew_s=SHIFT_S, runs_short=1.0)
        for name, nodes in NODES.items()
    )
    return metajob, WorldPlan(
        seed=2004,
        sites=sites,
        laptops=(laptop,),
        local_wishes=tuple(production_load()),
        storm_s=120.0,
    )


def live(plan: WorldPlan) -> tuple[World, WorldRecord]:
    """The world after its last day."""

    async def main(loop: VirtualLoop) -> tuple[World, WorldRecord]:
        world = World(plan, loop, WorldTypes())
        return world, await world.live()

    return run_virtual(main)


@pytest.mark.parametrize("search", [SearchChoice.SWEEP, SearchChoice.PROBE])
def test_ten_one_and_one_node_start_together_at_seven_pacific_time(search: SearchChoice) -> None:
    """Booked as a whole the evening before, 10, 1 and 1 nodes from the same second; in the morning
    every leg's job starts in that second, at machines that had work of their own.
    """
    metajob, plan = the_evening_before(search)
    assert metajob.earliest_start == SC2004
    world, record = live(plan)
    assert record.is_clean, "\n".join(story_of(record))
    (told,) = world.laptops["kenneth"].told
    assert told.state is TripState.BOOKED
    assert told.itinerary is not None
    legs = {leg.machine: leg for leg in told.itinerary.legs}
    assert {name: leg.nodes for name, leg in legs.items()} == {
        "datastar655": 10,
        "sdsc-ia64": 1,
        "purduesp": 1,
    }
    assert {leg.start for leg in legs.values()} == {SC2004}
    jobs = {leg.job_id for leg in legs.values()}
    events = [(line.party, event) for line in record.event_log.lines for event in line.parts]
    starts = {
        site: event.at
        for site, event in events
        if isinstance(event, JobStarting) and event.job_id in jobs
    }
    assert starts == dict.fromkeys(NODES, SC2004)
    assert record.event_log.counts["local job granted"] == 6
    assert record.event_log.counts["local reservation granted"] == 2
