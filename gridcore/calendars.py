"""The owner's calendar: what it answers to each verb of the protocol.

Decide, then apply: a ``decide_`` method looks and answers, and returns the events that would make
the answer true; ``apply`` (in ``calendar_book``) carries one event out. Between the two the caller
journals the events, without giving way to anybody else.

Not here: who may ask for what (the agent), limits on users (``local_sched.user_reservations``), the
search itself (``fitting``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gridcore import fitting
from gridcore.calendar_book import CalendarBook
from gridcore.calendar_events import (
    CalendarEvent,
    FinishedForgotten,
    RequestBuried,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridcore.errors import ConflictError, InputError, NotFoundError
from gridcore.instants import Instant, Interval
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridcore.profile import AvailabilityProfile


class Calendar(CalendarBook):
    """One owner's reservations and its answers. Mutable, one owner, changed only by ``apply``."""

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

        ``ttl_s`` is the lifetime asked for, clamped to the rules; ``None`` commits at once, for a
        caller who has nobody else to wait for (the site's own user-settable reservation). The same
        request again gives the same answer.
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
        """Undo whatever the request booked; if it has not arrived yet, see to it that it never
        books anything.
        """
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
        """A new window or size in one step: the old stays unless the new is granted (make before
        break).
        """
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
        """Reservations whose time is over are completed; old tombstones are forgotten. Holds are
        not touched.
        """
        next_end = self.next_end()
        ended = self.ended(now) if next_end is not None and next_end <= now else []
        events: list[CalendarEvent] = [
            ReservationChanged(
                reservation_id=each.reservation_id, event=ReservationEvent.COMPLETE, at=now
            )
            for each in ended
        ]
        oldest, before = self.oldest_tombstone(), now - self.rules.tombstone_s
        if oldest is not None and oldest < before:
            events.append(FinishedForgotten(before=before))
        return tuple(events)

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
