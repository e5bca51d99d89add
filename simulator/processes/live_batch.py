"""A site without an agent: a real Slurm on this host, in a folder of its own.

Slurm is started by the script that demonstrations use (``deploy/batch/slurm.sh``). There is no
daemon of ours to kill: what the traveller wrote beside the batch system is all there is of a leg.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

CLUSTER: Final = "cluster"
NODES: Final = 4
SCRIPT: Final = Path(__file__).resolve().parents[2] / "deploy" / "batch" / "slurm.sh"
CONTROLLER: Final = Path("/usr/sbin/slurmctld")
PORT_FIRST: Final = 14_600
PORTS_APART: Final = 8
WITHIN_S: Final = 60.0


def why_no_slurm() -> str:
    """Why there can be no such site here; empty: there can."""
    if not SCRIPT.exists():
        return f"there is no {SCRIPT.name}: it comes with the sources (deploy/batch)"
    if not CONTROLLER.exists():
        return "Slurm is not installed (deploy/README.md)"
    return ""


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """The site, while it lives."""

    home: Path
    """Slurm's own folder."""
    far: Path
    """Where trips have their folders at the site."""

    @property
    def table(self) -> str:
        """The entry in a user's list of machines."""
        return (
            f'[machines.{CLUSTER}]\nsite = "{CLUSTER}"\nbatch = "slurm"\n'
            f'batch_folder = "{self.far}"\n[machines.{CLUSTER}.batch_environment]\n'
            f'SLURM_CONF = "{self._settings}"\n'
        )

    def reservations(self) -> list[str]:
        """What Slurm has reserved now, by its own word."""
        words = self._said("scontrol", "--oneliner", "show", "reservation").split()
        return [each.partition("=")[2] for each in words if each.startswith("ReservationName=")]

    def jobs(self) -> list[str]:
        """What is queued or runs."""
        return self._said("squeue", "--noheader", "--format=%j").split()

    def is_busy(self) -> bool:
        """True while anything of a trip is left."""
        return bool(self.reservations() or self.jobs())

    @property
    def _settings(self) -> Path:
        return self.home / "etc" / "slurm.conf"

    def _said(self, *words: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self._settings)}
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True, timeout=WITHIN_S
        )
        return done.stdout


@contextmanager
def live_batch() -> Iterator[LiveBatch]:
    """Start it; nothing is left behind."""
    if reason := why_no_slurm():
        raise UnavailableError(reason)
    with TemporaryDirectory(prefix="gurlab-batch-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # Slurm's own account passes.
        home = folder / "slurm"
        start = [str(SCRIPT), "start", str(home), str(_free_ports(NODES + 1)), str(NODES), "1"]
        subprocess.run(start, check=True, timeout=WITHIN_S)
        try:
            yield LiveBatch(home, folder / "far")
        finally:
            subprocess.run([SCRIPT, "stop", home], check=True, timeout=WITHIN_S)


def _free_ports(count: int) -> int:
    """The first of so many ports in a row; each process begins to look at a place of its own."""
    for turn in range(1000):
        first = PORT_FIRST + (os.getpid() + turn) % 500 * PORTS_APART
        if all(_is_free(first + each) for each in range(count)):
            return first
    raise UnavailableError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
