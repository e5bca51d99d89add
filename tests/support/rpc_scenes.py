"""A site that serves over real TLS, and what its tests share.

TLS libraries compare dates with the machine's own clock, so the certificates are made around it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry
from tests.support.certificate_scenes import HOUR_S, a_site, a_user, an_authority
from tests.support.fake_services import FakeSite

DAY_S = 24 * HOUR_S
RAW_DEADLINE_S = 20.0
SERVER_NAME = "lab.sites.grid.internal"


@dataclass
class Scene:
    """A site that serves, and the authority it believes."""

    authority: Authority
    site: FakeSite
    server: GridServer
    ada: Credential
    folder: Path

    def connect(self, credential: Credential, *, site: str = "lab") -> GrpcSite:
        """A connection as the holder of ``credential``, to what it takes for ``site``."""
        return GrpcSite(self.server.endpoint, credential, site=site)


def identify_by_map(peer: Peer) -> Caller:
    """By a grid-mapfile that names ada alone."""
    entry = grid_map_entry("/O=grid/OU=users/CN=ada", ["ada", "physics"])
    return map_caller(peer, GridMap([entry]))


@asynccontextmanager
async def a_scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now - 2 * DAY_S)
    lab = a_site(authority, tmp_path, name="lab", now=now)
    ada = a_user(authority, tmp_path, login="ada", now=now)
    site = FakeSite(SystemClock(), tmp_path)
    async with GridServer(
        site, identify_by_map, address="127.0.0.1:0", credential=lab, site="lab"
    ) as server:
        made = Scene(authority, site, server, ada, tmp_path)
        yield made
        connection = made.connect(ada)
        assert (await connection.calendar.describe()).login == "ada"
        await connection.close()


async def refused(connection: GrpcSite) -> Exception:
    """What a call over ``connection`` fails with; the service must not have seen it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 # each test says which class it expects
        await connection.calendar.describe()
    await connection.close()
    return caught.value


async def raw_status(channel: grpc.aio.Channel, content: bytes) -> grpc.aio.AioRpcError:
    """The status of a Describe with ``content`` for a message."""
    call = channel.unary_unary(
        verbs.DESCRIBE.path, request_serializer=bytes, response_deserializer=bytes
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(content, timeout=RAW_DEADLINE_S)
    await channel.close(None)
    return caught.value
