"""Points and stretches of time: integer seconds since the Unix epoch, UTC.

Zones, formats and clocks are elsewhere (``timetext``, ``gridio.system.clock``); in here time is a
number.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError

Instant = int
"""Seconds since 1970-01-01T00:00:00Z, without leap seconds."""


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """The half-open stretch ``[start, end)``; never empty."""

    start: Instant
    end: Instant

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise InputError(f"an interval must end after it starts: [{self.start}, {self.end})")

    @property
    def duration_s(self) -> int:
        """Length in seconds, at least 1."""
        return self.end - self.start

    def contains(self, instant: Instant) -> bool:
        """True when ``start <= instant < end``."""
        return self.start <= instant < self.end
