"""The companion process of one task: starts it on the moment, ends it in time, and writes down what
became of it.

Run detached by the ``host`` back end with ``python -I -S``, one for each task. It belongs to no
daemon: when the daemon dies, the task still starts, is still ended at the end of its time, and its
end is still recorded. It uses the standard library alone (it and what it imports from here), so
that it is up in 20 ms, and speaks with the daemon through files in the task's folder, each written
whole (beside, synced, then linked or renamed):

    launch.json    the order                                     by the daemon, once
    fence.json     who runs it; exists before anything runs      by whoever comes first, once
    started.json   the process, and the moment it was let go     by the supervisor
    stop.json      the wish that it end; SIGUSR1 tells of it     by the daemon
    ended.json     exit status, reason, moment                   by the supervisor at its end, once

and one line, the job's id, into the named pipe ``../../wake`` after each of its own records. The
fence is why a task never runs twice: a hard link can be made once, however many supervisors are
started for the same folder, and it outlives every crash. It is never removed.

The moment of the start is kept by preparing everything before it (fork, account, folder, files),
sleeping to half a millisecond before it, and reading the clock in a loop for the rest. No signal
handler is used: all signals are blocked and fetched by ``sigtimedwait``, so there is no moment at
which one could be missed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from gridtravel.local_sched.resource_managers.supervised.processes import (
    PR_SET_CHILD_SUBREAPER,
    close_descriptors,
    descendants,
    group_of,
    identity,
    prctl,
    signal_group,
    signal_process,
    task_token,
)
from gridtravel.local_sched.resource_managers.supervised.task_child import (
    NOT_FOUND_CODE,
    NOT_RUN_CODE,
    become_task,
    open_outputs,
)
from gridtravel.local_sched.resource_managers.supervised.task_meter import TaskMeter
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    FENCE,
    LAUNCH,
    STARTED,
    STOP,
    read_record,
    take_room,
    write_record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gridtravel.local_sched.resource_managers.supervised.task_records import (
        EndRecord,
        LaunchRecord,
        ProcessRecord,
    )

WAKE_PIPE = "../../wake"
SPIN_S = 0.0005
"""Stretch before the start in which the clock is read without sleeping: longer than a wake-up takes
on an idle core."""
NAP_MAX_S = 1.0
"""Longest sleep, so that a wall clock set by hand or by NTP is noticed within a second."""
KILL_PATIENCE_S = 10.0
"""How long to go on killing what does not die (a process in the kernel's hands cannot), before the
end is told anyway."""
OVER_GRACE_S = 2.0
"""From TERM to KILL for a task that is over a limit: others lack what it takes."""
SIGNALS = {signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGHUP, signal.SIGINT}
"""Blocked from birth by whoever spawns the supervisor: TERM asks it to end the task, USR1 says that
a wish was written."""


class Supervisor:
    """Runs one order. ``run`` returns when nothing of the task is left and its end is recorded."""

    def __init__(self, order: LaunchRecord) -> None:
        self.order = order
        self.outputs = open_outputs(order)
        """Of the task, for it to write and for us to measure; an ``OSError``: why there are none.
        """
        outputs = () if isinstance(self.outputs, OSError) else self.outputs
        self.meter = TaskMeter(order, outputs, time.monotonic())
        self.task_pid = 0
        self.task: ProcessRecord = identity(0)
        """The task's main process, told apart from a later one with its id."""
        self.status: int | None = None
        """Wait status of the task's main process, once it is over."""
        self.has_children = True
        self.cpu_s = 0.0
        self.reason = "exited"
        self.over = ""
        """Which of its limits the task is over, as a line for people."""
        self.kill_at: float | None = None
        """When KILL follows, on the monotonic clock; None while the task may go on."""
        self.is_let_go = False
        """False as long as closing a pipe is enough to end the task."""
        self.actual_start: float | None = None
        self.limit_at: float | None = None
        """End of ``limit_s`` on the monotonic clock, once the task runs."""

    def run(self) -> None:
        """Prepare, wait for the moment, let go, watch, clean up, record."""
        go, told = self._fork()
        self._heed_wish()
        self._wait_for_start()
        failure = ""
        if self.kill_at is None:
            failure = self._let_go(go, told)
            self._watch()
            if self.reason == "exited" and self.has_children:
                self.over = self.meter.look_at_rest()
        else:
            os.close(go)
        stubborn = self._kill_all()
        over = self.over or self._last_look()
        if over:
            self.reason, failure = "exceeded", over
        self.meter.close(over)
        if stubborn:
            failure = f"{over or 'ended'}; {stubborn} of its processes could not be killed"
        self._record_end(failure)

    def _fork(self) -> tuple[int, int]:
        """Start the process that will become the task; it waits on the pipe returned first."""
        token = task_token(self.order["job_id"], identity(os.getpid()))
        environment = {**self.order["environment"], "GRID_TASK": token}
        go_read, go_write = os.pipe()
        told_read, told_write = os.pipe()
        self.task_pid = os.fork()
        if self.task_pid == 0:
            os.close(go_write)
            become_task(self.order, environment, go_read, told_write, self.outputs)
        self.task = identity(self.task_pid)
        self.meter.begin(self.task_pid, time.monotonic())
        os.close(go_read)
        os.close(told_write)
        return go_write, told_read

    def _wait_for_start(self) -> None:
        """Return at the moment, or earlier when the task is not to run any more."""
        start = self.order["start_not_before"] or 0.0
        while self.kill_at is None:
            if self.order["end"] is not None and time.time() >= self.order["end"]:
                self._begin_end("limit", 0.0)
            remaining_s = start - time.time()
            if remaining_s <= SPIN_S:
                break
            self._receive(SIGNALS - {signal.SIGCHLD}, remaining_s - SPIN_S)
        while self.kill_at is None and time.time() < start:
            continue

    def _let_go(self, go: int, told: int) -> str:
        """Let the child become the command. The answer is empty, or says why it could not, with the
        code before it."""
        moment = time.time()
        self.is_let_go = True
        if self.order["limit_s"] is not None:
            self.limit_at = time.monotonic() + self.order["limit_s"]
        with contextlib.suppress(BrokenPipeError):  # preparing failed, and the other pipe says how
            os.write(go, b"g")
        os.close(go)
        while not select.select([told], [], [], NAP_MAX_S)[0]:
            # An exec can hang, on a network file system: time and wishes count all the same.
            self._receive(SIGNALS - {signal.SIGCHLD}, 0.0)
            if self.kill_at is not None or self._is_time_over():
                self._begin_end("limit", 0.0)
                return ""
        failure = os.read(told, select.PIPE_BUF).decode("utf-8", "replace")
        if not failure:
            self.actual_start = moment
            record = {**self.task, "actual_start": moment}
            with contextlib.suppress(OSError):  # a full disk; its end will tell of it
                write_record(STARTED, record, once=False, durable=False)
            wake_daemon(self.order["job_id"])
        return failure

    def _watch(self) -> None:
        """Until the main process has ended or its time and grace are over."""
        while True:
            self._reap()
            if not self.has_children:
                return
            if self.kill_at is None:
                if self.status is not None:
                    return
                if self._is_time_over():
                    self._begin_end("limit", self.order["kill_grace_s"])
                self._look_at_limits()
            elif time.monotonic() >= self.kill_at:
                return
            self._receive(SIGNALS, self._until_next_s())

    def _look_at_limits(self) -> None:
        """A task that takes more than its share is ended, and fast."""
        self.over = self.meter.look(time.monotonic()) if self.kill_at is None else ""
        if self.over:
            self._begin_end("exceeded", min(self.order["kill_grace_s"], OVER_GRACE_S))

    def _last_look(self) -> str:
        """The kernel may have ended it for a limit, or refused it something, since the last one."""
        if self.actual_start is None or self.reason != "exited":
            return ""
        return self.meter.look(time.monotonic(), is_last=True, has_failed=self.status != 0)

    def _is_time_over(self) -> bool:
        by_clock = self.order["end"] is not None and time.time() >= self.order["end"]
        return by_clock or (self.limit_at is not None and time.monotonic() >= self.limit_at)

    def _until_next_s(self) -> float:
        """Seconds until something is due, at most ``NAP_MAX_S``."""
        due_s = [NAP_MAX_S]
        if self.kill_at is not None:
            due_s.append(self.kill_at - time.monotonic())
        else:
            due_s.append(self.meter.until_look_s(time.monotonic()))
            if self.limit_at is not None:
                due_s.append(self.limit_at - time.monotonic())
            if self.order["end"] is not None:
                due_s.append(self.order["end"] - time.time())
        return max(0.0, min(due_s))

    def _receive(self, signals: set[signal.Signals], timeout_s: float) -> None:
        """Sleep until one of the signals or the time; a wish to end the task is heeded here."""
        received = signal.sigtimedwait(signals, min(timeout_s, NAP_MAX_S))
        if received is None:
            return
        if received.si_signo == signal.SIGTERM:
            self._begin_end("stopped", self.order["kill_grace_s"])
        elif received.si_signo == signal.SIGUSR1:
            self._heed_wish()

    def _heed_wish(self) -> None:
        wish = read_record(STOP)
        if wish is not None:
            self._begin_end("stopped", wish["grace_s"])

    def _begin_end(self, reason: str, grace_s: float) -> None:
        """Send TERM to everything of the task; said again, only a shorter grace counts."""
        kill_at = time.monotonic() + grace_s
        if self.kill_at is not None:
            self.kill_at = min(self.kill_at, kill_at)
            return
        self.kill_at, self.reason = kill_at, reason
        if not self.is_let_go:
            return
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal_group(self.task_pid, number)
            for pid in descendants(os.getpid()):
                if group_of(pid) != self.task_pid:
                    signal_process(pid, number)

    def _reap(self) -> None:
        """Collect whoever is over: the task's children, and as subreaper also its orphans."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                return
            if pid != self.meter.measurer_pid:
                self.cpu_s += usage.ru_utime + usage.ru_stime
                self.meter.note_peak(usage.ru_maxrss * 1024)
            if pid == self.task_pid:
                self.status = status

    def _kill_all(self) -> int:
        """Kill and collect everything below; pass after pass, for what forks meanwhile. Answers how
        many would not die."""
        give_up_at = time.monotonic() + KILL_PATIENCE_S
        while True:
            self._reap()
            if not self.has_children:
                return 0
            if self.status is None:
                signal_group(self.task_pid, signal.SIGKILL)
            remaining = descendants(os.getpid())
            for pid in remaining:
                signal_process(pid, signal.SIGKILL)
            self.meter.kill_group()
            if time.monotonic() >= give_up_at:
                return len(remaining)
            signal.sigtimedwait({signal.SIGCHLD}, 0.02)

    def _record_end(self, failure: str) -> None:
        has_run = self.actual_start is not None
        code, number = None, None
        head, _, rest = failure.partition(" ")
        if not has_run and head in (str(NOT_RUN_CODE), str(NOT_FOUND_CODE)):
            code, failure = int(head), rest
        elif has_run and self.status is not None:
            if os.WIFSIGNALED(self.status):
                number = os.WTERMSIG(self.status)
            else:
                code = os.WEXITSTATUS(self.status)
        record: EndRecord = {
            "reason": self.reason,
            "exit_code": code,
            "signal_number": number,
            "ended_at": time.time(),
            "message": failure if has_run or failure else "it never ran",
            "cpu_s": round(self.cpu_s, 6),
        }
        write_record(ENDED, record, once=True)
        wake_daemon(self.order["job_id"])


def wake_daemon(job_id: str) -> None:
    """Tell a daemon that listens; another reads the records when it comes back."""
    try:
        pipe = os.open(WAKE_PIPE, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(pipe, f"{job_id}\n".encode("ascii"))
    except OSError:
        return
    finally:
        os.close(pipe)


def main(folder: str) -> None:
    """Supervise the task of ``folder``, unless somebody does or did already."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    close_descriptors()
    os.chdir(folder)
    if not write_record(FENCE, identity(os.getpid()), once=True):
        return
    order = read_record(LAUNCH)
    if order is None:
        raise FileNotFoundError(f"no {LAUNCH} in {folder}")
    take_room(STARTED)
    take_room(ENDED)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake_daemon(order["job_id"])
    Supervisor(order).run()
