"""What integration tests share: one grid for all of them, mended before and after each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.trust.credentials import load_credential
from tests.support.grid_world import GridWorld, grid_world
from tests.support.sshd_world import SshUser


@pytest.fixture(scope="session")
def shared_grid() -> Iterator[GridWorld]:
    """Three sites that live as long as the tests; starting them takes some seconds."""
    with grid_world() as world:
        yield world


@pytest.fixture
def grid(shared_grid: GridWorld) -> Iterator[GridWorld]:
    """The grid with every site running. Tests do not share laptops or hours of the calendar."""
    shared_grid.mend()
    try:
        yield shared_grid
    finally:
        shared_grid.mend()


@pytest.fixture(params=["grpc", "ssh"])
async def connection(
    request: pytest.FixtureRequest, grid: GridWorld
) -> AsyncIterator[SiteConnection]:
    """A way to the site ``beta``."""
    made: SiteConnection
    if request.param == "ssh":
        user: SshUser = request.getfixturevalue("ssh_user")
        made = user.connect(grid.folder.site("beta") / "state" / "agent.sock", site="beta")
    else:
        credential = load_credential(grid.folder.user("ada") / "credential")
        made = GrpcSite(grid.endpoint("beta"), credential, site="beta")
    yield made
    await made.close()
