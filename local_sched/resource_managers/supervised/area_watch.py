"""The room that a task's working folder takes, and what its disk has left.

The folder is its owner's, and may be large; so a child that has become the owner walks through it,
by ``folder_calls``, while the supervisor goes on. Standard library alone, and no ``typing`` at run
time: every supervisor pays for what is imported here.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from gridtravel.local_sched.accounts.folder_calls import FolderMissingError, measure_folder
from gridtravel.local_sched.resource_managers.supervised.processes import (
    PR_SET_PDEATHSIG,
    close_descriptors,
    prctl,
    signal_process,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gridtravel.local_sched.resource_managers.supervised.task_records import (
        AccountRecord,
        LimitsRecord,
    )

WALK_SHARE = 20
"""A walk that took a second of processor time is followed by so many seconds of rest."""
ANSWER_WAIT_S = 0.02
"""Most folders are measured within this time; the others by the next look."""
ANSWER_LIMIT_S = 60.0
LOST_MAX = 5
"""Measurers in a row that may vanish or not answer: their account can kill and stop them, and a
task that does is ended."""
PART_OF_FALL = 8
"""A task is held responsible for a full disk when what it wrote since the disk had enough is at
least this part of what the disk lost; and after ``LOOKS_SHORT`` looks when it wrote anything to
speak of."""
LOOKS_SHORT = 10
GROWTH_MIN_BYTES = 1 << 20


class AreaWatch:
    """What is known of the folder and its disk."""

    def __init__(self, folder: str, account: AccountRecord, limits: LimitsRecord) -> None:
        self._folder = folder
        self._account = account
        self._most = limits.get("area_max_bytes")
        self._free_min = limits.get("disk_free_min_bytes") or 0
        self.measurer_pid = 0
        self._asking, self._hearing = -1, -1
        self._asked_at: float | None = None
        self._rest_until = 0.0
        self._lost = 0
        self._used: int | None = None
        self._free_then = 0
        self._used_then: int | None = None
        """At the beginning, and since then when the disk last had enough."""
        self._looks_short = 0
        self._outputs: tuple[int, ...] = ()
        self._is_needed = self._most is not None or self._free_min > 0

    def begin(self, outputs: tuple[int, ...], now: float) -> None:
        """The task begins: what is in its folder now it has not written. ``now``: on any clock that
        only goes on, in seconds.
        """
        self._outputs = outputs
        # Without any it cannot begin either, and says so by itself.
        self._is_needed = self._is_needed and bool(outputs)
        if self._is_needed:
            self._free_then = self._free()
            self._ask(now)

    def look(self, now: float) -> str:
        """What the task is over, as a line for people; empty: nothing that is known by now."""
        if not self._is_needed:
            return ""
        was_told = self._hear(0.0, now)
        self._ask(now)
        is_new = self._hear(ANSWER_WAIT_S, now) or was_told
        if self._lost > LOST_MAX:
            return "ended: what it has in its folder cannot be measured"
        if self._used is None:
            return ""
        if self._most is not None and self._used > self._most:
            return f"ended: more than {self._most >> 20} MiB in its folder"
        return self._look_at_disk() if is_new and self._free_min else ""

    def close(self) -> None:
        """Nothing is measured any more."""
        if self.measurer_pid:
            signal_process(self.measurer_pid, signal.SIGKILL)
            for each in (self._asking, self._hearing):
                with contextlib.suppress(OSError):
                    os.close(each)
            self.measurer_pid = 0
            self._asked_at = None

    def _look_at_disk(self) -> str:
        assert self._used is not None, "the caller looked"
        free = self._free()
        if free >= self._free_min:
            self._looks_short = 0
            self._free_then, self._used_then = free, self._used
            return ""
        self._looks_short += 1
        wrote, fell = self._used - (self._used_then or 0), self._free_then - free
        is_most = wrote * PART_OF_FALL >= fell
        if wrote >= GROWTH_MIN_BYTES and (is_most or self._looks_short > LOOKS_SHORT):
            return (
                f"ended: it wrote {wrote >> 20} MiB of late, and of the {self._free_min >> 20} MiB"
                f" that are to stay free on the disk of its folder {free >> 20} MiB are left"
            )
        return ""

    def _free(self) -> int:
        disk = os.fstatvfs(self._outputs[0])
        return disk.f_bavail * disk.f_frsize

    def _ask(self, now: float) -> None:
        """Have the folder measured, unless that goes on, or would never stop."""
        if self._asked_at is not None:
            signal_process(self.measurer_pid, signal.SIGCONT)  # its account may have stopped it
            if now - self._asked_at > ANSWER_LIMIT_S:
                self._lose()
            return
        if now < self._rest_until:
            return
        if not self.measurer_pid:
            self._start()
        try:
            os.write(self._asking, b"?")
            self._asked_at = now
        except OSError:
            self._lose()

    def _hear(self, wait_s: float, now: float) -> bool:
        """Take an answer that comes in time; True when there is one."""
        if self._asked_at is None or not select.select([self._hearing], [], [], wait_s)[0]:
            return False
        told = os.read(self._hearing, 64).split()
        if not told:
            self._lose()
            return False
        self._used = int(told[0])
        if self._used_then is None:
            self._used_then = self._used
        self._rest_until = now + WALK_SHARE * float(told[1])
        self._asked_at = None
        self._lost = 0
        return True

    def _lose(self) -> None:
        """The measurer is gone or stopped."""
        self._lost += 1
        self.close()

    def _start(self) -> None:
        ask_read, self._asking = os.pipe()
        self._hearing, hear_write = os.pipe()
        self.measurer_pid = os.fork()
        if self.measurer_pid == 0:
            _measure(self._folder, self._account, ask_read, hear_write)
        os.close(ask_read)
        os.close(hear_write)


def _measure(folder: str, account: AccountRecord, asked: int, telling: int) -> NoReturn:
    """The child: become the task's account, and answer each question with a number of bytes."""
    try:
        close_descriptors(asked, telling)  # such as those by which the task is let go
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        uid = None
        if account["uid"] != os.geteuid():
            os.setgroups(account["groups"])
            os.setgid(account["gid"])
            os.setuid(account["uid"])
            uid = account["uid"]
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of account forgets it
        while os.read(asked, 1):
            used, began = 0, os.times()
            with contextlib.suppress(FolderMissingError, OSError):
                for facts, _ in measure_folder(folder, uid):
                    used = facts["used_bytes"]
            ended = os.times()
            worked_s = ended.user + ended.system - began.user - began.system
            os.write(telling, f"{used} {worked_s}".encode("ascii"))
    finally:
        os._exit(0)
