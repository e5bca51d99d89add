"""Through a real SSH server: what breaks on the way, and who mends it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.sites.connections import UnreachableError
from tests.support.ssh_scenes import SshScene, a_scene_left_clean, bridges

pytestmark = pytest.mark.integration


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


async def test_connection_that_dies_between_calls(scene: SshScene) -> None:
    """The next call logs in again, and nobody notices."""
    connection = scene.connect()
    await connection.calendar.describe()
    scene.sshd.kill_connections()
    assert (await connection.calendar.describe()).site == "lab"
    assert scene.sshd.log.count("Accepted publickey") == 2
    await connection.close()


async def test_server_killed_in_the_middle_of_a_stream(scene: SshScene) -> None:
    """The stream ends with a fault that may be retried; while the server is down, that is said;
    when it is back, the same connection works.
    """
    connection = scene.connect()
    async with aclosing(connection.site.follow_output("endless", "stdout", 0)) as chunks:  # type: ignore[type-var]
        await anext(chunks)
        scene.sshd.kill()
        with pytest.raises(UnavailableError):
            [0 async for _ in chunks]
    with pytest.raises(UnreachableError, match="connection refused"):
        await connection.calendar.describe()
    scene.sshd.start()
    assert (await connection.calendar.describe()).site == "lab"
    await connection.close()


async def test_bridge_killed_in_the_middle(scene: SshScene) -> None:
    """The login lives on and starts another bridge."""
    connection = scene.connect()
    await connection.calendar.describe()
    for pid in bridges(scene):
        os.kill(pid, 9)
    assert (await connection.calendar.describe()).site == "lab"
    assert scene.sshd.log.count("Accepted publickey") == 1
    await connection.close()


async def test_killed_laptop_leaves_a_folder_that_the_next_one_clears(
    scene: SshScene, run_folder: Path
) -> None:
    """After kill -9 the next connection removes the folder, and only such a one."""
    stale = run_folder / "gur-ssh-killed"
    stale.mkdir()
    script = (
        "import socket,sys,os; s=socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        "os.kill(os.getpid(), 9)"
    )
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(stale / "s")])
    other = run_folder / "gur-ssh-being-made"
    other.mkdir()
    connection = scene.connect()
    await connection.calendar.describe()
    await connection.close()
    assert not stale.exists()
    assert other.exists()
    other.rmdir()


async def test_closed_connection(scene: SshScene) -> None:
    """After its end it says so, and logs in no more; closing before the first call is fine."""
    connection = scene.connect()
    await connection.close()
    with pytest.raises(UnavailableError, match="closed"):
        await connection.calendar.describe()
