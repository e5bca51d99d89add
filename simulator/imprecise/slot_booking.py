"""What an imprecise calendar remembers of one task: when it starts, and which slots that takes."""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant


@dataclass(slots=True, kw_only=True)
class SlotBooking:
    """``nodes`` for ``duration_s`` from ``start`` on. Changed by its calendar only."""

    booking_id: str
    nodes: int
    duration_s: int
    """On the nodes of this calendar."""
    start: Instant
    """Promised: only ever moves earlier, and not at all when fixed."""
    is_fixed: bool = False
    """Asked for at this very time (2.3), so that backfill must leave it alone."""
    held_from: Instant
    """First second of the first slot held; before ``start`` only for a fixed start inside a slot.
    """
    held_until: Instant
    """End of the last slot held."""

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise InputError(f"a booking takes at least one node: {self.nodes}")
        if self.duration_s < 1:
            raise InputError(f"a duration must be positive: {self.duration_s} s")

    def validate(self) -> None:
        """Assert that the slots held cover the time promised."""
        assert self.held_from <= self.start, "held when it starts"
        assert self.start + self.duration_s <= self.held_until, "held until it ends"
