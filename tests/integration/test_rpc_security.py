"""Who may not connect, and that the server goes on serving whoever may.

Real TLS on loopback, so the certificates are made around the machine's own clock.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gridcore.callers import Caller
from gridcore.errors import (
    DeadlineError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridcore.ports import CalendarPort, SiteDescription
from gridio.authority import Authority
from gridio.clock import ManualClock, SystemClock
from gridio.connections import IdentityNotProvenError
from gridio.credentials import Credential
from gridio.gridmap import GridMap, grid_map_entry
from gridio.logs import current_request, logging_context
from gridio.rpc import calls, verbs
from gridio.rpc.client import GrpcSite
from gridio.rpc.front_door import LocalSocket, login_of_uid
from gridio.rpc.peers import Peer, map_caller
from gridio.rpc.server import GridServer
from gridwire.v1 import calendar_pb2, site_pb2
from tests.builders import a_request
from tests.certificate_scenes import HOUR_S, a_site, a_user, an_authority
from tests.fake_services import FakeCalendarPort, FakeSite

pytestmark = pytest.mark.integration

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


def _identify(peer: Peer) -> Caller:
    entry = grid_map_entry("/O=grid/OU=users/CN=ada", ["ada", "physics"])
    return map_caller(peer, GridMap([entry]))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now - 2 * DAY_S)
    lab = a_site(authority, tmp_path, name="lab", now=now)
    ada = a_user(authority, tmp_path, login="ada", now=now)
    site = FakeSite(SystemClock(), tmp_path)
    async with GridServer(
        site, _identify, address="127.0.0.1:0", credential=lab, site="lab"
    ) as server:
        made = Scene(authority, site, server, ada, tmp_path)
        yield made
        connection = made.connect(ada)
        assert (await connection.calendar.describe()).login == "ada"
        await connection.close()


async def _refused(connection: GrpcSite) -> Exception:
    """What a call over ``connection`` fails with; the service must not have seen it."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 # each test says which class it expects
        await connection.calendar.describe()
    await connection.close()
    return caught.value


