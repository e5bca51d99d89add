"""The few Slurm commands that the ``slurm`` back end needs, run as the daemon's own user."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

ANSWER_WITHIN_S: Final = 30.0
"""Slurm's own commands give up on a controller that is away after some ten seconds."""
TAKEN_STATES: Final = "CANCELLED,TIMEOUT,DEADLINE,PREEMPTED"
"""What Slurm calls a job that did not end by itself, from before it signals its processes."""
ALIVE_STATES: Final = "PENDING,CONFIGURING,RUNNING,COMPLETING,SUSPENDED,STAGE_OUT"


class SlurmCommands:
    """Slurm as the daemon's user reaches it. Nothing here knows what runs."""

    def __init__(self, *, conf: Path | None = None, partition: str = "") -> None:
        """``conf``: the ``slurm.conf`` of the cluster meant; ``None``: the machine's own."""
        self._partition = partition
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LC_ALL": "C",
            "TZ": "UTC",
            **({"SLURM_CONF": str(conf)} if conf is not None else {}),
        }

    async def submit(
        self, name: str, script: Path, *, nodes: Sequence[str], limit_min: int, log: Path
    ) -> str:
        """Queue ``script`` on exactly these nodes; its id. It is never started a second time."""
        where = ["--partition", self._partition] if self._partition else []
        return await self._run(
            "sbatch",
            "--parsable",
            "--job-name",
            name,
            "--nodelist",
            ",".join(nodes),
            "--nodes",
            str(len(nodes)),
            "--exclusive",
            "--no-requeue",
            "--time",
            str(limit_min),
            "--chdir",
            "/",
            "--output",
            str(log),
            *where,
            str(script),
        )

    async def find(self, name: str) -> str:
        """The id of the job of that name that is not over; empty: there is none."""
        return await self._run("squeue", "-h", "--me", "-t", ALIVE_STATES, "-n", name, "-o", "%i")

    async def alive(self) -> frozenset[str]:
        """The ids of the user's jobs that are not over."""
        listed = await self._run("squeue", "-h", "--me", "-t", ALIVE_STATES, "-o", "%i")
        return frozenset(listed.split())

    async def taken_away(self, slurm_ids: Sequence[str]) -> frozenset[str]:
        """Those of the jobs that Slurm ended itself: somebody cancelled them, or their time was
        over. It remembers that for some minutes (``MinJobAge``).
        """
        wanted = ",".join(slurm_ids)
        listed = await self._run(
            "squeue", "-h", "-t", TAKEN_STATES, "-j", wanted, "-o", "%i", may_fail=True
        )
        return frozenset(listed.split())

    async def wake(self, slurm_id: str) -> None:
        """Send USR1 to a job's first process. One that is over is none of our business."""
        await self._run("scancel", "--batch", "--signal=USR1", slurm_id, may_fail=True)

    async def cancel(self, slurm_id: str) -> None:
        """Take a job out of the queue, or end it."""
        await self._run("scancel", slurm_id, may_fail=True)

    async def _run(self, *words: str, may_fail: bool = False) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
                cwd="/",
            )
        except OSError as fault:
            raise UnavailableError(f"{words[0]} cannot be run: {fault.strerror}") from None
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                out, err = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise UnavailableError(f"{words[0]} does not answer") from None
        if process.returncode and not may_fail:
            said = " ".join(err.decode(errors="replace").split())[-300:]
            raise UnavailableError(f"{words[0]}: {said or f'ended {process.returncode}'}")
        return out.decode(errors="replace").strip()
