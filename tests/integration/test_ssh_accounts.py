"""Who comes out at the far end when root's SSH server lets an ordinary user in.

The user exists only in a mount name space of the server's own, so the machine's list of accounts is
not touched. Needs root.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gridtravel.gridcore.errors import NotAuthorisedError
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.system.clock import SystemClock
from tests.support.fake_services import FakeSite
from tests.support.ssh_scenes import identify_login
from tests.support.sshd_world import Sshd, SshUser

pytestmark = pytest.mark.integration

LOGIN: Final = "gridada"
UID: Final = 41_001
SETUP: Final = (
    'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/shadow" /etc/shadow && shift'
    ' && exec "$@"'
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that ordinary users may enter, unlike those of pytest."""
    if os.geteuid() != 0 or not _may_make_name_spaces():
        pytest.skip("NOT TESTED: ordinary users behind root's sshd. It takes root and unshare(1)")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshUser]:
    """An ordinary user of an SSH server that runs as root."""
    group = grp.getgrgid(100).gr_name
    account = f"{LOGIN}:x:{UID}:100::/nonexistent:/bin/sh\n"
    (folder / "passwd").write_text(Path("/etc/passwd").read_text() + account)
    (folder / "shadow").write_text(f"{LOGIN}:*:19000:0:99999:7:::\nroot:*:19000:0:99999:7:::\n")
    real = pwd.getpwuid
    entry = pwd.struct_passwd((LOGIN, "x", UID, 100, group, "/nonexistent", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: entry if uid == UID else real(uid))
    wrapper = ("unshare", "--mount", "--propagation", "private", "sh", "-c", SETUP, "sh")
    sshd = Sshd(folder / "sshd", login=LOGIN, wrapper=(*wrapper, str(folder)))
    sshd.start()
    try:
        yield SshUser(folder / "laptop", sshd)
    finally:
        sshd.kill()


async def test_nobody_but_the_account_that_logged_in(user: SshUser, folder: Path) -> None:
    """The site sees the ordinary user, also when the user asks for another one's name."""
    socket = LocalSocket(path=folder / "agent.sock", group=grp.getgrgid(100).gr_name)
    site = FakeSite(SystemClock(), folder)
    async with GridServer(site, identify_login, local=socket, site="lab"):
        connection = user.connect(socket.path)
        assert (await connection.calendar.describe()).login == LOGIN
        assert {caller.subject for caller in site.callers} == {f"login:{LOGIN}"}
        await connection.close()


async def test_account_outside_the_group(user: SshUser, folder: Path) -> None:
    """Whom the socket's mode keeps out gets no further, and is told so."""
    socket = LocalSocket(path=folder / "agent.sock")
    site = FakeSite(SystemClock(), folder)
    async with GridServer(site, identify_login, local=socket, site="lab"):
        connection = user.connect(socket.path)
        with pytest.raises(NotAuthorisedError, match="may not use the socket"):
            await connection.calendar.describe()
        await connection.close()
    assert site.callers == []


def _may_make_name_spaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return done.returncode == 0
