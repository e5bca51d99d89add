"""Waiting for an instant, or for a signal that something has changed, whichever comes first."""

from __future__ import annotations

import asyncio

from gridtravel.gridio.system.clock import Clock


class Alarm:
    """Wakes one waiter at an instant or when rung, whichever comes first.

    Rings are not counted: any number of them before a wait end that wait at once, and only that
    one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rung = asyncio.Event()
        self._sleeper: asyncio.Task[None] | None = None
        self._wakes_at: float | None = None

    def ring(self) -> None:
        """Wake the waiter, or let the next wait return at once."""
        self._rung.set()

    async def wait(self, until: float | None) -> None:
        """Return at ``until`` (``None``: never by itself) or when rung. One waiter at a time."""
        if until is not None and until <= self._clock.now_precise():
            self._rung.clear()
            await self._clock.sleep_until(until)
            return
        if until != self._wakes_at or self._sleeper is None or self._sleeper.done():
            self._stop_sleeper()
            if until is not None:
                self._wakes_at = until
                self._sleeper = asyncio.get_running_loop().create_task(self._sleep(until))
        await self._rung.wait()
        self._rung.clear()

    def close(self) -> None:
        """End the sleeper; nobody waits any more."""
        self._stop_sleeper()

    async def _sleep(self, until: float) -> None:
        await self._clock.sleep_until(until)
        self._rung.set()

    def _stop_sleeper(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
        self._sleeper = None
        self._wakes_at = None
