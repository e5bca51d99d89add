"""Through a real SSH server: whom we trust, who comes out at the far end, which ways lead there."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import GridError, NotAuthorisedError, UnavailableError
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.sites.connections import IdentityNotProvenError, UnreachableError
from gridtravel.gridio.ssh.far_end import start_bridge
from gridtravel.gridio.ssh.known_hosts import HostKeyChangedError, HostKeyUnknownError
from gridtravel.gridio.ssh.login import Login
from gridtravel.gridio.ssh.target import SshTarget
from tests.support.grid_world import until
from tests.support.ssh_scenes import (
    SshScene,
    a_scene_left_clean,
    answering,
    bridges,
    identify_login,
)
from tests.support.sshd_world import LOOPBACK, Sshd, SshUser, write_key

pytestmark = pytest.mark.integration

BRIDGE = Path(sys.modules["gridtravel.gridio.ssh.bridge"].__file__ or "")
CHECKOUT = BRIDGE.parents[3]


@pytest.fixture
async def scene(tmp_path: Path, run_folder: Path) -> AsyncIterator[SshScene]:
    """A site behind an SSH server of its own; afterwards nothing of the laptop's is left."""
    async with a_scene_left_clean(tmp_path, run_folder) as made:
        yield made


@pytest.fixture
def run_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's folder for sockets; short, because their paths must be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield Path(folder)


async def fault_of(scene: SshScene, **others: object) -> GridError:
    """What a call fails with; the site must not have seen it."""
    connection = scene.connect(**others)
    with pytest.raises(GridError) as caught:
        await connection.calendar.describe()
    await connection.close()
    assert scene.site.callers == []
    return caught.value


async def test_far_end_is_the_account_that_logged_in(scene: SshScene) -> None:
    """The site sees the login that the kernel names, and one login serves all calls."""
    connection = scene.connect()
    assert (await connection.calendar.describe()).login == scene.sshd.login
    await connection.calendar.describe()
    assert {caller.subject for caller in scene.site.callers} == {f"login:{scene.sshd.login}"}
    assert scene.sshd.log.count("Accepted publickey") == 1
    assert len(scene.sshd.executed()) == 1
    assert (connection.transport, connection.endpoint) == ("ssh", "ssh:far")
    await connection.close()


async def test_unknown_host_key(scene: SshScene) -> None:
    """An unknown key is refused before anything is said; the command of the hint makes it known,
    and the same connection works from then on.
    """
    scene.user.known_hosts.write_text("")
    connection = scene.connect()
    with pytest.raises(HostKeyUnknownError, match="SHA256:") as caught:
        await connection.calendar.describe()
    assert "Accepted" not in scene.sshd.log
    assert caught.value.hint is not None
    command = caught.value.hint.partition("same: ")[2]
    await asyncio.to_thread(subprocess.run, ["sh", "-c", command], check=True)
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


async def test_changed_host_key(scene: SshScene) -> None:
    """Another key than the one on file is refused loudly, and our own key is not shown to it."""
    scene.user.know(write_key(scene.user.folder / "of_another_host"))
    fault = await fault_of(scene)
    assert isinstance(fault, HostKeyChangedError)
    assert "HAS CHANGED" in fault.message
    assert fault.exit_code == 5
    assert "Accepted" not in scene.sshd.log
    assert "Failed" not in scene.sshd.log


async def test_strict_checking_cannot_be_switched_off(scene: SshScene) -> None:
    """Whatever the user's file says, nobody unknown is talked to."""
    scene.user.known_hosts.write_text("")
    scene.user.configure("StrictHostKeyChecking no")
    assert isinstance(await fault_of(scene), HostKeyUnknownError)


async def test_wrong_key(scene: SshScene) -> None:
    """A key that the server does not take is named, with what it would take; it is tried once a
    call, so that nobody is locked out.
    """
    write_key(scene.user.key)
    fault = await fault_of(scene)
    assert isinstance(fault, IdentityNotProvenError)
    assert str(scene.user.key) in fault.message
    assert "publickey" in fault.message
    until(lambda: "by authenticating user" in scene.sshd.log, "the server's word on it")
    assert scene.sshd.log.count("by authenticating user") == 1


