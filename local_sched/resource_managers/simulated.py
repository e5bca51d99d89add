"""The twin of the ``host`` back end in virtual time: nothing runs, everything else is the same.

For the simulator and for tests. ``SimulatedMachine`` is the world, which outlives a daemon as real
processes do; ``SimulatedResourceManager`` is what a daemon holds of it. One contract suite runs
over both back ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridio.system.clock import Clock
from gridtravel.local_sched.resource_managers.base import (
    EndReason,
    Launch,
    NodeDescription,
    OutputStream,
    TaskEvent,
    TaskEventKind,
    check_grace,
    check_shares,
)

SIGKILL = 9
SIGTERM = 15
SETTLED_S: Final = 1e-3
"""A part of a task that lacks no more processor time than this has ended: otherwise a rounding of
1e-9 s would keep a task with a share of nearly nothing for ever.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What a task would do if nobody ended it; known to the world, never to a scheduler."""

    run_s: float
    """On nodes of its own; with shares the processor time that it takes on each node."""
    exit_code: int = 0
    heeds_term: bool = True
    """False: only KILL ends it."""
    stdout: bytes = b""
    stderr: bytes = b""

    def __post_init__(self) -> None:
        if self.run_s < 0:
            raise InputError(f"a task cannot run for {self.run_s} s")


@dataclass(slots=True, eq=False)
class _Part:
    """What a task does on one node that it shares. Parts go on independently of each other."""

    node_name: str
    share: float
    received_s: float = 0.0
    """Processor time that it has had, up to the task's ``updated_at``."""
    is_over: bool = False
    ended_at: float = 0.0
    """Once it is over."""


@dataclass(slots=True, eq=False)
class _SimulatedTask:
    launch: Launch
    run: SimulatedRun
    life: asyncio.Task[None] | None = None
    """Waits for whatever happens to the task next; None when it is over."""
    started: TaskEvent | None = None
    ended: TaskEvent | None = None
    ending: EndReason | None = None
    """Why it was told to end; the first reason stays."""
    kill_at: float = 0.0
    """When KILL follows, once it was told to end."""
    is_forgotten: bool = False
    parts: list[_Part] = field(default_factory=list)
    """One a node; none: the nodes are its own."""
    updated_at: float = 0.0
    """The moment up to which ``received_s`` of its parts is right."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when output can be read: it runs, or never will."""
    over: asyncio.Event = field(default_factory=asyncio.Event)


