"""Real TLS with the credentials of a grid: between two ends in memory, and over gRPC on loopback.

TLS libraries compare dates with the machine's own clock, so these certificates are made around it.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.credentials import Credential, Usage, check_credential
from gridtravel.gridio.trust.identity import subject_of, subject_of_peer
from tests.support.certificate_scenes import HOUR_S, a_site, a_user, an_authority

HANDSHAKE_ROUNDS_MAX = 20
SITE_NAME = "sdsc.sites.grid.internal"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A grid founded yesterday."""
    return an_authority(tmp_path, now=SystemClock().now() - 24 * HOUR_S)


def _context(folder: Path, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.load_verify_locations(folder / "root.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def _handshake(server: Path, client: Path, server_name: str = SITE_NAME) -> tuple[str, str]:
    """Shake hands over memory; the subject that each end (client, server) saw of the other."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = _context(server, ssl.PROTOCOL_TLS_SERVER).wrap_bio(
        to_server, to_client, server_side=True
    )
    client_end = _context(client, ssl.PROTOCOL_TLS_CLIENT).wrap_bio(
        to_client, to_server, server_hostname=server_name
    )
    waiting = [client_end, server_end]
    for _ in range(HANDSHAKE_ROUNDS_MAX):
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
        if not waiting:
            seen = [end.getpeercert(binary_form=True) for end in (client_end, server_end)]
            return subject_of(seen[0] or b""), subject_of(seen[1] or b"")
    raise AssertionError("the handshake did not end")


def test_user_and_site_prove_themselves_to_each_other(authority: Authority, tmp_path: Path) -> None:
    """A valid pair shakes hands, under the site's own name, its host name and its address."""
    now = SystemClock().now()
    a_site(authority, tmp_path, now=now)
    a_user(authority, tmp_path, now=now)
    for name in (SITE_NAME, "localhost", "127.0.0.1"):
        assert _handshake(tmp_path / "sdsc", tmp_path / "kenneth", name) == (
            "/O=grid/OU=sites/CN=sdsc",
            "/O=grid/OU=users/CN=kenneth",
        )


def test_a_site_may_call_another(authority: Authority, tmp_path: Path) -> None:
    """Sites and managers are clients too: each announces itself to the one above it."""
    now = SystemClock().now()
    a_site(authority, tmp_path, now=now)
    authority.issue_manager("north", tmp_path / "north", now, hosts=["localhost"])
    seen = _handshake(tmp_path / "north", tmp_path / "sdsc", "north.managers.grid.internal")
    assert seen == ("/O=grid/OU=managers/CN=north", "/O=grid/OU=sites/CN=sdsc")


def test_a_renewed_root_still_believes_older_certificates(
    authority: Authority, tmp_path: Path
) -> None:
    """After `ca init` again, a user with the new root and a site with the old one still meet."""
    now = SystemClock().now()
    a_site(authority, tmp_path, now=now)
    renewed = an_authority(tmp_path, now=now)
    a_user(renewed, tmp_path, now=now)
    _handshake(tmp_path / "sdsc", tmp_path / "kenneth")


def test_expired_user_is_refused(authority: Authority, tmp_path: Path) -> None:
    """A certificate of yesterday proves nothing today, and our own check says so beforehand."""
    now = SystemClock().now()
    a_site(authority, tmp_path, now=now)
    user = a_user(authority, tmp_path, now=now - 13 * HOUR_S)
    with pytest.raises(ssl.SSLError, match="certificate has expired"):
        _handshake(tmp_path / "sdsc", tmp_path / "kenneth")
    assert "expired at" in str(check_credential(user, now)[0])


@pytest.mark.parametrize("foreigner", ["user", "site"])
def test_a_foreign_authority_is_refused(
    authority: Authority, tmp_path: Path, foreigner: str
) -> None:
    """A grid of the same name with another key is another grid: neither side believes it."""
    now = SystemClock().now()
    abroad = tmp_path / "abroad"
    foreign = an_authority(abroad, now=now - HOUR_S)
    site_folder, user_folder = tmp_path, tmp_path
    if foreigner == "user":
        a_site(authority, tmp_path, now=now)
        stranger, user_folder = a_user(foreign, abroad, now=now), abroad
        (abroad / "kenneth" / "root.pem").write_bytes(authority.root_pem)
    else:
        stranger, site_folder = a_site(foreign, abroad, now=now), abroad
        a_user(authority, tmp_path, now=now)
        (abroad / "sdsc" / "root.pem").write_bytes(authority.root_pem)
    with pytest.raises(ssl.SSLError, match="certificate verify failed"):
        _handshake(site_folder / "sdsc", user_folder / "kenneth")
    mixed = Credential(
        cert_pem=stranger.cert_pem, key_pem=stranger.key_pem, root_pem=authority.root_pem
    )
    assert "foreign authority" in str(check_credential(mixed, now)[0])


def test_a_user_cannot_pose_as_a_server(authority: Authority, tmp_path: Path) -> None:
    """A user's certificate is for clients: shown by a server it is refused before its name is
    looked at.
    """
    now = SystemClock().now()
    user = a_user(authority, tmp_path, now=now)
    authority.issue_user("martha", tmp_path / "martha", now)
    with pytest.raises(ssl.SSLError, match=r"(unsuitable|unsupported) certificate purpose"):
        _handshake(tmp_path / "kenneth", tmp_path / "martha")
    assert "use as a server" in str(check_credential(user, now, Usage.SERVER)[0])


def test_a_site_cannot_pose_as_another(authority: Authority, tmp_path: Path) -> None:
    """Two sites on one host differ by their own names, which a client asks for."""
    now = SystemClock().now()
    a_site(authority, tmp_path, name="purdue", now=now)
    a_user(authority, tmp_path, now=now)
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        _handshake(tmp_path / "purdue", tmp_path / "kenneth")


def test_a_key_of_another_is_refused_when_loaded(authority: Authority, tmp_path: Path) -> None:
    """A certificate without its key cannot even be loaded; our check names the cause."""
    now = SystemClock().now()
    user = a_user(authority, tmp_path, now=now)
    other = authority.issue_user("martha", tmp_path / "martha", now)
    (tmp_path / "kenneth" / "key.pem").write_bytes(other.key_pem)
    with pytest.raises(ssl.SSLError, match=r"(?i)key.values.mismatch"):
        _context(tmp_path / "kenneth", ssl.PROTOCOL_TLS_CLIENT)
    mixed = Credential(cert_pem=user.cert_pem, key_pem=other.key_pem, root_pem=user.root_pem)
    assert "does not belong" in str(check_credential(mixed, now)[0])


@contextlib.contextmanager
def _grpc_server(credential: Credential) -> Iterator[int]:
    """A gRPC server on loopback that answers every caller with the subject it proved; its port."""

    def who_am_i(_: bytes, context: grpc.ServicerContext) -> bytes:
        return subject_of_peer(context.auth_context(), SystemClock().now()).encode()

    handler = grpc.method_handlers_generic_handler(
        "Mirror", {"WhoAmI": grpc.unary_unary_rpc_method_handler(who_am_i)}
    )
    server = grpc.server(ThreadPoolExecutor(max_workers=1), handlers=[handler])
    port = server.add_secure_port(
        "127.0.0.1:0",
        grpc.ssl_server_credentials(
            [(credential.key_pem, credential.cert_pem)],
            root_certificates=credential.root_pem,
            require_client_auth=True,
        ),
    )
    server.start()
    try:
        yield port
    finally:
        server.stop(grace=None).wait()


def _who_am_i(port: int, credential: Credential, server_name: str = SITE_NAME) -> str:
    channel_credentials = grpc.ssl_channel_credentials(
        root_certificates=credential.root_pem,
        private_key=credential.key_pem,
        certificate_chain=credential.cert_pem,
    )
    options = [("grpc.ssl_target_name_override", server_name)]
    address = f"127.0.0.1:{port}"
    with grpc.secure_channel(address, channel_credentials, options=options) as channel:
        who_am_i = channel.unary_unary(
            "/Mirror/WhoAmI", request_serializer=bytes, response_deserializer=bytes
        )
        answer: bytes = who_am_i(b"", timeout=60)
    return answer.decode()


@pytest.mark.integration
def test_grpc_proves_the_caller_and_the_site(authority: Authority, tmp_path: Path) -> None:
    """gRPC gives the handler the caller's subject, and refuses a site that answers for another and
    a caller from abroad.
    """
    now = SystemClock().now()
    site, user = a_site(authority, tmp_path, now=now), a_user(authority, tmp_path, now=now)
    expired = authority.issue_user("martha", tmp_path / "martha", now - 13 * HOUR_S)
    stranger = a_user(an_authority(tmp_path / "x", now=now - HOUR_S), tmp_path / "x", now=now)
    foreign = Credential(
        cert_pem=stranger.cert_pem, key_pem=stranger.key_pem, root_pem=authority.root_pem
    )
    with _grpc_server(site) as port:
        assert _who_am_i(port, user) == "/O=grid/OU=users/CN=kenneth"
        refused = (
            (user, "purdue.sites.grid.internal"),
            (foreign, SITE_NAME),
            (expired, SITE_NAME),
        )
        for caller, name in refused:
            with pytest.raises(grpc.RpcError) as refusal:
                _who_am_i(port, caller, name)
            assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.integration
def test_grpc_refuses_a_user_as_a_server(authority: Authority, tmp_path: Path) -> None:
    """gRPC's own TLS library looks at the usage too: a user's certificate cannot serve."""
    user = a_user(authority, tmp_path, now=SystemClock().now())
    with _grpc_server(user) as port, pytest.raises(grpc.RpcError) as refusal:
        _who_am_i(port, user)
    assert refusal.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "unsupported certificate purpose" in str(refusal.value.details())
