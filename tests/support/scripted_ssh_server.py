"""An SSH server that does what a test tells it to, in this process: for what OpenSSH asks only with
the help of a machine's own PAM, and for machines without OpenSSH's server.
"""

from __future__ import annotations

import base64
import contextlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_PARTIALLY_SUCCESSFUL,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)
from paramiko.server import InteractiveQuery

from gridtravel.gridio.ssh import bridge
from gridtravel.gridio.ssh.login import LOG_CHANNEL
from tests.support.sshd_world import LOOPBACK, write_key

PIECE_BYTES = 1 << 16


@dataclass
class Script:
    """What the server wants and takes."""

    key: bytes = b""
    """The user's public key, as SSH's own bytes."""
    after_key: str = ""
    """What is wanted besides a good key; empty: nothing."""
    allowed: str = "publickey"
    password: str = ""
    questions: tuple[tuple[str, bool], ...] = ()
    """Each with True when the answer may be shown."""
    answers: tuple[str, ...] = ()
    title: str = ""
    instructions: str = ""
    agent_socket: str = ""
    """Where the bridge leads, whatever is asked for."""
    asked: list[str] = field(default_factory=list)
    """Proofs as they came."""


class _Server(paramiko.ServerInterface):
    def __init__(self, script: Script) -> None:
        self._script = script
        self._has_key = False

    def get_allowed_auths(self, username: str) -> str:
        return self._script.after_key if self._has_key else self._script.allowed

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._script.asked.append("publickey")
        if key.asbytes() != self._script.key:
            return AUTH_FAILED
        self._has_key = bool(self._script.after_key)
        return AUTH_PARTIALLY_SUCCESSFUL if self._has_key else AUTH_SUCCESSFUL

    def check_auth_password(self, username: str, password: str) -> int:
        self._script.asked.append("password")
        is_right = bool(password) and password == self._script.password
        return AUTH_SUCCESSFUL if is_right else AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        self._script.asked.append("keyboard-interactive")
        return InteractiveQuery(
            self._script.title, self._script.instructions, *self._script.questions
        )

    def check_auth_interactive_response(self, responses: list[str]) -> int | InteractiveQuery:
        is_right = tuple(responses) == self._script.answers
        return AUTH_SUCCESSFUL if is_right else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_bridge, args=(channel, self._script), daemon=True).start()
        return True


class ScriptedSshServer:
    """One server at a port of its own; use it in a ``with``."""

    def __init__(self, folder: Path, script: Script) -> None:
        self._script = script
        self.host_line = write_key(folder / "scripted_host_key")
        self._key = paramiko.PKey.from_path(folder / "scripted_host_key")
        self._listener = socket.create_server((LOOPBACK, 0))
        self.port: int = self._listener.getsockname()[1]
        self._transports: list[paramiko.Transport] = []
        self._thread = threading.Thread(target=self._serve, name="scripted server", daemon=True)

    def __enter__(self) -> ScriptedSshServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for transport in self._transports:
            transport.close()

    def user_files(self, folder: Path) -> tuple[Path, bytes]:
        """Configuration of a user with a key and this server on file; the public key."""
        public = write_key(folder / "scripted_id")
        (folder / "scripted_hosts").write_text(f"[{LOOPBACK}]:{self.port} {self.host_line}\n")
        config = folder / "scripted_config"
        config.write_text(
            f"Host far\n HostName {LOOPBACK}\n Port {self.port}\n User ada\n IdentityAgent none\n"
            f" IdentityFile {folder / 'scripted_id'}\n"
            f" UserKnownHostsFile {folder / 'scripted_hosts'}\n GlobalKnownHostsFile none\n"
        )
        return config, base64.b64decode(public.split()[1])

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                transport = paramiko.Transport(connection)
                transport.set_log_channel(LOG_CHANNEL)
                transport.add_server_key(self._key)
                self._transports.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError):
                    transport.start_server(event=threading.Event(), server=_Server(self._script))


def _bridge(channel: paramiko.Channel, script: Script) -> None:
    """Run the real bridge behind the channel, as sshd would."""
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", bridge.__file__, "--socket", script.agent_socket],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    writer, reader = program.stdin, program.stdout

    def copy(read: Callable[[], bytes], write: Callable[[bytes], object]) -> None:
        with contextlib.suppress(OSError, EOFError):
            for piece in iter(read, b""):
                write(piece)

    def inward() -> None:
        copy(lambda: channel.recv(PIECE_BYTES), lambda piece: (writer.write(piece), writer.flush()))
        with contextlib.suppress(OSError):
            writer.close()

    thread = threading.Thread(target=inward, daemon=True)
    thread.start()
    copy(lambda: reader.read1(PIECE_BYTES), channel.sendall)  # type: ignore[attr-defined]
    reader.close()
    with contextlib.suppress(OSError, EOFError):
        channel.send_exit_status(program.wait())
        channel.close()
    thread.join()
