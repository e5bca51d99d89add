"""What the live promises of a book take, by the slots as they lie now (calendar paper, 2.2).

The book books and remembers; this says how much a promise takes, and gives room back when slots
that come near are split. A finer grid keeps every edge of the coarser one, so a split can only give
back, and no start ever changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.footprints import (
    Footprint,
    Piece,
    difference,
    footprint_of,
    spliced,
)
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.timing.instants import Instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.booking.reservations import Reservation
    from gridtravel.gridcore.capacity.profile import AvailabilityProfile


class SlotKeeper:
    """The slots of one book. Owned and called by the book alone."""

    def __init__(self, wanted: SlotRule) -> None:
        self.wanted = wanted
        """The owner's rule, from ``take`` on."""
        self.rule = SlotRule()
        """In force: until ``take``, which is for the replay, exactly the time promised."""
        self.as_of: Instant = 0
        """The latest moment that the book has heard of, until ``exact_from``."""
        self.next_split = self.rule.next_split(0)
        """When slots are split next; far away on a ladder of one level."""
        self.splits = 0
        """How often a split gave room back."""

    def whole(self, reservation: Reservation) -> Footprint:
        """Everything that a promise takes."""
        held = self.rule.held(reservation.interval, self.as_of)
        return Footprint(reservation.resource_class, (Piece(reservation.nodes, held),))

    def hear_of(self, at: Instant) -> bool:
        """Time passes; True when slots have to be split."""
        self.as_of = max(self.as_of, at)
        return self.as_of >= self.next_split

    def exact_from(self, now: Instant) -> None:
        """Promises take exactly their time, as in a replay, until ``take``. ``now`` may lie before
        what was heard of: the clock was ahead then."""
        self.as_of = now
        self.rule = SlotRule()
        self.next_split = self.rule.next_split(now)

    def take(
        self,
        footprints: dict[str, Footprint],
        reservations: Mapping[str, Reservation],
        free: Mapping[str, AvailabilityProfile],
        replacement: Mapping[str, str],
    ) -> None:
        """Put the owner's rule in force, and widen what is promised as far as nobody else has the
        room: the ladder may have been another one, or none, when it was promised.
        ``replacement``: live entries and the holds that are to replace them.
        """
        self.rule = self.wanted
        self.next_split = self.rule.next_split(self.as_of)
        new_ids = set(replacement.values())
        for reservation_id in footprints:
            if reservation_id in new_ids:
                continue
            new_id = replacement.get(reservation_id)
            if new_id is not None:
                footprints[new_id].unbook(free)
            old = footprints[reservation_id]
            whole = spliced(old, self.whole(reservations[reservation_id]), self.as_of)
            surplus = difference(old, whole)
            if surplus.pieces:  # of wider slots, under a clock that has been set right
                surplus.unbook(free)
                footprints[reservation_id] = old = difference(old, surplus)
            more = difference(whole, old)
            if more.fits(free):
                more.book(free)
                footprints[reservation_id] = whole
            if new_id is not None:
                footprints[new_id] = self._beside(
                    reservations[new_id], footprints[reservation_id], free
                )

    def split(
        self,
        footprints: dict[str, Footprint],
        reservations: Mapping[str, Reservation],
        free: Mapping[str, AvailabilityProfile],
        replacement: Mapping[str, str],
    ) -> None:
        """Give back what promises no longer touch; the present slot stays taken."""
        self.next_split = self.rule.next_split(self.as_of)
        new_ids = set(replacement.values())
        for reservation_id, old in footprints.items():
            if reservation_id in new_ids:
                continue
            reservation = reservations[reservation_id]
            held = self.rule.held(reservation.interval, self.as_of)
            kept = old.before(held.end)
            if reservation.start > self.as_of:
                kept = kept.since(held.start)
            if kept != old:
                difference(old, kept).unbook(free)
                footprints[reservation_id] = kept
                self.splits += 1
            new_id = replacement.get(reservation_id)
            if new_id is not None:
                footprints[new_id].unbook(free)
                footprints[new_id] = self._beside(reservations[new_id], kept, free)

    def _beside(
        self, new: Reservation, old: Footprint, free: Mapping[str, AvailabilityProfile]
    ) -> Footprint:
        """What the hold ``new`` takes beyond the room of what it is to replace; booked."""
        footprint = difference(self.whole(new), old)
        if not footprint.fits(free):
            footprint = difference(footprint_of(new), old)
        footprint.withdraw(free)
        return footprint
