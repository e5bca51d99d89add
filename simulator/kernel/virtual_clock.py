"""The clocks of the parties of a simulated world: ahead, behind, and set by somebody meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.clock import NAP_MAX_S

if TYPE_CHECKING:
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop

WORLD_BEGIN: Final = 1_900_000_000
"""Instant at which a world's virtual time is zero (in March 2030); any other would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """Somebody sets a clock."""

    at_s: float
    """When, in virtual seconds."""
    by_s: float
    """How far; negative: back."""


class VirtualClock:
    """A ``Clock`` on a virtual loop, ``skew_s`` ahead of the true time, with steps by script.

    A sleeper finds out about a step as the system's clock does: at the end of its nap.
    """

    def __init__(
        self, loop: VirtualLoop, *, skew_s: float = 0.0, steps: tuple[ClockStep, ...] = ()
    ) -> None:
        self._loop = loop
        self._skew_s = skew_s
        self._steps = tuple(sorted(steps, key=lambda step: step.at_s))

    def now(self) -> Instant:
        """The current whole second, rounded down."""
        return int(self.now_precise())

    def now_precise(self) -> float:
        """The current moment with its fraction."""
        return WORLD_BEGIN + self._loop.time() + self.offset_s()

    def offset_s(self, at_s: float | None = None) -> float:
        """How far ahead of the true time it is at virtual second ``at_s``, by default now."""
        if not self._steps:
            return self._skew_s
        time = self._loop.time() if at_s is None else at_s
        return self._skew_s + sum(step.by_s for step in self._steps if step.at_s <= time)

    async def sleep_until(self, instant: float) -> None:
        """Return at or after ``instant``; always gives other tasks a turn."""
        while True:
            await _pause(self._loop, self._nap_s(instant))
            if self.now_precise() >= instant:
                return

    def _nap_s(self, instant: float) -> float:
        """Until ``instant`` as things stand, but not beyond the end of the nap that a step falls
        into.
        """
        remaining_s = instant - self.now_precise()
        if remaining_s <= 0:
            return 0.0
        remaining_s += _ROUNDING_S
        time = self._loop.time()
        for step in self._steps:
            if time < step.at_s <= time + remaining_s:
                naps = (step.at_s - time) // NAP_MAX_S + 1
                return min(remaining_s, naps * NAP_MAX_S)
        return remaining_s


_ROUNDING_S: Final = 2e-6
"""Slept longer, so that rounding never wakes a sleeper just before its instant: it would find
nothing due, and go back to sleep for less than the loop can tell from nothing.
"""


async def _pause(loop: VirtualLoop, seconds: float) -> None:
    waiter: asyncio.Future[None] = loop.create_future()
    handle = loop.call_later(seconds, _wake, waiter)
    try:
        await waiter
    finally:
        handle.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
