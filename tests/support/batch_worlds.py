"""One site that has only a batch system, behind each way there is to its commands."""

from __future__ import annotations

import getpass
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridio.batch.batch_site import BatchSite
from gridtravel.gridio.batch.local_runner import LocalRunner
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.ssh.login_runner import LoginRunner
from gridtravel.gridio.system.clock import Clock, SystemClock
from tests.support.fake_gridengine import FakeGridEngine
from tests.support.ports import free_ports
from tests.support.sshd_world import SshUser

SCRIPTS: Final = Path(__file__).parents[2] / "deploy" / "batch"
SITE: Final = "cluster"
HOUR_S: Final = 3_600
SLOTS: Final = 4
NOT_HERE: Final = {
    "gridengine": (
        "NOT TESTED: a real Grid Engine. On Debian: apt install --no-install-recommends"
        " gridengine-master gridengine-exec gridengine-client (deploy/README.md)"
    ),
    "slurm": (
        "NOT TESTED: a real Slurm. On Debian: apt install --no-install-recommends"
        " slurm-wlm slurmctld slurmd slurm-client munge (deploy/README.md)"
    ),
}


@dataclass
class BatchWorld:
    """A connection to such a site, and the batch system behind it where it is a fake."""

    connection: BatchSite
    clock: Clock
    folder: Path
    fake: FakeGridEngine | None

    @property
    def soon(self) -> int:
        """A start that is far enough away for everything a test does before it."""
        return self.clock.now() + HOUR_S

    def request(self, request_id: str, **others: Any) -> ReservationRequest:
        """Two nodes for ten minutes, at ``soon`` and not later."""
        chosen: dict[str, Any] = {
            "request_id": request_id,
            "account": "default",
            "nodes_min": 2,
            "nodes_max": 2,
            "duration_s": 600,
            "earliest_start": self.soon,
        } | others
        chosen.setdefault("latest_end", chosen["earliest_start"] + chosen["duration_s"])
        return ReservationRequest(**chosen)

    async def held(self, request_id: str, **others: Any) -> Reservation:
        """A reservation; a refusal fails the test."""
        answer = await self.connection.calendar.reserve(
            self.request(request_id, **others), ttl_s=30
        )
        assert isinstance(answer, Reservation), answer
        return answer

    async def booked(self, request_id: str, **others: Any) -> Reservation:
        """A reservation that is committed, so that a job in it may begin."""
        held = await self.held(request_id, **others)
        answer = await self.connection.calendar.commit(held.reservation_id)
        assert isinstance(answer, Reservation), answer
        return answer


@asynccontextmanager
async def fake_world(tmp_path: Path, user: SshUser | None = None) -> AsyncIterator[BatchWorld]:
    """A fake Grid Engine: on this computer, or at the other end of ``user``'s login."""
    fake = FakeGridEngine(tmp_path / "engine", slots=SLOTS)
    options = BatchOptions(
        system="gridengine",
        folder=str(tmp_path / "far"),
        environment={"PATH": fake.path},
    )
    runner = LocalRunner() if user is None else LoginRunner(user.alias, config=user.config)
    connection = BatchSite(runner, options, site=SITE, features=("big",))
    try:
        yield BatchWorld(connection, SystemClock(), tmp_path / "far", fake)
    finally:
        await connection.close()


def a_spec(reservation_id: str, request_id: str = "job-1", **others: Any) -> JobSpec:
    """Two nodes for a minute."""
    chosen: dict[str, Any] = {
        "request_id": request_id,
        "name": "sum",
        "account": "default",
        "nodes": 2,
        "limit_s": 60,
        "argv": ("/bin/echo", "a b", "$HOME `id` 'x'\n;"),
        "reservation_id": reservation_id,
    }
    return JobSpec(**(chosen | others))


async def chunks(content: bytes, offset: int = 0) -> AsyncIterator[OutputChunk]:
    """A file to send, in one piece."""
    yield OutputChunk(offset=offset, content=content)


@contextmanager
def real_system(kind: str) -> Iterator[BatchOptions]:
    """A real batch system of four nodes; the test is skipped, loudly, where it is not installed.
    Its folder is one that the accounts of its daemons can enter.
    """
    programs = {"gridengine": "/usr/sbin/sge_qmaster", "slurm": "/usr/sbin/slurmctld"}
    if not Path(programs[kind]).exists():
        pytest.skip(NOT_HERE[kind])
    with tempfile.TemporaryDirectory(prefix="grid-batch-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        script, home, port = str(SCRIPTS / f"{kind}.sh"), folder / kind, free_ports(SLOTS + 1)
        sizes = {"gridengine": [str(SLOTS), getpass.getuser()], "slurm": [str(SLOTS), "1"]}
        start = [script, "start", str(home), str(port), *sizes[kind]]
        subprocess.run(start, check=True, timeout=60)
        environments = {
            "gridengine": {
                "PATH": "/usr/lib/gridengine:/usr/bin:/bin",
                "SGE_ROOT": str(home / "root"),
                "SGE_CELL": "default",
                "SGE_QMASTER_PORT": str(port),
                "SGE_EXECD_PORT": str(port + 1),
            },
            "slurm": {"SLURM_CONF": str(home / "etc" / "slurm.conf")},
        }
        try:
            yield BatchOptions(
                system=kind, folder=str(folder / "far"), environment=environments[kind]
            )
        finally:
            subprocess.run([script, "stop", str(home)], check=True, timeout=60)
