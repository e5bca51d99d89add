"""The state of a calendar and the one way to change it: ``apply``.

``CalendarBook`` holds the reservations and the free room. Its subclass
``gridcore.booking.calendars.Calendar`` decides what is answered to a request. Replaying the same
events on an empty book gives the same book.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking import tombstones
from gridtravel.gridcore.booking.calendar_events import (
    CalendarEvent,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendar_rules import (
    CalendarRules,
    FlatTariff,
    ResourceClass,
    Tariff,
)
from gridtravel.gridcore.booking.footprints import Footprint, difference, footprint_of, spliced
from gridtravel.gridcore.booking.leg_change import is_new_form
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.slot_keeping import SlotKeeper
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.booking.tombstones import OldestInstant, RequestTombstones, SharedRoom
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import (
    REPORT_IT,
    ConflictError,
    NotAuthorisedError,
    NotFoundError,
)
from gridtravel.gridcore.timing.instants import Instant

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

LAST_ID: Final = "\U0010ffff"
"""Sorts behind every id."""

Room = dict[str, AvailabilityProfile]
"""Free nodes over time, by resource class."""

ENDS_SPARE: Final = 64
"""Outdated ends that are kept before it is worth sorting them out."""


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
        slot_rule: SlotRule | None = None,
    ) -> None:
        self.site = site
        self.classes: dict[str, ResourceClass] = {each.name: each for each in classes}
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
        """By id: the live ones, and finished ones for ``tombstone_s``, as long as there is room."""
        self.finished_at: dict[str, Instant] = {}
        """When each finished reservation ended its life; the keys are exactly the finished entries.
        """
        self._ended: SharedRoom[str] = SharedRoom()
        """The same by owner: whose make way when there are too many."""
        self._ended_at = OldestInstant()
        """Of ``finished_at``."""
        self.tombstoned = RequestTombstones()
        """(owner, request id) released before it was seen, or of an entry that made way."""
        self._by_request: dict[tuple[str, str], tuple[str, ReservationRequest]] = {}
        """(owner, request id) -> the reservation it booked or amended, and the request as it was.
        Kept as long as the reservation, also when a later request has changed that.
        """
        self._requests: dict[str, list[str]] = {}
        """Reservation -> ids of the requests that booked or amended it, the first first."""
        self._footprints: dict[str, Footprint] = {}
        """What each live reservation has booked in ``free``."""
        self._replacement: dict[str, str] = {}
        """Live reservation -> the hold that is to replace it."""
        self.ids_given = 0
        """Reservations ever granted, the forgotten ones included."""
        self.slots = SlotKeeper(slot_rule or SlotRule())
        """What a promise takes: exactly its time, and after ``take_slots`` what the rule says."""
        self._held: dict[str, None] = {}
        """Ids of the holds, in the order in which they were granted."""
        self._ends: list[tuple[Instant, str]] = []
        """Heap of (end, id), one for each committed entry and a bounded number of outdated ones:
        when to complete them.
        """
        self._starts: list[tuple[Instant, str]] = []
        """(start, id) of the committed entries, sorted."""

    @property
    def version(self) -> CalendarVersion:
        """Grows with every change."""
        return CalendarVersion(self.epoch, self.changes)

    def get(self, reservation_id: str, by: str | None = None) -> Reservation:
        """The entry; ``NotFoundError`` when there is none. ``by``: who asks, ``None`` for the site
        itself; ``NotAuthorisedError`` when that is not the entry's owner.
        """
        reservation = self.reservations.get(reservation_id)
        if reservation is None:
            raise NotFoundError(
                f"{self.site} has no reservation {reservation_id!r}",
                hint="it may be over: see gur status, catalina show-res",
            )
        if by is not None and by != reservation.owner:
            raise NotAuthorisedError(
                f"reservation {reservation_id} at {self.site} belongs to somebody else",
                hint="only its owner or an administrator may do that",
            )
        return reservation

    def find_request(self, owner: str, request_id: str) -> Reservation | None:
        """What ``owner``'s request booked, if it is still remembered."""
        found = self._by_request.get((owner, request_id))
        return None if found is None else self.reservations[found[0]]

    def requests_for(self, reservation_id: str) -> int:
        """How many requests booked and amended an entry."""
        return len(self._requests[reservation_id])

    def live(self) -> list[Reservation]:
        """Held and committed entries in order of their start."""
        return sorted(self.unordered_live(), key=lambda each: (each.start, each.reservation_id))

    def unordered_live(self) -> Iterator[Reservation]:
        """Held and committed entries, in no order that means anything."""
        return map(self.reservations.__getitem__, self._footprints)

    def begun(self, now: Instant) -> list[Reservation]:
        """Committed entries that have begun at ``now`` and were not swept yet, by start."""
        behind = bisect_right(self._starts, (now, LAST_ID))
        return [self.reservations[each] for _, each in self._starts[:behind]]

    def next_start(self, now: Instant) -> Instant | None:
        """The first start of a committed entry after ``now``."""
        behind = bisect_right(self._starts, (now, LAST_ID))
        return self._starts[behind][0] if behind < len(self._starts) else None

    def replacement_of(self, reservation_id: str) -> Reservation | None:
        """The hold that is to replace a reservation."""
        hold_id = self._replacement.get(reservation_id)
        return None if hold_id is None else self.reservations[hold_id]

    def undecided_until(self, hold: Reservation) -> Instant:
        """When a hold's time has gone by: at its start, or at that of what it was to replace."""
        old_id = hold.request.replaces
        if old_id is None or self._replacement.get(old_id) != hold.reservation_id:
            return hold.start
        return min(hold.start, self.reservations[old_id].start)

    def due_holds(self, now: Instant) -> list[Reservation]:
        """Holds whose lifetime is over, oldest first; their owner lets them go, or asks first when
        they belong to a trip. One that would live longer than any may from now on was granted by a
        clock that was ahead: it is over as well.
        """
        held = [self.reservations[each] for each in self._held]
        latest = now + self.rules.hold_ttl_max_s
        due = [each for each in held if not now < (each.hold_expires_at or 0) <= latest]
        return sorted(due, key=lambda each: (each.hold_expires_at or 0, each.reservation_id))

    def next_expiry(self, *, passing_over: Container[str] = ()) -> Instant | None:
        """When the next hold's lifetime ends, of all whose ids are not passed over."""
        holds = (self.reservations[each] for each in self._held if each not in passing_over)
        ends = (each.hold_expires_at for each in holds)
        return min((each for each in ends if each is not None), default=None)

    def next_end(self) -> Instant | None:
        """When the next committed entry's time is over."""
        while self._ends and not self._is_current(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def ended(self, now: Instant) -> list[Reservation]:
        """Committed entries whose time is over, in order of their end."""
        entries = (self.reservations[each] for each in self._footprints)
        over = [
            each for each in entries if each.end <= now and each.state is ReservationState.COMMITTED
        ]
        return sorted(over, key=lambda each: (each.end, each.reservation_id))

    def oldest_tombstone(self) -> Instant | None:
        """When the oldest finished or buried entry came to its end."""
        oldest = (self._ended_at.get(), self.tombstoned.oldest())
        return min((each for each in oldest if each is not None), default=None)

    def apply(self, event: CalendarEvent) -> None:
        """Carry out one event. ``ConflictError`` or ``NotFoundError`` when it contradicts the book;
        the book is then unchanged.
        """
        match event:
            case ReservationGranted(reservation=reservation):
                self._hear_of(reservation.created_at)
                self._add(reservation)
            case ReservationMoved():
                self._hear_of(event.at)
                self._move(event.reservation, event.at)
            case ReservationChanged():
                self._change(event)
            case RequestTombstoned():
                self._bury(event)
            case _:
                self._forget(event.before)
        self.changes += 1

    def has_room_of(self, smaller: Reservation, now: Instant) -> bool:
        """True when the entry of that id has all the room that ``smaller`` needs from now on."""
        has = self._footprints[smaller.reservation_id]
        if smaller.resource_class != has.resource_class:
            return False
        return not difference(spliced(has, footprint_of(smaller), now), has).pieces

    def advance(self, now: Instant) -> None:
        """Forget what is past, split slots that have come near. Changes no promise, no version."""
        for profile in self.free.values():
            profile.advance(now)
        self._hear_of(now)

    @property
    def known_from(self) -> Instant:
        """The first second of which the book knows in every class what is free."""
        return max((profile.origin for profile in self.free.values()), default=0)

    def rebook(self, now: Instant) -> None:
        """After a replay, and when the clock was ahead and has been set right: ``free`` holds what
        the live promises take from ``now`` on, and nothing else, whatever the past was taken for.
        Others who book there book again, and ``take_slots`` follows. Changes no promise.
        """
        for profile in self.free.values():
            profile.clear(now)
        self.slots.exact_from(now)
        for footprint in self._footprints.values():
            footprint.withdraw(self.free)

    def take_slots(self, now: Instant) -> None:
        """After the replay, which books exactly what was promised: from now on promises take whole
        slots, and live ones are widened as far as nobody else has the room.
        """
        self.slots.hear_of(now)
        self.slots.take(self._footprints, self.reservations, self.free, self._replacement)

    def validate(self) -> None:
        """Assert every invariant that links the fields; for tests and after a replay."""
        for key, (reservation_id, request) in self._by_request.items():
            kept = self.reservations[reservation_id]
            assert key == (kept.owner, request.request_id), key
        for kept in self.reservations.values():
            found = self._by_request.get((kept.owner, kept.request.request_id))
            is_superseded = kept.state is ReservationState.SUPERSEDED
            if is_superseded and (found is None or found[0] == kept.request.replaces):
                continue  # a merged hold: its request is that of the leg now
            assert found == (kept.reservation_id, kept.request), kept.reservation_id
        assert not set(self.tombstoned) & set(self._by_request), "what was heard is not buried"
        live = {each.reservation_id for each in self.reservations.values() if each.state.is_live}
        assert set(self._footprints) == live, "a footprint for each live entry and no other"
        assert set(self.finished_at) == set(self.reservations) - live, (
            "a tombstone for each finished entry"
        )
        held = {each for each in live if self.reservations[each].state is ReservationState.HELD}
        firm = [self.reservations[each] for each in live - set(self._held)]
        starts = sorted((each.start, each.reservation_id) for each in firm)
        assert self._starts == starts, "the committed entries by start"
        assert set(self._held) == held, "the holds are the entries in state HELD"
        for old, new in self._replacement.items():
            assert old in live - held, old
            assert new in held, new
        current = sorted({each for each in self._ends if self._is_current(*each)})
        committed = sorted((self.reservations[each].end, each) for each in live - held)
        assert current == committed, "an end for each committed entry"
        owners = Counter(self.reservations[each].owner for each in self.finished_at)
        assert self._ended.counts() == owners, "a place for each finished entry"
        assert self._ended_at.count == Counter(self.finished_at.values()), "and its instant"
        requests = {each: dict.fromkeys(ids) for each, ids in self._requests.items()}
        for (_, request_id), (reservation_id, _) in self._by_request.items():
            assert request_id in requests[reservation_id], request_id
        self.tombstoned.validate()
        for reservation in self.reservations.values():
            is_held = reservation.state is ReservationState.HELD
            assert is_held or reservation.hold_expires_at is None, reservation.reservation_id
            assert not is_held or reservation.hold_expires_at is not None, (
                reservation.reservation_id
            )
        for profile in self.free.values():
            profile.validate()

    def _add(self, reservation: Reservation) -> None:
        reservation_id = reservation.reservation_id
        is_held = reservation.hold_expires_at is not None
        state = ReservationState.HELD if is_held else ReservationState.COMMITTED
        if reservation_id in self.reservations or reservation.state is not state:
            raise ConflictError(
                f"reservation {reservation_id} is in the book already, or is not a new one",
                hint=REPORT_IT,
            )
        self._check_new(reservation)
        footprint = self.slots.whole(reservation)
        old_id = reservation.request.replaces if is_held else None
        if old_id not in self.reservations:
            old_id = None  # forgotten since, and left out of the journal
        if old_id is not None:
            old_is_firm = old_id in self._footprints and old_id not in self._held
            if not old_is_firm or old_id in self._replacement:
                raise ConflictError(
                    f"reservation {old_id} cannot be replaced by {reservation_id}", hint=REPORT_IT
                )
            footprint = difference(footprint, self._footprints[old_id])
        footprint.book(self.free)
        if old_id is not None:
            self._replacement[old_id] = reservation_id
        self._footprints[reservation_id] = footprint
        self.reservations[reservation_id] = reservation
        self._note_request(reservation)
        self.ids_given += 1
        if is_held:
            self._held[reservation_id] = None
        else:
            self._note_end(reservation)
            insort(self._starts, (reservation.start, reservation_id))

    def _move(self, reservation: Reservation, at: Instant) -> None:
        reservation_id = reservation.reservation_id
        old = self.get(reservation_id)
        is_firm = old.state is reservation.state is ReservationState.COMMITTED
        if not is_firm or reservation_id in self._replacement or old.owner != reservation.owner:
            raise ConflictError(f"reservation {reservation_id} cannot be moved", hint=REPORT_IT)
        key = (reservation.owner, reservation.request.request_id)
        is_merged = is_new_form(reservation, self.find_request(*key))
        if not is_merged:
            self._check_new(reservation)
        before, whole = self._footprints[reservation_id], self.slots.whole(reservation)
        after = spliced(before, whole, at)
        more = difference(after, before)
        if not is_merged and not more.fits(self.free):
            # Widened it would need more; it may have been promised before there were whole slots.
            after = spliced(before, footprint_of(reservation), at)
            more = difference(after, before)
        if is_merged:
            more.withdraw(self.free)  # its hold had it until now, also where nodes have failed
        else:
            more.book(self.free)
        difference(before, after).unbook(self.free)
        self._footprints[reservation_id] = after
        self.reservations[reservation_id] = reservation
        self._note_request(reservation)
        self._note_end(reservation)
        self._drop_start(old)
        insort(self._starts, (reservation.start, reservation_id))

    def _change(self, event: ReservationChanged) -> None:
        old = self.get(event.reservation_id)
        new = replace(old.after(event.event), hold_expires_at=None)
        reservation_id = old.reservation_id
        self.reservations[reservation_id] = new
        self._held.pop(reservation_id, None)
        if new.state.is_live:
            self._note_end(new)
            insort(self._starts, (new.start, reservation_id))
            return
        if old.state is ReservationState.COMMITTED:
            self._drop_start(old)
        self._give_back(old, event.at)
        self.finished_at[reservation_id] = event.at
        self._ended.add(old.owner, reservation_id)
        self._ended_at.add(event.at)
        replaced_id = old.request.replaces
        if replaced_id is not None and self._replacement.get(replaced_id) == reservation_id:
            del self._replacement[replaced_id]
        while (gone := self._ended.makes_way(tombstones.ENDED_MAX)) is not None:
            at = self.finished_at[gone]
            for key in self._drop_finished(gone):
                self.tombstoned.add(key, at)

    def _drop_start(self, reservation: Reservation) -> None:
        del self._starts[bisect_left(self._starts, (reservation.start, reservation.reservation_id))]

    def _give_back(self, old: Reservation, at: Instant) -> None:
        """Free the rest of ``old``. The hold that was to replace it now takes its whole room
        itself: in whole slots where they are free, else exactly its time.
        """
        self._footprints.pop(old.reservation_id).since(at).unbook(self.free)
        replacement_id = self._replacement.pop(old.reservation_id, None)
        if replacement_id is not None:
            new, partial = self.reservations[replacement_id], self._footprints[replacement_id]
            partial.unbook(self.free)
            footprint = spliced(partial, self.slots.whole(new), at)
            if not footprint.fits(self.free):
                footprint = spliced(partial, footprint_of(new), at)
            self._footprints[replacement_id] = footprint
            footprint.withdraw(self.free)

    def _hear_of(self, at: Instant) -> None:
        if self.slots.hear_of(at):
            self.slots.split(self._footprints, self.reservations, self.free, self._replacement)

    def _bury(self, event: RequestTombstoned) -> None:
        key = (event.owner, event.request_id)
        if key in self.tombstoned or key in self._by_request:
            raise ConflictError(f"request {event.request_id} is known already", hint=REPORT_IT)
        self.tombstoned.add(key, event.at)

    def _forget(self, before: Instant) -> None:
        for reservation_id in [key for key, at in self.finished_at.items() if at < before]:
            self._drop_finished(reservation_id)
        self.tombstoned.forget(before)

    def _drop_finished(self, reservation_id: str) -> list[tuple[str, str]]:
        """Leave out a finished entry; returns the requests that were its own."""
        owner = self.reservations.pop(reservation_id).owner
        self._ended.drop(owner, reservation_id)
        self._ended_at.drop(self.finished_at.pop(reservation_id))
        keys = [(owner, each) for each in dict.fromkeys(self._requests.pop(reservation_id))]
        # What merged a hold into a leg is the leg's now.
        keys = [each for each in keys if self._by_request[each][0] == reservation_id]
        for key in keys:
            del self._by_request[key]
        return keys

    def _note_request(self, reservation: Reservation) -> None:
        reservation_id, request = reservation.reservation_id, reservation.request
        self._by_request[reservation.owner, request.request_id] = (reservation_id, request)
        self._requests.setdefault(reservation_id, []).append(request.request_id)

    def _check_new(self, reservation: Reservation) -> None:
        """``ConflictError`` for an entry whose request was heard before."""
        key = (reservation.owner, reservation.request.request_id)
        if key in self._by_request or key in self.tombstoned:
            raise ConflictError(f"request {key[1]} was answered before", hint=REPORT_IT)

    def _is_current(self, end: Instant, reservation_id: str) -> bool:
        entry = self.reservations.get(reservation_id)
        return entry is not None and entry.state is ReservationState.COMMITTED and entry.end == end

    def _note_end(self, reservation: Reservation) -> None:
        heapq.heappush(self._ends, (reservation.end, reservation.reservation_id))
        if len(self._ends) > 3 * len(self._footprints) + ENDS_SPARE:
            self._ends = sorted({each for each in self._ends if self._is_current(*each)})
