"""Dividing the processors between the tasks of one machine, by whatever the machine allows.

Shares are weights: exact between the tasks under this control, worth less beside strangers. A quota
was rejected, because it is a ceiling and guarantees nothing. In order of preference: control groups
of version 2, of version 1, niceness (coarse, and without privilege only ever downwards), nothing.

Not a policy: which task deserves how much is Libra's to say.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.resource_managers.base import check_job_id
from gridtravel.local_sched.resource_managers.supervised.control_groups import (
    MOUNT,
    OWN_GROUP,
    make_folder,
    parent_of,
    read,
    write,
)

CGROUP2_WEIGHT_MAX = 10_000
"""Weight of a share of 1 in version 2, where 1 is the least: a ten-thousandth is the finest."""
CGROUP1_SHARES_MAX = 262_144
"""The same in version 1, where 2 is the least."""
NICE_STEP = 1.25
"""The kernel's ratio between two neighbouring nice values."""
NICE_MAX = 19


class CpuShareKind(StrEnum):
    """How processors are divided."""

    CGROUP2 = "cgroup2"
    CGROUP1 = "cgroup1"
    NICE = "nice"
    NONE = "none"


class CpuShares(Protocol):
    """One way of dividing. Faults of the operating system are answers here: a share is a wish."""

    kind: CpuShareKind

    def set_share(self, job_id: str, share: float, pids: Sequence[int]) -> bool:
        """Give the processes, and what they start later, a ``share`` (above 0, at most 1).

        True when it took effect for all that are still alive. May be said again at any time.
        """
        ...

    def release(self, job_id: str) -> None:
        """The task is over: leave nothing of it behind."""
        ...


def detect(group: str = OWN_GROUP, mount: Path = Path(MOUNT)) -> CpuShares:
    """The best control this process can use, found by trying; ``group`` is its own folder."""
    found = parent_of("cpu", group, str(mount))
    if found is not None:
        version, parent = found
        kind = CpuShareKind.CGROUP2 if version == 2 else CpuShareKind.CGROUP1
        return CgroupShares(kind, Path(parent))
    return NiceShares() if hasattr(os, "setpriority") else NoShares()


class CgroupShares:
    """One control group for each task, below one of the daemon's own."""

    def __init__(self, kind: CpuShareKind, parent: Path) -> None:
        self.kind = kind
        self._parent = parent

    def set_share(self, job_id: str, share: float, pids: Sequence[int]) -> bool:
        """Write the weight, and move the processes."""
        check_job_id(job_id)
        _check_share(share)
        folder = self._parent / job_id
        if self.kind is CpuShareKind.CGROUP2:
            name, weight = "cpu.weight", max(1, round(CGROUP2_WEIGHT_MAX * share))
        else:
            name, weight = "cpu.shares", max(2, round(CGROUP1_SHARES_MAX * share))
        if not make_folder(str(folder)) or not write(str(folder / name), str(weight)):
            return False
        inside = {int(pid) for pid in read(str(folder / "cgroup.procs")).split()}
        outside = [pid for pid in pids if pid not in inside]
        return sum(_move(folder, pid) for pid in outside) == len(outside)

    def release(self, job_id: str) -> None:
        """Remove the group; one with a dying process in it goes with the next of its name."""
        check_job_id(job_id)
        with contextlib.suppress(OSError):
            (self._parent / job_id).rmdir()

    def close(self) -> None:
        """Remove the daemon's own group, if no task is left in it."""
        with contextlib.suppress(OSError):
            self._parent.rmdir()


class NiceShares:
    """Niceness: a task with half the share of another runs three steps lower."""

    kind = CpuShareKind.NICE

    def set_share(self, job_id: str, share: float, pids: Sequence[int]) -> bool:
        """Set every process; raising a share again needs privilege, and is else left as it is."""
        check_job_id(job_id)
        _check_share(share)
        nice = nice_of(share)
        return sum(_renice(pid, nice) for pid in pids) == len(pids)

    def release(self, job_id: str) -> None:
        """Niceness ends with its process."""


class NoShares:
    """Where nothing can be done: everybody gets what the kernel gives."""

    kind = CpuShareKind.NONE

    def set_share(self, job_id: str, share: float, pids: Sequence[int]) -> bool:
        """Say that it had no effect."""
        check_job_id(job_id)
        _check_share(share)
        return False

    def release(self, job_id: str) -> None:
        """Nothing was done."""


def nice_of(share: float) -> int:
    """The nice value whose weight is nearest to ``share`` of that of nice 0."""
    return min(NICE_MAX, round(math.log(1.0 / share) / math.log(NICE_STEP)))


def _check_share(share: float) -> None:
    if not 0.0 < share <= 1.0:
        raise InputError(f"a share of the processors is above 0 and at most 1, not {share}")


def _move(folder: Path, pid: int) -> bool:
    """Put a process into the group; True also when there is no such process any more."""
    return write(str(folder / "cgroup.procs"), str(pid)) or not Path(f"/proc/{pid}").exists()


def _renice(pid: int, nice: int) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, pid, nice)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True
