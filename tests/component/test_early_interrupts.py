"""Ctrl-C before a command has begun anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gridtravel.travel_agent.cli.interrupts import EXIT_INTERRUPTED

INTERRUPTED_AT = """
import os, signal, sys

class Finger:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)

module, sys.argv = sys.argv[1], ["gur", *sys.argv[2:]]
from gridtravel.travel_agent.cli.entry import main
sys.meta_path.insert(0, Finger())
main()
"""
"""A finger that is on the keys when ``module`` is looked for."""


@pytest.mark.parametrize(
    "module",
    [
        "typer",
        "gridtravel.travel_agent.cli.main",
        "gridtravel.travel_agent.output.rendering",
        "gridtravel.travel_agent.composition",
    ],
)
def test_ctrl_c_while_a_command_is_loaded(tmp_path: Path, module: str) -> None:
    """Whatever is being imported: one line, exit code 130, no traceback."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, module, "status"],
        env={
            **os.environ,
            "GUR_STATE": str(tmp_path),
            "GUR_CONFIG": str(tmp_path / "sites.toml"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == EXIT_INTERRUPTED, done
    (line,) = done.stderr.splitlines()
    assert line.startswith("gur: interrupted")