class SimulatedMachine:
    """All tasks ever launched on one machine, living by ``clock``."""

    def __init__(self, *, clock: Clock, run_of: Callable[[Launch], SimulatedRun]) -> None:
        """``run_of`` says what each launched task does; it is asked once for each id."""
        self._clock = clock
        self._run_of = run_of
        self._tasks: dict[str, _SimulatedTask] = {}
        self._listener: Callable[[TaskEvent], None] | None = None

    def listen(self, listener: Callable[[TaskEvent], None] | None) -> None:
        """Tell events to this listener and no other any more; what nobody hears is not kept."""
        self._listener = listener

    def task(self, job_id: str) -> _SimulatedTask:
        """The task of that id. Raises ``NotFoundError``."""
        if job_id not in self._tasks:
            raise NotFoundError(
                f"no task {job_id} was ever launched here",
                hint="see the daemon's log for who asked",
            )
        return self._tasks[job_id]

    def remembered_ids(self) -> list[str]:
        """The ids of all tasks not forgotten, sorted."""
        return sorted(name for name, task in self._tasks.items() if not task.is_forgotten)

    def launch(self, launch: Launch) -> None:
        """Begin the life of the task, once."""
        known = self._tasks.get(launch.job_id)
        if known is not None:
            if known.launch != launch:
                raise ConflictError(
                    f"task {launch.job_id} was launched before with another order",
                    hint="give every execution an id of its own",
                )
            return
        parts = [
            _Part(node_name=name, share=share)
            for name, share in zip(launch.node_names, launch.shares, strict=bool(launch.shares))
        ]
        task = _SimulatedTask(launch=launch, run=self._run_of(launch), parts=parts)
        self._tasks[launch.job_id] = task
        task.life = asyncio.create_task(self._live(task), name=f"simulated {launch.job_id}")

    def stop(self, job_id: str, grace_s: float) -> None:
        """TERM now, KILL after the grace; the shortest grace counts."""
        task = self.task(job_id)
        if task.ended is not None:
            return
        kill_at = self._clock.now_precise() + grace_s
        task.kill_at = kill_at if task.ending is None else min(task.kill_at, kill_at)
        task.ending = task.ending or EndReason.STOPPED
        self._cancel(task)
        if task.started is None:
            self._end(task, task.ending, message="it never ran")
        else:
            ending = self._terminate(task, task.ending)
            task.life = asyncio.create_task(ending, name=f"ending {job_id}")

    def set_shares(self, shares: Mapping[str, Sequence[float]]) -> None:
        """Divide the processors anew, from this moment on."""
        now = self._clock.now_precise()
        for job_id, wanted in shares.items():
            task = self._tasks.get(job_id)
            if task is None or not task.parts:
                continue
            check_shares(job_id, wanted, len(task.parts))
            self._receive(task, now)
            for part, share in zip(task.parts, wanted, strict=True):
                part.share = share
            if task.started is not None and task.ending is None and task.life is not None:
                self._cancel(task)
                task.life = asyncio.create_task(self._live_shared(task), name=f"sharing {job_id}")

    def processor_time(self, job_id: str) -> tuple[float, ...] | None:
        """What the task has had on each node; ``None``: it never ran."""
        task = self._tasks.get(job_id)
        if task is None or task.started is None:
            return None
        if task.parts:
            if task.ended is None:
                self._receive(task, self._clock.now_precise())
            return tuple(part.received_s for part in task.parts)
        until = self._clock.now_precise() if task.ended is None else task.ended.at
        return (until - task.started.at,) * len(task.launch.node_names)

    def _receive(self, task: _SimulatedTask, now: float) -> None:
        """Let the parts have had their shares up to ``now``."""
        if task.started is None:
            return
        for part in task.parts:
            if not part.is_over:
                part.received_s += part.share * (now - task.updated_at)
        task.updated_at = now

    def lose(self, job_id: str) -> None:
        """As after a power cut: the task does not run any more, and left no record."""
        task = self.task(job_id)
        if task.ended is None:
            self._cancel(task)
            self._end(task, EndReason.LOST, message="its supervisor is gone without a record")

    async def close(self) -> None:
        """End the world; no task ends properly any more."""
        lives = [task.life for task in self._tasks.values() if task.life is not None]
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    async def _live(self, task: _SimulatedTask) -> None:
        """Wait for the start, run, and end by itself or at the end of the time."""
        launch = task.launch
        await self._clock.sleep_until(launch.start_not_before or 0.0)
        start = self._clock.now_precise()
        limits = [start + launch.limit_s] if launch.limit_s is not None else []
        limits += [float(launch.end)] if launch.end is not None else []
        if min(limits, default=start + 1.0) <= start:
            self._end(task, EndReason.LIMIT, message="it never ran")
            return
        task.started = TaskEvent(
            job_id=launch.job_id,
            kind=TaskEventKind.STARTED,
            at=start,
            pid=1000 + len(self._tasks),
            actual_start=start,
        )
        task.begun.set()
        self._tell(task.started)
        if task.parts:
            task.updated_at = start
            await self._live_shared(task)
            return
        own_end = start + task.run.run_s
        limit = min(limits, default=own_end)
        if own_end <= limit:
            await self._clock.sleep_until(own_end)
            self._end(task, EndReason.EXITED, exit_code=task.run.exit_code)
            return
        await self._clock.sleep_until(limit)
        await self._end_of_time(task)

    async def _live_shared(self, task: _SimulatedTask) -> None:
        """Go on with the shares as they are, from one end of a part to the next. When they change,
        this is begun anew.
        """
        assert task.started is not None, "it runs"
        launch, run_s = task.launch, task.run.run_s
        limits = [task.started.at + launch.limit_s] if launch.limit_s is not None else []
        limits += [float(launch.end)] if launch.end is not None else []
        limit = min(limits, default=float("inf"))
        while True:
            now = self._clock.now_precise()
            self._receive(task, now)
            for part in task.parts:
                if not part.is_over and run_s - part.received_s <= SETTLED_S:
                    part.is_over, part.ended_at = True, now
                    self._tell_of_part(task, part)
            left = [part for part in task.parts if not part.is_over]
            if not left:
                self._end(task, EndReason.EXITED, exit_code=task.run.exit_code)
                return
            if now >= limit:
                await self._end_of_time(task)
                return
            ends = [now + (run_s - each.received_s) / each.share for each in left if each.share]
            wake_at = min([limit, *ends])
            if wake_at == float("inf"):
                return  # it gets nothing until its shares change
            await self._clock.sleep_until(wake_at)

    def _tell_of_part(self, task: _SimulatedTask, part: _Part) -> None:
        """The end of a part; that of the last one is the end of the task."""
        if not all(each.is_over for each in task.parts):
            self._tell(_end_of(part, task))

    def known_of(self, job_id: str) -> list[TaskEvent]:
        """Where a task stands: its latest event and, while it lives, its parts that are over."""
        task = self.task(job_id)
        if task.ended is not None:
            return [task.ended]
        over = [_end_of(part, task) for part in task.parts if part.is_over]
        return over if task.started is None else [task.started, *over]

    async def _end_of_time(self, task: _SimulatedTask) -> None:
        task.kill_at = self._clock.now_precise() + task.launch.kill_grace_s
        task.ending = EndReason.LIMIT
        await self._terminate(task, EndReason.LIMIT)

    async def _terminate(self, task: _SimulatedTask, reason: EndReason) -> None:
        """What TERM does to the task, and KILL at ``kill_at`` to the one that does not heed it."""
        if task.run.heeds_term:
            self._end(task, reason, signal_number=SIGTERM)
            return
        await self._clock.sleep_until(task.kill_at)
        self._end(task, reason, signal_number=SIGKILL)

    def _cancel(self, task: _SimulatedTask) -> None:
        if task.life is not None:
            task.life.cancel()
            task.life = None

    def _end(
        self,
        task: _SimulatedTask,
        reason: EndReason,
        *,
        exit_code: int | None = None,
        signal_number: int | None = None,
        message: str = "",
    ) -> None:
        started = task.started
        self._receive(task, self._clock.now_precise())
        task.ended = TaskEvent(
            job_id=task.launch.job_id,
            kind=TaskEventKind.LOST if reason is EndReason.LOST else TaskEventKind.ENDED,
            at=self._clock.now_precise(),
            pid=started.pid if started is not None else None,
            actual_start=started.actual_start if started is not None else None,
            exit_code=exit_code,
            signal_number=signal_number,
            reason=reason,
            message=message,
        )
        task.begun.set()
        task.over.set()
        self._tell(task.ended)

    def _tell(self, event: TaskEvent) -> None:
        if self._listener is not None:
            self._listener(event)


