"""The far end of an SSH connection: standard input and output <-> the site agent's local socket.

``gurd bridge`` runs this, and where gurd is not installed the laptop sends this very file along for
``python3 -c``. So it uses the standard library alone, starts fast, and must stay readable to Python
3.6, which old sites still have. It has no rights but those of the account that logged in: the agent
asks the kernel who connects to its socket (``gridio.rpc.server.front_door``), and that is this
process.

The first bytes are ``MARK``, sent when the socket is connected. Whatever the login's own start-up
files print comes before it and is skipped by the laptop.
"""

import contextlib
import os
import socket
import sys
import threading

DEFAULT_SOCKET = "/run/gridtravel/agent.sock"
"""Where a site's package lets its agent listen."""

MARK = b"grid-bridge 1\n"
"""Version 1: after this line nothing but the bytes of the agent's socket."""

PIECE_BYTES = 1 << 17

EXIT_USAGE = 2
EXIT_NOT_THERE = 4
EXIT_NOT_ALLOWED = 5


def main(arguments: "list[str]") -> int:
    """``[--socket PATH]``; the exit code says why it did not start."""
    path = DEFAULT_SOCKET
    if len(arguments) == 2 and arguments[0] == "--socket":
        path = arguments[1]
    elif arguments:
        return _refuse(EXIT_USAGE, "usage: gurd bridge [--socket PATH]")
    return bridge(path)


def bridge(path: str, source: int = 0, sink: int = 1) -> int:
    """Copy both ways between the descriptors and the socket at ``path``, until either ends."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except PermissionError:
        return _refuse(EXIT_NOT_ALLOWED, "this login may not use the socket " + path)
    except OSError as fault:
        why = fault.strerror or str(fault)
        return _refuse(EXIT_NOT_THERE, "no agent answers at " + path + " (" + why + ")")
    with connection, contextlib.suppress(OSError):
        _write(sink, MARK)
        inward = threading.Thread(target=_copy_in, args=(source, connection), daemon=True)
        inward.start()
        for piece in iter(lambda: connection.recv(PIECE_BYTES), b""):
            _write(sink, piece)
    return 0


def _copy_in(source: int, connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for piece in iter(lambda: os.read(source, PIECE_BYTES), b""):
            connection.sendall(piece)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def _write(sink: int, piece: bytes) -> None:
    view = memoryview(piece)
    while view:
        view = view[os.write(sink, view) :]


def _refuse(code: int, message: str) -> int:
    sys.stderr.write("bridge: " + message + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
