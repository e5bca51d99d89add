"""What changes a calendar: the records that its owner journals and replays. Each is complete in
itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Reservation, ReservationEvent
from gridtravel.gridcore.timing.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationGranted:
    """A new entry, held or (when nobody else needs to agree) committed at once."""

    reservation: Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationMoved:
    """An entry took another window or size and kept its id (amend)."""

    reservation: Reservation
    """As it is from now on."""
    at: Instant
    """When; what a running reservation occupied before stays as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChanged:
    """An entry changed its state by the transition table."""

    reservation_id: str
    event: ReservationEvent
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTombstoned:
    """A request was released before it was ever seen: a late copy of it must not book anything."""

    owner: str
    request_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedForgotten:
    """Tombstones older than ``before`` are gone."""

    before: Instant


CalendarEvent = (
    ReservationGranted
    | ReservationMoved
    | ReservationChanged
    | RequestTombstoned
    | FinishedForgotten
)
