"""Sites that cannot be reached, come back, start badly or answer nonsense: one clear line each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import (
    DeadlineError,
    GridError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.ports import CalendarPort, SiteDescription
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.client.channel_wire import ChannelWire
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server import calls
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.sites.connections import IdentityNotProvenError, UnreachableError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.logs import current_request, logging_context
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_calendar_port import FakeCalendarPort
from tests.support.fake_services import FakeSite
from tests.support.rpc_scenes import (
    DAY_S,
    RAW_DEADLINE_S,
    SERVER_NAME,
    Scene,
    a_scene,
    identify_by_map,
    refused,
)

pytestmark = pytest.mark.integration

ONE_WAY_S = 0.2
"""A satellite's link; making a connection with TLS takes several times as long."""


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    async with a_scene(tmp_path) as made:
        yield made


async def test_unreachable(scene: Scene) -> None:
    """Nothing listens, no such host: one line each, worth a retry, and different."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    fault = await refused(GrpcSite(f"127.0.0.1:{port}", scene.ada, site="lab"))
    assert type(fault) is UnreachableError
    assert "connection refused" in str(fault)
    assert f"Describe at lab (127.0.0.1:{port})" in str(fault)
    unknown = await refused(GrpcSite("no-such-host.invalid:7000", scene.ada, site="lab"))
    assert type(unknown) is UnreachableError
    assert "host name no-such-host.invalid" in str(unknown)


async def test_a_door_that_never_was_open_is_knocked_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing listens and nothing ever did: also a commit is told so without a second try."""

    async def wait(*_: object) -> None:
        raise AssertionError("nobody is to be waited for")

    monkeypatch.setattr(ChannelWire, "_reconnected", wait)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    connection = GrpcSite(f"127.0.0.1:{port}", scene.ada, site="lab")
    with pytest.raises(UnreachableError, match="connection refused"):
        await connection.calendar.commit("lab-1")
    with pytest.raises(UnreachableError, match="connection refused"):
        await anext(aiter(connection.calendar.subscribe()))
    await connection.close()


async def test_a_daemon_that_is_started_again_is_waited_for(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A door that was open before may open again within a call."""
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    servers = [GridServer(scene.site, identify_by_map, address="127.0.0.1:0", credential=lab)]
    await servers[0].start()
    connection = GrpcSite(servers[0].endpoint, scene.ada, site="lab")
    await connection.calendar.describe()
    await servers[0].stop(grace_s=0.0)
    ready = ChannelWire._reconnected

    async def start_again(wire: ChannelWire, give_up_at: float) -> None:
        servers.append(
            GridServer(scene.site, identify_by_map, address=servers[0].endpoint, credential=lab)
        )
        await servers[1].start()
        await ready(wire, give_up_at, RAW_DEADLINE_S)

    monkeypatch.setattr(ChannelWire, "_reconnected", start_again)
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    await servers[1].stop()


async def test_a_daemon_that_stays_away_is_waited_for_once(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a call in vain the door counts as shut, and the next call says so at once."""
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    server = GridServer(scene.site, identify_by_map, address="127.0.0.1:0", credential=lab)
    await server.start()
    connection = GrpcSite(server.endpoint, scene.ada, site="lab")
    await connection.calendar.describe()
    await server.stop(grace_s=0.0)
    waits: list[float] = []

    async def wait(_: ChannelWire, give_up_at: float) -> None:
        waits.append(give_up_at)

    monkeypatch.setattr(ChannelWire, "_reconnected", wait)
    for _ in range(2):
        with pytest.raises(UnreachableError, match="connection refused"):
            await connection.calendar.describe()
        assert len(waits) == verbs.DESCRIBE.attempts_max - 1
    await connection.close()


async def test_a_slow_link_is_waited_for(scene: Scene) -> None:
    """A connection over the other side of the world takes a second to be made, and is."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while content := await reader.read(1 << 16):
                loop.call_later(ONE_WAY_S, writer.write, content)
        writer.transport.abort()

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        near, far = await asyncio.open_connection("127.0.0.1", scene.server.port)
        await asyncio.gather(carry(reader, far), carry(near, writer))
        ended.set()

    link = await asyncio.start_server(welcome, "127.0.0.1", 0)
    connection = GrpcSite(f"127.0.0.1:{link.sockets[0].getsockname()[1]}", scene.ada, site="lab")
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    await asyncio.wait_for(ended.wait(), RAW_DEADLINE_S)
    link.close()
    await link.wait_closed()


async def test_server_that_speaks_no_tls(scene: Scene) -> None:
    """Something else on the port is told from a certificate that is wrong."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 what?\r\n\r\n")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    fault = await refused(GrpcSite(f"127.0.0.1:{port}", scene.ada, site="lab"))
    assert type(fault) is UnreachableError
    assert "does not speak TLS" in str(fault)
    other.close()
    await other.wait_closed()


