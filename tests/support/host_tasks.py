"""Real tasks for tests of the ``host`` back end: ordering them, and seeing what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from gridtravel.local_sched.resource_managers.base import Launch, OutputStream, TaskEvent
from tests.support.resource_manager_worlds import PATIENCE_S, HostWorld, Listener, own_login


def command(job_id: str, *argv: str) -> Launch:
    """An order for a command of the daemon's own account."""
    return Launch(job_id=job_id, login=own_login(), argv=argv)


def script(job_id: str, text: str) -> Launch:
    """An order for a script of the daemon's own account."""
    return Launch(job_id=job_id, login=own_login(), script=text)


async def run(world: HostWorld, launch: Launch) -> TaskEvent:
    """Launch a task and wait for its end."""
    await world.manager.launch(launch)
    return (await Listener(world).until_over(launch.job_id))[-1]


def text_of(world: HostWorld, job_id: str, stream: OutputStream = OutputStream.STDOUT) -> str:
    """What the task wrote."""
    return world.manager.output_path(job_id, stream).read_text()


async def until(holds: Callable[[], bool]) -> None:
    """Look at what processes of nobody's here do, which no event tells."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what is awaited happens in another process
            await asyncio.sleep(0.01)  # noqa: TID251 - real processes live in real time


def numbers_in(path: Path) -> list[int]:
    """The whole lines of a file that a task writes, as numbers."""
    return [int(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []
