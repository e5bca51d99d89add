"""What the laptop asks the far end to execute: one line that any login shell understands.

A key with a forced command gets the bridge whatever is asked; then this line is ignored.
"""

from __future__ import annotations

import base64
import inspect
import re
import zlib
from functools import cache
from typing import Final

from gridcore.errors import InputError
from gridio.ssh import bridge

_SOCKET: Final = re.compile(r"/[A-Za-z0-9_.,:@%+=/-]{1,106}")
"""Absolute, short enough for a socket, and nothing that a shell would take for its own."""

_RUN: Final = "import base64,sys,zlib;exec(zlib.decompress(base64.b64decode(sys.argv.pop())))"


def bridge_command(socket_path: str) -> str:
    """The command line that becomes the bridge to ``socket_path`` (empty: the site's usual place).

    ``gurd bridge`` where gurd is in the PATH; else Python, with the bridge's own source as its last
    argument. Wrapped into ``sh -c`` with no quote, blank line or sign in it that a C shell would
    read differently.
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


@cache
def _bridge_source() -> str:
    """The bridge as one word."""
    text = inspect.getsource(bridge)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()
