"""Control groups of the kernel, of version 2 or 1, as far as this process may make any.

Below one group of ours there is one for each task. Standard library alone, and no ``typing`` at run
time: every supervisor pays for what is imported here. Faults of the operating system are answers:
where groups cannot be made, something else has to do.
"""

from __future__ import annotations

import contextlib
import os
from signal import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOUNT = "/sys/fs/cgroup"
OWN_GROUP = "grid"
SERVING_GROUP = "grid-daemons"
PIDS, MEMORY = "pids", "memory"
CPU, CPU_TIME = "cpu", "cpuacct"
"""The second is a controller of its own in version 1 only."""
WEIGHT_FILE = {1: "cpu.shares", 2: "cpu.weight"}
WEIGHT_MAX = {1: 262_144, 2: 10_000}
"""Highest weight by version, where the lowest is 2 and 1. Our own group has it, so that what
strangers run beside our tasks leaves them all but a hundredth of a processor."""
PART_WEIGHT = {1: 10_000, 2: 1_000}
"""Weight of a task that is to have one whole processor."""
SWEEPS_MAX = 20
"""Passes over a group whose processes fork while they are being killed."""


def parent_of(
    controller: str, group: str = OWN_GROUP, mount: str = MOUNT
) -> tuple[int, str] | None:
    """The version, and the folder of our own group with this controller, made where it is missing;
    None where that cannot be.
    """
    if controller in read(f"{mount}/cgroup.controllers").split():
        folder = f"{mount}/{group}"
        handed_down, on = f"{mount}/cgroup.subtree_control", f"+{controller}"
        if controller not in read(handed_down).split() and not write(handed_down, on):
            return None
        is_ours = make_folder(folder) and write(f"{folder}/cgroup.subtree_control", on)
        return (2, folder) if is_ours else None
    folder = f"{mount}/{controller}/{group}"
    if os.path.exists(f"{mount}/{controller}/cgroup.procs") and make_folder(folder):
        return (1, folder)
    return None


def can_share(mount: str = MOUNT) -> bool:
    """True when the kernel divides processors between groups of ours, and counts what each had."""
    found = parent_of(CPU, mount=mount)
    return found is not None and (found[0] == 2 or parent_of(CPU_TIME, mount=mount) is not None)


def serve_beside_tasks(pid: int, mount: str = MOUNT) -> bool:
    """Give a daemon the weight of all its tasks together: these would leave it a hundredth of a
    processor otherwise, and it needs little.
    """
    found = parent_of(CPU, SERVING_GROUP, mount)
    if found is None:
        return False
    version, folder = found
    write(f"{folder}/{WEIGHT_FILE[version]}", str(WEIGHT_MAX[version]))
    if version == 2:  # whoever hands controllers down has no processes of its own
        folder = f"{folder}/daemons"
        make_folder(folder)
    return write(f"{folder}/cgroup.procs", str(pid))


def leave_the_daemons(pid: int, mount: str = MOUNT) -> None:
    """Put a task that shares no processor where everybody is: its daemon's weight is not its."""
    root = f"{mount}/{CPU}" if os.path.exists(f"{mount}/{CPU}/cgroup.procs") else mount
    write(f"{root}/cgroup.procs", str(pid))