def _end_of(part: _Part, task: _SimulatedTask) -> TaskEvent:
    return TaskEvent(
        job_id=task.launch.job_id,
        kind=TaskEventKind.NODE_ENDED,
        at=part.ended_at,
        node_name=part.node_name,
    )


class SimulatedResourceManager:
    """A ``ResourceManager`` over a simulated machine."""

    def __init__(
        self,
        *,
        machine: SimulatedMachine,
        nodes: tuple[NodeDescription, ...],
        folder: Path | None = None,
    ) -> None:
        """``folder`` is where ``output_path`` points to; without one there are no output files."""
        self._machine = machine
        self._nodes = nodes
        self._folder = folder
        self._events: asyncio.Queue[TaskEvent | None] = asyncio.Queue()
        self._is_closed = False
        machine.listen(self._events.put_nowait)

    @property
    def can_share(self) -> bool:
        """Exactly."""
        return True

    async def nodes(self) -> tuple[NodeDescription, ...]:
        """The declared nodes."""
        return self._nodes

    async def launch(self, launch: Launch) -> None:
        """Let the task live."""
        if self._is_closed:
            raise UnavailableError("this resource manager was closed")
        self._machine.launch(launch)

    async def stop(self, job_id: str, grace_s: float) -> None:
        """End the task."""
        check_grace(grace_s)
        self._machine.stop(job_id, grace_s)

    async def set_shares(self, shares: Mapping[str, Sequence[float]]) -> None:
        """Divide the processors of the nodes anew."""
        self._machine.set_shares(shares)

    async def processor_time(self, job_ids: Collection[str]) -> Mapping[str, tuple[float, ...]]:
        """What each has had, to the last digit."""
        found = {job_id: self._machine.processor_time(job_id) for job_id in job_ids}
        return {job_id: times for job_id, times in found.items() if times is not None}

    async def events(self) -> AsyncIterator[TaskEvent]:
        """What happens, until ``close``. For one reader."""
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                return
            yield event

    async def recover(self) -> list[TaskEvent]:
        """The latest event of every task not forgotten, and the parts of it that are over."""
        return [
            event
            for job_id in self._machine.remembered_ids()
            for event in self._machine.known_of(job_id)
        ]

    async def forget(self, job_id: str) -> None:
        """Leave the task out of ``recover``."""
        task = self._machine.task(job_id)
        if task.ended is None:
            raise ConflictError(f"task {job_id} is not over", hint="stop it first")
        task.is_forgotten = True

    def output_path(self, job_id: str, stream: OutputStream) -> Path:
        """Where the file would be; nothing is written there."""
        launch = self._machine.task(job_id).launch
        is_stdout = stream is OutputStream.STDOUT
        name = launch.stdout_name if is_stdout else launch.stderr_name
        folder = launch.workdir
        if folder is None and self._folder is not None:
            folder = self._folder / job_id
        if folder is None:
            raise NotFoundError("this simulated machine keeps no output files", hint="follow it")
        return folder / name

    async def follow(
        self, job_id: str, stream: OutputStream, offset: int = 0
    ) -> AsyncIterator[bytes]:
        """The whole output as soon as the task runs; ends with the task."""
        if offset < 0:
            raise InputError(f"an output cannot be read from before its beginning ({offset})")
        task = self._machine.task(job_id)
        await task.begun.wait()
        is_stdout = stream is OutputStream.STDOUT
        written = task.run.stdout if is_stdout else task.run.stderr
        if task.started is not None and written[offset:]:
            yield written[offset:]
        await task.over.wait()

    async def close(self) -> None:
        """Stop listening; the machine goes on."""
        if not self._is_closed:
            self._is_closed = True
            self._machine.listen(None)
            self._events.put_nowait(None)