async def _raw(channel: grpc.aio.Channel, content: bytes) -> grpc.aio.AioRpcError:
    """The status of a Describe with ``content`` for a message."""
    call = channel.unary_unary(
        verbs.DESCRIBE.path, request_serializer=bytes, response_deserializer=bytes
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(content, timeout=RAW_DEADLINE_S)
    await channel.close(None)
    return caught.value


async def test_no_certificate(scene: Scene) -> None:
    """A client that shows no certificate gets no connection, though it trusts the site."""
    secrets = grpc.ssl_channel_credentials(root_certificates=scene.ada.root_pem)
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    assert (await _raw(channel, b"")).code() is grpc.StatusCode.UNAVAILABLE
    assert scene.site.callers == []


async def test_plaintext(scene: Scene) -> None:
    """A client without TLS gets no connection."""
    options = [("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.insecure_channel(scene.server.endpoint, options=options)
    assert (await _raw(channel, b"")).code() is grpc.StatusCode.UNAVAILABLE
    assert scene.site.callers == []


async def test_noise(scene: Scene) -> None:
    """Bytes that are no TLS at all only lose their own connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.server.port)
    writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(range(256)) * 100)
    while await reader.read(4096):
        pass
    writer.close()


async def test_foreign_certificate(scene: Scene, tmp_path: Path) -> None:
    """A user of another grid of the same name, who took the site's root certificate, is refused."""
    elsewhere = tmp_path / "elsewhere"
    foreign = an_authority(elsewhere, now=SystemClock().now() - DAY_S)
    eve = a_user(foreign, elsewhere, login="ada", now=SystemClock().now())
    mixed = Credential(cert_pem=eve.cert_pem, key_pem=eve.key_pem, root_pem=scene.ada.root_pem)
    fault = await _refused(scene.connect(mixed))
    assert type(fault) is IdentityNotProvenError
    assert "foreign authority" in str(fault)
    assert scene.site.callers == []


async def test_site_of_a_foreign_authority(scene: Scene, tmp_path: Path) -> None:
    """A client whose authority did not sign the site's certificate does not talk to it."""
    elsewhere = tmp_path / "elsewhere"
    foreign = an_authority(elsewhere, now=SystemClock().now() - DAY_S)
    eve = a_user(foreign, elsewhere, login="ada", now=SystemClock().now())
    fault = await _refused(scene.connect(eve))
    assert type(fault) is IdentityNotProvenError
    assert "signed by a foreign authority" in str(fault)
    assert "lab" in str(fault)


async def test_expired_certificate(scene: Scene, tmp_path: Path) -> None:
    """Yesterday's certificate is refused, and the message says what to do."""
    old = a_user(scene.authority, tmp_path / "old", login="ada", now=SystemClock().now() - DAY_S)
    fault = await _refused(scene.connect(old))
    assert type(fault) is IdentityNotProvenError
    assert "expired at" in str(fault)
    assert "gur login" in str(fault)
    assert scene.site.callers == []


async def test_certificate_that_expires_on_an_open_connection(tmp_path: Path) -> None:
    """TLS looks at the dates once; the server looks at each call."""
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now)
    lab = a_site(authority, tmp_path, name="lab", now=now)
    ada = a_user(authority, tmp_path, login="ada", now=now)
    clock = ManualClock(now)
    site = FakeSite(clock, tmp_path)
    async with GridServer(
        site, _identify, address="127.0.0.1:0", credential=lab, clock=clock
    ) as server:
        connection = GrpcSite(server.endpoint, ada, site="lab")
        await connection.calendar.describe()
        clock.advance(DAY_S)
        with pytest.raises(IdentityNotProvenError, match="expired"):
            await connection.calendar.describe()
        await connection.close()


async def test_other_site_answers(scene: Scene) -> None:
    """Whoever asks for ``west`` and gets ``lab``, of the same grid, is told so."""
    fault = await _refused(scene.connect(scene.ada, site="west"))
    assert type(fault) is IdentityNotProvenError
    assert "another site than west" in str(fault)
    assert scene.site.callers == []


async def test_stranger_may_only_look(scene: Scene, tmp_path: Path) -> None:
    """A proven subject that the grid-mapfile does not name is nobody: it can look and not book."""
    bob = a_user(scene.authority, tmp_path, login="bob", now=SystemClock().now())
    connection = scene.connect(bob)
    assert (await connection.calendar.describe()).login == ""
    request = a_request("r", earliest=SystemClock().now() + 60)
    with pytest.raises(NotAuthorisedError) as caught:
        await connection.calendar.reserve(request, ttl_s=10)
    assert type(caught.value) is NotAuthorisedError
    await connection.close()


async def test_account_of_somebody_else(scene: Scene) -> None:
    """An account that the grid-mapfile gives can be charged, and no other."""
    connection = scene.connect(scene.ada)
    request = a_request("r", earliest=SystemClock().now() + 60)
    held = await connection.calendar.reserve(request, ttl_s=10)
    assert held.site == "lab"
    with pytest.raises(NotAuthorisedError, match="may not charge chemistry"):
        await connection.calendar.reserve(
            replace(request, request_id="r2", account="chemistry"), ttl_s=10
        )
    assert scene.site.callers[-1].accounts == ("ada", "physics")
    await connection.close()


async def test_message_of_100_megabytes(scene: Scene) -> None:
    """A message far beyond the bound is refused cleanly and costs the server nothing."""
    secrets = grpc.ssl_channel_credentials(
        scene.ada.root_pem, scene.ada.key_pem, scene.ada.cert_pem
    )
    options = [
        ("grpc.ssl_target_name_override", SERVER_NAME),
        ("grpc.max_send_message_length", -1),
        ("grpc.enable_http_proxy", 0),
    ]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    error = await _raw(channel, bytes(100_000_000))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert scene.site.callers == []


async def test_question_too_large_to_send(scene: Scene) -> None:
    """Our own client does not even send it, and says what is wrong."""
    connection = scene.connect(scene.ada)
    with pytest.raises(InputError, match="too large"):
        await connection.site.query("echo", {str(n): "x" * 16_000 for n in range(300)})
    await connection.close()


async def test_message_that_does_not_parse(scene: Scene) -> None:
    """Bytes that are no message end their own call, without a word about the inside."""
    secrets = grpc.ssl_channel_credentials(
        scene.ada.root_pem, scene.ada.key_pem, scene.ada.cert_pem
    )
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    error = await _raw(channel, b"\xff" * 20)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == "the message cannot be read"
    assert scene.site.callers == []


async def test_hostile_values(scene: Scene) -> None:
    """A well-formed message with absurd values is the caller's mistake, by the field's name."""
    connection = scene.connect(scene.ada)
    question = calendar_pb2.ReleaseRequest()
    with pytest.raises(InputError, match="what is missing"):
        await connection._wire.ask(verbs.RELEASE, question)
    await connection.close()


async def test_unreachable(scene: Scene) -> None:
    """Nothing listens, no such host: one line each, worth a retry, and different."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    refused = await _refused(GrpcSite(f"127.0.0.1:{port}", scene.ada, site="lab"))
    assert type(refused) is UnavailableError
    assert "connection refused" in str(refused)
    assert f"Describe at lab (127.0.0.1:{port})" in str(refused)
    unknown = await _refused(GrpcSite("no-such-host.invalid:7000", scene.ada, site="lab"))
    assert type(unknown) is UnavailableError
    assert "host name no-such-host.invalid" in str(unknown)


async def test_server_that_speaks_no_tls(scene: Scene) -> None:
    """Something else on the port is told from a certificate that is wrong."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 400 what?\r\n\r\n")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    fault = await _refused(GrpcSite(f"127.0.0.1:{port}", scene.ada, site="lab"))
    assert type(fault) is UnavailableError
    assert "does not speak TLS" in str(fault)
    other.close()
    await other.wait_closed()


async def test_port_that_is_taken(scene: Scene, tmp_path: Path) -> None:
    """A second server on the same port does not start, and takes no calls from the first."""
    credential = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    second = GridServer(scene.site, _identify, address=scene.server.endpoint, credential=credential)
    with pytest.raises(UnavailableError, match="cannot listen"):
        await second.start()


async def test_user_certificate_cannot_serve(scene: Scene) -> None:
    """A user's certificate does not make a site."""
    with pytest.raises(NotAuthorisedError, match="as a server"):
        await GridServer(scene.site, _identify, address="127.0.0.1:0", credential=scene.ada).start()


async def test_site_comes_back(scene: Scene, tmp_path: Path) -> None:
    """A connection outlives its site: the same object works again after a restart."""
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    first = GridServer(scene.site, _identify, address="127.0.0.1:0", credential=lab)
    await first.start()
    connection = GrpcSite(first.endpoint, scene.ada, site="lab")
    await connection.calendar.describe()
    await first.stop(grace_s=0.0)
    with pytest.raises(UnavailableError):
        await connection.calendar.describe()
    second = GridServer(scene.site, _identify, address=first.endpoint, credential=lab)
    await second.start()
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    await second.stop()


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
        _identify,
        address="127.0.0.1:0",
        credential=lab,
    ) as server:
        connection = GrpcSite(server.endpoint, scene.ada, site="lab")
        assert (await connection.calendar.describe()).site == "lab"
        with pytest.raises(NotFoundError, match="does not offer"):
            await connection.site.jobs()
        await connection.close()


