"""What the ``slurm`` back end makes of a task's end and of what Slurm says about its job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.base import EndReason, Launch
from gridtravel.local_sched.resource_managers.slurm import SlurmResourceManager
from gridtravel.local_sched.resource_managers.slurm_commands import SlurmCommands
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    FENCE,
    LAUNCH,
    STARTED,
    write_record,
)
from tests.support.resource_manager_worlds import NODES, own_login

PATIENCE_S = 60.0


class ScriptedSlurm(SlurmCommands):
    """Takes jobs, runs none, and answers as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[str] = []
        self.taken: set[str] = set()
        """Those that somebody cancelled."""
        self.is_away = False

    async def submit(
        self, name: str, script: Path, *, nodes: Sequence[str], limit_min: int, log: Path
    ) -> str:
        """See ``SlurmCommands``."""
        self.jobs.append(name)
        return str(len(self.jobs))

    async def find(self, name: str) -> str:
        """See ``SlurmCommands``."""
        return str(self.jobs.index(name) + 1) if name in self.jobs else ""

    async def alive(self) -> frozenset[str]:
        """See ``SlurmCommands``."""
        return frozenset(str(number) for number, _ in enumerate(self.jobs, start=1))

    async def taken_away(self, slurm_ids: Sequence[str]) -> frozenset[str]:
        """See ``SlurmCommands``."""
        if self.is_away:
            raise UnavailableError("the controller does not answer")
        return frozenset(self.taken.intersection(slurm_ids))


class Site:
    """A back end over a scripted Slurm, with supervisors played by the test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.slurm = ScriptedSlurm()
        self.manager = self.opened()

    def opened(self) -> SlurmResourceManager:
        """A daemon's back end."""
        return SlurmResourceManager(
            files=AccountFiles(),
            root=self.root,
            clock=SystemClock(),
            nodes=NODES,
            commands=self.slurm,
        )

    async def launch(self, job_id: str) -> None:
        """Hand a task to Slurm."""
        await self.manager.launch(Launch(job_id=job_id, login=own_login(), argv=("true",)))

    def supervisor_writes(self, job_id: str, reason: str) -> None:
        """What a supervisor leaves of a task that ran and ended with code 0."""
        (folder,) = (each.parent for each in self.root.rglob(LAUNCH) if each.parent.name == job_id)
        process = {"pid": 7, "started_ticks": 1, "boot_id": "b"}
        write_record(str(folder / FENCE), process, once=True)
        write_record(str(folder / STARTED), {**process, "actual_start": 5.0}, once=True)
        ended = {
            "reason": reason,
            "exit_code": 0,
            "signal_number": None,
            "ended_at": 6.0,
            "message": "",
            "cpu_s": 0.0,
        }
        write_record(str(folder / ENDED), ended, once=True)

    async def ends(self, count: int) -> dict[str, EndReason | None]:
        """The next ends that are told, with their reasons."""
        found: dict[str, EndReason | None] = {}
        async with asyncio.timeout(PATIENCE_S):
            async for event in self.manager.events():
                if event.reason is not None:
                    found[event.job_id] = event.reason
                if len(found) == count:
                    break
        return found


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """An open back end."""
    site = Site(tmp_path)
    yield site
    await site.manager.close()


async def test_a_cancelled_job_is_no_success(site: Site) -> None:
    """Slurm signals a job's processes one after the other: a task may end well before its
    supervisor hears that the job was cancelled. It was stopped; others ended by themselves, and
    what a supervisor was told to end stays as it says.
    """
    for job_id in ("cancelled", "done", "stopped"):
        await site.launch(job_id)
    site.slurm.taken = {"1", "3"}
    site.supervisor_writes("cancelled", "exited")
    site.supervisor_writes("done", "exited")
    site.supervisor_writes("stopped", "limit")
    assert await site.ends(3) == {
        "cancelled": EndReason.STOPPED,
        "done": EndReason.EXITED,
        "stopped": EndReason.LIMIT,
    }


async def test_a_daemon_that_comes_back_asks_too(site: Site) -> None:
    """What was cancelled while it was away; and the answer is written down, for Slurm forgets."""
    await site.launch("j1")
    await site.manager.close()
    site.slurm.taken = {"1"}
    site.supervisor_writes("j1", "exited")
    for _ in range(2):
        site.manager = site.opened()
        (ended,) = await site.manager.recover()
        assert ended.reason is EndReason.STOPPED
        await site.manager.close()
        site.slurm.taken.clear()


async def test_a_controller_that_is_away_delays_no_end(site: Site) -> None:
    """The end is told as the supervisor wrote it."""
    await site.launch("j1")
    site.slurm.is_away = True
    site.supervisor_writes("j1", "exited")
    assert await site.ends(1) == {"j1": EndReason.EXITED}
