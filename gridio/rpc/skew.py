"""The site's clock minus ours, learnt from ordinary calls (Cristian's method).

An answer carries the site's clock of the moment it was made, which lies somewhere between our
sending and our receiving: the middle is the best guess, and half of the round trip bounds the
error, however unequal the two ways are. So the shortest round trip tells most; it is kept until
drift has eaten its advantage.
"""

from __future__ import annotations

import math
from typing import Final

from gridio.connections import ClockSkew

DRIFT_MAX: Final = 100e-6
"""Two clocks part by at most this fraction of the time that passes: twice 50 ppm, the worst of
ordinary crystals.
"""


class SkewMeter:
    """The best measurement so far of one site's clock."""

    def __init__(self) -> None:
        self._skew_s = 0.0
        self._uncertainty_s = math.inf
        self._measured_at = 0.0

    def measure(self, *, sent_at: float, received_at: float, site_time: float) -> None:
        """Take one exchange into account; times in seconds, the first two on our clock.

        An exchange during which our clock was set back, or an absurd site time, says nothing.
        """
        round_trip_s = received_at - sent_at
        if not (round_trip_s >= 0 and math.isfinite(site_time)):
            return
        uncertainty_s = round_trip_s / 2
        if uncertainty_s <= self._uncertainty_at(received_at):
            self._skew_s = site_time - (sent_at + received_at) / 2
            self._uncertainty_s = uncertainty_s
            self._measured_at = received_at

    def estimate(self, now: float) -> ClockSkew | None:
        """What is known at ``now`` on our clock; ``None`` before the first exchange."""
        uncertainty_s = self._uncertainty_at(now)
        if math.isinf(uncertainty_s):
            return None
        return ClockSkew(skew_s=self._skew_s, uncertainty_s=uncertainty_s)

    def _uncertainty_at(self, now: float) -> float:
        return self._uncertainty_s + abs(now - self._measured_at) * DRIFT_MAX
