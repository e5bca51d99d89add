"""Shortpools: N nodes that can always be had within L seconds, for whoever is entitled to them.

Catalina's device against long jobs that take the whole machine: "32 nodes within 8 hours". It is a
block of N nodes that is kept booked from ``now + latency`` on and moves along with time. Jobs that
end within the latency run on the nodes as on any others; a longer job cannot take the last N,
because it would run into the block. An entitled account's reservation is searched for as if the
block were not there.

The block moves in every cycle, so planned starts behind it cannot be promises: a class with a
shortpool plans anew in each pass (EASY, or replan), as Catalina did in every iteration. Between two
cycles it stands still: what its moving alone would allow is seen in the next one, whatever calls
for that."""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortpool:
    """The rule for one resource class."""

    nodes: int
    latency_s: int
    """The nodes can be had at the latest so long after they are asked for."""
    duration_s: int
    """Length of the block: as long as the reservations it is kept for."""
    accounts: tuple[str, ...] = ()
    """Entitled to it."""

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.latency_s < 1 or self.duration_s < 1:
            raise InputError(
                "a shortpool needs at least 1 node, 1 second of latency and of duration"
            )


class ShortpoolBlock:
    """The block of one shortpool where it stands at present; booked in the class's profile."""

    __slots__ = ("_booked", "rule")

    def __init__(self, rule: Shortpool) -> None:
        self.rule = rule
        self._booked: tuple[int, Instant, Instant] | None = None

    @property
    def nodes_kept(self) -> int:
        """Nodes of the block now; fewer than the rule's while running jobs or reservations
        stand there.
        """
        return 0 if self._booked is None else self._booked[0]

    def move(self, profile: AvailabilityProfile, now: Instant) -> None:
        """Take the block to ``now + latency``. Waiting jobs must have no planned starts when this
        is called.
        """
        self.lift(profile)
        start = now + self.rule.latency_s
        end = start + self.rule.duration_s
        nodes = min(self.rule.nodes, profile.min_free(start, end))
        if nodes > 0:
            profile.book(nodes, start, end)
            self._booked = nodes, start, end

    def forget(self) -> None:
        """The profile was made anew without the block."""
        self._booked = None

    def lift(self, profile: AvailabilityProfile) -> None:
        """Take the block out of the plan."""
        if self._booked is not None:
            nodes, start, end = self._booked
            if end > profile.origin:
                profile.unbook(nodes, start, end)
            self._booked = None
