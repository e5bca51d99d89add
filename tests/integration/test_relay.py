"""The process that carries bytes between callers and gRPC, and what becomes of them if it ends."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server import front_door
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.relay import BUFFER_BYTES
from gridtravel.gridio.rpc.server.relay_process import RelayProcess
from gridtravel.gridio.system.clock import SystemClock
from tests.support.fake_services import FakeSite
from tests.support.rpc_scenes import identify_by_map

pytestmark = pytest.mark.integration

PATIENCE_S: Final = 60.0


@dataclass
class Carried:
    """A relay, and which of its connections are over."""

    over: asyncio.Queue[int] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        self.relay = RelayProcess(self.over.put_nowait)

    def connect(self, number: int) -> tuple[socket.socket, socket.socket]:
        """A connection through the relay: the caller's end and the server's."""
        caller, outer = socket.socketpair()
        inner, server = socket.socketpair()
        for each in (caller, server):
            each.settimeout(PATIENCE_S)
        self.relay.carry(number, outer, inner)
        return caller, server

    async def next_over(self) -> int:
        """The number of the connection that is over next."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.over.get()


@asynccontextmanager
async def carrying() -> AsyncIterator[Carried]:
    """A relay that ends with the test."""
    carried = Carried()
    try:
        yield carried
    finally:
        await carried.relay.close()


async def test_bytes_pass_while_the_daemon_is_busy() -> None:
    """Both ways, without a turn of the daemon's event loop: nothing here awaits anything."""
    async with carrying() as carried:
        caller, server = carried.connect(1)
        with caller, server:
            for question in (b"hello", b"again"):
                caller.sendall(question)
                assert server.recv(99) == question
                server.sendall(question.upper())
                assert caller.recv(99) == question.upper()


async def test_who_does_not_read_stops_the_sender() -> None:
    """What one end does not take waits in the relay up to its buffer and no further; then it comes
    whole and in order, also past the end of its sender.
    """
    async with carrying() as carried:
        caller, server = carried.connect(1)
        server.setblocking(False)
        piece = bytes(range(256)) * 1024
        sent = bytearray()
        quiet_turns = 0
        while quiet_turns < 20:  # some for the relay to catch up in
            try:
                sent += piece[: server.send(piece)]
                quiet_turns = 0
            except BlockingIOError:
                quiet_turns += 1
                await asyncio.sleep(0.01)
            assert len(sent) < 16 * BUFFER_BYTES, "nothing stops the sender"
        server.close()
        with caller:
            got = bytearray()
            while more := caller.recv(1 << 16):
                got += more
        assert got == sent
        assert await carried.next_over() == 1


async def test_either_end_ends_a_connection_and_so_does_the_daemon() -> None:
    """The others go on; what was said before the end still arrives."""
    async with carrying() as carried:
        stays = carried.connect(1)
        for number, leaver in ((2, 0), (3, 1)):
            ends = carried.connect(number)
            ends[leaver].sendall(b"goodbye")
            ends[leaver].close()
            assert ends[1 - leaver].recv(99) == b"goodbye"
            assert ends[1 - leaver].recv(99) == b""
            ends[1 - leaver].close()
            assert await carried.next_over() == number
        caller, server = carried.connect(4)
        with caller, server:
            server.sendall(b"goodbye")
            carried.relay.end(4)
            assert await carried.next_over() == 4
            assert caller.recv(99) == b"goodbye"
            assert caller.recv(99) == b""
        carried.relay.end(4)
        stays[0].sendall(b"still here")
        assert stays[1].recv(99) == b"still here"
        for each in stays:
            each.close()


async def test_many_at_once() -> None:
    """More orders than their socket takes at a time wait their turn."""
    async with carrying() as carried:
        pairs = {number: carried.connect(number) for number in range(1, 401)}
        for number, (caller, server) in pairs.items():
            server.sendall(str(number).encode())
            async with asyncio.timeout(PATIENCE_S):
                caller.setblocking(False)
                loop = asyncio.get_running_loop()
                assert await loop.sock_recv(caller, 9) == str(number).encode()
        for number in pairs:
            carried.relay.end(number)
        assert {await carried.next_over() for _ in pairs} == set(pairs)
        for pair in pairs.values():
            for each in pair:
                each.close()


