"""The state of a calendar and the one way to change it: ``apply``.

``CalendarBook`` remembers; it decides nothing. ``gridcore.calendars.Calendar`` is the book with a
mind of its own. Replaying the same events on an empty book gives the same book.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

from gridcore.calendar_events import (
    CalendarEvent,
    FinishedForgotten,
    RequestBuried,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridcore.calendar_rules import CalendarRules, ResourceClass
from gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from gridcore.footprints import Footprint, difference, footprint_of
from gridcore.instants import Instant
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import Reservation, ReservationState
from gridcore.summaries import CalendarVersion
from gridcore.tariffs import FlatTariff, Tariff

if TYPE_CHECKING:
    from collections.abc import Iterable

Room = dict[str, AvailabilityProfile]
"""Free nodes over time, by resource class."""


class CalendarBook:
    """One owner's reservations. Mutable, one owner, changed only by ``apply``."""

    def __init__(
        self,
        site: str,
        classes: Iterable[ResourceClass],
        *,
        rules: CalendarRules | None = None,
        tariff: Tariff | None = None,
        epoch: str = "0",
        origin: Instant = 0,
    ) -> None:
        self.site = site
        self.classes: dict[str, ResourceClass] = {each.name: each for each in classes}
        if not self.classes:
            raise InputError(f"site {site!r} declares no nodes")
        self.rules = rules or CalendarRules()
        self.tariff: Tariff = tariff or FlatTariff()
        self.epoch = epoch
        self.changes = 0
        """Number of events applied; the version number."""
        self.free: Room = {
            name: AvailabilityProfile(each.nodes, origin) for name, each in self.classes.items()
        }
        """Room left by live reservations, and by whatever else the owner books here (its queue's
        jobs).
        """
        self.reservations: dict[str, Reservation] = {}
        """By id: the live ones, and finished ones until their tombstone is forgotten."""
        self.finished_at: dict[str, Instant] = {}
        """When each finished reservation ended its life; the keys are exactly the finished entries.
        """
        self.buried: dict[tuple[str, str], Instant] = {}
        """(owner, request id) released before it was seen."""
        self._by_request: dict[tuple[str, str], str] = {}
        self._footprints: dict[str, Footprint] = {}
        """What each live reservation has booked in ``free``."""
        self._replacement: dict[str, str] = {}
        """Live reservation -> the hold that is to replace it."""
        self._granted = 0
        self._held: dict[str, None] = {}
        """Ids of the holds, in the order in which they were granted."""
        self._ends: list[tuple[Instant, str]] = []
        """Heap of (end, id), one for each live entry and some that are over: when to complete them.
        """

    @property
    def version(self) -> CalendarVersion:
        """Grows with every change."""
        return CalendarVersion(self.epoch, self.changes)

    def get(self, reservation_id: str, by: str | None = None) -> Reservation:
        """The entry; ``by`` must be its owner, ``None`` is the calendar's own master."""
        reservation = self.reservations.get(reservation_id)
        if reservation is None:
            raise NotFoundError(f"{self.site} has no reservation {reservation_id!r}")
        if by is not None and by != reservation.owner:
            raise NotAuthorisedError(
                f"reservation {reservation_id} at {self.site} belongs to somebody else"
            )
        return reservation

    def find_request(self, owner: str, request_id: str) -> Reservation | None:
        """What ``owner``'s request booked, if it is still remembered."""
        found = self._by_request.get((owner, request_id))
        return self.reservations[found] if found else None

    def live(self) -> list[Reservation]:
        """Held and committed entries in order of their start."""
        entries = [self.reservations[each] for each in self._footprints]
        return sorted(entries, key=lambda each: (each.start, each.reservation_id))

    def due_holds(self, now: Instant) -> list[Reservation]:
        """Holds whose lifetime is over, oldest first; their owner lets them go, or asks first when
        they belong to a trip.
        """
        held = [self.reservations[each] for each in self._held]
        due = [each for each in held if (each.hold_expires_at or 0) <= now]
        return sorted(due, key=lambda each: (each.hold_expires_at or 0, each.reservation_id))

    def next_expiry(self) -> Instant | None:
        """When the next hold's lifetime ends."""
        held = (self.reservations[each].hold_expires_at for each in self._held)
        return min((each for each in held if each is not None), default=None)

    def next_end(self) -> Instant | None:
        """When the next live entry's time is over."""
        while self._ends:
            end, reservation_id = self._ends[0]
            entry = self.reservations.get(reservation_id)
            if entry is not None and entry.state.is_live and entry.end == end:
                return end
            heapq.heappop(self._ends)
        return None

    def ended(self, now: Instant) -> list[Reservation]:
        """Committed entries whose time is over, in order of their end."""
        entries = (self.reservations[each] for each in self._footprints)
        over = [each for each in entries if each.end <= now and each.hold_expires_at is None]
        return sorted(over, key=lambda each: (each.end, each.reservation_id))

    def oldest_tombstone(self) -> Instant | None:
        """When the oldest finished or buried entry came to its end."""
        firsts = (next(iter(each.values()), None) for each in (self.finished_at, self.buried))
        return min((each for each in firsts if each is not None), default=None)

    def apply(self, event: CalendarEvent) -> None:
        """Carry out one event. ``ConflictError`` when it contradicts the book; the book is then
        unchanged.
        """
        match event:
            case ReservationGranted(reservation=reservation):
                self._add(reservation)
            case ReservationMoved(reservation=reservation):
                self._move(reservation)
            case ReservationChanged():
                self._change(event)
            case RequestBuried():
                self.buried[event.owner, event.request_id] = event.at
            case FinishedForgotten():
                self._forget(event.before)
        self.changes += 1

    def advance(self, now: Instant) -> None:
        """Forget the free time that is past. Changes no promise and no version."""
        for profile in self.free.values():
            profile.advance(now)

    def validate(self) -> None:
        """Assert every invariant that links the fields; for tests and after a replay."""
        for key, reservation_id in self._by_request.items():
            kept = self.reservations[reservation_id]
            assert key[0] == kept.owner, key
        live = {each.reservation_id for each in self.reservations.values() if each.state.is_live}
        assert set(self._footprints) == live, "a footprint for each live entry and no other"
        assert set(self.finished_at) == set(self.reservations) - live, (
            "a tombstone for each finished entry"
        )
        held = {each for each in live if self.reservations[each].state is ReservationState.HELD}
        assert set(self._held) == held, "the holds are the entries in state HELD"
        for old, new in self._replacement.items():
            assert old in live, old
            assert self.reservations[new].state is ReservationState.HELD, new
        for reservation in self.reservations.values():
            is_held = reservation.state is ReservationState.HELD
            assert is_held or reservation.hold_expires_at is None, reservation.reservation_id
            assert not is_held or reservation.hold_expires_at is not None, (
                reservation.reservation_id
            )
        for profile in self.free.values():
            profile.validate()

    def _add(self, reservation: Reservation) -> None:
        key = (reservation.owner, reservation.request.request_id)
        if reservation.reservation_id in self.reservations or key in self._by_request:
            raise ConflictError(
                f"reservation {reservation.reservation_id} or its request is in the book already"
            )
        footprint = footprint_of(reservation)
        old_id = reservation.request.replaces
        is_replacing = (
            old_id is not None
            and old_id in self._footprints
            and reservation.state is ReservationState.HELD
        )
        if is_replacing and old_id is not None:
            footprint = difference(footprint, self._footprints[old_id])
        footprint.book(self.free)
        if is_replacing and old_id is not None:
            self._replacement[old_id] = reservation.reservation_id
        self._footprints[reservation.reservation_id] = footprint
        self.reservations[reservation.reservation_id] = reservation
        self._by_request[key] = reservation.reservation_id
        self._granted += 1
        heapq.heappush(self._ends, (reservation.end, reservation.reservation_id))
        if reservation.state is ReservationState.HELD:
            self._held[reservation.reservation_id] = None

    def _move(self, reservation: Reservation) -> None:
        old = self.get(reservation.reservation_id)
        footprint, old_footprint = footprint_of(reservation), self._footprints[old.reservation_id]
        old_footprint.unbook(self.free)
        try:
            footprint.book(self.free)
        except ConflictError:
            old_footprint.book(self.free)
            raise
        self._footprints[old.reservation_id] = footprint
        self.reservations[old.reservation_id] = reservation
        del self._by_request[old.owner, old.request.request_id]
        self._by_request[reservation.owner, reservation.request.request_id] = old.reservation_id
        heapq.heappush(self._ends, (reservation.end, reservation.reservation_id))

    def _change(self, event: ReservationChanged) -> None:
        old = self.get(event.reservation_id)
        new = replace(old.after(event.event), hold_expires_at=None)
        reservation_id = old.reservation_id
        self.reservations[reservation_id] = new
        self._held.pop(reservation_id, None)
        if new.state.is_live:
            return
        self._footprints.pop(reservation_id).unbook(self.free, from_instant=min(event.at, old.end))
        self.finished_at[reservation_id] = event.at
        replacement_id = self._replacement.pop(reservation_id, None)
        if replacement_id is not None:
            self._footprints[replacement_id].unbook(self.free)
            whole = footprint_of(self.reservations[replacement_id])
            whole.book(self.free)
            self._footprints[replacement_id] = whole
        replaced_id = old.request.replaces
        if replaced_id is not None and self._replacement.get(replaced_id) == reservation_id:
            del self._replacement[replaced_id]

    def _forget(self, before: Instant) -> None:
        for reservation_id in [key for key, at in self.finished_at.items() if at < before]:
            gone = self.reservations.pop(reservation_id)
            del self.finished_at[reservation_id]
            self._by_request.pop((gone.owner, gone.request.request_id), None)
        for key in [key for key, at in self.buried.items() if at < before]:
            del self.buried[key]
