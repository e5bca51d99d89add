"""Starting a supervisor process, and reading what it said when it failed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from gridtravel import local_sched
from gridtravel.local_sched.resource_managers.supervised.supervisor import SIGNALS

LOG_NAME = "supervisor.log"
LOG_TAIL_CHARACTERS = 200
BOOT = (
    "import sys; sys.path.append(sys.argv[1]);"
    "from gridtravel.local_sched.resource_managers.supervised.supervisor import main;"
    "main(sys.argv[2])"
)
"""Finds the grid's packages after the standard library, which they can so never hide."""


def spawn_supervisor(folder: Path) -> int:
    """Start the supervisor in a session of its own, with nothing of this daemon's in its hands."""
    package_root = Path(local_sched.__file__).parents[2]
    log = str(folder / LOG_NAME)
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, str(package_root), str(folder)],
        {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=SIGNALS,
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )


def log_tail(folder: Path) -> str:
    """The last line a supervisor left on its way out, for the message; empty when it left none."""
    try:
        text = (folder / LOG_NAME).read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    return f" ({text.splitlines()[-1][-LOG_TAIL_CHARACTERS:]})" if text else ""