async def test_a_killed_relay_ends_its_connections() -> None:
    """All are told over, and the next one gets a new process."""
    async with carrying() as carried:
        lost = carried.connect(1)
        os.kill(carried.relay._pid, signal.SIGKILL)
        assert await carried.next_over() == 1
        for each in lost:
            assert each.recv(9) == b""
            each.close()
        caller, server = carried.connect(2)
        with caller, server:
            caller.sendall(b"hello")
            assert server.recv(9) == b"hello"


async def test_what_stops_a_daemon_does_not_stop_its_relay() -> None:
    """A stopping daemon still answers, so a signal to all its processes leaves this one alone."""
    async with carrying() as carried:
        caller, server = carried.connect(1)
        with caller, server:
            caller.sendall(b"hello")
            assert server.recv(9) == b"hello"
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                os.kill(carried.relay._pid, each)
            caller.sendall(b"again")
            assert server.recv(9) == b"again"


async def test_a_relay_without_descriptors_turns_away() -> None:
    """What it cannot take is over at once; what it carries goes on."""
    async with carrying() as carried:
        stays = carried.connect(1)
        stays[0].sendall(b"hello")
        assert stays[1].recv(9) == b"hello"
        used = {int(each) for each in os.listdir(f"/proc/{carried.relay._pid}/fd")}
        free = min(set(range(len(used) + 1)) - used)
        for number, limit in ((2, free), (3, free + 1)):
            resource.prlimit(carried.relay._pid, resource.RLIMIT_NOFILE, (limit, free + 1))
            refused = carried.connect(number)
            assert await carried.next_over() == number
            for each in refused:
                assert each.recv(9) == b""
                each.close()
            stays[0].sendall(b"again")
            assert stays[1].recv(9) == b"again"
        for each in stays:
            each.close()


async def test_the_relay_ends_with_the_daemon() -> None:
    """It sees its orders end, whatever became of who gave them."""
    async with carrying() as carried:
        caller, server = carried.connect(1)
        relay = os.pidfd_open(carried.relay._pid)
        assert carried.relay._channel is not None
        carried.relay._channel.shutdown(socket.SHUT_RDWR)
        gone = asyncio.Event()
        asyncio.get_running_loop().add_reader(relay, gone.set)
        async with asyncio.timeout(PATIENCE_S):
            await gone.wait()
        asyncio.get_running_loop().remove_reader(relay)
        os.close(relay)
        for each in (caller, server):
            assert each.recv(9) == b""
            each.close()


@asynccontextmanager
async def a_site(folder: Path) -> AsyncIterator[tuple[GridServer, GrpcSite]]:
    """A site with a local socket, and a way to it."""
    local = LocalSocket(path=folder / "s")
    server = GridServer(FakeSite(SystemClock(), folder), identify_by_map, local=local, site="lab")
    async with server:
        connection = GrpcSite(f"unix:{local.path}", site="lab")
        yield server, connection
        await connection.close()


async def test_callers_come_again_after_a_killed_relay(tmp_path: Path) -> None:
    """Without the daemon being started again."""
    async with a_site(tmp_path) as (server, connection):
        await connection.calendar.describe()
        assert server._door is not None
        os.kill(server._door._relay._pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    assert (await connection.calendar.describe()).site == "lab"
                    break
                except GridError:
                    continue


async def test_a_door_without_descriptors_opens_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes while the process may open nothing waits until it may."""
    monkeypatch.setattr(front_door, "PAUSE_S", 0.01)
    warned = asyncio.Event()
    monkeypatch.setattr(front_door._log, "warning", lambda *_, **__: warned.set())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with a_site(tmp_path) as (_, connection):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.setblocking(False)
            lowest = os.dup(caller.fileno())
            os.close(lowest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
            try:
                caller.connect(str(tmp_path / "s"))
                async with asyncio.timeout(PATIENCE_S):
                    await warned.wait()
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert (await connection.calendar.describe()).site == "lab"
