"""What one booking costs an AvailabilityProfile that already holds many.

The profile is packed, as conservative backfill packs it: every request asks "from now" and takes
the earliest fit, so a new one passes over most of what is booked. Sizes are drawn evenly by
exponent, durations lognormal around an hour, as in production logs. In the steady state one
cycle gives a random booking back, finds room for a new one, and books it.
"""

from __future__ import annotations

import math
import random
import time

from bench.figures import Figure
from gridtravel.gridcore.capacity.profile import AvailabilityProfile

NODES = 1_000
CYCLES = 2_000
SEED = 20


class PackedBook:
    """A profile with a steady number of bookings; `run` makes cycles and times nothing itself."""

    def __init__(self, outstanding: int) -> None:
        self._source = random.Random(SEED)
        self._profile = AvailabilityProfile(NODES)
        self._bookings = [self._book(*self._wish()) for _ in range(outstanding)]

    def _wish(self) -> tuple[int, int]:
        nodes = int(2 ** self._source.uniform(0, math.log2(NODES / 4)))
        duration_s = self._source.lognormvariate(math.log(3_600), 1.5)
        return nodes, int(min(max(duration_s, 60), 48 * 3_600))

    def _book(self, nodes: int, duration_s: int) -> tuple[int, int, int]:
        start = self._profile.earliest_fit(nodes, duration_s, 0)
        assert start is not None
        self._profile.book(nodes, start, start + duration_s)
        return nodes, start, start + duration_s

    def draw(self, cycles: int) -> list[tuple[int, int, int]]:
        """Which booking to give back and what to ask for, drawn before the time is taken."""
        return [(self._source.randrange(len(self._bookings)), *self._wish()) for _ in range(cycles)]

    def run(self, drawn: list[tuple[int, int, int]]) -> None:
        """Give back, find and book, once for each of `drawn`."""
        for index, nodes, duration_s in drawn:
            self._profile.unbook(*self._bookings[index])
            self._bookings[index] = self._book(nodes, duration_s)


def cycle_us(outstanding: int) -> float:
    """Microseconds of one cycle; the least of three runs, for disturbance only ever adds."""
    book = PackedBook(outstanding)
    least_s = math.inf
    for _ in range(3):
        drawn = book.draw(CYCLES)
        begun_s = time.perf_counter()
        book.run(drawn)
        least_s = min(least_s, time.perf_counter() - begun_s)
    return least_s / CYCLES * 1e6


def measure() -> list[Figure]:
    """The cost of a cycle at 1,000 and 10,000 outstanding bookings, and how it grows."""
    small_us, large_us = cycle_us(1_000), cycle_us(10_000)
    growth = large_us / small_us
    return [
        Figure(name="profile: cycle at 1,000 bookings", value=small_us, unit="us", must=20, aim=10),
        Figure(name="profile: cycle at 10,000", value=large_us, unit="us", must=75, aim=20),
        Figure(name="profile: growth, tenfold", value=growth, unit="x", must=5, aim=2),
    ]
