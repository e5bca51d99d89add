"""The three ways to one site, each with proof of its own: a certificate over the network, the
kernel's word at the local socket, and the kernel's word behind an SSH login. The accounts are real.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.ssh.private_socket import PrivateSocket
from gridtravel.gridio.trust.anchor import anchor_of
from tests.support.login_world import SITE, LoginSite
from tests.support.sshd_world import Sshd, SshUser

CARRIERS: Final = ("network", "socket", "ssh")


@asynccontextmanager
async def a_way(carrier: str, site: LoginSite, user: str) -> AsyncIterator[SiteConnection]:
    """A connection of ``user`` to ``site``."""
    anchor = anchor_of(site.credentials[user].root_pem)
    with contextlib.ExitStack() as stack:
        connection: SiteConnection
        if carrier == "network":
            connection = site.connect(user)
        elif carrier == "socket":
            near = stack.enter_context(_socket_of(site.accounts[user], site.socket))
            connection = GrpcSite(f"unix:{near}", site=SITE, anchor=anchor)
        else:
            login = stack.enter_context(_ssh_login(site, user))
            connection = login.connect(site.socket, anchor=anchor)
        try:
            yield connection
        finally:
            await connection.close()


@contextmanager
def _socket_of(account: pwd.struct_passwd, far: Path) -> Iterator[Path]:
    """A socket of this process' whose bytes go to ``far`` through a process of ``account``, since
    the kernel tells there who has connected.
    """
    groups = ",".join(map(str, os.getgrouplist(account.pw_name, account.pw_gid)))
    words = (groups, str(account.pw_gid), str(account.pw_uid), str(far))
    processes: list[subprocess.Popen[bytes]] = []

    def welcome(connection: socket.socket) -> None:
        with connection:
            argv = [sys.executable, "-I", "-S", "-c", _RELAY, *words]
            processes.append(subprocess.Popen(argv, stdin=connection.fileno()))

    private = PrivateSocket(welcome)
    try:
        yield private.path
    finally:
        private.close()
        for each in processes:
            each.kill()
            each.wait()


@contextmanager
def _ssh_login(site: LoginSite, user: str) -> Iterator[SshUser]:
    """``user``'s laptop, and root's SSH server that lets the user's account in."""
    folder = site.root / f"sshd-{user}"
    sshd = Sshd(folder, login=site.accounts[user].pw_name)
    sshd.start()
    try:
        yield SshUser(folder / "laptop", sshd)
    finally:
        sshd.kill()


_RELAY: Final = """\
import os, socket, sys, threading
groups, group, user, path = sys.argv[1:]
os.setgroups([int(each) for each in groups.split(",")])
os.setgid(int(group))
os.setuid(int(user))
near, far = socket.socket(fileno=0), socket.socket(socket.AF_UNIX)
far.connect(path)
def copy(source, sink):
    while piece := source.recv(1 << 16):
        sink.sendall(piece)
    os._exit(0)
threading.Thread(target=copy, args=(near, far), daemon=True).start()
copy(far, near)
"""
