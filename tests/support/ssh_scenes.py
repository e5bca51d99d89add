"""A site behind a real SSH server, and what its tests share."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridtravel.gridcore.callers import Caller
from gridtravel.gridio.rpc.server.grid_server import GridServer
from gridtravel.gridio.rpc.server.local_socket import LocalSocket
from gridtravel.gridio.rpc.server.peers import Peer, map_caller
from gridtravel.gridio.ssh.private_socket import FOLDER_PREFIX
from gridtravel.gridio.ssh.ssh_site import SshSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.gridmap import GridMap
from tests.support.fake_services import FakeSite
from tests.support.grid_world import until
from tests.support.sshd_world import Sshd, SshUser


@dataclass
class SshScene:
    """The site ``lab`` on a local socket, its SSH server, and a user's laptop."""

    sshd: Sshd
    user: SshUser
    site: FakeSite
    server: GridServer
    socket: Path

    def connect(self, **others: Any) -> SshSite:
        """A connection of the user's."""
        return self.user.connect(**{"agent_socket": self.socket, **others})


def identify_login(peer: Peer) -> Caller:
    """Whoever the kernel names; nobody else."""
    return map_caller(peer, GridMap([]))


@asynccontextmanager
async def a_local_site(folder: Path, *, group: str = "") -> AsyncIterator[SshScene]:
    """A site, and a server of its own for a test that kills or configures it."""
    sshd = Sshd(folder / "sshd")
    site = FakeSite(SystemClock(), folder)
    socket = folder / "front.sock"
    server = GridServer(
        site, identify_login, local=LocalSocket(path=socket, group=group), site="lab"
    )
    async with server:
        sshd.start()
        try:
            yield SshScene(sshd, SshUser(folder / "laptop", sshd), site, server, socket)
        finally:
            sshd.kill()


def ssh_threads() -> list[threading.Thread]:
    """Threads that connections of ours have left."""
    return [
        each
        for each in threading.enumerate()
        if each.name.startswith("ssh ") or "paramiko" in repr(each)
    ]


def ssh_folders(base: Path) -> list[Path]:
    """Folders of local sockets that connections of ours have left."""
    return sorted(base.glob(f"{FOLDER_PREFIX}*"))


@asynccontextmanager
async def a_scene_left_clean(folder: Path, run_folder: Path) -> AsyncIterator[SshScene]:
    """A local site; afterwards nothing of the laptop's may be left, whose sockets lie in
    ``run_folder``.
    """
    before = ssh_threads()  # what another test could not end is its fault alone
    async with a_local_site(folder) as made:
        yield made
        until(lambda: not set(ssh_threads()) - set(before), "the end of every thread")
        assert ssh_folders(run_folder) == []
        until(lambda: not made.sshd.executed(), "the end of every bridge")


def bridges(scene: SshScene) -> list[int]:
    """Processes of this user that are bridges to the scene's site."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(scene.socket).encode() in words:
                found.append(int(entry.name))
    return found


def answering(*words: str) -> Callable[[object], list[str]]:
    """A prompter that types these words, one prompt after the other."""
    left = list(words)

    def answer(prompt: object) -> list[str]:
        fields = getattr(prompt, "fields", ())
        return [left.pop(0) for _ in fields]

    return answer
