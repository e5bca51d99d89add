"""What a metajob says of its worth reaches the sites with the job of each leg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import UsagePattern
from tests.support.fault_world import FaultWorld


async def test_a_legs_job_has_what_its_metajob_says(tmp_path: Path) -> None:
    """The window's end is its deadline. The budget is the trip's: the travel agent keeps to it, and
    no site could over all of them.
    """
    world = FaultWorld(tmp_path, "alpha", "beta")
    metajob = replace(
        world.metajob(),
        estimate_s=30,
        is_restartable=True,
        memory_mb=100,
        disk_mb=200,
        budget_millicredits=10**9,
    )
    trip = await world.laptop().book(metajob)
    assert trip.state is TripState.BOOKED
    for leg in trip.legs:
        (job,) = world.sites[leg.site].jobs.values()
        spec = job.spec
        assert (spec.deadline, spec.estimate_s) == (metajob.latest_end, 30)
        assert (spec.is_restartable, spec.memory_mb, spec.disk_mb) == (True, 100, 200)
        assert spec.budget_millicredits is None


async def test_every_copy_in_a_race_has_the_budget(tmp_path: Path) -> None:
    """Exactly one runs, so exactly one pays; a site whose price is above it takes no part."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    metajob = replace(
        world.metajob(),
        usage_pattern=UsagePattern.SINGLE,
        nodes_total=1,
        earliest_start=int(world.clock.now()),
        is_race=True,
        begin_wish=None,
        estimate_s=30,
        budget_millicredits=5_000,
    )
    trip = await world.laptop().book(metajob)
    assert trip.state is TripState.BOOKED
    for leg in trip.legs:
        (job,) = world.sites[leg.site].jobs.values()
        assert (job.spec.budget_millicredits, job.spec.estimate_s) == (5_000, 30)
        assert job.spec.deadline == metajob.latest_end
