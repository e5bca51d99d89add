"""What a reservation takes out of the free room, piece by piece.

Usually one piece. A hold that is to replace a reservation takes only what the old one does not
already cover, so that the room of both counts once until the change is committed (make before
break)::

    old      |####|####|####|
    new           |####|####|####|####|   twice as high
    taken         |####|####|              the upper half where they overlap
                            |####|####|    all of it behind
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.errors import REPORT_IT, ConflictError
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.capacity.profile import AvailabilityProfile


@dataclass(frozen=True, slots=True)
class Piece:
    """``nodes`` nodes during one interval."""

    nodes: int
    interval: Interval


@dataclass(frozen=True, slots=True)
class Footprint:
    """Pieces in one resource class. Pieces never overlap."""

    resource_class: str
    pieces: tuple[Piece, ...]

    def book(self, availability: Mapping[str, AvailabilityProfile]) -> None:
        """Take all pieces; ``ConflictError`` and no change when one does not fit."""
        if self.resource_class not in availability:
            raise ConflictError(
                f"there is no resource class {self.resource_class!r}", hint=REPORT_IT
            )
        profile = availability[self.resource_class]
        done: list[Piece] = []
        try:
            for piece in self.pieces:
                profile.book(piece.nodes, piece.interval.start, piece.interval.end)
                done.append(piece)
        except ConflictError:
            for piece in done:
                profile.unbook(piece.nodes, piece.interval.start, piece.interval.end)
            raise

    def fits(self, availability: Mapping[str, AvailabilityProfile]) -> bool:
        """True when all pieces could be booked."""
        profile = availability.get(self.resource_class)
        return profile is not None and all(
            profile.fits(piece.nodes, piece.interval.start, piece.interval.end)
            for piece in self.pieces
            if piece.interval.end > profile.origin
        )

    def withdraw(self, availability: Mapping[str, AvailabilityProfile]) -> None:
        """Take all pieces, promised already, even where nodes have failed since."""
        profile = availability[self.resource_class]
        for piece in self.pieces:
            profile.withdraw(piece.nodes, piece.interval.start, piece.interval.end)

    def unbook(self, availability: Mapping[str, AvailabilityProfile]) -> None:
        """Give back all pieces."""
        profile = availability[self.resource_class]
        for piece in self.pieces:
            profile.unbook(piece.nodes, piece.interval.start, piece.interval.end)

    def before(self, at: Instant) -> Footprint:
        """The part that lies before ``at``."""
        kept = (
            Piece(piece.nodes, Interval(piece.interval.start, min(piece.interval.end, at)))
            for piece in self.pieces
            if piece.interval.start < at
        )
        return Footprint(self.resource_class, tuple(kept))

    def since(self, at: Instant) -> Footprint:
        """The part that lies at or behind ``at``."""
        kept = (
            Piece(piece.nodes, Interval(max(piece.interval.start, at), piece.interval.end))
            for piece in self.pieces
            if at < piece.interval.end
        )
        return Footprint(self.resource_class, tuple(kept))


def footprint_of(reservation: Reservation) -> Footprint:
    """The whole reservation as one piece."""
    return Footprint(reservation.resource_class, (Piece(reservation.nodes, reservation.interval),))


def spliced(old: Footprint, new: Footprint, at: Instant) -> Footprint:
    """As ``old`` before ``at`` and as ``new`` from then on: what is past cannot be changed.

    ``ConflictError`` when that would be in two resource classes.
    """
    past = old.before(at)
    if past.pieces and old.resource_class != new.resource_class:
        raise ConflictError(
            f"nodes of class {old.resource_class!r} are in use: they cannot become nodes of"
            f" {new.resource_class!r}",
            hint="end the reservation and make another one",
        )
    return Footprint(new.resource_class, past.pieces + new.since(at).pieces)


def difference(new: Footprint, old: Footprint) -> Footprint:
    """What ``new`` needs beyond the room that ``old`` has."""
    if new.resource_class != old.resource_class:
        return new
    pieces: list[Piece] = []
    for piece in new.pieces:
        edges = {piece.interval.start, piece.interval.end}
        for other in old.pieces:
            edges.update(
                edge
                for edge in (other.interval.start, other.interval.end)
                if piece.interval.contains(edge)
            )
        for start, end in pairwise(sorted(edges)):
            covered = sum(other.nodes for other in old.pieces if other.interval.contains(start))
            if piece.nodes > covered:
                pieces.append(Piece(piece.nodes - covered, Interval(start, end)))
    return Footprint(new.resource_class, tuple(pieces))
