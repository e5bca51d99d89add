"""The ``host`` back end: really runs tasks, as processes of this machine (Linux).

Its nodes are what the site declares, down to a laptop that offers 158 of them; it counts nothing
and refuses nothing for lack of room, which is the scheduler's business. A task of several nodes is
one command, as a batch script is on its first node; ``GRID_NODELIST`` tells it all of them.

Everything that must outlive this daemon is done by a supervisor process for each task (see
``supervisor``); this class lays out the order, spawns the supervisor, and reads its records when
the wake pipe or the supervisor's end says so. Under systemd the unit of the daemon needs
``KillMode=process``, or a restart of the daemon takes the supervisors with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from gridtravel.gridio.system.clock import Clock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs, resolve_account
from gridtravel.local_sched.resource_managers.base import (
    EndReason,
    Launch,
    NodeDescription,
    OutputStream,
    TaskEvent,
    check_grace,
    check_shares,
    not_divided,
)
from gridtravel.local_sched.resource_managers.supervised.control_groups import TaskGroup
from gridtravel.local_sched.resource_managers.supervised.output_following import follow_file
from gridtravel.local_sched.resource_managers.supervised.processes import (
    is_alive,
    process_stat,
    sweep_task,
)
from gridtravel.local_sched.resource_managers.supervised.shared_processors import SharedProcessors
from gridtravel.local_sched.resource_managers.supervised.spawning import log_tail, spawn_supervisor
from gridtravel.local_sched.resource_managers.supervised.task_events import end_event, start_event
from gridtravel.local_sched.resource_managers.supervised.task_folders import TaskFolders
from gridtravel.local_sched.resource_managers.supervised.task_meter import group_name
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    STOP,
    write_record,
)
from gridtravel.local_sched.resource_managers.supervised.wake_pipe import WakePipe

if TYPE_CHECKING:
    from gridtravel.local_sched.resource_managers.supervised.task_records import EndRecord

log = logging.getLogger(__name__)

POLL_S = 0.2
"""How often records are looked at when nothing else can tell: only from the planned start to the
report of it, and always where the kernel has no process descriptors."""
TAKE_OVER_S: Final = 10.0
"""How long a launch waits for its supervisor to come up, which takes some 20 ms."""


@dataclass(slots=True)
class _WatchedTask:
    """A task that is not known to be over."""

    folder: Path
    start_not_before: float
    over: asyncio.Event = field(default_factory=asyncio.Event)
    supervisor_pid: int = 0
    supervisor_fd: int | None = None
    """Process descriptor: readable when the supervisor is gone; None where there is none."""
    fenced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a supervisor has taken the task over, or it is settled that none did."""
    is_start_told: bool = False
    is_end_told: bool = False
    is_end_refused: bool = False
    """Its end could not be written down, and that was logged."""

    async def wait_for_fence(self) -> None:
        """Until the task is in its supervisor's hands: then not even this daemon's death can lose
        it.

        A machine too busy for that within ``TAKE_OVER_S`` takes over later, or the task will be
        told as lost; the order is on disk in any case.
        """
        try:
            async with asyncio.timeout(TAKE_OVER_S):
                await self.fenced.wait()
        except TimeoutError:
            return


