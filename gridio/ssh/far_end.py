"""Starting the bridge at the far end of a login: the one command line that any login shell
understands, its execution, and what it means when the bridge does not start.
"""

from __future__ import annotations

import base64
import inspect
import re
import zlib
from functools import cache
from typing import Final

import paramiko

from gridtravel.gridcore.errors import GridError, InputError, NotAuthorisedError, UnavailableError
from gridtravel.gridio.sites.connections import UnreachableError
from gridtravel.gridio.ssh import bridge

START_S: Final = 30.0
"""A login node under load, with a home folder on a busy file server."""
NOISE_BYTES_MAX: Final = 64 * 1024
"""What a login's start-up files may print before the bridge speaks."""
WORDS_MAX: Final = 300
EXIT_NOT_FOUND: Final = 127
EXIT_CODE_S: Final = 5.0
"""How long the exit code may come after the end of the output."""

_SOCKET: Final = re.compile(r"/[A-Za-z0-9_.,:@%+=/-]{1,106}")
"""Absolute, short enough for a socket, and nothing that a shell would take for its own."""

_RUN: Final = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv.pop())))"


def bridge_command(socket_path: str) -> str:
    """The command line that becomes the bridge to ``socket_path`` (empty: the site's usual place).

    ``gurd bridge`` where gurd is in the PATH; else Python, with the bridge's own source as its last
    argument. Wrapped into ``sh -c`` with no quote, blank line or sign in it that a C shell would
    read differently. A key with a forced command gets the bridge whatever is asked.
    """
    path = socket_path or bridge.DEFAULT_SOCKET
    if not _SOCKET.fullmatch(path):
        raise InputError(
            f"{path[:80]!r} cannot be the agent's socket at the far end",
            hint="give an absolute path of letters, digits and _.,:@%+=- only",
        )
    return (
        f"exec sh -c 'command -v gurd >/dev/null 2>&1 && exec gurd bridge --socket {path};"
        f' exec python3 -I -S -c "{_RUN}" --socket {path} {_bridge_source()}\''
    )


def start_bridge(channel: paramiko.Channel, command: str, address: str) -> bytes:
    """Execute ``command`` and wait for the bridge's mark; what came after it already.

    ``UnreachableError``: the connection broke meanwhile. ``NotAuthorisedError``: the login may not
    use the agent's socket. ``UnavailableError``: no agent there, or no bridge.
    """
    received = b""
    try:
        channel.settimeout(START_S)
        channel.exec_command(command)
        while bridge.MARK not in received:
            piece = channel.recv(bridge.PIECE_BYTES)
            if not piece:
                raise _why(channel, received, address)
            received += piece
            if len(received) > NOISE_BYTES_MAX:
                raise UnavailableError(
                    f"{address} prints without end instead of starting the bridge",
                    hint="log in with ssh and look at what it prints",
                )
        channel.settimeout(None)
    except TimeoutError as fault:
        raise UnreachableError(
            f"{address} did not start the bridge within {START_S:g} s",
            hint="log in with ssh and see what it waits for",
        ) from fault
    except (EOFError, OSError, paramiko.SSHException) as fault:
        raise UnreachableError(f"the SSH connection to {address} broke: {fault}") from fault
    return received.partition(bridge.MARK)[2]


@cache
def _bridge_source() -> str:
    """The bridge as one word."""
    text = inspect.getsource(bridge)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _why(channel: paramiko.Channel, received: bytes, address: str) -> GridError:
    """What an end without a mark means."""
    if not channel.status_event.wait(EXIT_CODE_S) or not channel.exit_status_ready():
        return UnreachableError(f"the SSH connection to {address} broke")
    code = channel.recv_exit_status()
    printed = b""
    while channel.recv_stderr_ready() and len(printed) < NOISE_BYTES_MAX:
        printed += channel.recv_stderr(bridge.PIECE_BYTES)
    words = _last_line(printed) or _last_line(received)
    if code == bridge.EXIT_NOT_ALLOWED:
        return NotAuthorisedError(
            f"{address}: {words}", hint="ask whoever runs the site to let your group in"
        )
    if code == bridge.EXIT_NOT_THERE:
        return UnavailableError(
            f"{address}: {words}",
            hint="the site's daemon is down, or its socket is elsewhere: ssh_socket in sites.toml",
        )
    if code == EXIT_NOT_FOUND:
        return UnavailableError(
            f"{address} has neither gurd nor python3 in its PATH ({words})",
            hint="ask whoever runs the site to install one of them",
        )
    if code < 0:
        return UnreachableError(f"the SSH connection to {address} broke")
    return UnavailableError(
        f"{address} started no bridge (exit code {code}): {words or 'without a word'}",
        hint="docs/ssh.md says what a login needs",
    )


def _last_line(printed: bytes) -> str:
    lines = [each for each in printed.decode(errors="replace").splitlines() if each.strip()]
    line = lines[-1].strip().removeprefix("bridge: ") if lines else ""
    return "".join(sign if sign.isprintable() else "?" for sign in line)[:WORDS_MAX]