async def test_local_socket_knows_the_login(scene: Scene, tmp_path: Path) -> None:
    """Who connects locally is whom the kernel says; the socket is nobody else's, and goes away."""
    path = tmp_path / "front.sock"
    server = GridServer(scene.site, _identify, local=LocalSocket(path=path))
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
    async with GridServer(scene.site, _identify, local=LocalSocket(path=path)) as server:
        second = GridServer(scene.site, _identify, local=LocalSocket(path=path))
        with pytest.raises(UnavailableError, match="another daemon"):
            await second.start()
        connection = GrpcSite(server.endpoint)
        await connection.calendar.describe()
        await connection.close()
    path.write_text("a letter")
    with pytest.raises(InputError, match="no socket"):
        await GridServer(scene.site, _identify, local=LocalSocket(path=path)).start()
    assert path.read_text() == "a letter"
    missing = GrpcSite(f"unix:{tmp_path / 'nowhere.sock'}")
    assert "there is no socket" in str(await _refused(missing))


async def test_broken_local_connection(scene: Scene, tmp_path: Path) -> None:
    """Local connections that break off or talk nonsense end alone."""
    path = tmp_path / "front.sock"
    async with GridServer(scene.site, _identify, local=LocalSocket(path=path)) as server:
        for content in (b"", b"nonsense" * 100):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.sendall(content)
        connection = GrpcSite(server.endpoint)
        assert (await connection.calendar.describe()).site == "lab"
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


