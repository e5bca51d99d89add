"""What jobs really have of this machine's processors, seen from outside the site that shares them:
the kernel's count for their processes, again and again, and nothing that the site says.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from gridtravel.local_sched.resource_managers.supervised.processes import (
    all_pids,
    cpu_of,
    process_stat,
    tree_below,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSample:
    """One job from the sample before to this one."""

    at: float
    """The end of the stretch, seconds since the epoch."""
    job_id: str
    cpu_s: float
    """Processor time that the job has had so far."""
    share: float
    """Processors that it had in the stretch."""


class ShareMeter:
    """Samples of the jobs of one site. What a job uses between its last sample and its end is not
    seen.
    """

    def __init__(self, folder: Path) -> None:
        """``folder``: the site's, below which its tasks work."""
        self._folder = str(folder.resolve()) + os.sep
        self._pids: dict[str, int] = {}
        """The first process of each job that has been found."""
        self._cpu_s: dict[str, float] = {}
        self.moments: list[float] = []
        """When it has looked."""
        self.samples: list[ShareSample] = []

    def sample(self, now: float) -> None:
        """Look at every job that runs there."""
        self._find()
        length_s = now - self.moments[-1] if self.moments else 0.0
        self.moments.append(now)
        for job_id, pid in self._pids.items():
            if process_stat(pid) is None:
                continue
            had_s = self._cpu_s.get(job_id, 0.0)
            cpu_s = max(cpu_of([pid, *tree_below(pid)]), had_s)
            self._cpu_s[job_id] = cpu_s
            share = (cpu_s - had_s) / length_s if length_s > 0 else 0.0
            self.samples.append(ShareSample(at=now, job_id=job_id, cpu_s=cpu_s, share=share))

    def _find(self) -> None:
        """Processes with a job's name in their environment, at work in the site's folder."""
        for pid in all_pids():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                _, found, rest = environment.partition(b"GRID_JOB=")
                if not found or not os.readlink(f"/proc/{pid}/cwd").startswith(self._folder):
                    continue
                self._pids.setdefault(rest.partition(b"\0")[0].decode(), pid)
