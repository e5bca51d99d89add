"""What our verbs cost beside a bare call: `python -m bench.rpc_bench`.

The base is an echo of 64 bytes over the same mutual TLS by gRPC alone: no identity, no deadline, no
clock, no messages of ours. Base and verbs take turns within one run, one call in flight, against a
server in a process of its own; the site behind it is the small one of the conformance suite, whose
calendar lives in memory. Ratios of medians.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc
import grpc.aio

from bench.figures import Figure, show
from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.rpc.client.grpc_site import CLIENT_OPTIONS, GrpcSite
from gridtravel.gridio.rpc.server.grid_server import SERVER_OPTIONS, GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.credentials import Credential, load_credential
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_services import FakeSite

ROUNDS = 15
CALLS = 100
WARM_UP_CALLS = 50
ECHO = "/bench.Echo/Echo"
SERVER_NAME = "lab.sites.grid.internal"
SOCKET = "s"

Call = Callable[[], Awaitable[object]]


async def serve(folder: Path) -> None:
    """The other process: a site and a bare echo; ends with its standard input."""
    credential = load_credential(folder / "lab")
    bare = grpc.aio.server(options=SERVER_OPTIONS)

    async def echo(content: bytes, _: object) -> bytes:
        return content

    handler = grpc.unary_unary_rpc_method_handler(echo)
    service, method = ECHO.strip("/").split("/")
    bare.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    secrets = grpc.ssl_server_credentials(
        [(credential.key_pem, credential.cert_pem)], credential.root_pem, True
    )
    port = bare.add_secure_port("127.0.0.1:0", secrets)
    await bare.start()
    site = FakeSite(SystemClock(), folder, nodes=1000)
    server = GridServer(
        site,
        lambda peer: Caller(subject=peer.name, login="ada"),
        address="127.0.0.1:0",
        credential=credential,
        local=LocalSocket(path=folder / SOCKET),
    )
    async with server:
        sys.stdout.write(f"{port} {server.port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
    await bare.stop(None)


def a_request(number: int) -> ReservationRequest:
    """One node for a minute, some time within the next ten."""
    now = SystemClock().now()
    return ReservationRequest(
        request_id=f"bench-{number}",
        account="physics",
        nodes_min=1,
        nodes_max=1,
        duration_s=60,
        earliest_start=now + 60,
        latest_end=now + 600,
    )


class Verbs:
    """The calls that are compared, each ready to be made once more."""

    def __init__(self, folder: Path, ports: list[int], ada: Credential) -> None:
        secrets = grpc.ssl_channel_credentials(ada.root_pem, ada.key_pem, ada.cert_pem)
        name = ("grpc.ssl_target_name_override", SERVER_NAME)
        self._channel = grpc.aio.secure_channel(
            f"127.0.0.1:{ports[0]}", secrets, options=[*CLIENT_OPTIONS, name]
        )
        self._echo = self._channel.unary_unary(
            ECHO, request_serializer=bytes, response_deserializer=bytes
        )
        self._over_tls = GrpcSite(f"127.0.0.1:{ports[1]}", ada, site="lab")
        self._local = GrpcSite(f"unix:{folder / SOCKET}")
        self._held: list[str] = []
        self._count = 0

    def table(self) -> dict[str, Call]:
        """By name, in the order in which they take turns; the first one is the base."""
        return {
            "echo": self._bare,
            "Describe": self._over_tls.calendar.describe,
            "Reserve": self._reserve,
            "Release": self._release,
            "Describe, local socket": self._local.calendar.describe,
        }

    async def close(self) -> None:
        """End every connection."""
        await self._over_tls.close()
        await self._local.close()
        await self._channel.close(None)

    async def _bare(self) -> object:
        return await self._echo(b"x" * 64, timeout=10)

    async def _reserve(self) -> object:
        self._count += 1
        answer = await self._over_tls.calendar.reserve(a_request(self._count), ttl_s=20)
        if not isinstance(answer, Reservation):
            raise RuntimeError(f"the bench's site is full: {answer}")
        self._held.append(answer.reservation_id)
        return answer

    async def _release(self) -> object:
        await self._over_tls.calendar.release(self._held.pop())
        return None


async def compare(verbs: Verbs) -> dict[str, float]:
    """Median seconds of each call."""
    calls = verbs.table()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP_CALLS):
        for call in calls.values():
            await call()
    for _ in range(ROUNDS):
        for name, call in calls.items():
            for _ in range(CALLS):
                begin = time.perf_counter()
                await call()
                times[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each) for name, each in times.items()}


async def _measure(folder: Path, ports: list[int], ada: Credential) -> dict[str, float]:
    verbs = Verbs(folder, ports, ada)
    try:
        return await compare(verbs)
    finally:
        await verbs.close()


def measure() -> list[Figure]:
    """Every figure of this file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        now = SystemClock().now()
        authority = an_authority(folder, now=now)
        a_site(authority, folder, name="lab", now=now)
        ada = a_user(authority, folder, login="ada", now=now)
        command = [sys.executable, "-m", "bench.rpc_bench", "serve", name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            ports = [int(port) for port in server.stdout.readline().split()]
            medians = asyncio.run(_measure(folder, ports, ada))
            server.communicate()
    base = medians["echo"]
    targets = {"Describe": (1.5, 1.2), "Reserve": (1.8, 1.3), "Release": (1.5, 1.2)}
    figures = [Figure(name="rpc: bare echo over mutual TLS", value=base * 1e6, unit="us")]
    for name, median in medians.items():
        if name != "echo":
            must, aim = targets.get(name, (None, None))
            figures.append(
                Figure(
                    name=f"rpc: {name} / echo", value=median / base, unit="x", must=must, aim=aim
                )
            )
    return figures


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(Path(sys.argv[2])))
    else:
        show(measure())
