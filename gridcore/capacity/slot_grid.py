"""Where the slots of a ladder lie at one moment, without listing them.

Every edge is an absolute multiple of its level's length, and a level ends on a multiple of the next
level's. So it is enough to know where each level begins, and 100,000 slots cost no more memory than
ten. ``SlotLadder.edges`` lists the same edges one by one.

The count of a level is its low-water mark (paper, 2.2): with one fundamental slot less than that,
the first slot of the next level is split, and so on upwards. Therefore levels only ever move
outwards, an edge that once exists stays until it is past, and what was booked from edge to edge
still is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.timing.instants import Instant

NEVER = 1 << 62
"""Later than any instant that is ever compared with it."""


@dataclass(frozen=True, slots=True)
class SlotGrid:
    """The slots of ``ladder`` as they lie at one moment."""

    ladder: SlotLadder
    begins: tuple[Instant, ...]
    """First second of each level, fundamental level first; made by ``at``."""

    @classmethod
    def at(cls, ladder: SlotLadder, now: Instant) -> SlotGrid:
        """The grid as of ``now``, which lies in its first slot."""
        begin = now - now % ladder.fundamental_s
        begins = [begin]
        for below, level in zip(ladder.levels, ladder.levels[1:], strict=False):
            reach = begin + (below.count or 0) * below.length_s
            begin = -(-reach // level.length_s) * level.length_s
            begins.append(begin)
        return cls(ladder, tuple(begins))

    @property
    def next_split(self) -> Instant:
        """When the fundamental slots reach their low-water mark next; ``NEVER`` with one level."""
        if len(self.begins) == 1:
            return NEVER
        first = self.ladder.levels[0]
        return self.begins[1] - ((first.count or 1) - 1) * first.length_s

    def at_hand_until(self, now: Instant) -> Instant:
        """End of what is near: the fundamental slots, or with one level the next slot that can
        start.
        """
        if len(self.begins) > 1:
            return self.begins[1]
        return self.ceil(now) + self.ladder.fundamental_s

    def level_at(self, instant: Instant) -> int:
        """Level of the slot that holds ``instant``; the past counts as fundamental."""
        begins = self.begins
        level = len(begins) - 1
        while level and instant < begins[level]:
            level -= 1
        return level

    def floor(self, instant: Instant) -> Instant:
        """First second of the slot that holds ``instant``."""
        return instant - instant % self.ladder.levels[self.level_at(instant)].length_s

    def ceil(self, instant: Instant) -> Instant:
        """The first slot edge at or after ``instant``."""
        length_s = self.ladder.levels[self.level_at(instant)].length_s
        return -(-instant // length_s) * length_s

    def horizon(self, until: Instant) -> Instant:
        """End of the last slot when the slots have to cover ``until``; one open slot at least."""
        least = self.begins[-1] + self.ladder.levels[-1].length_s
        return max(self.ceil(until), least)

    def count(self, until: Instant) -> int:
        """How many slots that makes."""
        ends = (*self.begins[1:], self.horizon(until))
        return sum(
            (end - begin) // level.length_s
            for begin, end, level in zip(self.begins, ends, self.ladder.levels, strict=True)
        )

    def slots(self, until: Instant) -> Iterator[tuple[Instant, Instant, int]]:
        """``(start, end, level)`` of each slot, in order, as far as ``horizon(until)``."""
        ends = (*self.begins[1:], self.horizon(until))
        for rung, level in enumerate(self.ladder.levels):
            for start in range(self.begins[rung], ends[rung], level.length_s):
                yield start, start + level.length_s, rung
