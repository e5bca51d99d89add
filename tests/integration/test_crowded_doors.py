"""Doors at which many come at once: who still gets in, and what the others are told."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.rpc.server import admission
from gridtravel.gridio.rpc.server.admission import ConnectionLimits
from gridtravel.gridio.rpc.server.front_door import Admitting
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.ssh.ssh_site import SshSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.credentials import Credential
from tests.support.certificate_scenes import HOUR_S, a_site, a_user, an_authority
from tests.support.fake_services import FakeSite
from tests.support.login_world import SITE, LoginSite, login_site
from tests.support.rpc_scenes import identify_by_map
from tests.support.sshd_world import SshUser

pytestmark = pytest.mark.integration

SILENT_LOCAL: Final = 300
SILENT_NETWORK: Final = 1_100
PATIENCE_S: Final = 60.0


@dataclass
class Doors:
    """A site with both doors, and ada's certificate."""

    server: GridServer
    socket: Path
    ada: Credential

    def by_network(self) -> GrpcSite:
        """One more connection of ada's."""
        return GrpcSite(self.server.endpoint, self.ada, site="lab")

    def by_socket(self) -> GrpcSite:
        """One more connection of this user's."""
        return GrpcSite(f"unix:{self.socket}", site="lab")


@asynccontextmanager
async def doors(folder: Path, **limits: float) -> AsyncIterator[Doors]:
    """The site ``lab`` with these limits."""
    now = SystemClock().now()
    authority = an_authority(folder, now=now - HOUR_S)
    path = folder / "front.sock"
    server = GridServer(
        FakeSite(SystemClock(), folder),
        identify_by_map,
        address="127.0.0.1:0",
        credential=a_site(authority, folder, name="lab", now=now),
        local=LocalSocket(path=path),
        admitting=Admitting(limits=ConnectionLimits(**limits)),  # type: ignore[arg-type]
        site="lab",
    )
    async with server:
        yield Doors(server, path, a_user(authority, folder, login="ada", now=now))


async def over(limited: GrpcSite | SshSite) -> GridError:
    """What somebody is told for whom there is no place."""
    with pytest.raises(UnavailableError) as caught:
        await limited.calendar.describe()
    await limited.close()
    return caught.value


async def test_a_login_over_its_limit_is_told_so(tmp_path: Path) -> None:
    """In one line, with a next step; and whoever ends a connection has room again."""
    async with doors(tmp_path, per_login=2, administrators=0) as site:
        kept = [site.by_socket() for _ in range(2)]
        for each in kept:
            await each.calendar.describe()
        fault = await over(site.by_socket())
        assert "has 2 connections open here" in fault.message
        assert "\n" not in fault.message
        assert fault.hint is not None
        assert await _describes(site.by_network())
        await kept.pop().close()
        assert await _describes_soon(site.by_socket)
        for each in kept:
            await each.close()


async def test_an_administrator_has_a_place(tmp_path: Path) -> None:
    """The daemon's own user, beyond what any login has."""
    async with doors(tmp_path, per_login=1, administrators=1) as site:
        first = site.by_socket()
        await first.calendar.describe()
        assert await _describes(site.by_socket())
        await first.close()


async def test_an_ssh_login_over_its_limit_is_told_so(tmp_path: Path, ssh_user: SshUser) -> None:
    """The same line through a bridge."""
    async with doors(tmp_path, per_login=1, administrators=0) as site:
        first = ssh_user.connect(site.socket)
        await first.calendar.describe()
        fault = await over(ssh_user.connect(site.socket))
        assert "has 1 connections open here" in fault.message
        await first.close()


async def test_a_certificate_over_its_limit_is_told_so(tmp_path: Path) -> None:
    """Also in one line; the connection that is over the limit is ended."""
    async with doors(tmp_path, per_certificate=1) as site:
        first = site.by_network()
        await first.calendar.describe()
        fault = await over(site.by_network())
        assert "/O=grid/OU=users/CN=ada has 1 connections open here" in fault.message
        assert fault.hint is not None
        assert await _describes(site.by_socket())
        await first.close()
        assert await _describes_soon(site.by_network)


async def test_an_address_over_its_limit_is_told_so(tmp_path: Path) -> None:
    """Before any handshake; who has been silent for longer than that makes way."""
    async with doors(tmp_path, per_address=2) as site:
        with _silent_network(site.server.port, 2):
            fault = await over(site.by_network())
            assert "127.0.0.1 has 2 connections open here" in fault.message
            assert fault.hint is not None


