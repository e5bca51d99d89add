"""The twin of the ``host`` back end in virtual time: nothing runs, everything else is the same.

For the simulator and for tests. ``SimulatedMachine`` is the world, which outlives a daemon as real
processes do; ``SimulatedResourceManager`` is what a daemon holds of it. One contract suite runs
over both back ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

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
)

SIGKILL = 9
SIGTERM = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """What a task would do if nobody ended it; known to the world, never to a scheduler."""

    run_s: float
    exit_code: int = 0
    heeds_term: bool = True
    """False: only KILL ends it."""
    stdout: bytes = b""
    stderr: bytes = b""

    def __post_init__(self) -> None:
        if self.run_s < 0:
            raise InputError(f"a task cannot run for {self.run_s} s")


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
        task = _SimulatedTask(launch=launch, run=self._run_of(launch))
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
        own_end = start + task.run.run_s
        limit = min(limits, default=own_end)
        if own_end <= limit:
            await self._clock.sleep_until(own_end)
            self._end(task, EndReason.EXITED, exit_code=task.run.exit_code)
            return
        await self._clock.sleep_until(limit)
        task.kill_at = self._clock.now_precise() + launch.kill_grace_s
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

    async def events(self) -> AsyncIterator[TaskEvent]:
        """What happens, until ``close``. For one reader."""
        while True:
            event = await self._events.get()
            if event is None:
                self._events.put_nowait(None)
                return
            yield event

    async def recover(self) -> list[TaskEvent]:
        """The latest event of every task not forgotten."""
        tasks = [self._machine.task(job_id) for job_id in self._machine.remembered_ids()]
        latest = [task.ended or task.started for task in tasks]
        return [event for event in latest if event is not None]

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
