"""What a task uses, beside the most that it may: asked by its supervisor about once a second, which
ends a task that is over a limit and writes down which.

- Processes and memory: by control groups of the kernel, where they can be made; then the kernel
  itself refuses what is too much, and tells. Elsewhere they are counted at each look; between two
  looks RLIMIT_NPROC (of the whole account, so generous) and RLIMIT_DATA (of each process) hold a
  task back.
- Output: the sizes of the two files, by descriptors that were opened as the task's account. What is
  too much is cut off at the end, with a last line that says so.
- The working folder and its disk: ``area_watch``.

Standard library alone, and no ``typing`` at run time: every supervisor pays for what is imported
here.
"""

from __future__ import annotations

import contextlib
import os
import resource

from gridtravel.local_sched.resource_managers.supervised.area_watch import AreaWatch
from gridtravel.local_sched.resource_managers.supervised.control_groups import (
    MEMORY,
    PIDS,
    TaskGroup,
    leave_the_daemons,
)
from gridtravel.local_sched.resource_managers.supervised.processes import (
    count_threads,
    count_threads_of,
    memory_of,
    tree_below,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gridtravel.local_sched.resource_managers.supervised.task_records import LaunchRecord

LOOK_S = 1.0
"""Between two looks; a task can be over a limit for so long."""
ACCOUNT_FACTOR = 4
"""Without control groups an account may have so many times the limit of one task in processes, and
what it had before: the kernel counts all of an account's, also those of its other tasks."""
PEAK_PERCENT = 90
"""Of the limit: a process that had so much memory and failed was refused more."""
OOM_SCORE = 500
"""Of tasks: when the machine's memory is full, they are ended before what serves everybody."""


def group_name(job_id: str, supervisor_pid: int) -> str:
    """Of a task's control group: two sites of one machine may call a job the same."""
    return f"{job_id}.{supervisor_pid}"


class TaskMeter:
    """The limits of one task, and what is known of its use."""

    def __init__(self, order: LaunchRecord, outputs: tuple[int, ...], now: float) -> None:
        """``outputs``: descriptors of its output files, open for appending; kept open here.
        ``now``, here and below: on a clock that only goes on, in seconds.
        """
        self._limits = order.get("limits", {})
        self._account = order["account"]
        self._outputs = outputs
        may_group = bool(self._limits.get("control_groups"))
        share = order.get("share")
        self._group = TaskGroup(
            group_name(order["job_id"], os.getpid()) if may_group else "",
            is_shared=share is not None,
        )
        if share is not None:
            self._group.share(share)
        self._is_beside_shared = may_group and share is None and bool(order.get("processors"))
        self._kept = self._group.limit(
            processes_max=self._limits.get("processes_max"),
            memory_max_bytes=self._limits.get("memory_max_bytes"),
        )
        self._area = AreaWatch(order["workdir"], order["account"], self._limits)
        self._next_look = now + LOOK_S
        self._peak_bytes = 0
        """Most memory of a single process that is over."""

    @property
    def measurer_pid(self) -> int:
        """A child that is no part of the task; 0: there is none."""
        return self._area.measurer_pid

    def begin(self, task_pid: int, now: float) -> None:
        """The task's process waits for its moment: from here on the kernel counts."""
        with contextlib.suppress(OSError), open(f"/proc/{task_pid}/oom_score_adj", "w") as stream:
            stream.write(str(OOM_SCORE))
        if not self._group.add(task_pid):
            self._kept.clear()
        if self._is_beside_shared:
            leave_the_daemons(task_pid)
        most = self._limits.get("processes_max")
        if most is not None and PIDS not in self._kept and self._account["uid"] != os.geteuid():
            had = count_threads_of(self._account["uid"])
            _lower(task_pid, resource.RLIMIT_NPROC, had + ACCOUNT_FACTOR * most)
        most = self._limits.get("memory_max_bytes")
        if most is not None and MEMORY not in self._kept:
            _lower(task_pid, resource.RLIMIT_DATA, most)
        self._area.begin(self._outputs, now)

    def until_look_s(self, now: float) -> float:
        """Seconds until the next look."""
        return max(0.0, self._next_look - now)

    def look(self, now: float, *, is_last: bool = False, has_failed: bool = False) -> str:
        """Which limit the task is over, as one line for people; empty: none, or it is not time yet.
        ``is_last``: its processes are gone; only what the kernel and the files have kept counts.
        ``has_failed``: it ended with an error.
        """
        if not is_last:
            if self.until_look_s(now) > 0:
                return ""
            self._next_look = now + LOOK_S
        return (
            self._over_processes(is_last)
            or self._over_memory(is_last, has_failed)
            or self._over_output()
            or ("" if is_last else self._area.look(now))
        )

    def look_at_rest(self) -> str:
        """The same of what the main process has left running when it ended: it may have ended for
        what it was refused.
        """
        return self._over_processes(False) or self._over_memory(False, False)

    def close(self, over: str) -> None:
        """The task is over, and none of its processes is left: cut its output, tell it why."""
        most = self._limits.get("output_max_bytes")
        for each in dict.fromkeys(self._outputs):
            is_cut = most is not None and os.fstat(each).st_size > most
            line = ""
            if is_cut:
                with contextlib.suppress(OSError):
                    os.ftruncate(each, most or 0)
                line = f"\ngrid: the output is cut off here, at {_size(most or 0)}\n"
            if over and each == self._outputs[-1]:
                line += f"grid: {over}\n"
            if line:
                with contextlib.suppress(OSError):
                    os.write(each, line.encode())
        self._area.close()
        self._group.remove()

    def note_peak(self, peak_bytes: int) -> None:
        """A process of the task is over, and has had so much memory."""
        self._peak_bytes = max(self._peak_bytes, peak_bytes)

    def kill_group(self) -> None:
        """Kill what is left in the task's control group: also who wiped every other trace."""
        self._group.kill()

    def _over_processes(self, is_last: bool) -> str:
        most = self._limits.get("processes_max")
        if most is None:
            return ""
        if PIDS in self._kept:
            is_over = self._group.was_full(PIDS)
        else:
            below = [] if is_last else tree_below(os.getpid())
            is_over = count_threads(pid for pid in below if pid != self.measurer_pid) > most
        return f"ended: more than {most} processes and threads" if is_over else ""

    def _over_memory(self, is_last: bool, has_failed: bool) -> str:
        most = self._limits.get("memory_max_bytes")
        if most is None:
            return ""
        if MEMORY in self._kept:
            is_over = self._group.was_full(MEMORY)
        elif is_last:
            # It was refused more between two looks, and has ended with an error of its own.
            is_over = has_failed and self._peak_bytes * 100 >= most * PEAK_PERCENT
        else:
            below = [pid for pid in tree_below(os.getpid()) if pid != self.measurer_pid]
            is_over = memory_of(below, most) > most
        return f"ended: more than {_size(most)} of memory" if is_over else ""

    def _over_output(self) -> str:
        most = self._limits.get("output_max_bytes")
        if most is None or all(os.fstat(each).st_size <= most for each in self._outputs):
            return ""
        return f"ended: more than {_size(most)} of output"


def _lower(pid: int, limit: int, most: int) -> None:
    """Lower a limit of a process; an even lower one stays."""
    with contextlib.suppress(OSError):
        _, hard = resource.prlimit(pid, limit)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.prlimit(pid, limit, (most, most))


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"
