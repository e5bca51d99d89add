"""An event loop whose time jumps to the next timer: hours of waiting in milliseconds, always the
same way.

Timeouts of asyncio and sleeps on ``LoopClock`` pass in virtual time, so nothing is waited for and
nothing depends on how fast the machine is. Only for code that waits for nothing outside the process
(gRPC does; use the in-process port).
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gridtravel.gridcore.timing.instants import Instant

T = TypeVar("T")

START: Instant = 1_000_000
"""Seconds since the epoch when the loop starts."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it tells the loop how long it would have waited."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing will ever happen")
            self.loop.virtual_time += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop that owns its time."""

    def __init__(self) -> None:
        self.virtual_time = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        # The default of a nanosecond disappears in floating point after half a year, and the loop
        # would then spin for ever.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Seconds since the loop began."""
        return self.virtual_time


class LoopClock:
    """A ``Clock`` that reads the running loop; ``offset_s`` makes it go wrong."""

    def __init__(self, offset_s: float = 0.0) -> None:
        self.offset_s = offset_s

    def now(self) -> Instant:
        """The current whole second."""
        return int(self.now_precise())

    def now_precise(self) -> float:
        """The current moment."""
        return START + self.offset_s + asyncio.get_running_loop().time()

    async def sleep_until(self, instant: float) -> None:
        """Wait in virtual time."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        delay_s = max(0.0, instant - self.now_precise())
        handle = loop.call_later(delay_s, _wake, woken)
        try:
            await woken
        finally:
            handle.cancel()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def run_virtually(scene: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``scene`` on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scene())
