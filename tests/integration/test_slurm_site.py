"""A site with an agent whose nodes are a real Slurm's: a trip there, and a restart of the agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.running.jobs import LegChange
from tests.support.batch_worlds import real_system
from tests.support.grid_world import GridWorld, metajob_text

pytestmark = pytest.mark.integration
CLOCK = SystemClock()
SITE = "gamma"
"""Has four nodes."""


@pytest.fixture
def slurm_grid(grid: GridWorld) -> Iterator[GridWorld]:
    """The grid, where one site's tasks run on the nodes of a Slurm."""
    config = grid.folder.site_config(SITE)
    before = config.read_text()
    with real_system("slurm") as options:
        table = (
            f'[slurm]\nconf = "{options.environment["SLURM_CONF"]}"\n'
            'nodes = ["n1", "n2", "n3", "n4"]\n'
        )
        grid.kill(SITE)
        config.write_text(f"{before}\n{table}")
        grid.start(SITE)
        try:
            yield grid
        finally:
            grid.kill(SITE)
            config.write_text(before)
            grid.start(SITE)


async def test_trip_to_a_slurm(slurm_grid: GridWorld) -> None:
    """A leg runs on the nodes that Slurm calls by their names, starts not before its time, is
    followed, and outlives its agent.
    """
    now = CLOCK.now()
    text = metajob_text(
        {"alpha": (1, 1), SITE: (2, 2)},
        3,
        earliest=now,
        latest=now + 600,
        duration_s=30,
        command=["sh", "-c", "echo $GRID_NODELIST; sleep 3; echo done"],
    )
    wish = parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob
    said: dict[str, bytes] = {}
    memory = slurm_grid.new_state()
    async with slurm_grid.laptop(state=memory) as agent:
        trip = await agent.book(wish)
        assert trip.state is TripState.BOOKED
        async for item in agent.follow(trip.trip_id):
            if not isinstance(item, LegChange):
                continue
            if item.view.site == SITE and item.view.state is JobState.RUNNING:
                assert item.view.started_precise is not None
                assert item.view.started_precise >= trip.legs[0].start
                break
        slurm_grid.kill(SITE)
        slurm_grid.start(SITE)
    async with slurm_grid.laptop(state=memory) as agent:
        async for item in agent.follow(trip.trip_id):
            if not isinstance(item, LegChange):
                said[item.leg] = said.get(item.leg, b"") + item.content
        assert (await agent.status(trip.trip_id)).itinerary.state is TripState.COMPLETED
    names = said[f"{SITE}-machine"].split()[0].decode().split(",")
    assert len(names) == 2
    assert set(names) <= {"n1", "n2", "n3", "n4"}


def test_every_node_has_a_name(grid: GridWorld, tmp_path: Path) -> None:
    """Slurm's names are as many as the classes have nodes, or the site does not start."""
    config = tmp_path / "site.toml"
    config.write_text(
        '[site]\nname = "lab"\n[[classes]]\nname = "a"\nnodes = 3\n[slurm]\nnodes = ["n1"]\n'
    )
    with pytest.raises(InputError, match=r"slurm\.nodes: 1 nodes are named, the classes have 3"):
        load_site_config(config)
