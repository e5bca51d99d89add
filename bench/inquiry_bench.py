"""What a manager's inquiry round over 50 agents costs: targets, row 10.

The manager and its book are the real ones; each agent is a server of its own with a calendar in
memory behind mutual TLS, all of them in one other process. The base is one bare echo call to it.
Both take turns within one run. All nodes of all agents are asked for, so that each is asked.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import grpc.aio

from bench.figures import Figure, show
from bench.real_sites import ECHO, bare_echo
from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import Availability, ReservationRequest
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.rpc.client.grpc_site import CLIENT_OPTIONS, GrpcSite
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.cards import SharedKeyCards
from gridtravel.gridio.trust.credentials import Credential, load_credential
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.shadows.children import Child
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_services import FakeSite

AGENTS = 50
NODES = 20
ROUNDS = 15
ECHOES = 40
INQUIRIES = 4
PATIENCE_S = 10.0

ADA = Caller(subject="/O=grid/OU=users/CN=ada", login="ada", accounts=("ada", "physics"))


async def serve(folder: Path) -> None:
    """The other process: the agents and a bare echo; ends with its standard input."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        ports = []
        for number in range(AGENTS):
            name = f"a{number}"
            server = GridServer(
                FakeSite(clock, folder, name=name, nodes=NODES),
                lambda _: ADA,
                address="127.0.0.1:0",
                credential=load_credential(folder / name),
            )
            await stack.enter_async_context(server)
            ports.append(server.port)
        bare, port = bare_echo(load_credential(folder / "a0"))
        await bare.start()
        sys.stdout.write(" ".join(map(str, [port, *ports])) + "\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        await bare.stop(None)


def a_manager(connections: list[GrpcSite], clock: SystemClock) -> CalendarManager:
    """A manager over all agents, with a journal in memory."""
    ids = RandomIds(clock)

    def connect(_: str, __: str) -> GrpcSite:
        raise AssertionError("no trip is booked here")

    return CalendarManager(
        ManagerParts(
            name="north",
            children=[
                Child(f"a{number}", each, is_manager=False, answer_within_s=PATIENCE_S)
                for number, each in enumerate(connections)
            ],
            journal=MemoryJournal(Disk(ids=ids)),
            clock=clock,
            ids=ids,
            rules=ManagerRules(calendar=CalendarRules()),
            ladder=EXACT,
            published_horizon_s=20_000,
            subject_of=lambda caller: caller.subject,
            connect=connect,
            cards=SharedKeyCards(b"no trips here"),
        )
    )


def a_request(number: int, now: int) -> ReservationRequest:
    """All nodes of all agents for a minute."""
    return ReservationRequest(
        request_id=f"bench-{number}",
        account="physics",
        nodes_min=AGENTS * NODES,
        nodes_max=AGENTS * NODES,
        duration_s=60,
        earliest_start=now + 600,
        latest_end=now + 3600,
    )


async def compare(ports: list[int], ada: Credential) -> tuple[float, float]:
    """Median seconds of a bare call, and of an inquiry."""
    clock = SystemClock()
    secrets = grpc.ssl_channel_credentials(ada.root_pem, ada.key_pem, ada.cert_pem)
    name = ("grpc.ssl_target_name_override", "a0.sites.grid.internal")
    channel = grpc.aio.secure_channel(
        f"127.0.0.1:{ports[0]}", secrets, options=[*CLIENT_OPTIONS, name]
    )
    echo = channel.unary_unary(ECHO, request_serializer=bytes, response_deserializer=bytes)
    connections = [
        GrpcSite(f"127.0.0.1:{port}", ada, site=f"a{number}")
        for number, port in enumerate(ports[1:])
    ]
    manager = a_manager(connections, clock)
    running = asyncio.create_task(manager.run())
    calendar = manager.calendar_port(ADA)
    echoes: list[float] = []
    inquiries: list[float] = []
    for turn in range(ROUNDS):
        for _ in range(ECHOES):
            begin = time.perf_counter()
            await echo(b"x" * 64, timeout=PATIENCE_S)
            echoes.append(time.perf_counter() - begin)
        for number in range(INQUIRIES):
            begin = time.perf_counter()
            (answer,) = await calendar.inquire([a_request(number, clock.now())])
            inquiries.append(time.perf_counter() - begin)
            assert turn == 0 or isinstance(answer, Availability), answer
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await asyncio.gather(*(each.close() for each in connections))
    await channel.close(None)
    return statistics.median(echoes), statistics.median(inquiries)


def measure() -> list[Figure]:
    """Every figure of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        now = SystemClock().now()
        authority = an_authority(folder, now=now)
        for number in range(AGENTS):
            a_site(authority, folder, name=f"a{number}", now=now)
        ada = a_user(authority, folder, login="ada", now=now)
        command = [sys.executable, "-m", "bench.inquiry_bench", "serve", name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            ports = [int(port) for port in server.stdout.readline().split()]
            echo, inquiry = asyncio.run(compare(ports, ada))
            server.communicate()
    return [
        Figure(
            name=f"inquiry of a manager over {AGENTS} agents / bare echo",
            value=inquiry / echo,
            unit="x",
            must=60.0,
            aim=30.0,
        )
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        show(measure())