async def test_silent_ones_make_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At both doors a newcomer takes the place of who has said nothing for long."""
    monkeypatch.setattr(admission, "HANDSHAKE_S", 0.0)
    async with doors(tmp_path, per_address=2, per_login=2, administrators=0) as site:
        with _silent_network(site.server.port, 2), _silent_local(site.socket, 2):
            assert await _describes(site.by_network())
            assert await _describes(site.by_socket())


async def test_whoever_asks_nothing_is_sent_away(tmp_path: Path) -> None:
    """Silent, or with a handshake and no question: the connection is ended, at both doors."""
    async with doors(tmp_path, silence_s=1) as site:
        local = await asyncio.open_unix_connection(site.socket)
        network = await asyncio.open_connection("127.0.0.1", site.server.port)
        greeting = await asyncio.open_unix_connection(site.socket)
        greeting[1].write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            for reader, writer in (local, network, greeting):
                await reader.read()
                writer.close()


async def test_a_stranger_who_does_not_read_keeps_no_place(tmp_path: Path) -> None:
    """Bytes that nobody takes do not keep a connection of which the daemon has had enough."""
    async with doors(tmp_path, per_login=1, administrators=0, silence_s=1) as site:
        with socket.socket(socket.AF_UNIX) as rude:
            rude.connect(str(site.socket))
            rude.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            assert await _describes_soon(site.by_socket)


@pytest.mark.timeout(240)
def test_crowds_at_a_real_agent() -> None:
    """300 silent connections of one login, and 1,100 from the network, with the descriptors of an
    ordinary shell: others get in by socket and by certificate, as do administrators.
    """
    with login_site() as site:
        _start_with_few_descriptors(site)
        local = site.state / "agent.sock"
        local.chmod(0o666)  # The test's stand-in for a group that both accounts are in.
        with _crowd_of(site, "ada"):
            assert asyncio.run(_describes(GrpcSite(f"unix:{local}", site=SITE)))
            assert asyncio.run(_describes(site.connect("ada")))
            said, _ = _as_account(site, "grace", _KNOCK).communicate(timeout=PATIENCE_S)
            assert said.strip() == "welcome"
        port = int(site.endpoint.rpartition(":")[2])
        with _silent_network(port, SILENT_NETWORK):
            assert asyncio.run(_describes_at_last(site))
            assert asyncio.run(_describes(GrpcSite(f"unix:{local}", site=SITE)))


def _start_with_few_descriptors(site: LoginSite) -> None:
    """The daemon raises its own soft limit; the hard one is left alone."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
    try:
        site.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_BECOME: Final = """
import os, socket, sys
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[1]))
path = sys.argv[3]
"""
"""Python may lie where an account may not look, so everything is imported before."""
_CROWD: Final = """
kept = []
for _ in range(int(sys.argv[4])):
    each = socket.socket(socket.AF_UNIX)
    each.settimeout(5)
    each.connect(path)
    kept.append(each)
print(len(kept), flush=True)
sys.stdin.read()
"""
_KNOCK: Final = """
with socket.socket(socket.AF_UNIX) as knock:
    knock.connect(path)
    knock.settimeout(0.5)
    try:
        print("refused" if knock.recv(9) else "ended")
    except TimeoutError:
        print("welcome")
"""
"""A door speaks first only to whom it turns away."""


def _as_account(site: LoginSite, user: str, script: str, *words: str) -> subprocess.Popen[str]:
    account = site.accounts[user]
    who = (str(account.pw_uid), str(account.pw_gid), str(site.state / "agent.sock"))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _BECOME + script, *who, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        text=True,
    )


@contextmanager
def _crowd_of(site: LoginSite, user: str) -> Iterator[None]:
    """So many connections of one account, kept open and silent."""
    crowd = _as_account(site, user, _CROWD, str(SILENT_LOCAL))
    try:
        assert crowd.stdout is not None
        assert int(crowd.stdout.readline()) == SILENT_LOCAL
        yield
    finally:
        crowd.communicate(timeout=PATIENCE_S)


@contextmanager
def _silent_network(port: int, count: int) -> Iterator[None]:
    kept = [socket.create_connection(("127.0.0.1", port), PATIENCE_S) for _ in range(count)]
    try:
        yield
    finally:
        for each in kept:
            each.close()


@contextmanager
def _silent_local(path: Path, count: int) -> Iterator[None]:
    kept = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    try:
        for each in kept:
            each.connect(str(path))
        yield
    finally:
        for each in kept:
            each.close()


async def _describes(connection: GrpcSite) -> bool:
    try:
        return (await connection.calendar.describe()).site == "lab"
    finally:
        await connection.close()


async def _describes_soon(connect: object) -> bool:
    """When what was ended a moment ago is noticed."""
    assert callable(connect)
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await _describes(connect())
            except UnavailableError:
                continue


async def _describes_at_last(site: LoginSite) -> bool:
    """All silent ones are younger than a handshake at first."""
    return await _describes_soon(lambda: site.connect("ada"))


def test_check_config_names_few_descriptors(tmp_path: Path) -> None:
    """Where the hard limit leaves less room than the table asks for, a note says so; a table that
    cannot be is refused by key.
    """
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now - HOUR_S)
    authority.issue_site("lab", tmp_path / "credential", now, hosts=["127.0.0.1"])
    (tmp_path / "grid-mapfile").write_text("")
    config = tmp_path / "site.toml"
    head = '[site]\nname = "lab"\n[host]\nrun_as = "daemon"\n[connections]\n'

    def check(table: str, *before: str) -> subprocess.CompletedProcess[str]:
        config.write_text(head + table)
        words = [sys.executable, "-m", "gridtravel.gurd.cli", "check-config", str(config)]
        return subprocess.run(
            [*before, *words], capture_output=True, text=True, check=False, env={**os.environ}
        )

    assert check("per_login = 4\n").returncode == 0
    few = check("", "prlimit", "--nofile=1024:1024")
    assert few.returncode == 0
    assert "a process may have 1024 files open here" in few.stderr
    for key, value in (("silence_s", 0.1), ("doors", 2)):
        wrong = check(f"{key} = {value}\n")
        assert wrong.returncode == 2, wrong
        assert f"connections.{key}" in wrong.stderr