class TaskGroup:
    """The groups of one task: a single one in version 2, one for each controller in version 1."""

    def __init__(self, name: str, *, is_shared: bool = False, mount: str = MOUNT) -> None:
        """``name``: of the group; empty: none is to be made. ``is_shared``: the task shares its
        processors with others.
        """
        self._name = name
        self._parents = {
            each: found
            for each in ((PIDS, MEMORY, CPU, CPU_TIME) if is_shared else (PIDS, MEMORY))
            if name and (found := parent_of(each, mount=mount))
        }

    def folder(self, controller: str) -> str:
        """Where the controller's files of this task are; empty: there are none."""
        found = self._parents.get(controller)
        return f"{found[1]}/{self._name}" if found else ""

    def limit(self, *, processes_max: int | None, memory_max_bytes: int | None) -> set[str]:
        """Make the groups and set their limits; the controllers that keep one."""
        kept: set[str] = set()
        if processes_max is not None and self._make(PIDS):
            is_set = write(f"{self.folder(PIDS)}/pids.max", str(processes_max))
            kept |= {PIDS} if is_set else set()
        if memory_max_bytes is not None and self._make(MEMORY):
            folder, most = self.folder(MEMORY), str(memory_max_bytes)
            if self._parents[MEMORY][0] == 1:
                is_set = write(f"{folder}/memory.limit_in_bytes", most)
                # Where swap is counted too, it is part of the limit; elsewhere there is no file.
                write(f"{folder}/memory.memsw.limit_in_bytes", most)
            else:
                is_set = write(f"{folder}/memory.max", most)
                write(f"{folder}/memory.swap.max", "0")
                write(f"{folder}/memory.oom.group", "1")
            kept |= {MEMORY} if is_set else set()
        return kept

    def share(self, processors: float) -> bool:
        """Give the task so many processors in all of those that it may run on, such as 0.5. Weights
        divide a processor exactly between the tasks that want it; what one leaves goes to others.
        """
        if not self._make(CPU):
            return False
        self._make(CPU_TIME)
        version, parent = self._parents[CPU]
        name, least = WEIGHT_FILE[version], 2 if version == 1 else 1
        write(f"{parent}/{name}", str(WEIGHT_MAX[version]))
        weight = min(max(least, round(PART_WEIGHT[version] * processors)), WEIGHT_MAX[version])
        return write(f"{self.folder(CPU)}/{name}", str(weight))

    def cpu_s(self) -> float | None:
        """Processor time of all that ever ran in the group, in seconds; None: nobody counts."""
        used = read(f"{self.folder(CPU_TIME)}/cpuacct.usage").strip()
        if used.isdigit():
            return int(used) / 1e9
        stat = read(f"{self.folder(CPU)}/cpu.stat")
        return _count_in(stat, "usage_usec") / 1e6 if "usage_usec" in stat else None

    def add(self, pid: int) -> bool:
        """Put a process, and what it will start, into the groups that exist."""
        added = [write(f"{each}/cgroup.procs", str(pid)) for each in self._existing()]
        return all(added)

    def was_full(self, controller: str) -> bool:
        """True when the kernel had to refuse a process, or to end one for want of memory."""
        if controller == PIDS:
            return _count(f"{self.folder(PIDS)}/pids.events", "max") > 0
        if self._parents[MEMORY][0] == 1:
            return _count(f"{self.folder(MEMORY)}/memory.oom_control", "oom_kill") > 0
        return _count(f"{self.folder(MEMORY)}/memory.events", "oom_kill") > 0

    def kill(self) -> int:
        """Kill whoever is in the groups; answers how many were."""
        killed = 0
        for folder in self._existing():
            for _ in range(SWEEPS_MAX):
                found = [int(pid) for pid in read(f"{folder}/cgroup.procs").split()]
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, SIGKILL)
                        killed += 1
                if not found:
                    break
        return killed

    def remove(self) -> None:
        """Remove the groups; one with a dying process in it stays, empty."""
        for folder in self._existing():
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _make(self, controller: str) -> bool:
        folder = self.folder(controller)
        return bool(folder) and make_folder(folder)

    def _existing(self) -> Iterator[str]:
        folders = dict.fromkeys(self.folder(each) for each in self._parents)
        return (each for each in folders if os.path.isdir(each))


def make_folder(folder: str) -> bool:
    """Make a group; True when it is there."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def write(path: str, text: str) -> bool:
    """Write to a file of a group; False when the kernel refuses."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        os.write(descriptor, text.encode("ascii"))
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def read(path: str) -> str:
    """The content of a file of a group; empty when there is none."""
    try:
        with open(path, encoding="ascii") as stream:
            return stream.read()
    except OSError:
        return ""


def _count(path: str, name: str) -> int:
    """The number beside a word in a file."""
    return _count_in(read(path), name)


def _count_in(text: str, name: str) -> int:
    for line in text.splitlines():
        word, _, number = line.partition(" ")
        if word == name and number.isdigit():
            return int(number)
    return 0
