"""One cell of an imprecise calendar, as the calendar shows it (calendar paper, section 2.1).

A slot is a view: nothing is stored in it. The calendar makes it from its profile and its grid.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gridtravel.gridcore.timing.instants import Instant


class SlotState(enum.StrEnum):
    """How much of a slot is promised."""

    FREE = "free"
    """Nothing."""
    PARTIAL = "partial"
    """Something, and more can be taken."""
    FULL = "full"
    """So much that no new task is taken in advance ("reserved" in the paper)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """``[start, end)`` at one level of the ladder, with what is free in the whole of it."""

    start: Instant
    end: Instant
    level: int
    """Rung of the ladder, 0 for the fundamental slot."""
    nodes: int
    """Nodes owned."""
    nodes_free: int
    """Nodes nobody holds."""
    state: SlotState
    speed_permille: int = 1000
    """Speed of these nodes; 1000 is the node that durations are told for."""

    @property
    def length_s(self) -> int:
        """Length in seconds."""
        return self.end - self.start

    @property
    def resources(self) -> int:
        """*Total resources* of the paper: normalised node-seconds that the slot can give, rounded
        down.
        """
        return self.nodes * self.length_s * self.speed_permille // 1000

    @property
    def resources_free(self) -> int:
        """Normalised node-seconds that nobody holds, rounded down."""
        return self.nodes_free * self.length_s * self.speed_permille // 1000
