"""A real OpenSSH server on loopback and the files of a user who logs in there.

It runs as the user who runs the tests, so that user is also who logs in; nothing of the machine's
own configuration is read or changed. StrictModes is off, because temporary folders lie below one
that everybody may write to. Forwarding is forbidden unless a test wants a jump host.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gridtravel.gridio.ssh.ssh_site import SshSite
from gridtravel.travel_agent.demo import keeper
from tests.support.ports import free_ports

LOOPBACK: Final = "127.0.0.1"
PATIENCE_S: Final = 120.0
PASS_S: Final = 0.01
MISSING: Final = (
    "NOT TESTED: gRPC through SSH. There is no sshd on this machine;"
    " on Debian and Ubuntu: apt install openssh-server (docs/ssh.md)"
)
PRIVILEGE_SEPARATION: Final = Path("/run/sshd")
"""Where an sshd of root insists on a folder; it uses it as an empty place to jail itself."""


def find_sshd() -> str:
    """Path of the server; the test is skipped, loudly, where there is none."""
    found = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(MISSING)
    return found


def write_key(path: Path, *, kind: str = "ed25519", passphrase: str = "") -> str:
    """A new key pair in OpenSSH's form; returns the public line."""
    key = generate_private_key(SECP256R1()) if kind == "ecdsa" else Ed25519PrivateKey.generate()
    lock = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    path.touch(0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, lock))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    Path(f"{path}.pub").write_text(public + "\n")
    return public


@dataclass
class Sshd:
    """One server. ``options`` are lines of sshd_config that come before its own."""

    folder: Path
    login: str = field(default_factory=getpass.getuser)
    options: tuple[str, ...] = ()
    wrapper: tuple[str, ...] = ()
    """A command that starts the server, such as one that gives it a name space of its own."""

    def __post_init__(self) -> None:
        self.program = find_sshd()
        self.folder.mkdir(exist_ok=True)
        self.host_key = write_key(self.folder / "host_key")
        self.authorized_keys = self.folder / "authorized_keys"
        self.authorized_keys.touch()
        self.port = free_ports(1)
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """What the server says."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        """Serve, at the same port as before if there was one."""
        if os.geteuid() == 0:
            PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (tools / "python3").symlink_to(sys.executable)
        config = self.folder / "sshd_config"
        config.write_text(
            "\n".join(
                [
                    *self.options,
                    f"Port {self.port}",
                    f"ListenAddress {LOOPBACK}",
                    f"HostKey {self.folder / 'host_key'}",
                    f"PidFile {self.folder / 'pid'}",
                    f"AuthorizedKeysFile {self.authorized_keys}",
                    "PasswordAuthentication no",
                    "KbdInteractiveAuthentication no",
                    "UsePAM no",
                    "StrictModes no",
                    "PermitRootLogin prohibit-password",
                    "AllowTcpForwarding no",
                    "AllowStreamLocalForwarding no",
                    "UseDNS no",
                    "Subsystem sftp internal-sftp",
                    "MaxStartups 100",
                    # bash reads no start-up files when it takes itself for an inner shell.
                    f'SetEnv PATH="{tools}:/usr/bin:/bin" SHLVL=1',
                    "",
                ]
            )
        )
        command = [self.program, "-D", "-f", str(config), "-E", str(self.folder / "log")]
        self._server = subprocess.Popen([*self.wrapper, *command], stdin=subprocess.DEVNULL)
        give_up_at = time.monotonic() + PATIENCE_S  # noqa: TID251 - real processes, real time
        while not self._answers():
            assert self._server.poll() is None, f"sshd does not start: {self.log}"
            assert time.monotonic() < give_up_at, f"sshd does not answer: {self.log}"  # noqa: TID251
            time.sleep(PASS_S)  # noqa: TID251

    def kill(self) -> None:
        """Kill the server and every connection it serves."""
        self.kill_connections()
        server, self._server = self._server, None
        if server is not None:
            server.kill()
            server.wait()

    def kill_connections(self) -> None:
        """Kill what serves connections, and what was executed for them; the server lives on."""
        for each in keeper.descendants(self._server.pid) if self._server is not None else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def executed(self) -> list[str]:
        """Command lines of what runs for connections now."""
        found = []
        for each in keeper.descendants(self._server.pid) if self._server is not None else []:
            with contextlib.suppress(OSError):
                line = Path("/proc", str(each), "cmdline").read_bytes()
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
        return [line for line in found if not line.startswith("sshd:") and line]

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), PATIENCE_S) as connection:
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False


@dataclass
class SshUser:
    """The files of a user's laptop: key, known hosts, configuration."""

    folder: Path
    sshd: Sshd
    alias: str = "far"

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.key = self.folder / "id"
        self.known_hosts = self.folder / "known_hosts"
        self.config = self.folder / "config"
        self.public = write_key(self.key)
        self.know(self.sshd.host_key)
        self.authorize()
        self.configure()

    def authorize(self, restriction: str = "") -> None:
        """Let the server take the user's key, and no other one, for a login."""
        self.sshd.authorized_keys.write_text(f"{restriction} {self.public}\n".lstrip())

    def know(self, host_key: str) -> None:
        """Have ``host_key`` on file as the server's, and nothing else."""
        self.known_hosts.write_text(f"[{LOOPBACK}]:{self.sshd.port} {host_key}\n")

    def configure(self, *lines: str) -> None:
        """Write the configuration; ``lines`` come first in the host's block."""
        block = [
            *lines,
            f"HostName {LOOPBACK}",
            f"Port {self.sshd.port}",
            f"User {self.sshd.login}",
            f"IdentityFile {self.key}",
            "IdentityAgent none",
            f"UserKnownHostsFile {self.known_hosts}",
            "GlobalKnownHostsFile none",
        ]
        self.config.write_text("\n    ".join([f"Host {self.alias}", *block]) + "\n")

    def connect(self, agent_socket: Path | str, **others: Any) -> SshSite:
        """A connection to the agent at ``agent_socket``, behind the server."""
        socket_path = str(agent_socket)
        kept = {"site": "lab", "config": self.config, **others}
        return SshSite(self.alias, agent_socket=socket_path, **kept)
