"""What the ``host`` back end knows of a task that is not over (``host``)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

TAKE_OVER_S: Final = 10.0
"""How long ``wait_for_fence`` waits for the supervisor to come up, which takes some 20 ms."""


@dataclass(slots=True)
class WatchedTask:
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


async def wait_for_fence(watched: WatchedTask) -> None:
    """Until the task is in its supervisor's hands: then not even this daemon's death can lose it.

    A machine too busy for that within ``TAKE_OVER_S`` takes over later, or the task will be told as
    lost; the order is on disk in any case.
    """
    try:
        async with asyncio.timeout(TAKE_OVER_S):
            await watched.fenced.wait()
    except TimeoutError:
        return
