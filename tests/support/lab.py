"""One site of its own, with a real daemon, and whoever types ``catalina`` at it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.local_sched.catalina.main import run_command
from gridtravel.local_sched.catalina.session import SOCKET_VARIABLE
from tests.support.shared_data import CHECKOUT

PATIENCE_S: Final = 180

AS_NOBODY = """
import contextlib, io, json, os, shlex, sys
from gridtravel.local_sched.catalina.main import run_command

def said(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(["catalina", *words])
    return [code, out.getvalue(), err.getvalue()]

said(["show-nodes"])  # whatever is imported late is read while that is still allowed
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print(json.dumps([said(words) for words in json.loads(sys.argv[1])]))
"""


@dataclass
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The object it printed."""
        return json.loads(self.out)


class Lab:
    """One site in a folder of its own, and whoever types at it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "open" / "agent.sock"
        self._daemon: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the daemon and wait until it serves."""
        log = (self.folder / "log").open("a")
        self._daemon = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "gridtravel.gurd.cli",
                "agent",
                "--config",
                str(self.folder / "site.toml"),
            ],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        assert self._daemon.stdout is not None
        line = self._daemon.stdout.readline()
        assert line.startswith("ready "), (self.folder / "log").read_text()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon."""
        if self._daemon is not None:
            self._daemon.send_signal(number)
            self._daemon.communicate(timeout=PATIENCE_S)
            self._daemon = None

    def catalina(self, *words: str, stdin: str = "") -> Said:
        """One command line in this process, over the real socket: half a second less than a new
        interpreter for each.
        """
        out, err, given = io.BytesIO(), io.StringIO(), io.BytesIO(stdin.encode())
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(out, encoding="utf-8")),
            contextlib.redirect_stderr(err),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "stdin", io.TextIOWrapper(given, encoding="utf-8"))
            patch.setenv(SOCKET_VARIABLE, str(self.socket))
            patch.setenv("COLUMNS", "80")
            code = run_command(["catalina", *words])
            sys.stdout.flush()
            return Said(code, out.getvalue().decode(), err.getvalue())

    def ask_until(self, is_so: Callable[[Said], Any], *words: str) -> Said:
        """The same question until the daemon has got that far; the last answer is in a failure."""
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            said = self.catalina(*words)
            if is_so(said):
                return said
            assert time.monotonic() < give_up_at, said

    def process(self, *argv: str) -> Said:
        """A command in a process of its own."""
        done = subprocess.run(
            argv,
            cwd=CHECKOUT,
            env={**os.environ, SOCKET_VARIABLE: str(self.socket), "COLUMNS": "80"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    def as_nobody(self, *command_lines: list[str]) -> list[Said]:
        """Command lines of another login."""
        words = json.dumps(command_lines)
        found = self.process(sys.executable, "-c", AS_NOBODY, words)
        return [Said(*each) for each in found.json]


def lay_out(folder: Path, site: str) -> Lab:
    """A site in a folder that every login may enter; ``site``: its ``site.toml``."""
    folder.chmod(0o755)
    (folder / "open").mkdir(mode=0o755)
    now = SystemClock().now()
    authority = Authority.create(folder / "authority", "test", RandomIds(), now)
    authority.issue_site("lab", folder / "credential", now, hosts=["127.0.0.1"])
    (folder / "grid-mapfile").write_text("")
    (folder / "site.toml").write_text(site)
    return Lab(folder)