async def test_key_that_others_can_read(scene: SshScene) -> None:
    """Such a key is not used, as with OpenSSH."""
    scene.user.key.chmod(0o644)
    assert "can be read by others" in (await fault_of(scene)).message


async def test_key_with_a_passphrase(scene: SshScene) -> None:
    """The passphrase is asked for; without anybody to ask, the message says what would help."""
    scene.user.public = write_key(scene.user.key, kind="ecdsa", passphrase="open sesame")
    scene.user.authorize()
    assert "needs its passphrase" in (await fault_of(scene)).message
    connection = scene.connect(prompter=answering("wrong", "open sesame"))
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


async def test_agent_holds_the_key(scene: SshScene, tmp_path: Path) -> None:
    """A key that only the user's agent knows logs in."""
    agent_socket = tmp_path / "agent"
    agent = await asyncio.create_subprocess_exec(
        "ssh-agent", "-D", "-a", str(agent_socket), stdout=subprocess.DEVNULL
    )
    try:
        until(agent_socket.exists, "the agent")
        environment = {**os.environ, "SSH_AUTH_SOCK": str(agent_socket)}
        add = ["ssh-add", "-q", str(scene.user.key)]
        await asyncio.to_thread(subprocess.run, add, env=environment, check=True, timeout=120)
        scene.user.key.unlink()
        text = scene.user.config.read_text()
        scene.user.config.write_text(text.replace("Agent none", f"Agent {agent_socket}"))
        connection = scene.connect()
        assert (await connection.calendar.describe()).site == "lab"
        await connection.close()
    finally:
        agent.terminate()
        await agent.wait()


async def test_forced_command(scene: SshScene, tmp_path: Path) -> None:
    """With a key that is good for the bridge alone, everything works, and nothing else is executed
    whatever is asked for.
    """
    command = f"{sys.executable} -I -S {BRIDGE} --socket {scene.socket}"
    scene.user.authorize(f'restrict,command="{command}"')
    connection = scene.connect(agent_socket="/nowhere/else.sock")
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
    login = Login(SshTarget.parse(scene.user.alias), config=scene.user.config)
    login.connect()
    channel = login.open_session()
    start_bridge(channel, f"touch {tmp_path / 'executed'}", "far")
    login.close()
    assert not (tmp_path / "executed").exists()


async def test_strictest_server(scene: SshScene) -> None:
    """One session, no forwarding, no terminal, one command whatever the key: everything works, also
    when the bridge has to be started again.
    """
    scene.sshd.kill()
    scene.sshd.options = (
        "MaxSessions 1",
        "DisableForwarding yes",
        "PermitTTY no",
        f"ForceCommand {sys.executable} -I -S {BRIDGE} --socket {scene.socket}",
    )
    scene.sshd.start()
    connection = scene.connect()
    assert (await connection.calendar.describe()).site == "lab"
    for pid in bridges(scene):
        os.kill(pid, 9)
    assert (await connection.site.query("echo", {})) is not None
    await connection.close()


async def test_gurd_at_the_far_end(scene: SshScene) -> None:
    """Where gurd is installed, it is the bridge."""
    gurd = scene.sshd.folder / "bin" / "gurd"
    gurd.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c"
        f' \'import sys; sys.path.insert(0, "{CHECKOUT}");'
        " from gridtravel.gurd.entry import main; main()'"
        ' "$@"\n'
    )
    gurd.chmod(0o755)
    connection = scene.connect()
    assert (await connection.calendar.describe()).site == "lab"
    assert "gridtravel.gurd.entry" in scene.sshd.executed()[-1]
    await connection.close()


async def test_login_that_chatters(scene: SshScene) -> None:
    """What start-up files print before the bridge speaks is skipped."""
    command = f"echo Welcome; echo; {sys.executable} {BRIDGE} --socket {scene.socket}"
    scene.user.authorize(f'command="{command}"')
    connection = scene.connect()
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


