"""The one place that reads the time or waits for it.

Services are given a ``Clock``; domain code is given ``now``. Nothing else asks the operating
system, so that the simulator can run the same classes in virtual time and a test can never be late.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from typing import Protocol

from gridtravel.gridcore.timing.instants import Instant

NAP_MAX_S = 10.0
"""Longest single sleep of the system clock, in seconds: after a suspend or a corrected wall clock a
sleeper notices within this.
"""

STEP_S = 1.0
"""The wall clock was set back, and not slowed down, when it lags more than this behind a steady
one.
"""


class Clock(Protocol):
    """Time for a service: seconds since the epoch, UTC."""

    def now(self) -> Instant:
        """The current whole second, rounded down."""
        ...

    def now_precise(self) -> float:
        """The current moment with its fraction, for measuring skew and the spread of starts; never
        for booking.
        """
        ...

    async def sleep_until(self, instant: float) -> None:
        """Return at the first opportunity at or after ``instant``; always gives other tasks a turn,
        also for the past. When the clock is set back meanwhile, it returns after as long as the
        wait was to last, so that its caller looks at the time again.
        """
        ...


class SystemClock:
    """The operating system's wall clock."""

    def now(self) -> Instant:
        """The current whole second, rounded down."""
        return int(time.time())

    def now_precise(self) -> float:
        """The current moment with its fraction."""
        return time.time()

    async def sleep_until(self, instant: float) -> None:
        """Sleep in naps of at most ``NAP_MAX_S`` and look at the wall clock after each, because it
        may be set meanwhile; a steady clock says when the wait has lasted long enough.
        """
        steady_end = time.monotonic() + max(instant - time.time(), 0.0)
        while True:
            remaining_s = min(instant - time.time(), steady_end - time.monotonic())
            await asyncio.sleep(min(max(remaining_s, 0.0), NAP_MAX_S))
            missing_s = instant - time.time()
            if missing_s <= 0 or (missing_s > STEP_S and time.monotonic() >= steady_end):
                return


class ManualClock:
    """A clock that moves only when told to: ``SystemClock``'s twin for tests."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = float(start)
        self._sequence = 0
        # Heap of (wake-up instant, order of arrival, future): equal instants wake in the order in
        # which they went to sleep.
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> Instant:
        """The current whole second, rounded down."""
        return int(self._now)

    def now_precise(self) -> float:
        """The current moment with its fraction."""
        return self._now

    @property
    def next_wake_up(self) -> float | None:
        """When the earliest sleeper wants to wake, or None when nobody sleeps."""
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def advance(self, seconds: float) -> None:
        """Move forward by ``seconds`` (>= 0) and wake, in order of their instants, all whose time
        has come.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot go back: {seconds} s")
        self._now += seconds
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, wake_up = heapq.heappop(self._sleepers)
            if not wake_up.done():
                wake_up.set_result(None)

    def set_to(self, instant: float) -> None:
        """Somebody sets the clock, forward or back. As with ``SystemClock``, those who sleep wake
        when their time has come, and after a step back no later than they would have.
        """
        step_s = instant - self._now
        if step_s >= 0:
            self.advance(step_s)
            return
        self._now = float(instant)
        self._sleepers = [(wake + step_s, rank, each) for wake, rank, each in self._sleepers]

    def advance_to(self, instant: float) -> None:
        """Move forward to exactly ``instant``, which must not lie in the past: adding what is
        missing may end a rounding short of it, where its sleeper would not wake.
        """
        if instant < self._now:
            raise ValueError(f"a clock cannot go back to {instant} from {self._now}")
        self._now = float(instant)
        self._wake()

    async def sleep_until(self, instant: float) -> None:
        """Wait until ``advance`` has reached ``instant``."""
        if instant <= self._now:
            await asyncio.sleep(0)
            return
        wake_up: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sequence += 1
        heapq.heappush(self._sleepers, (instant, self._sequence, wake_up))
        await wake_up
