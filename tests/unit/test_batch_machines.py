"""Sites without an agent in the user's list of machines, and what follows from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import InputWay, Leg, Transport
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridio.batch.batch_site import BatchSite
from gridtravel.travel_agent.choices import TransportChoice
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.running.pipeline_inputs import input_way
from gridtravel.travel_agent.session import GridSession
from gridtravel.travel_agent.sites.config import GridConfig, load_grid_config
from gridtravel.travel_agent.sites.destinations import Destination, acceptors_of

LIST = """
[machines.c]
site = "cluster"
ssh = "ada@login.example.org"
batch = "gridengine"
features = ["big"]
[machines.c.batch_environment]
PATH = "/opt/sge/bin:/usr/bin:/bin"
"""


def read(folder: Path, text: str) -> GridConfig:
    """The list as ``gur`` reads it."""
    path = folder / "sites.toml"
    path.write_text(text)
    return load_grid_config(path)


def test_a_list_with_a_batch_system(tmp_path: Path) -> None:
    """It is known by its login, no other site can ask it, and its options are complete."""
    entry = read(tmp_path, LIST).machine("c")
    assert entry.batch is not None
    assert entry.batch.environment == {"PATH": "/opt/sge/bin:/usr/bin:/bin"}
    assert entry.ways == ("ssh:ada@login.example.org (gridengine)",)
    assert entry.shared_endpoint == ""
    here = read(tmp_path, '[machines.c]\nsite = "c"\nbatch = "slurm"\n').machine("c")
    assert here.ways == ("here (slurm)",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ('batch = "pbs"', "gridengine or slurm"),
        ('batch = "slurm"\nendpoint = "x:1"', "without an agent"),
        ('batch = "slurm"\nssh = "x"\nssh_socket = "/x"', "without an agent"),
        ('batch = "slurm"\nis_manager = true', "without an agent"),
        ('ssh = "x"\nbatch_queue = "all.q"', "needs batch ="),
        ('batch = "slurm"\nbatch_queue = "a b"', "no name of a queue"),
        ('batch = "slurm"\nbatch_folder = "$HOME"', "folder at the far end"),
        ('batch = "slurm"\nbatch_colour = "red"', "batch_colour"),
    ],
)
def test_mistakes(tmp_path: Path, lines: str, words: str) -> None:
    """One line, with the machine in it, that says what would be right."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, f'[machines.c]\nsite = "cluster"\n{lines}\n')
    assert words in str(caught.value)
    assert "machines.c" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_connection(tmp_path: Path) -> None:
    """By its commands, whatever the choice allows; not where only gRPC is allowed. Nothing is
    connected yet.
    """
    config = read(tmp_path, LIST)
    for choice in (TransportChoice.AUTO, TransportChoice.SSH):
        agent = open_travel_agent(config, tmp_path / "state", transport=choice)
        connection = agent.connection("c")
        assert isinstance(connection, BatchSite)
        assert (connection.transport, connection.endpoint) == ("ssh", "ssh:ada@login.example.org")
        await agent.close()
    agent = open_travel_agent(config, tmp_path / "state", transport=TransportChoice.GRPC)
    with pytest.raises(InputError, match="no agent"):
        agent.connection("c")


def a_destination(config: GridConfig, site: str, endpoint: str, *, has_agent: bool) -> Destination:
    """A machine of a trip; nobody connects to it."""
    agent = open_travel_agent(config, config.path.parent / "state")
    return Destination(
        request=MachineRequest(machine=site, nodes_min=1, nodes_max=1),
        connection=agent.connection("c"),
        site=site,
        endpoint=endpoint,
        card=endpoint and "a card",
        has_agent=has_agent,
    )


async def test_part_in_a_trip(tmp_path: Path) -> None:
    """It keeps no outcome, and the input of a stage there is brought by the laptop."""
    config = read(tmp_path, LIST)
    places = {
        "alpha": a_destination(config, "alpha", "alpha:1", has_agent=True),
        "cluster": a_destination(config, "cluster", "", has_agent=False),
    }
    assert [each.site for each in acceptors_of(places)] == ["alpha"]
    legs = {
        name: Leg(
            name=f"stage-{name}",
            machine=name,
            site=name,
            nodes=1,
            interval=Interval(10, 20),
            transport=Transport.SSH,
        )
        for name in places
    }
    assert input_way(legs["alpha"], legs["cluster"], places) is InputWay.LAPTOP
    assert input_way(legs["cluster"], legs["cluster"], places) is InputWay.LAPTOP
    assert input_way(legs["alpha"], legs["alpha"], places) is InputWay.SITES


def test_one_batch_system_is_one_site(tmp_path: Path) -> None:
    """Two machines with the same login and batch system are one site, whatever the list calls them;
    the same name for both is fine, and so are two systems.
    """

    def destinations(**sites: str) -> dict[str, Destination]:
        text = "".join(
            f'[machines.{name}]\nsite = "{site.split()[0]}"\nssh = "ada@c"\n'
            f'batch = "{site.split()[1]}"\n'
            for name, site in sites.items()
        )
        session = open_travel_agent(read(tmp_path, text), tmp_path / "state")._session
        return {
            name: session._destination(MachineRequest(machine=name, nodes_min=1, nodes_max=1))
            for name in sites
        }

    GridSession.check_sites(destinations(a="one slurm", b="one slurm"))
    GridSession.check_sites(destinations(a="one slurm", b="two gridengine"))
    with pytest.raises(InputError, match="a and b are one site") as caught:
        GridSession.check_sites(destinations(a="one slurm", b="two slurm"))
    assert caught.value.hint is not None
