"""The same site behind each carrier of the ports; the conformance suite runs over all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Peer
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import ManualClock, SystemClock
from gridtravel.gridio.trust.credentials import Credential
from tests.support.builders import a_request
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_services import FakeSite
from tests.support.sshd_world import SshUser

NOW = 1_000_000

CARRIERS = ("inproc", "codec", "tls", "local", "ssh")


@dataclass
class World:
    """A site, its clock, and a caller's connection to it."""

    carrier: str
    site: FakeSite
    clock: ManualClock
    connection: SiteConnection

    @property
    def is_on_a_wire(self) -> bool:
        """True when values become messages on their way."""
        return self.carrier != "inproc"


def some_credentials(folder: Path) -> tuple[Credential, Credential]:
    """Of the site ``lab`` and of the user ``ada``."""
    now = SystemClock().now()
    authority = an_authority(folder, now=now)
    lab = a_site(authority, folder, name="lab", now=now)
    return lab, a_user(authority, folder, login="ada", now=now)


def _identify(peer: Peer) -> Caller:
    return Caller(subject=peer.name, login="ada")


@asynccontextmanager
async def a_world(
    request: pytest.FixtureRequest, tmp_path: Path, credentials: tuple[Credential, Credential]
) -> AsyncIterator[World]:
    """The same site behind each carrier."""
    carrier = request.param
    clock = ManualClock(NOW)
    site = FakeSite(clock, tmp_path)
    caller = Caller(subject="/O=grid/OU=users/CN=ada", login="ada")
    connection: SiteConnection
    async with AsyncExitStack() as stack:
        if carrier in ("inproc", "codec"):
            through_codec = carrier == "codec"
            connection = InprocSite(
                site, caller, through_codec=through_codec, clock=clock, name="lab"
            )
        elif carrier == "tls":
            lab, ada = credentials
            server = GridServer(
                site, _identify, address="127.0.0.1:0", credential=lab, clock=clock, site="lab"
            )
            await stack.enter_async_context(server)
            connection = GrpcSite(server.endpoint, ada, site="lab", clock=clock)
        else:
            local = LocalSocket(path=tmp_path / "front.sock")
            server = GridServer(site, _identify, local=local, clock=clock, site="lab")
            await stack.enter_async_context(server)
            if carrier == "ssh":
                user: SshUser = request.getfixturevalue("ssh_user")
                connection = user.connect(local.path, clock=clock)
            else:
                connection = GrpcSite(server.endpoint, site="lab", clock=clock)
        stack.push_async_callback(connection.close)
        yield World(carrier, site, clock, connection)


async def held(world: World, request_id: str = "r1", **others: Any) -> Reservation:
    """A hold of the caller's; a refusal fails the test."""
    request = a_request(request_id, earliest=NOW, start=None, **others)
    answer = await world.connection.calendar.reserve(request, ttl_s=10)
    assert isinstance(answer, Reservation), answer
    return answer