async def test_site_whose_certificate_expired(scene: Scene, tmp_path: Path) -> None:
    """A site that forgot to renew its certificate is named as such."""
    long_ago = SystemClock().now() - 2 * 365 * DAY_S
    elsewhere = tmp_path / "elsewhere"
    authority = an_authority(elsewhere, now=long_ago)
    old = a_site(authority, elsewhere, name="lab", now=long_ago)
    ada = a_user(authority, elsewhere, login="ada", now=SystemClock().now())
    server = grpc.aio.server()
    secrets = grpc.ssl_server_credentials([(old.key_pem, old.cert_pem)], old.root_pem, True)
    port = server.add_secure_port("127.0.0.1:0", secrets)
    await server.start()
    fault = await refused(GrpcSite(f"127.0.0.1:{port}", ada, site="lab"))
    await server.stop(None)
    assert type(fault) is IdentityNotProvenError
    assert f"the certificate of 127.0.0.1:{port} has expired" in str(fault)


async def test_port_that_is_taken(scene: Scene, tmp_path: Path) -> None:
    """A second server on the same port does not start, and takes no calls from the first."""
    credential = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    second = GridServer(
        scene.site, identify_by_map, address=scene.server.endpoint, credential=credential
    )
    with pytest.raises(UnavailableError, match="cannot listen"):
        await second.start()


async def test_user_certificate_cannot_serve(scene: Scene) -> None:
    """A user's certificate does not make a site."""
    with pytest.raises(NotAuthorisedError, match="as a server"):
        await GridServer(
            scene.site, identify_by_map, address="127.0.0.1:0", credential=scene.ada
        ).start()


async def test_site_comes_back(scene: Scene, tmp_path: Path) -> None:
    """A connection outlives its site: the same object works again after a restart."""
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    first = GridServer(scene.site, identify_by_map, address="127.0.0.1:0", credential=lab)
    await first.start()
    connection = GrpcSite(first.endpoint, scene.ada, site="lab")
    await connection.calendar.describe()
    await first.stop(grace_s=0.0)
    with pytest.raises(UnavailableError):
        await connection.calendar.describe()
    second = GridServer(scene.site, identify_by_map, address=first.endpoint, credential=lab)
    await second.start()
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    await second.stop()


async def test_stream_waits_for_a_site_that_restarts(scene: Scene, tmp_path: Path) -> None:
    """A stream that has not begun is asked for again; one that broke says so, and its reader
    subscribes anew on the same connection.
    """
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    first = GridServer(scene.site, identify_by_map, address="127.0.0.1:0", credential=lab)
    await first.start()
    connection = GrpcSite(first.endpoint, scene.ada, site="lab")
    news = aiter(connection.calendar.subscribe())
    await anext(news)
    await first.stop(grace_s=0.0)
    with pytest.raises(UnavailableError):
        await anext(news)
    second = GridServer(scene.site, identify_by_map, address=first.endpoint, credential=lab)
    await second.start()
    again = connection.calendar.subscribe()
    assert (await anext(again)).site == "lab"
    await connection.close()
    await second.stop()