@pytest.mark.parametrize(
    ("command", "kind", "words"),
    [
        ("echo This account is disabled; exit 1", UnavailableError, "This account is disabled"),
        ("exit 127", UnavailableError, "neither gurd nor python3"),
        ("echo bridge: not for you >&2; exit 5", NotAuthorisedError, "not for you"),
        ("yes", UnavailableError, "prints without end"),
    ],
)
async def test_login_without_a_bridge(
    scene: SshScene, command: str, kind: type[GridError], words: str
) -> None:
    """A login that starts no bridge says why, in its own last words."""
    scene.user.authorize(f'command="{command}"')
    fault = await fault_of(scene)
    assert isinstance(fault, kind)
    assert words in fault.message


async def test_no_agent_at_the_far_end(scene: SshScene, tmp_path: Path) -> None:
    """The login works and the site's daemon is down: that is what is said, and when it is back, the
    same connection works.
    """
    connection = scene.connect()
    await scene.server.stop()
    with pytest.raises(UnavailableError, match="no agent answers"):
        await connection.calendar.describe()
    socket = LocalSocket(path=scene.socket)
    async with GridServer(scene.site, identify_login, local=socket, site="lab"):
        assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


async def test_nobody_listens(scene: SshScene) -> None:
    """No SSH server is told from a refused login."""
    scene.sshd.kill()
    fault = await fault_of(scene)
    assert isinstance(fault, UnreachableError)
    assert "connection refused" in fault.message


async def test_unknown_name(scene: SshScene) -> None:
    """A name that nobody knows is told as such."""
    text = scene.user.config.read_text()
    scene.user.config.write_text(text.replace(LOOPBACK, "no-such-host.invalid"))
    fault = await fault_of(scene)
    assert isinstance(fault, UnreachableError)
    assert "not known" in fault.message


async def test_jump_host(scene: SshScene, tmp_path: Path) -> None:
    """A gateway that forwards and a target that forbids it: both keys must be known, and nobody but
    the target sees our calls.
    """
    gate = Sshd(tmp_path / "gate", options=("AllowTcpForwarding yes",))
    gate.start()
    try:
        gate.authorized_keys.write_text(scene.user.public + "\n")
        with scene.user.config.open("a") as config:
            config.write(
                f"Host gate\n HostName {LOOPBACK}\n Port {gate.port}\n IdentityAgent none\n"
                f" IdentityFile {scene.user.key}\n UserKnownHostsFile {scene.user.known_hosts}\n"
            )
        text = scene.user.config.read_text()
        scene.user.config.write_text(text.replace("Host far\n", "Host far\n ProxyJump gate\n"))
        assert isinstance(await fault_of(scene), HostKeyUnknownError)
        with scene.user.known_hosts.open("a") as known:
            known.write(f"[{LOOPBACK}]:{gate.port} {gate.host_key}\n")
        connection = scene.connect()
        assert (await connection.calendar.describe()).login == scene.sshd.login
        await connection.close()
        assert gate.log.count("Accepted publickey") == 1
        scene.sshd.kill()
        fault = await fault_of_jump(scene.user, scene.socket)
        assert "does not get through" in fault.message
    finally:
        gate.kill()


async def fault_of_jump(user: SshUser, socket: Path) -> GridError:
    """What a call fails with."""
    connection = user.connect(socket)
    with pytest.raises(UnreachableError) as caught:
        await connection.calendar.describe()
    await connection.close()
    return caught.value


async def test_proxy_command(scene: SshScene) -> None:
    """A program of the user's choice carries the bytes, and ends with the connection."""
    program = (
        "import socket,sys,threading,os;"
        "s=socket.create_connection((sys.argv[1],int(sys.argv[2])));"
        "t=threading.Thread(target=lambda:[s.sendall(d) for d in iter(lambda:os.read(0,9999),b'')],"
        "daemon=True);t.start();"
        "[os.write(1,d) for d in iter(lambda:s.recv(9999),b'')]"
    )
    words = f"{sys.executable} -c {shlex.quote(program)}"
    scene.user.configure(f"ProxyCommand {words} %h %p")
    connection = scene.connect()
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()
