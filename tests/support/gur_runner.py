"""Runs ``gur`` for tests: one process for many commands, and how each of them ended."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATIENCE_S: Final = 120.0
"""Bound of every wait; a moment is usual, and on a machine with many times more to do than it has
processors it is many times that moment.
"""


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def faults(self) -> list[str]:
        """Lines of standard error that say what is wrong; hints are indented below them."""
        return [line for line in self.err.splitlines() if line.startswith("gur: ")]


class GurProcess:
    """Runs commands one at a time (``tests/support/gur_process.py``); comes up with its first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None

    def run(
        self,
        words: Sequence[str],
        environment: dict[str, str],
        stop_at: tuple[str, int, int] | None,
    ) -> Said:
        """How the command ended; one that does not end fails the test."""
        server = self._server or self._start()
        assert server.stdin is not None
        assert server.stdout is not None
        out, err = self._folder / "out", self._folder / "err"
        command = {
            "words": words,
            "environment": environment,
            "out": str(out),
            "err": str(err),
            "signal": stop_at,
        }
        server.stdin.write(json.dumps(command).encode() + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], PATIENCE_S)[0]:
            self.end()
            raise AssertionError(f"gur {' '.join(words)} does not end: {err.read_text()}")
        code = int(server.stdout.readline())
        return Said(code, out.read_text(), err.read_text())

    def end(self) -> None:
        """End the process and whatever it runs."""
        server, self._server = self._server, None
        if server is not None:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder.mkdir(exist_ok=True)
        self._server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("gur_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self._server