async def test_site_that_answers_nonsense(scene: Scene, tmp_path: Path) -> None:
    """A malformed answer is the site's fault, not the user's, and names the field."""

    class Liar(FakeSite):
        def calendar_port(self, caller: Caller) -> CalendarPort:
            port = FakeCalendarPort(self, caller)

            async def describe() -> SiteDescription:
                honest = await FakeCalendarPort.describe(port)
                return replace(honest, lead_s=-1)

            port.describe = describe  # type: ignore[method-assign] # the lie
            return port

    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    liar = Liar(SystemClock(), tmp_path)
    async with GridServer(liar, identify_by_map, address="127.0.0.1:0", credential=lab) as server:
        fault = await refused(GrpcSite(server.endpoint, scene.ada, site="lab"))
    assert type(fault) is GridError
    assert "the field lead_s" in str(fault)


async def test_call_without_end(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server itself ends a call that runs too long, also when its client waits on."""
    monkeypatch.setattr(calls, "DEADLINE_MARGIN", 0.001)
    connection = scene.connect(scene.ada)
    with pytest.raises(DeadlineError, match="took too long"):
        await connection.site.query("for-ever", {})
    await connection.close()


async def test_manager_without_site_service(scene: Scene, tmp_path: Path) -> None:
    """Services that have only a calendar are served without the rest."""

    class CalendarOnly:
        def calendar_port(self, caller: Caller) -> object:
            return scene.site.calendar_port(caller)

    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    async with GridServer(
        CalendarOnly(),  # type: ignore[arg-type] # object stands for the port
        identify_by_map,
        address="127.0.0.1:0",
        credential=lab,
    ) as server:
        connection = GrpcSite(server.endpoint, scene.ada, site="lab")
        assert (await connection.calendar.describe()).site == "lab"
        with pytest.raises(NotFoundError, match="does not offer"):
            await connection.site.jobs()
        await connection.close()


async def test_health_and_reflection(scene: Scene) -> None:
    """Tools that know no grid can see that it serves, and what."""
    secrets = grpc.ssl_channel_credentials(
        scene.ada.root_pem, scene.ada.key_pem, scene.ada.cert_pem
    )
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    for name in ("", verbs.CALENDAR_SERVICE, verbs.SITE_SERVICE):
        check = health_pb2_grpc.HealthStub(channel).Check
        answer = await check(health_pb2.HealthCheckRequest(service=name), timeout=RAW_DEADLINE_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    ask = reflection_pb2.ServerReflectionRequest(list_services="")
    reflect = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
    answers = [each async for each in reflect(iter([ask]), timeout=RAW_DEADLINE_S)]
    names = {each.name for each in answers[0].list_services_response.service}
    assert {verbs.CALENDAR_SERVICE, verbs.SITE_SERVICE, "grpc.health.v1.Health"} <= names
    await channel.close(None)


async def test_requests_are_traced_over_hops(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """What one site logs about a refusal carries the id under which its caller logs."""
    caplog.set_level(logging.INFO, logger="gridtravel.gridio.rpc.server.calls")
    seen: list[str] = []

    def look(record: logging.LogRecord) -> bool:
        if record.name == "gridtravel.gridio.rpc.server.calls":
            seen.append(current_request())
        return True

    caplog.handler.addFilter(look)
    connection = scene.connect(scene.ada)
    with logging_context(request="trip-7"), pytest.raises(NotFoundError):
        await connection.site.query("missing", {})
    await connection.close()
    refusals = [record for record in caplog.records if record.getMessage() == "refused"]
    assert [record.__dict__["code"] for record in refusals] == ["NOT_FOUND"]
    assert seen == ["trip-7"]
