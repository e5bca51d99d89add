"""Who keeps the outcome of a trip, when some of its sites are reached by this traveller alone."""

from __future__ import annotations

from typing import cast

import pytest

from gridtravel.gridcore.trips.metajobs import MachineRequest
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.travel_agent.sites.config import MachineEntry
from gridtravel.travel_agent.sites.destinations import Destination, acceptors_of


def to(*endpoints: str, is_manager: bool = False) -> dict[str, Destination]:
    """Destinations ``s0``, ``s1``, ... with these endpoints."""
    return {
        f"s{number}": Destination(
            request=MachineRequest(machine=f"s{number}", nodes_min=1, nodes_max=1),
            connection=cast(SiteConnection, None),
            site=f"s{number}",
            endpoint=endpoint,
            is_manager=is_manager,
        )
        for number, endpoint in enumerate(endpoints)
    }


@pytest.mark.parametrize(
    ("endpoints", "chosen"),
    [
        (("a:1",), []),
        (("a:1", "b:1"), ["s0"]),
        (("", "b:1"), ["s1"]),
        (("a:1", "", "c:1"), ["s0"]),
        (("", "b:1", "c:1", "d:1"), ["s1", "s2", "s3"]),
        (("", ""), []),
    ],
)
def test_acceptors_can_be_asked_by_everybody(endpoints: tuple[str, ...], chosen: list[str]) -> None:
    """An odd number of sites with an endpoint that the others reach; with none, or with one site,
    the traveller's log decides.
    """
    assert [each.site for each in acceptors_of(to(*endpoints))] == chosen
    assert all(each.endpoint for each in acceptors_of(to(*endpoints)))


def test_managers_keep_no_outcomes() -> None:
    """Sites prove to each other that they are sites. A manager takes part like any other place, and
    the plain sites beside it keep the outcome.
    """
    managers, sites = to("a:1", "b:1", is_manager=True), to("c:1", "d:1", "e:1", "f:1")
    assert acceptors_of(managers) == ()
    mixed = {"region": managers["s0"], **{name: sites[name] for name in ("s1", "s2", "s3")}}
    assert [each.site for each in acceptors_of(mixed)] == ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    ("endpoint", "ssh", "shared", "ways"),
    [
        ("a:1", "", "a:1", ("a:1",)),
        ("a:1", "ada@a", "a:1", ("a:1", "ssh:ada@a")),
        ("", "ada@a", "", ("ssh:ada@a",)),
        ("unix:/run/a", "", "", ("unix:/run/a",)),
    ],
)
def test_what_others_can_use(endpoint: str, ssh: str, shared: str, ways: tuple[str, ...]) -> None:
    """A login and a socket of this computer lead nobody else anywhere."""
    entry = MachineEntry(machine="m", site="s", endpoint=endpoint, ssh=ssh)
    assert (entry.shared_endpoint, entry.ways) == (shared, ways)
