"""The local socket: who comes through it, and what becomes of it."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import (
    InputError,
    UnavailableError,
)
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket, login_of_uid
from gridtravel.gridio.sites.connections import IdentityNotProvenError
from tests.support.rpc_scenes import Scene, a_scene, identify_by_map, refused

pytestmark = pytest.mark.integration


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    async with a_scene(tmp_path) as made:
        yield made


async def test_local_socket_knows_the_login(scene: Scene, tmp_path: Path) -> None:
    """Who connects locally is whom the kernel says; the socket is nobody else's, and goes away."""
    path = tmp_path / "front.sock"
    server = GridServer(scene.site, identify_by_map, local=LocalSocket(path=path))
    await server.start()
    assert path.stat().st_mode & 0o777 == 0o600
    private = path.with_name("front.sock.d")
    assert private.stat().st_mode & 0o777 == 0o700
    connection = GrpcSite(server.endpoint)
    me = login_of_uid(path.stat().st_uid)
    assert (await connection.calendar.describe()).login == me
    assert scene.site.callers[-1].subject == f"login:{me}"
    intruder = GrpcSite(f"unix:{private / 'b.sock'}")
    with pytest.raises(IdentityNotProvenError, match="front door"):
        await intruder.calendar.describe()
    await intruder.close()
    await connection.close()
    await server.stop()
    assert not path.exists()
    assert not private.exists()


async def test_stale_local_socket(scene: Scene, tmp_path: Path) -> None:
    """What a killed daemon left is cleared; what is alive, or no socket, is left alone."""
    path = tmp_path / "front.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    path.with_name("front.sock.d").mkdir()
    async with GridServer(scene.site, identify_by_map, local=LocalSocket(path=path)) as server:
        second = GridServer(scene.site, identify_by_map, local=LocalSocket(path=path))
        with pytest.raises(UnavailableError, match="another daemon"):
            await second.start()
        connection = GrpcSite(server.endpoint)
        await connection.calendar.describe()
        await connection.close()
    path.write_text("a letter")
    with pytest.raises(InputError, match="no socket"):
        await GridServer(scene.site, identify_by_map, local=LocalSocket(path=path)).start()
    assert path.read_text() == "a letter"
    missing = GrpcSite(f"unix:{tmp_path / 'nowhere.sock'}")
    assert "there is no socket" in str(await refused(missing))


async def test_broken_local_connection(scene: Scene, tmp_path: Path) -> None:
    """Local connections that break off or talk nonsense end alone."""
    path = tmp_path / "front.sock"
    async with GridServer(scene.site, identify_by_map, local=LocalSocket(path=path)) as server:
        for content in (b"", b"nonsense" * 100):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(content)
        connection = GrpcSite(server.endpoint)
        assert (await connection.calendar.describe()).site == "lab"
        await connection.close()
