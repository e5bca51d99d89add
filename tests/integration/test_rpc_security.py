"""Who may not connect or send what, and that the server goes on serving whoever may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gridtravel.gridcore.errors import (
    InputError,
    NotAuthorisedError,
    UnavailableError,
)
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.sites.connections import IdentityNotProvenError
from gridtravel.gridio.system.clock import ManualClock, SystemClock
from gridtravel.gridio.trust.credentials import Credential
from gridwire.v1 import calendar_pb2, site_pb2
from tests.support.builders import a_request
from tests.support.certificate_scenes import a_site, a_user, an_authority
from tests.support.fake_services import FakeSite
from tests.support.rpc_scenes import (
    DAY_S,
    SERVER_NAME,
    Scene,
    a_scene,
    identify_by_map,
    raw_status,
    refused,
)

pytestmark = pytest.mark.integration


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """The site ``lab``; afterwards it must still serve."""
    async with a_scene(tmp_path) as made:
        yield made


async def test_no_certificate(scene: Scene) -> None:
    """A client that shows no certificate gets no connection, though it trusts the site."""
    secrets = grpc.ssl_channel_credentials(root_certificates=scene.ada.root_pem)
    options = [("grpc.ssl_target_name_override", SERVER_NAME), ("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.secure_channel(scene.server.endpoint, secrets, options=options)
    assert (await raw_status(channel, b"")).code() is grpc.StatusCode.UNAVAILABLE
    assert scene.site.callers == []


async def test_plaintext(scene: Scene) -> None:
    """A client without TLS gets no connection."""
    options = [("grpc.enable_http_proxy", 0)]
    channel = grpc.aio.insecure_channel(scene.server.endpoint, options=options)
    assert (await raw_status(channel, b"")).code() is grpc.StatusCode.UNAVAILABLE
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
    fault = await refused(scene.connect(mixed))
    assert type(fault) is IdentityNotProvenError
    assert "foreign authority" in str(fault)
    assert scene.site.callers == []


async def test_site_of_a_foreign_authority(scene: Scene, tmp_path: Path) -> None:
    """A client whose authority did not sign the site's certificate does not talk to it."""
    elsewhere = tmp_path / "elsewhere"
    foreign = an_authority(elsewhere, now=SystemClock().now() - DAY_S)
    eve = a_user(foreign, elsewhere, login="ada", now=SystemClock().now())
    fault = await refused(scene.connect(eve))
    assert type(fault) is IdentityNotProvenError
    assert "signed by a foreign authority" in str(fault)
    assert "lab" in str(fault)


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
    fault = await refused(scene.connect(both))
    assert type(fault) is IdentityNotProvenError
    assert "/O=grid/OU=users/CN=eve" in str(fault)
    assert scene.site.callers == []


async def test_expired_certificate(scene: Scene, tmp_path: Path) -> None:
    """Yesterday's certificate is refused, and the message says what to do."""
    old = a_user(scene.authority, tmp_path / "old", login="ada", now=SystemClock().now() - DAY_S)
    fault = await refused(scene.connect(old))
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
        site, identify_by_map, address="127.0.0.1:0", credential=lab, clock=clock
    ) as server:
        connection = GrpcSite(server.endpoint, ada, site="lab")
        await connection.calendar.describe()
        clock.advance(DAY_S)
        with pytest.raises(IdentityNotProvenError, match="expired"):
            await connection.calendar.describe()
        await connection.close()


async def test_other_site_answers(scene: Scene) -> None:
    """Whoever asks for ``west`` and gets ``lab``, of the same grid, is told so."""
    fault = await refused(scene.connect(scene.ada, site="west"))
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
    error = await raw_status(channel, bytes(100_000_000))
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
    error = await raw_status(channel, b"\xff" * 20)
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
