"""Slot ladders: short slots near, long slots far (calendar paper, sections 2.1 and 2.2).

Slot edges are absolute multiples of the slot length, so that slots of different levels and of
different sites line up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

SLOTS_MAX: Final = 200_000

_LEVEL: Final = re.compile(r"\s*(\*|[0-9]{1,9})\s*x\s*([0-9]{1,9})\s*s?\s*")


@dataclass(frozen=True, slots=True)
class LadderLevel:
    """``count`` slots of ``length_s`` seconds; ``None``: as many as the horizon needs (last level
    only).
    """

    length_s: int
    count: int | None = None


@dataclass(frozen=True, slots=True)
class SlotLadder:
    """Levels from the fundamental slot upwards; each length is an integer multiple of the one
    before.
    """

    levels: tuple[LadderLevel, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("a slot ladder needs at least one level")
        for level in self.levels[:-1]:
            if level.count is None or level.count < 1:
                raise InputError(
                    "only the last level of a slot ladder may be open, and none may be empty",
                    hint="e.g. 32x10, 8x320, *x2560",
                )
        if self.levels[-1].count is not None:
            raise InputError(
                "the last level of a slot ladder must be open", hint="write it as *x2560"
            )
        if self.fundamental_s < 1:
            raise InputError(f"a slot cannot be {self.fundamental_s} s long")
        for below, level in pairwise(self.levels):
            if level.length_s <= below.length_s or level.length_s % below.length_s:
                raise InputError(
                    f"slot length {level.length_s} s is not a greater multiple of"
                    f" {below.length_s} s, the level below",
                    hint="each level must be an integer multiple of the one before",
                )

    @classmethod
    def parse(cls, text: str) -> SlotLadder:
        """Read ``32x10, 8x320, *x2560`` or ``32 x 10s, ...`` (count x seconds), or ``exact``."""
        if text.strip().lower() == "exact":
            return EXACT
        levels = []
        for part in text.split(","):
            found = _LEVEL.fullmatch(part)
            if found is None:
                raise InputError(
                    f"not a slot ladder: {text[:80]!r}",
                    hint="write count x seconds, e.g. 32x10, 8x320, *x2560",
                )
            count, length = found.groups()
            levels.append(LadderLevel(int(length), None if count == "*" else int(count)))
        return cls(tuple(levels))

    def __str__(self) -> str:
        return ", ".join(
            f"{'*' if level.count is None else level.count}x{level.length_s}"
            for level in self.levels
        )

    @property
    def fundamental_s(self) -> int:
        """Length of the shortest slot."""
        return self.levels[0].length_s

    def edges(self, now: Instant, until: Instant) -> list[Instant]:
        """Slot edges from the slot that holds ``now`` until the horizon covers ``until``,
        ascending.

        A level ends late by less than one slot of the next level, so that the next level starts on
        a multiple of its own length. Levels with a count are always whole, so the last edge may lie
        far behind ``until``. ``InputError`` for more than ``SLOTS_MAX`` slots.
        """
        at = now - now % self.levels[0].length_s
        edges = [at]
        for position, level in enumerate(self.levels):
            if level.count is None:
                stop = max(until, at + level.length_s)
            else:
                coarser_s = self.levels[position + 1].length_s
                stop = -(-(at + level.count * level.length_s) // coarser_s) * coarser_s
            if len(edges) - 1 - (at - stop) // level.length_s > SLOTS_MAX:
                raise InputError(
                    f"the ladder {self} needs more than {SLOTS_MAX} slots",
                    hint="use longer far slots",
                )
            while at < stop:
                at += level.length_s
                edges.append(at)
        return edges


EXACT: Final = SlotLadder((LadderLevel(1),))
"""One level of one second: the exact profile."""