class HostResourceManager:
    """A ``ResourceManager`` over the processes of this machine; one at a time for each ``root``."""

    def __init__(
        self,
        *,
        root: Path,
        clock: Clock,
        nodes: tuple[NodeDescription, ...],
        files: AccountFiles,
        run_as: RunAs = RunAs.LOGIN,
        control_groups: bool = True,
        shared_nodes: Sequence[str] = (),
    ) -> None:
        """Keep tasks below ``root``, an absolute folder of the daemon's own on a local disk.
        ``control_groups``: make some where the kernel lets us. ``shared_nodes``: those that several
        tasks share, each a processor of this machine.
        """
        if sys.platform != "linux":
            raise InputError("the host back end runs on Linux only")
        if len({node.name for node in nodes}) != len(nodes):
            raise InputError("two nodes have the same name")
        self._folders = TaskFolders(root.absolute())
        self._clock = clock
        self._nodes = nodes
        self._run_as = run_as
        self._files = files
        self._control_groups = control_groups
        self._shared = SharedProcessors(
            shared_nodes,
            clock,
            pids_of=self.pids,
            group_of=self._group_of,
            control_groups=control_groups,
        )
        self._watched: dict[str, _WatchedTask] = {}
        self._events: asyncio.Queue[TaskEvent | None] = asyncio.Queue()
        self._wake_pipe = WakePipe(self._folders.wake_pipe, self._observe)
        self._poll_timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self._is_closed = False

    # --- the port --------------------------------------------------------------------------------

    @property
    def can_share(self) -> bool:
        """True where nodes were declared as shared."""
        return bool(self._shared.processors)

    async def nodes(self) -> tuple[NodeDescription, ...]:
        """The declared nodes."""
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        """Take the order durably and start its supervisor, which waits for the moment."""
        if launch.shares and not self.can_share:
            raise not_divided()
        processors = self._shared.of(launch.node_names) if launch.shares else self._shared.others
        self._open()
        try:
            folder = await asyncio.to_thread(self._prepare, launch, processors)
        except OSError as fault:
            raise UnavailableError(
                f"the order of task {launch.job_id} cannot be written down: {fault.strerror}"
            ) from fault
        if launch.job_id in self._watched or self._folders.end_record(folder) is not None:
            return
        watched = _WatchedTask(folder=folder, start_not_before=launch.start_not_before or 0.0)
        if launch.shares:
            self._shared.begin(launch.job_id, launch.node_names, launch.shares)
        try:
            pid = spawn_supervisor(folder)
        except OSError as fault:
            raise UnavailableError(
                f"cannot start a supervisor for task {launch.job_id}: {fault.strerror}"
            ) from fault
        self._watched[launch.job_id] = watched
        self._watch(launch.job_id, watched, pid)
        self._arm_poll()
        await watched.wait_for_fence()

    async def stop(self, job_id: str, grace_s: float) -> None:
        """Write the wish down and tell the supervisor of it."""
        self._open()
        check_grace(grace_s)
        folder = self._folders.folder(job_id)
        if self._folders.end_record(folder) is not None:
            return
        self._shared.drop(job_id)
        try:
            await asyncio.to_thread(
                write_record, str(folder / STOP), {"grace_s": float(grace_s)}, once=False
            )
        except OSError as fault:
            # A full disk, most likely. TERM says the same, with the grace of the order.
            log.error("the wish to end task %s cannot be written down: %s", job_id, fault)
            self._signal(job_id, signal.SIGTERM)
            return
        self._tell_wish(job_id)

    async def set_shares(self, shares: Mapping[str, Sequence[float]]) -> None:
        """By control groups of the kernel where there are any, else in turns."""
        if not self.can_share:
            raise not_divided()
        for job_id, parts in shares.items():
            known = self._shared.node_names(job_id)
            if known:
                check_shares(job_id, parts, len(known))
                self._shared.set(job_id, parts)

    async def processor_time(self, job_ids: Collection[str]) -> Mapping[str, tuple[float, ...]]:
        """As the kernel counts it for the whole task, divided by its shares."""
        if not self.can_share:
            raise not_divided()
        found = {job_id: self._shared.times_s(job_id, self._total_s(job_id)) for job_id in job_ids}
        return {job_id: times for job_id, times in found.items() if times is not None}

    def _total_s(self, job_id: str) -> float | None:
        """What a task had that is over; ``None``: it goes on."""
        with contextlib.suppress(NotFoundError):
            ended = self._folders.end_record(self._folders.folder(job_id))
            return None if ended is None else ended["cpu_s"]
        return None

    def _group_of(self, job_id: str) -> TaskGroup:
        """The control groups that its supervisor made for a task."""
        fence = self._folders.fence(self._folders.folder(job_id))
        name = "" if fence is None else group_name(job_id, fence["pid"])
        return TaskGroup(name, is_shared=True)

    async def events(self) -> AsyncIterator[TaskEvent]:
        """What happens, until ``close``. For one reader."""
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                return
            yield event

    async def recover(self) -> list[TaskEvent]:
        """Read all folders; follow the living, report the others."""
        self._open()
        events = []
        for job_id in self._folders.active_ids():
            try:
                event = self._recover_one(job_id)
            except (ValueError, NotFoundError) as fault:
                event = self._give_up(job_id, fault)
            if event is not None:
                events.append(event)
        self._arm_poll()
        return events

    async def forget(self, job_id: str) -> None:
        """Move the task's records aside; its output stays."""
        await asyncio.to_thread(self._folders.retire, job_id)
        self._shared.forget(job_id)

    def output_path(self, job_id: str, stream: OutputStream) -> Path:
        """The file of the stream, in the task's working folder."""
        return self._folders.output(job_id, stream).path

    def follow(self, job_id: str, stream: OutputStream, offset: int = 0) -> AsyncIterator[bytes]:
        """The bytes of a stream as they come, until the task is over."""
        output = self._folders.output(job_id, stream)
        watched = self._watched.get(job_id)
        over = watched.over if watched is not None else asyncio.Event()
        if watched is None:
            over.set()
        return follow_file(self._files, output, offset, over)

    async def close(self) -> None:
        """Let go of everything; tasks and supervisors go on."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        self._wake_pipe.close()
        self._shared.close()
        for watched in self._watched.values():
            self._unwatch(watched)
            watched.fenced.set()
            watched.over.set()
        self._watched.clear()
        self._events.put_nowait(None)

    def sandbox(self, job_id: str) -> Path:
        """The folder the task works in unless its order names another; may not exist yet."""
        return self._folders.sandbox(job_id)

    def pids(self, job_id: str) -> list[int]:
        """The task's processes at this moment, for dividing the processors (``turns``)."""
        return self._folders.living_pids(job_id)

    # --- supervisors -----------------------------------------------------------------------------

    def _open(self) -> None:
        if self._is_closed:
            raise UnavailableError("this resource manager was closed")
        if not self._is_open:
            self._wake_pipe.open()
            self._is_open = True

    def _prepare(self, launch: Launch, processors: Sequence[int]) -> Path:
        """In a thread: ask for the account and wait for the disk."""
        return self._folders.prepare(
            launch,
            resolve_account(launch.login, self._run_as),
            control_groups=self._control_groups,
            processors=processors,
        )

    def _watch(self, job_id: str, watched: _WatchedTask, pid: int) -> None:
        """Get to know when the supervisor is gone."""
        watched.supervisor_pid = pid
        try:
            watched.supervisor_fd = os.pidfd_open(pid)
        except ProcessLookupError:
            asyncio.get_running_loop().call_soon(self._supervisor_gone, job_id)
            return
        except OSError:  # a kernel before 5.3: polling has to do
            watched.supervisor_fd = None
            return
        asyncio.get_running_loop().add_reader(watched.supervisor_fd, self._supervisor_gone, job_id)

    def _unwatch(self, watched: _WatchedTask) -> None:
        if watched.supervisor_fd is not None:
            asyncio.get_running_loop().remove_reader(watched.supervisor_fd)
            os.close(watched.supervisor_fd)
            watched.supervisor_fd = None
        try:
            os.waitpid(watched.supervisor_pid, os.WNOHANG)
        except ChildProcessError:
            return  # a child of an earlier daemon; the system collects it

    def _supervisor_gone(self, job_id: str) -> None:
        """Its last word was the end record; without one, somebody has to find out."""
        watched = self._watched.get(job_id)
        if watched is None:
            return
        self._unwatch(watched)
        self._observe(job_id)
        if not watched.is_end_told:
            fence = self._folders.fence(watched.folder)
            if fence is not None and is_alive(fence):
                # It gave way to another supervisor, which was there first.
                self._watch(job_id, watched, fence["pid"])
                self._tell_wish(job_id)
                return
            try:
                is_settled = self._settle_lost(job_id, watched.folder)
            except OSError as fault:
                # A full disk, most likely: with the next poll it is tried again.
                if not watched.is_end_refused:
                    log.error("the end of task %s cannot be written down: %s", job_id, fault)
                watched.is_end_refused = True
                self._arm_poll()
                return
            if not is_settled:
                asyncio.get_running_loop().call_soon(self._supervisor_gone, job_id)
                return
            self._observe(job_id)
        del self._watched[job_id]

    def _tell_wish(self, job_id: str) -> None:
        """If there is a wish to end the task, make its supervisor read it."""
        watched = self._watched.get(job_id)
        if watched is not None and (watched.folder / STOP).exists():
            self._signal(job_id, signal.SIGUSR1)

    def _signal(self, job_id: str, number: signal.Signals) -> None:
        """To the task's supervisor."""
        watched = self._watched.get(job_id)
        if watched is None:
            return
        try:
            if watched.supervisor_fd is not None:
                signal.pidfd_send_signal(watched.supervisor_fd, number)
            else:
                os.kill(watched.supervisor_pid, number)
        except ProcessLookupError:
            return  # its end is on the way to us

    def _settle_lost(self, job_id: str, folder: Path) -> bool:
        """Nobody is alive: make that sure, and write it down. False when a supervisor turned up."""
        fence, reason = self._folders.fence(folder), EndReason.LOST
        if fence is None:
            if not self._folders.take_fence(folder):
                return False
            reason = EndReason.NEVER_RAN
            message = "it never ran: its supervisor did not come up"
        elif is_alive(fence):
            return False
        else:
            swept = sweep_task(job_id, fence, self._folders.order(folder)["account"]["uid"])
            group = TaskGroup(group_name(job_id, fence["pid"]))
            swept += group.kill()
            group.remove()
            message = f"its supervisor is gone without a record; {swept} processes killed"
        self._write_lost(folder, message, once=True, reason=reason)
        return True

    def _give_up(self, job_id: str, fault: Exception) -> TaskEvent | None:
        """Records that cannot be read lose their own task, not the daemon's other ones."""
        folder = self._folders.folder(job_id)
        self._folders.take_fence(folder)
        self._write_lost(folder, f"its records are damaged: {fault}", once=False)
        return end_event(job_id, folder)

    def _write_lost(
        self, folder: Path, message: str, *, once: bool, reason: EndReason = EndReason.LOST
    ) -> None:
        record: EndRecord = {
            "reason": reason.value,
            "exit_code": None,
            "signal_number": None,
            "ended_at": self._clock.now_precise(),
            "message": f"{message}{log_tail(folder)}",
            "cpu_s": None,
        }
        write_record(str(folder / ENDED), record, once=once)

    # --- records to events -----------------------------------------------------------------------

    def _observe(self, job_id: str) -> None:
        """Tell whatever the records of the task hold and was not told yet."""
        watched = self._watched.get(job_id)
        if watched is None or watched.is_end_told:
            return
        if not watched.fenced.is_set() and self._folders.fence(watched.folder) is not None:
            watched.fenced.set()
        if not watched.is_start_told:
            started = start_event(job_id, watched.folder)
            if started is not None:
                watched.is_start_told = True
                self._shared.started(job_id)
                self._events.put_nowait(started)
        ended = end_event(job_id, watched.folder)
        if ended is not None:
            watched.is_end_told = True
            self._shared.drop(job_id)
            self._events.put_nowait(ended)
            watched.over.set()

    def _recover_one(self, job_id: str) -> TaskEvent | None:
        """The latest event of the task, which is followed from now on unless it is over."""
        folder = self._folders.folder(job_id)
        ended = end_event(job_id, folder)
        if ended is not None:
            return ended
        if job_id in self._watched:
            return start_event(job_id, folder)
        fence = self._folders.fence(folder)
        if (fence is None or not is_alive(fence)) and self._settle_lost(job_id, folder):
            return end_event(job_id, folder)
        fence = self._folders.fence(folder)
        start_not_before = self._folders.order(folder)["start_not_before"] or 0.0
        watched = _WatchedTask(folder=folder, start_not_before=start_not_before)
        self._watched[job_id] = watched
        started = start_event(job_id, folder)
        watched.is_start_told = started is not None
        self._find_shares(job_id, folder)
        if fence is not None:
            self._watch(job_id, watched, fence["pid"])
        return started

    def _find_shares(self, job_id: str, folder: Path) -> None:
        """After a restart: a task that shared its nodes goes on with the share that it was launched
        with, until others are set.
        """
        order = self._folders.order(folder)
        share = order.get("share")
        names = order["environment"]["GRID_NODELIST"].split(",")
        if share is not None and all(name in self._shared.processors for name in names):
            self._shared.begin(job_id, names, [min(1.0, share / len(names))] * len(names))

    # --- polling, where nothing else can tell ----------------------------------------------------

    def _arm_poll(self) -> None:
        if self._poll_timer is None and not self._is_closed and self._needs_poll():
            self._poll_timer = asyncio.get_running_loop().call_later(POLL_S, self._poll)

    def _needs_poll(self) -> list[str]:
        """Tasks of which something may have happened that no descriptor tells."""
        return [
            job_id
            for job_id, watched in self._watched.items()
            if watched.supervisor_fd is None or not watched.is_start_told
        ]

    def _poll(self) -> None:
        self._poll_timer = None
        now = self._clock.now_precise()
        for job_id in self._needs_poll():
            watched = self._watched[job_id]
            if now >= watched.start_not_before or not watched.fenced.is_set():
                self._observe(job_id)
            if watched.supervisor_fd is None and self._is_supervisor_gone(watched):
                self._supervisor_gone(job_id)
        self._arm_poll()

    def _is_supervisor_gone(self, watched: _WatchedTask) -> bool:
        """What a process descriptor would tell."""
        if watched.is_end_told:
            return True
        fence = self._folders.fence(watched.folder)
        if fence is not None:
            return not is_alive(fence)
        return process_stat(watched.supervisor_pid) is None
