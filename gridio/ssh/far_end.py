"""Starting the bridge at the far end of a login, and understanding why it did not start."""

from __future__ import annotations

from typing import Final

import paramiko

from gridcore.errors import GridError, NotAuthorisedError, UnavailableError
from gridio.connections import UnreachableError
from gridio.ssh import bridge

START_S: Final = 30.0
"""A login node under load, with a home folder on a busy file server."""
NOISE_BYTES_MAX: Final = 64 * 1024
"""What a login's start-up files may print before the bridge speaks."""
WORDS_MAX: Final = 300
EXIT_NOT_FOUND: Final = 127
EXIT_CODE_S: Final = 5.0
"""How long the exit code may come after the end of the output."""


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
