"""Processes of this machine by name and by kin: who is alive, who descends from whom, and signals
to them.

Standard library alone, and no ``typing`` at run time: every supervisor pays for what is imported
here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from signal import SIGKILL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from signal import Signals

    from gridtravel.local_sched.resource_managers.supervised.task_records import ProcessRecord

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
SWEEPS_MAX = 20
"""Passes over all processes against a task that forks while it is being killed."""


def process_stat(pid: int) -> tuple[int, int, int] | None:
    """Parent, session and start (clock ticks since boot) of a living process; None for a zombie or
    nobody."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            fields = stream.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return int(fields[1]), int(fields[3]), int(fields[19])


def all_pids() -> list[int]:
    """The ids of all processes to be seen; empty where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def boot_id() -> str:
    """Names this run of the kernel: process ids and start ticks mean nothing in another one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return stream.read().strip()
    except OSError:
        return ""


def identity(pid: int) -> ProcessRecord:
    """What names a process for good: its id alone is given to somebody else one day."""
    found = process_stat(pid)
    return {"pid": pid, "start_ticks": found[2] if found else None, "boot_id": boot_id()}


def is_alive(who: ProcessRecord) -> bool:
    """True while the very process that ``identity`` described is there and no zombie."""
    found = process_stat(who["pid"])
    return found is not None and found[2] == who["start_ticks"] and boot_id() == who["boot_id"]


def task_token(job_id: str, supervisor: ProcessRecord) -> str:
    """What every process of a task finds in GRID_TASK, and is found by when its supervisor was
    killed."""
    return f"{job_id}:{supervisor['pid']}:{supervisor['start_ticks']}"


def sweep_task(job_id: str, supervisor: ProcessRecord, uid: int) -> int:
    """Kill what is left of a task whose supervisor is gone; answers how many processes were.

    Without the subreaper its processes are scattered over the machine. They are known by the token
    in the environment they were started with, also when they opened sessions of their own. Only
    processes of the task's account are looked at, so a token in a foreign environment harms nobody.
    """
    if supervisor["boot_id"] != boot_id():
        return 0
    token = f"GRID_TASK={task_token(job_id, supervisor)}".encode()
    killed = 0
    for _ in range(SWEEPS_MAX):
        found = [pid for pid in all_pids() if _holds(pid, token, uid)]
        killed += sum(signal_process(pid, SIGKILL) for pid in found)
        if not found:
            break
    return killed


def _holds(pid: int, token: bytes, uid: int) -> bool:
    """True when the process belongs to the account and was started with the token."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != uid:
            return False
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return token in stream.read().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False


def descendants(root: int) -> list[int]:
    """The living processes below ``root``, parents first."""
    children: dict[int, list[int]] = {}
    for pid in all_pids():
        found = process_stat(pid)
        if found is not None:
            children.setdefault(found[0], []).append(pid)
    below, next_one = list(children.get(root, [])), 0
    while next_one < len(below):
        below.extend(children.get(below[next_one], []))
        next_one += 1
    return below


def tree_below(root: int) -> list[int]:
    """The same by asking each process for its children: it costs what ``root`` has, not what the
    machine has; where the kernel does not tell, the other way."""
    if not os.path.exists(f"/proc/{root}/task/{root}/children"):
        return descendants(root)
    below, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as stream:
                    waiting.extend(int(each) for each in stream.read().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        finally:
            below.append(pid)
    return below[1:]


def count_threads(pids: Iterable[int]) -> int:
    """Threads of these processes together, as far as they are alive."""
    count = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            count += len(os.listdir(f"/proc/{pid}/task"))
    return count


def count_threads_of(uid: int) -> int:
    """Threads of all processes of an account."""
    own = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                own.append(pid)
    return count_threads(own)


def memory_of(pids: list[int], enough: int) -> int:
    """Bytes of memory that these processes have for themselves. What several share counts once
    each at first; where that is more than ``enough``, it is divided among them, which takes the
    kernel a while.
    """
    page, shared_often = os.sysconf("SC_PAGE_SIZE"), 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/statm", "rb") as stream:
            fields = stream.read().split()
            shared_often += (int(fields[1]) - int(fields[2])) * page
    if shared_often <= enough:
        return shared_often
    divided = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as stream:
            for line in stream:
                if line.startswith(b"Pss_Anon:") or line.startswith(b"Pss_Shmem:"):
                    divided += int(line.split()[1]) * 1024
    return divided


def are_asleep(pids: list[int]) -> bool:
    """True when none of these processes has a thread that runs or could."""
    for pid in pids:
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/stat", "rb") as stream:
                    if stream.read().rpartition(b")")[2].split()[0] == b"R":
                        return False
    return True


def cpu_of(pids: list[int]) -> float:
    """Processor time in seconds of these processes, and of children that they have waited for: of a
    whole tree what it ever used, but for what ended unnoticed.
    """
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as stream:
            ticks += sum(int(each) for each in stream.read().rpartition(b")")[2].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def prctl(option: int, argument: int) -> None:
    """Ask the kernel for a favour it may not know; without it the rest still works, only less
    tightly."""
    if sys.platform == "linux":
        import ctypes  # here, because the fence must not wait for it

        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def close_descriptors(*keep: int) -> None:
    """Close every file but the standard three and those to keep: what a daemon left inheritable is
    not the task's."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            with contextlib.suppress(OSError):  # the listing itself had one, which is gone
                os.close(int(name))


def group_of(pid: int) -> int | None:
    """The process group, or None when the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def signal_process(pid: int, number: Signals) -> bool:
    """Send the signal; False when the process is gone, or became another account's."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def signal_group(leader: int, number: Signals) -> bool:
    """Send the signal to a whole process group; False when nobody of it can be reached."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
