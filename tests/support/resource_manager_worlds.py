"""The worlds of the resource manager contract: this machine, a real Slurm, and a simulated one.

A world lets a test say what a task does (how long, which exit code, what it prints) without saying
how, and passes the time while an event is awaited: the real one by waiting, the simulated one by
moving its clock to the next thing that happens.
"""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gridtravel.gridio.system.clock import Clock, ManualClock, SystemClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.base import (
    Launch,
    NodeDescription,
    OutputStream,
    ResourceManager,
    TaskEvent,
    TaskEventKind,
)
from gridtravel.local_sched.resource_managers.host import HostResourceManager
from gridtravel.local_sched.resource_managers.simulated import (
    SimulatedMachine,
    SimulatedResourceManager,
    SimulatedRun,
)
from gridtravel.local_sched.resource_managers.slurm import SlurmResourceManager
from gridtravel.local_sched.resource_managers.slurm_commands import SlurmCommands

NODES = (NodeDescription(name="n1", features=("big",)), NodeDescription(name="n2"))
PATIENCE_S = 120.0
"""How long an event may take before the test is given up; nothing takes that long."""
Answer = TypeVar("Answer")


def own_login() -> str:
    """The login whose tasks every daemon may start."""
    return pwd.getpwuid(os.geteuid()).pw_name


class World(Protocol):
    """What a contract test needs to know of where it runs."""

    manager: ResourceManager
    clock: Clock

    def order(
        self,
        job_id: str,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        heeds_term: bool = True,
        stdout: str = "",
        **fields: Any,
    ) -> Launch:
        """An order for a task that behaves so."""
        ...

    async def reopen(self) -> None:
        """The daemon dies without a word, and another one comes up in its place."""
        ...

    async def during(self, wanted: Awaitable[Answer]) -> Answer:
        """Await something while time passes."""
        ...

    async def close(self) -> None:
        """Leave nothing running."""
        ...


class Listener:
    """Reads the events of a world, in order."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events: AsyncIterator[TaskEvent] = world.manager.events()

    async def next(self) -> TaskEvent:
        """The next event."""
        return await self._world.during(self._next())

    async def _next(self) -> TaskEvent:
        return await anext(self._events)

    async def until_over(self, *job_ids: str) -> list[TaskEvent]:
        """All events up to the last end of these tasks."""
        awaited, seen = set(job_ids), []
        while awaited:
            event = await self.next()
            seen.append(event)
            if event.kind.is_final:
                awaited.discard(event.job_id)
        return seen


async def read_all(manager: ResourceManager, job_id: str, stream: OutputStream) -> bytes:
    """Follow an output from its beginning to the end of the task."""
    return b"".join([chunk async for chunk in manager.follow(job_id, stream)])


class HostWorld:
    """This machine, with real processes."""

    login = ""
    """Whose tasks a test starts here; empty: the daemon's own."""

    def __init__(self, root: Path, **options: Any) -> None:
        """``options``: of the manager, beside what every one has."""
        self._root = root
        self._options = options
        self.clock: Clock = SystemClock()
        self._dropped: list[ResourceManager] = []
        self.manager: ResourceManager = self._open()

    def _open(self) -> ResourceManager:
        return HostResourceManager(
            root=self._root,
            clock=self.clock,
            nodes=NODES,
            files=AccountFiles(),
            **self._options,
        )

    def order(
        self,
        job_id: str,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        heeds_term: bool = True,
        stdout: str = "",
        **fields: Any,
    ) -> Launch:
        """A shell script that behaves so."""
        script = "" if heeds_term else "trap '' TERM\n"
        script += f"printf '%s' '{stdout}'\nsleep {run_s}\nexit {exit_code}\n"
        return Launch(job_id=job_id, login=own_login(), script=script, **fields)

    async def reopen(self) -> None:
        """Let the old manager be as a killed daemon leaves it, and make a new one."""
        self._dropped.append(self.manager)
        self.manager = self._open()

    async def during(self, wanted: Awaitable[Answer]) -> Answer:
        """Wait."""
        async with asyncio.timeout(PATIENCE_S):
            return await wanted

    async def close(self) -> None:
        """Stop what runs, and wait for it."""
        left = [
            event.job_id
            for event in await self.manager.recover()
            if event.kind is TaskEventKind.STARTED
        ]
        for job_id in left:
            await self.manager.stop(job_id, 0.0)
        await Listener(self).until_over(*left)
        for manager in [*self._dropped, self.manager]:
            await manager.close()


class SlurmWorld(HostWorld):
    """A real Slurm of one host, whose nodes are called like ours."""

    def __init__(self, root: Path, conf: Path) -> None:
        self._commands = SlurmCommands(conf=conf)
        super().__init__(root)

    def _open(self) -> ResourceManager:
        return SlurmResourceManager(
            root=self._root,
            clock=self.clock,
            nodes=NODES,
            commands=self._commands,
            files=AccountFiles(),
        )


class SimulatedWorld:
    """A simulated machine with a clock that moves when nothing else can happen."""

    def __init__(self) -> None:
        self._clock = ManualClock(1_000_000.0)
        self.clock: Clock = self._clock
        self._runs: dict[str, SimulatedRun] = {}
        self._machine = SimulatedMachine(
            clock=self._clock, run_of=lambda launch: self._runs[launch.job_id]
        )
        self.manager: ResourceManager = self._open()

    def _open(self) -> SimulatedResourceManager:
        return SimulatedResourceManager(machine=self._machine, nodes=NODES)

    def order(
        self,
        job_id: str,
        *,
        run_s: float = 0.0,
        exit_code: int = 0,
        heeds_term: bool = True,
        stdout: str = "",
        **fields: Any,
    ) -> Launch:
        """An entry in the world's table, and an order whose command says the same."""
        self._runs[job_id] = SimulatedRun(
            run_s=run_s, exit_code=exit_code, heeds_term=heeds_term, stdout=stdout.encode()
        )
        argv = ("pretend", str(self._runs[job_id]))
        return Launch(job_id=job_id, login="alice", argv=argv, **fields)

    async def reopen(self) -> None:
        """Another manager over the same machine; the old one hears nothing any more."""
        self.manager = self._open()

    async def during(self, wanted: Awaitable[Answer]) -> Answer:
        """Move the clock from one thing to the next until the awaited one has happened."""
        task = asyncio.ensure_future(wanted)
        for _ in range(10_000):
            for _ in range(10):
                await self._clock.sleep_until(0.0)
            if task.done():
                break
            wake_up = self._clock.next_wake_up
            if wake_up is not None:
                self._clock.advance_to(max(wake_up, self._clock.now_precise()))
        else:
            task.cancel()
            raise TimeoutError("nothing more happens in this world")
        return task.result()

    async def close(self) -> None:
        """End the world."""
        await self.manager.close()
        await self._machine.close()
