"""The owner's book: every reservation of one site, and the room that is left.

Decide, then apply: a ``decide_`` method looks and answers, and returns the events that would make the answer true; ``apply``
carries one event out. Between the two the caller journals the events, without giving way to anybody else. Replaying
the same events on an empty calendar gives the same calendar.

Not here: who may ask for what (the agent), limits on users (``local_sched.user_reservations``), the search in ``fitting``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gridcore import fitting
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
from gridcore.instants import Instant, Interval
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridcore.summaries import CalendarVersion
from gridcore.tariffs import FlatTariff, Tariff

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Room = dict[str, AvailabilityProfile]
"""Free nodes over time, by resource class."""


class Calendar:
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
        """Room left by live reservations, and by whatever else the owner books here (its queue's jobs)."""
        self.reservations: dict[str, Reservation] = {}
        """By id: the live ones, and finished ones until their tombstone is forgotten."""
        self.finished_at: dict[str, Instant] = {}
        """When each finished reservation ended its life; the keys are exactly the finished entries."""
        self.buried: dict[tuple[str, str], Instant] = {}
        """(owner, request id) released before it was seen."""
        self._by_request: dict[tuple[str, str], str] = {}
        self._footprints: dict[str, Footprint] = {}
        """What each live reservation has booked in ``free``."""
        self._replacement: dict[str, str] = {}
        """Live reservation -> the hold that is to replace it."""
        self._granted = 0

    # -- looking ---------------------------------------------------------------------------------------------------

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
        entries = [each for each in self.reservations.values() if each.state.is_live]
        return sorted(entries, key=lambda each: (each.start, each.reservation_id))

    def inquire(
        self,
        request: ReservationRequest,
        now: Instant,
        *,
        room: Mapping[str, AvailabilityProfile] | None = None,
    ) -> Availability | Decline:
        """What could be had. No side effect. ``room``: where to look instead of ``free``."""
        return fitting.find(
            self, request, now, self._room_for(request, room), lead_s=self.rules.lead_s
        )

    def due_holds(self, now: Instant) -> list[Reservation]:
        """Holds whose lifetime is over, oldest first; their owner lets them go, or asks first when they belong to a trip."""
        due = [
            each
            for each in self.reservations.values()
            if each.state is ReservationState.HELD
            and each.hold_expires_at is not None
            and each.hold_expires_at <= now
        ]
        return sorted(due, key=lambda each: (each.hold_expires_at or 0, each.reservation_id))

    def next_expiry(self) -> Instant | None:
        """When the next hold's lifetime ends."""
        return min(
            (each.hold_expires_at for each in self.reservations.values() if each.hold_expires_at),
            default=None,
        )

    # -- deciding --------------------------------------------------------------------------------------------------

    def decide_reserve(
        self,
        request: ReservationRequest,
        owner: str,
        ttl_s: int | None,
        now: Instant,
        *,
        room: Mapping[str, AvailabilityProfile] | None = None,
        contact: str = "",
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """Phase one: the earliest start that fits, as many nodes as fit there; or a refusal.

        ``ttl_s`` is the lifetime asked for, clamped to the rules; ``None`` commits at once, for a caller who has nobody
        else to wait for (the site's own user-settable reservation). The same request again gives the same answer.
        """
        known = self._known_request(request, owner)
        if known is not None:
            return known, ()
        lead_s = 0 if ttl_s is None else self.rules.lead_s
        searched = self._room_for(request, room)
        found = fitting.find(self, request, now, searched, lead_s=lead_s)
        if isinstance(found, Decline):
            return found, ()
        offer = found.offers[0]
        nodes = min(offer.nodes, request.nodes_max)
        reservation = Reservation(
            reservation_id=f"{self.site}.{self._granted + 1}",
            site=self.site,
            owner=owner,
            request=request,
            resource_class=offer.resource_class,
            nodes=nodes,
            interval=Interval(offer.start, offer.start + request.duration_s),
            state=ReservationState.COMMITTED if ttl_s is None else ReservationState.HELD,
            created_at=now,
            price_millicredits=offer.price_millicredits(nodes),
            hold_expires_at=None if ttl_s is None else self._expiry(ttl_s, offer.start, now),
            contact=contact,
        )
        return reservation, (ReservationGranted(reservation=reservation),)

    def decide_commit(
        self, reservation_id: str, by: str | None, now: Instant
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """Phase two. A hold whose lifetime is over is refused, also when nobody swept it yet."""
        reservation = self.get(reservation_id, by)
        if reservation.state is ReservationState.COMMITTED:
            return reservation, ()
        if reservation.state is not ReservationState.HELD:
            return self._refuse_state(reservation, "commit"), ()
        if reservation.hold_expires_at is not None and reservation.hold_expires_at <= now:
            expired = ReservationChanged(
                reservation_id=reservation_id, event=ReservationEvent.EXPIRE, at=now
            )
            return self._refuse_state(reservation.after(ReservationEvent.EXPIRE), "commit"), (
                expired,
            )
        return self._commit_events(reservation, now)

    def decide_late_commit(
        self, reservation_id: str, now: Instant
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """Commit a hold past its lifetime because its trip's outcome is known to be a commit."""
        reservation = self.get(reservation_id)
        if reservation.state is ReservationState.HELD:
            return self._commit_events(reservation, now)
        if reservation.state in (ReservationState.COMMITTED, ReservationState.COMPLETED):
            return reservation, ()
        return self._refuse_state(reservation, "commit"), ()

    def decide_release(
        self,
        reservation_id: str,
        by: str | None,
        now: Instant,
        *,
        event: ReservationEvent = ReservationEvent.RELEASE,
    ) -> tuple[CalendarEvent, ...]:
        """Undo a hold or cancel a reservation. Succeeds also for what is unknown or over already."""
        if reservation_id not in self.reservations:
            return ()
        reservation = self.get(reservation_id, by)
        if not reservation.state.is_live:
            return ()
        return (ReservationChanged(reservation_id=reservation_id, event=event, at=now),)

    def decide_release_request(
        self, request_id: str, by: str, now: Instant
    ) -> tuple[CalendarEvent, ...]:
        """Undo whatever the request booked; if it has not arrived yet, see to it that it never books anything."""
        known = self.find_request(by, request_id)
        if known is not None:
            return self.decide_release(known.reservation_id, by, now)
        if (by, request_id) in self.buried:
            return ()
        return (RequestBuried(owner=by, request_id=request_id, at=now),)

    def decide_amend(
        self,
        reservation_id: str,
        request: ReservationRequest,
        by: str | None,
        now: Instant,
        *,
        room: Mapping[str, AvailabilityProfile] | None = None,
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """A new window or size in one step: the old stays unless the new is granted (make before break)."""
        reservation = self.get(reservation_id, by)
        if reservation.state is not ReservationState.COMMITTED:
            return self._refuse_state(reservation, "amend"), ()
        if reservation_id in self._replacement:
            return self._refuse_state(reservation, "amend", "another change of it is under way"), ()
        if reservation.request.request_id == request.request_id:
            return reservation, ()
        if reservation.interval.contains(now) and request.earliest_start > reservation.start:
            message = (
                f"reservation {reservation_id} is running: its start cannot move, only its end"
            )
            return Decline(rule=DeclineRule.STATE, message=message, site=self.site), ()
        searched = self._room_for(replace(request, replaces=reservation_id), room)
        found = fitting.find(self, request, now, searched, lead_s=0, running=reservation)
        if isinstance(found, Decline):
            return found, ()
        offer = found.offers[0]
        nodes = min(offer.nodes, request.nodes_max)
        moved = replace(
            reservation,
            request=request,
            resource_class=offer.resource_class,
            nodes=nodes,
            interval=Interval(offer.start, offer.start + request.duration_s),
            price_millicredits=offer.price_millicredits(nodes),
        )
        return moved, (ReservationMoved(reservation=moved),)

    def decide_sweep(self, now: Instant) -> tuple[CalendarEvent, ...]:
        """Reservations whose time is over are completed; old tombstones are forgotten. Holds are not touched."""
        events: list[CalendarEvent] = [
            ReservationChanged(
                reservation_id=each.reservation_id, event=ReservationEvent.COMPLETE, at=now
            )
            for each in self.live()
            if each.state is ReservationState.COMMITTED and each.end <= now
        ]
        before = now - self.rules.tombstone_s
        oldest = min([*self.finished_at.values(), *self.buried.values()], default=now)
        if oldest < before:
            events.append(FinishedForgotten(before=before))
        return tuple(events)

    # -- changing --------------------------------------------------------------------------------------------------

    def apply(self, event: CalendarEvent) -> None:
        """Carry out one event. ``ConflictError`` when it contradicts the book; the book is then unchanged."""
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

    # -- inside ----------------------------------------------------------------------------------------------------

    def _known_request(
        self, request: ReservationRequest, owner: str
    ) -> Reservation | Decline | None:
        """The answer to a request that was heard before; ``None`` for a new one."""
        if (owner, request.request_id) in self.buried:
            return self._finished(request)
        known = self.find_request(owner, request.request_id)
        if known is None:
            return None
        if known.request != request:
            raise InputError(
                f"request id {request.request_id!r} was used for another request",
                hint="use a new id for each request",
            )
        return known if known.state.is_live else self._finished(request)

    def _finished(self, request: ReservationRequest) -> Decline:
        message = f"request {request.request_id} was answered, and what it booked has ended; ask with a new id"
        return Decline(rule=DeclineRule.FINISHED, message=message, site=self.site)

    def _refuse_state(self, reservation: Reservation, verb: str, why: str = "") -> Decline:
        reason = why or f"it is {reservation.state}"
        message = f"cannot {verb} reservation {reservation.reservation_id}: {reason}"
        return Decline(rule=DeclineRule.STATE, message=message, site=self.site)

    def _expiry(self, ttl_s: int, start: Instant, now: Instant) -> Instant:
        clamped_s = max(self.rules.hold_ttl_min_s, min(ttl_s, self.rules.hold_ttl_max_s))
        return min(now + clamped_s, start - self.rules.hold_margin_s)

    def _commit_events(
        self, reservation: Reservation, now: Instant
    ) -> tuple[Reservation, tuple[CalendarEvent, ...]]:
        commit = ReservationChanged(
            reservation_id=reservation.reservation_id, event=ReservationEvent.COMMIT, at=now
        )
        committed = replace(reservation.after(ReservationEvent.COMMIT), hold_expires_at=None)
        old_id = reservation.request.replaces
        if old_id is None or self._replacement.get(old_id) != reservation.reservation_id:
            return committed, (commit,)
        supersede = ReservationChanged(
            reservation_id=old_id, event=ReservationEvent.SUPERSEDE, at=now
        )
        return committed, (supersede, commit)

    def _room_for(
        self, request: ReservationRequest, room: Mapping[str, AvailabilityProfile] | None
    ) -> Mapping[str, AvailabilityProfile]:
        """Where to search: the room of the reservation to be replaced counts as free."""
        searched = self.free if room is None else room
        old_id = request.replaces
        if old_id is None:
            return searched
        old = self.reservations.get(old_id)
        if old is None or old.state is not ReservationState.COMMITTED:
            raise NotFoundError(f"{self.site} has no reservation {old_id!r} that could be replaced")
        if old_id in self._replacement:
            raise ConflictError(
                f"another change of reservation {old_id} is under way",
                hint="try again when it is over",
            )
        copies = {name: profile.copy() for name, profile in searched.items()}
        self._footprints[old_id].unbook(copies)
        return copies

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

    def _change(self, event: ReservationChanged) -> None:
        old = self.get(event.reservation_id)
        new = replace(old.after(event.event), hold_expires_at=None)
        reservation_id = old.reservation_id
        self.reservations[reservation_id] = new
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