async def test_site_refuses_our_authority(scene: Scene, tmp_path: Path) -> None:
    """Somebody who trusts two grids shows one's certificate to the other: the message says whose
    certificate is not believed, although only the site knows.
    """
    elsewhere = tmp_path / "elsewhere"
    foreign = an_authority(elsewhere, now=SystemClock().now() - DAY_S)
    eve = a_user(foreign, elsewhere, login="eve", now=SystemClock().now())
    both = Credential(
        cert_pem=eve.cert_pem, key_pem=eve.key_pem, root_pem=eve.root_pem + scene.ada.root_pem
    )
    fault = await _refused(scene.connect(both))
    assert type(fault) is IdentityNotProvenError
    assert "/O=grid/OU=users/CN=eve" in str(fault)
    assert scene.site.callers == []


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
    fault = await _refused(GrpcSite(f"127.0.0.1:{port}", ada, site="lab"))
    await server.stop(None)
    assert type(fault) is IdentityNotProvenError
    assert f"the certificate of 127.0.0.1:{port} has expired" in str(fault)


async def test_stream_waits_for_a_site_that_restarts(scene: Scene, tmp_path: Path) -> None:
    """A stream that has not begun is asked for again; one that broke says so, and its reader
    subscribes anew on the same connection.
    """
    lab = a_site(scene.authority, tmp_path, name="lab", now=SystemClock().now())
    first = GridServer(scene.site, _identify, address="127.0.0.1:0", credential=lab)
    await first.start()
    connection = GrpcSite(first.endpoint, scene.ada, site="lab")
    news = aiter(connection.calendar.subscribe())
    await anext(news)
    await first.stop(grace_s=0.0)
    with pytest.raises(UnavailableError):
        await anext(news)
    second = GridServer(scene.site, _identify, address=first.endpoint, credential=lab)
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
    async with GridServer(liar, _identify, address="127.0.0.1:0", credential=lab) as server:
        fault = await _refused(GrpcSite(server.endpoint, scene.ada, site="lab"))
    assert type(fault) is GridError
    assert "the field lead_s" in str(fault)


async def test_requests_are_traced_over_hops(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """What one site logs about a refusal carries the id under which its caller logs."""
    caplog.set_level(logging.INFO, logger="gridio.rpc.calls")
    seen: list[str] = []
    caplog.handler.addFilter(lambda _: seen.append(current_request()) or True)  # type: ignore[func-returns-value]
    connection = scene.connect(scene.ada)
    with logging_context(request="trip-7"), pytest.raises(NotFoundError):
        await connection.site.query("missing", {})
    await connection.close()
    refusals = [record for record in caplog.records if record.getMessage() == "refused"]
    assert [record.__dict__["code"] for record in refusals] == ["NOT_FOUND"]
    assert seen == ["trip-7"]


async def test_upload_without_its_end(scene: Scene) -> None:
    """A stream that ends before the empty part has broken off, and half a file is no file."""

    async def half() -> AsyncIterator[site_pb2.PutFileRequest]:
        yield site_pb2.PutFileRequest(head=site_pb2.PutFileHead(area="a", path="f", mode=0o600))
        yield site_pb2.PutFileRequest(chunk=site_pb2.Chunk(offset=0, content=b"half"))

    connection = scene.connect(scene.ada)
    with pytest.raises(UnavailableError, match="broke off"):
        await connection._wire.tell(verbs.PUT_FILE, half())
    assert await connection.site.list_files("a", "", with_checksums=False) == []
    await connection.close()
