"""The ``slurm`` back end: tasks on the nodes of a Slurm that leaves its nodes to this scheduler.

Slurm carries a task to its first node, keeps the nodes free of everybody else, and would end it in
the last resort. When it starts, how long it runs and what became of it is the business of the same
supervisor as on a single host (``supervisor``), which runs as the Slurm job and writes the same
records into the same folder. So the moment of a start is kept to the millisecond once Slurm has
the job up, a task never runs twice whatever Slurm does, and the daemon may die at any time.

The folder must be shared by the nodes and the daemon, and the nodes must find the same Python and
the same packages. The records are looked at every ``POLL_S``, because nobody on another machine can
wake the daemon; Slurm itself is asked only now and then, for jobs that vanished, and of a task that
ended by itself whether that is the whole truth: Slurm signals all processes of a job that it ends
one after the other, so that a task may be over, even with a good exit code (a shell whose ``sleep``
was killed goes on to its last line), before its supervisor hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import shlex
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gridtravel import local_sched
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
    not_divided,
)
from gridtravel.local_sched.resource_managers.slurm_commands import SlurmCommands
from gridtravel.local_sched.resource_managers.supervised.output_following import follow_file
from gridtravel.local_sched.resource_managers.supervised.spawning import BOOT, LOG_NAME, log_tail
from gridtravel.local_sched.resource_managers.supervised.task_events import end_event, start_event
from gridtravel.local_sched.resource_managers.supervised.task_folders import TaskFolders
from gridtravel.local_sched.resource_managers.supervised.task_records import (
    ENDED,
    STOP,
    read_record,
    write_record,
)

CAN_SHARE: Final = False
"""Whether nodes can be divided between tasks here."""
POLL_S: Final = 0.2
LOOK_S: Final = 5.0
"""How often Slurm is asked which of our jobs it still has. One that is missing twice, with no
record of its end, is lost; a node's last record may take as long to be seen here.
"""
SPARE_S: Final = 120.0
"""Slurm's limit lies so far behind the supervisor's: it is for supervisors that cannot."""
UNLIMITED_MIN: Final = 0
"""What ``sbatch --time`` takes for no limit."""
SLURM_JOB: Final = "slurm.json"
"""The record of which Slurm job a task became."""


@dataclass(slots=True)
class _Watched:
    """A task that is not known to be over."""

    folder: Path
    slurm_id: str
    over: asyncio.Event = field(default_factory=asyncio.Event)
    is_start_told: bool = False
    is_missing: bool = False
    """Slurm did not have it when it was asked last."""


class SlurmResourceManager:
    """A ``ResourceManager`` over a Slurm; one at a time for each ``root``."""

    def __init__(
        self,
        *,
        root: Path,
        clock: Clock,
        nodes: tuple[NodeDescription, ...],
        commands: SlurmCommands,
        slurm_names: Mapping[str, str] | None = None,
        files: AccountFiles,
        run_as: RunAs = RunAs.LOGIN,
    ) -> None:
        """``slurm_names``: what Slurm calls the nodes, where it calls them something else."""
        self._slurm_names = {node.name: node.name for node in nodes} | dict(slurm_names or {})
        if len(set(self._slurm_names.values())) != len(nodes):
            raise InputError("two nodes have the same name, or one has no name in Slurm")
        self._folders = TaskFolders(root.absolute())
        self._tag = hashlib.sha256(str(root.absolute()).encode()).hexdigest()[:8]
        self._clock = clock
        self._nodes = nodes
        self._commands = commands
        self._run_as = run_as
        self._files = files
        self._watched: dict[str, _Watched] = {}
        self._events: asyncio.Queue[TaskEvent | None] = asyncio.Queue()
        self._submitting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def can_share(self) -> bool:
        """See ``ResourceManager``."""
        return CAN_SHARE

    async def nodes(self) -> tuple[NodeDescription, ...]:
        """The declared nodes."""
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        """Take the order durably and hand it to Slurm, which starts its supervisor at once: that
        waits for the moment on the node.
        """
        if launch.shares:
            raise not_divided()
        self._open()
        names = [self._slurm_name(each) for each in launch.node_names or self._first_node()]
        order = replace(launch, node_names=tuple(names))
        async with self._submitting:
            account = resolve_account(order.login, self._run_as)
            # Slurm has control groups of its own for the job, and would lose it in ours.
            folder = await asyncio.to_thread(
                self._folders.prepare, order, account, control_groups=False
            )
            if launch.job_id in self._watched or self._folders.end_record(folder) is not None:
                return
            slurm_id = await self._slurm_id_of(launch.job_id, folder)
            if not slurm_id:
                slurm_id = await self._commands.submit(
                    self._name_of(launch.job_id),
                    await asyncio.to_thread(_write_script, folder),
                    nodes=names,
                    limit_min=_limit_min(launch, self._clock.now_precise()),
                    log=folder / LOG_NAME,
                )
            await asyncio.to_thread(
                write_record, str(folder / SLURM_JOB), {"id": slurm_id}, once=False
            )
            self._watched[launch.job_id] = _Watched(folder=folder, slurm_id=slurm_id)

    async def stop(self, job_id: str, grace_s: float) -> None:
        """Write the wish down and have the supervisor read it; a task that has none yet never gets
        one.
        """
        self._open()
        check_grace(grace_s)
        folder = self._folders.folder(job_id)
        if self._folders.end_record(folder) is not None:
            return
        await asyncio.to_thread(
            write_record, str(folder / STOP), {"grace_s": float(grace_s)}, once=False
        )
        slurm_id = await self._slurm_id_of(job_id, folder)
        if self._folders.take_fence(folder):
            self._write_end(folder, EndReason.STOPPED, "it never ran")
            await self._commands.cancel(slurm_id)
        else:
            await self._commands.wake(slurm_id)

    async def set_shares(self, shares: Mapping[str, Sequence[float]]) -> None:
        """Not possible here."""
        raise not_divided()

    async def processor_time(self, job_ids: Collection[str]) -> Mapping[str, tuple[float, ...]]:
        """Not possible here."""
        raise not_divided()

    async def events(self) -> AsyncIterator[TaskEvent]:
        """What happens, until ``close``. For one reader."""
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                return
            yield event

    async def recover(self) -> list[TaskEvent]:
        """Read all folders, and ask Slurm about those that are not over."""
        self._open()
        alive = await self._commands.alive()
        job_ids = self._folders.active_ids()
        await self._correct_ends(job_ids)
        events = []
        for job_id in job_ids:
            try:
                event = await self._recover_one(job_id, alive)
            except (ValueError, NotFoundError) as fault:
                folder = self._folders.folder(job_id)
                self._folders.take_fence(folder)
                self._write_end(folder, EndReason.LOST, f"its records are damaged: {fault}")
                event = end_event(job_id, folder)
            if event is not None:
                events.append(event)
        return events

    async def forget(self, job_id: str) -> None:
        """Move the task's records aside; its output stays."""
        await asyncio.to_thread(self._folders.retire, job_id)

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
        """Let go of everything; tasks and their Slurm jobs go on."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for watched in self._watched.values():
            watched.over.set()
        self._watched.clear()
        self._events.put_nowait(None)

    # -- inside ------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._is_closed:
            raise UnavailableError("this resource manager was closed")
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())

    def _first_node(self) -> tuple[str, ...]:
        return (self._nodes[0].name,)

    def _slurm_name(self, node: str) -> str:
        try:
            return self._slurm_names[node]
        except KeyError:
            raise InputError(f"Slurm has no node that is called {node} here") from None

    def _name_of(self, job_id: str) -> str:
        """The Slurm job's name: no other daemon of the same user gives one the same."""
        return f"grid-{self._tag}-{job_id}"

    async def _slurm_id_of(self, job_id: str, folder: Path) -> str:
        """Which Slurm job the task is, also when the daemon died before it wrote that down."""
        record = read_record(str(folder / SLURM_JOB))
        if record is not None:
            return str(record["id"])
        return await self._commands.find(self._name_of(job_id))

    async def _recover_one(self, job_id: str, alive: frozenset[str]) -> TaskEvent | None:
        folder = self._folders.folder(job_id)
        ended = end_event(job_id, folder)
        if ended is not None:
            return ended
        if job_id not in self._watched:
            slurm_id = await self._slurm_id_of(job_id, folder)
            if slurm_id not in alive:
                self._settle_lost(folder)
                return end_event(job_id, folder)
            self._watched[job_id] = _Watched(folder=folder, slurm_id=slurm_id)
        started = start_event(job_id, folder)
        self._watched[job_id].is_start_told |= started is not None
        return started

    async def _watch(self) -> None:
        """Look at the records again and again, and at Slurm now and then."""
        look_at = self._clock.now_precise() + LOOK_S
        while True:
            await self._clock.sleep_until(self._clock.now_precise() + POLL_S)
            await self._observe_all()
            if self._watched and self._clock.now_precise() >= look_at:
                # A controller that is away for a while has lost nothing.
                with contextlib.suppress(UnavailableError):
                    await self._look_for_missing()
                look_at = self._clock.now_precise() + LOOK_S

    async def _look_for_missing(self) -> None:
        asked = dict(self._watched)
        alive = await self._commands.alive()
        for job_id, watched in asked.items():
            was_missing, watched.is_missing = watched.is_missing, watched.slurm_id not in alive
            if was_missing and watched.is_missing and job_id in self._watched:
                self._settle_lost(watched.folder)
                self._tell_end(job_id)

    async def _observe_all(self) -> None:
        """Tell whatever the records of the tasks hold and was not told yet."""
        over = []
        for job_id, watched in self._watched.items():
            if not watched.is_start_told:
                started = start_event(job_id, watched.folder)
                if started is not None:
                    watched.is_start_told = True
                    self._events.put_nowait(started)
            if self._folders.end_record(watched.folder) is not None:
                over.append(job_id)
        await self._correct_ends(over)
        for job_id in over:
            self._tell_end(job_id)

    def _tell_end(self, job_id: str) -> None:
        watched = self._watched.get(job_id)
        ended = end_event(job_id, watched.folder) if watched is not None else None
        if watched is not None and ended is not None:
            self._events.put_nowait(ended)
            watched.over.set()
            del self._watched[job_id]

    async def _correct_ends(self, job_ids: Sequence[str]) -> None:
        """Write down of tasks that seem to have ended by themselves where Slurm ended them. A
        controller that is away cannot be asked, and has cancelled nothing meanwhile.
        """
        seeming: dict[str, Path] = {}
        for job_id in job_ids:
            # Damaged records are told by whoever reads them next.
            with contextlib.suppress(ValueError, NotFoundError, UnavailableError):
                folder = self._folders.folder(job_id)
                ended = self._folders.end_record(folder)
                if ended is not None and ended.get("reason") == EndReason.EXITED.value:
                    seeming[await self._slurm_id_of(job_id, folder)] = folder
        seeming.pop("", None)
        if not seeming:
            return
        with contextlib.suppress(UnavailableError):
            for slurm_id in await self._commands.taken_away(list(seeming)):
                folder = seeming[slurm_id]
                record = {
                    **(self._folders.end_record(folder) or {}),
                    "reason": EndReason.STOPPED.value,
                    "message": "Slurm ended its job",
                }
                await asyncio.to_thread(write_record, str(folder / ENDED), record, once=False)

    def _settle_lost(self, folder: Path) -> None:
        """Slurm no longer has the task: nobody starts it any more, and that is written down."""
        never_ran = self._folders.take_fence(folder)
        what = "Slurm lost it before it ran" if never_ran else "it is gone without a record"
        self._write_end(folder, EndReason.LOST, f"{what}{log_tail(folder)}")

    def _write_end(self, folder: Path, reason: EndReason, message: str) -> None:
        record = {
            "reason": reason.value,
            "exit_code": None,
            "signal_number": None,
            "ended_at": self._clock.now_precise(),
            "message": message,
            "cpu_s": None,
        }
        write_record(str(folder / ENDED), record, once=True)


def _limit_min(launch: Launch, now: float) -> int:
    """Slurm's limit, in whole minutes: behind every end that the supervisor knows."""
    start = max(now, launch.start_not_before or 0.0)
    ends = [start + launch.limit_s] if launch.limit_s is not None else []
    ends += [float(launch.end)] if launch.end is not None else []
    if not ends:
        return UNLIMITED_MIN
    return max(1, math.ceil((min(ends) - now + launch.kill_grace_s + SPARE_S) / 60))


def _write_script(folder: Path) -> Path:
    """What Slurm executes on the first node: it becomes the task's supervisor."""
    package_root = Path(local_sched.__file__).parents[2]
    words = [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, str(package_root), str(folder)]
    script = folder / "slurm.sh"
    script.write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    script.chmod(0o700)
    return script
