"""The owner's calendar: what it answers to each verb of the protocol.

Decide, then apply: a ``decide_`` method looks and answers, and returns the events that would make
the answer true; ``apply`` (in ``calendar_book``) carries one event out. Between the two the caller
journals the events, without an ``await``.

Not here: who may ask for what (the agent), limits on users
(``local_sched.reservations.user_reservations``), the search itself (``fitting``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking import fitting, leg_change
from gridtravel.gridcore.booking.calendar_book import CalendarBook
from gridtravel.gridcore.booking.calendar_events import (
    CalendarEvent,
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendar_rules import CHANGES_MAX
from gridtravel.gridcore.booking.quotes import GIVES_NONE, refuse_quote
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.booking.quotes import Quote
    from gridtravel.gridcore.capacity.profile import AvailabilityProfile


class Calendar(CalendarBook):
    """One owner's reservations and its answers. Mutable, one owner, changed only by ``apply``."""

    def inquire(
        self,
        request: ReservationRequest,
        now: Instant,
        *,
        by: str | None = None,
        availability: Mapping[str, AvailabilityProfile] | None = None,
    ) -> Availability | Decline:
        """What could be had in two phases. No side effect. ``availability``: where to look instead
        of
        ``free``; ``by``: who asks, and must own what the request would replace.
        """
        refusal = self._refuse_replacing(request, by) or self._refuse_late(request, now)
        if refusal is not None:
            return refusal
        searched = self._availability_for(request.replaces, availability, now)
        found = fitting.find(self, request, now, searched, lead_s=self.rules.lead_s)
        return self._within_old(found, request.replaces, request, now, self.rules.lead_s)

    def decide_reserve(
        self,
        request: ReservationRequest,
        owner: str,
        ttl_s: int | None,
        now: Instant,
        *,
        availability: Mapping[str, AvailabilityProfile] | None = None,
        contact: str = "",
        quote: Quote | None = None,
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """Phase one: the earliest start that fits, as many nodes as fit there; or a refusal.

        ``ttl_s`` is the lifetime asked for, clamped to the rules; ``None`` commits at once, for a
        caller who has nobody else to wait for (the site's own user-settable reservation). The same
        request again gives what it booked, as that is now. ``NotFoundError`` or
        ``NotAuthorisedError`` when it would replace what ``owner`` does not have. ``quote``: what
        came with the request, known to be this site's word.
        """
        known = self._known_request(request, owner)
        if known is not None:
            return known, ()
        refusal = (
            self._refuse_replacing(request, owner)
            or self._refuse_leg(request, ttl_s, now)
            or self._refuse_quote(quote, request, owner, now)
        )
        if refusal is not None:
            return refusal, ()
        request = replace(request, quote="")
        lead_s = 0 if ttl_s is None else self.rules.lead_s
        searched = self._availability_for(request.replaces, availability, now)
        found = fitting.find(self, request, now, searched, lead_s=lead_s, quote=quote)
        found = self._within_old(found, request.replaces, request, now, lead_s, quote)
        if isinstance(found, Decline):
            return found, ()
        offer = found.offers[0]
        nodes = min(offer.nodes, request.nodes_max)
        reservation = Reservation(
            reservation_id=f"{self.site}.{self.ids_given + 1}",
            site=self.site,
            owner=owner,
            request=request,
            resource_class=offer.resource_class,
            nodes=nodes,
            interval=Interval(offer.start, offer.start + request.duration_s),
            state=ReservationState.COMMITTED if ttl_s is None else ReservationState.HELD,
            created_at=now,
            price_millicredits=offer.price_millicredits(nodes),
            hold_expires_at=None
            if ttl_s is None
            else self._expiry(request, ttl_s, offer.start, now),
            contact=contact,
        )
        granted = ReservationGranted(reservation=reservation)
        if ttl_s is None and request.replaces is not None:
            return reservation, (self._supersede(request.replaces, now), granted)
        return reservation, (granted,)

    def decide_commit(
        self, reservation_id: str, by: str | None, now: Instant
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """Phase two. A hold whose lifetime is over is refused, also when nobody swept it yet."""
        reservation = self.get(reservation_id, by)
        if reservation.state is ReservationState.COMMITTED:
            return reservation, ()
        if reservation.state is not ReservationState.HELD:
            return self._new_form(reservation) or self._refuse_state(reservation, "commit"), ()
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
        return self._new_form(reservation) or self._refuse_state(reservation, "commit"), ()

    def decide_release(
        self,
        reservation_id: str,
        by: str | None,
        now: Instant,
        *,
        event: ReservationEvent = ReservationEvent.RELEASE,
    ) -> tuple[CalendarEvent, ...]:
        """Undo a hold or cancel a reservation. Succeeds also for what is unknown or over already.

        ``event``: why, when its holder did not ask for it; ``ConflictError`` when the state does
        not allow that one.
        """
        if reservation_id not in self.reservations:
            return ()
        reservation = self.get(reservation_id, by)
        if not reservation.state.is_live:
            return ()
        reservation.after(event)
        return (ReservationChanged(reservation_id=reservation_id, event=event, at=now),)

    def decide_release_request(
        self, request_id: str, by: str, now: Instant
    ) -> tuple[CalendarEvent, ...]:
        """Undo whatever the request booked; if it has not arrived yet, see to it that it never
        books anything.
        """
        known = self.find_request(by, request_id)
        if known is not None:
            _, heard = self._by_request[by, request_id]
            if heard.replaces == known.reservation_id:
                return ()  # it has become the new form of a leg: its trip decided so
            return self.decide_release(known.reservation_id, by, now)
        if (by, request_id) in self.tombstoned:
            return ()
        return (RequestTombstoned(owner=by, request_id=request_id, at=now),)

    def decide_amend(
        self,
        reservation_id: str,
        request: ReservationRequest,
        by: str | None,
        now: Instant,
        *,
        availability: Mapping[str, AvailabilityProfile] | None = None,
        quote: Quote | None = None,
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        """A new window or size in one step: the old stays unless the new is granted (make before
        break). Of a running reservation only the end and the size can change. ``quote``: see
        ``decide_reserve``.
        """
        reservation = self.get(reservation_id, by)
        if request.replaces is not None:
            raise InputError("an amended request replaces nothing else", hint="leave it out")
        known = self._known_request(request, reservation.owner, reservation_id)
        if known is not None:
            return known, ()
        refusal = self._refuse_change(reservation, "amend")
        if refusal is None and reservation.end <= now:
            refusal = self._refuse_state(reservation, "amend", "its time is over")
        if refusal is None and request.trip != reservation.request.trip:
            refusal = self._refuse_state(reservation, "amend", "a leg stays a leg of its trip")
        if refusal is None:
            refusal = self._refuse_quote(quote, request, reservation.owner, now)
        if refusal is not None:
            return refusal, ()
        request = replace(request, quote="")
        searched = self._availability_for(reservation_id, availability, now)
        if reservation.start <= now:
            found = fitting.find_running(self, request, now, searched, reservation, quote=quote)
        else:
            found = fitting.find(self, request, now, searched, lead_s=0, quote=quote)
        found = self._within_old(found, reservation_id, request, now, 0, quote)
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
        return moved, (ReservationMoved(reservation=moved, at=now),)

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

    def gives_back(
        self, request: ReservationRequest, old_id: str | None, now: Instant, lead_s: int = 0
    ) -> bool:
        """True when ``request`` can be met by less than the live entry ``old_id`` has."""
        old = self.reservations.get(old_id or "")
        if old is None or not old.state.is_live:
            return False
        return fitting.find_within(self, request, now, old, lead_s=lead_s) is not None

    def _within_old(
        self,
        found: Availability | Decline,
        old_id: str | None,
        request: ReservationRequest,
        now: Instant,
        lead_s: int,
        quote: Quote | None = None,
    ) -> Availability | Decline:
        """What was found; where nothing was, what the request leaves of the entry that it is to
        change, which needs no room.
        """
        if old_id is None or isinstance(found, Availability):
            return found
        old = self.reservations[old_id]
        return fitting.find_within(self, request, now, old, lead_s=lead_s, quote=quote) or found

    def _known_request(
        self, request: ReservationRequest, owner: str, amended_id: str | None = None
    ) -> Reservation | Decline | None:
        """The answer to a request that was heard before; ``None`` for a new one. ``amended_id``:
        the only reservation that it may have been about.
        """
        if (owner, request.request_id) in self.tombstoned:
            return self._finished(request)
        heard = self._by_request.get((owner, request.request_id))
        if heard is None:
            return None
        reservation_id, as_it_was = heard
        if as_it_was != request or amended_id not in (None, reservation_id):
            raise InputError(
                f"request id {request.request_id!r} was used for another request",
                hint="use a new id for each request",
            )
        known = self.reservations[reservation_id]
        return known if known.state.is_live else self._finished(request)

    def _finished(self, request: ReservationRequest) -> Decline:
        message = (
            f"request {request.request_id} was answered, and what it booked has ended;"
            " ask with a new id"
        )
        return Decline(rule=DeclineRule.FINISHED, message=message, site=self.site)

    def _refuse_quote(
        self, quote: Quote | None, request: ReservationRequest, owner: str, now: Instant
    ) -> Decline | None:
        """A quote that is for something else is no reason to take another price in silence; nor is
        one that nobody here has read.
        """
        if quote is None and not request.quote:
            return None
        why = GIVES_NONE
        if quote is not None:
            why = quote.why_not(request, site=self.site, owner=owner, now=now)
        return refuse_quote(self.site, why) if why else None

    def _refuse_replacing(self, request: ReservationRequest, by: str | None) -> Decline | None:
        if request.replaces is None:
            return None
        return self._refuse_change(self.get(request.replaces, by), "replace")

    def _refuse_leg(
        self, request: ReservationRequest, ttl_s: int | None, now: Instant
    ) -> Decline | None:
        """A leg changes with its trip only, and while there is time to settle which form counts."""
        if request.replaces is None:
            return None
        old = self.reservations[request.replaces]
        why = leg_change.why_not(request, old)
        if why:
            return self._refuse_state(old, "replace", why)
        if not leg_change.merges(request, old):
            return None
        if ttl_s is None:
            return self._refuse_state(old, "replace", "a leg of a trip is held first")
        return self._refuse_late(request, now)

    def _refuse_late(self, request: ReservationRequest, now: Instant) -> Decline | None:
        """There is no time any more to settle which form of a trip's leg counts. Whoever asks what
        could be had instead of it hears that, too: no hold would follow.
        """
        old = self.reservations.get(request.replaces or "")
        is_leg = old is not None and old.request.trip is not None
        if old is None or not is_leg or request.trip == old.request.trip:
            return None
        if leg_change.settled_by(old) >= now + self.rules.hold_ttl_min_s:
            return None
        message = f"{self.site}: {old.reservation_id} begins too soon to be changed"
        return Decline(rule=DeclineRule.START_TOO_SOON, message=message, site=self.site)

    def _new_form(self, hold: Reservation) -> Reservation | None:
        """The leg whose new form a hold has become; ``None``: it has not, or that is over."""
        leg = self.reservations.get(hold.request.replaces or "")
        is_merged = leg is not None and hold.state is ReservationState.SUPERSEDED
        is_kept = leg is not None and leg.state in (
            ReservationState.COMMITTED,
            ReservationState.COMPLETED,
        )
        return leg if is_merged and is_kept else None

    def _refuse_change(self, reservation: Reservation, verb: str) -> Decline | None:
        """Only what is committed can change, and one change at a time."""
        if reservation.state is not ReservationState.COMMITTED:
            return self._refuse_state(reservation, verb)
        if reservation.reservation_id in self._replacement:
            return self._refuse_state(reservation, verb, "another change of it is under way")
        if self.requests_for(reservation.reservation_id) > CHANGES_MAX:
            why = f"it was changed {CHANGES_MAX} times; cancel it and book it again"
            return self._refuse_state(reservation, verb, why)
        return None

    def _refuse_state(self, reservation: Reservation, verb: str, why: str = "") -> Decline:
        reason = why or f"it is {reservation.state}"
        message = f"cannot {verb} reservation {reservation.reservation_id}: {reason}"
        return Decline(rule=DeclineRule.STATE, message=message, site=self.site)

    def _expiry(
        self, request: ReservationRequest, ttl_s: int, start: Instant, now: Instant
    ) -> Instant:
        clamped_s = max(self.rules.hold_ttl_min_s, min(ttl_s, self.rules.hold_ttl_max_s))
        expires_at = min(now + clamped_s, start - self.rules.hold_margin_s)
        old = self.reservations.get(request.replaces or "")
        if old is not None and leg_change.merges(request, old):
            expires_at = min(expires_at, leg_change.settled_by(old))
        return expires_at

    def _commit_events(
        self, reservation: Reservation, now: Instant
    ) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
        commit = ReservationChanged(
            reservation_id=reservation.reservation_id, event=ReservationEvent.COMMIT, at=now
        )
        committed = replace(reservation.after(ReservationEvent.COMMIT), hold_expires_at=None)
        old_id = reservation.request.replaces
        if old_id is None or self._replacement.get(old_id) != reservation.reservation_id:
            return committed, (commit,)
        old = self.reservations[old_id]
        if leg_change.merges(reservation.request, old):
            if old.start <= now:
                return self._refuse_state(reservation, "commit", f"{old_id} has begun"), ()
            leg = leg_change.merged(old, reservation)
            merge = replace(commit, event=ReservationEvent.MERGE)
            return leg, (merge, ReservationMoved(reservation=leg, at=now))
        return committed, (self._supersede(old_id, now), commit)

    def _supersede(self, old_id: str, now: Instant) -> ReservationChanged:
        return ReservationChanged(reservation_id=old_id, event=ReservationEvent.SUPERSEDE, at=now)

    def _availability_for(
        self,
        old_id: str | None,
        availability: Mapping[str, AvailabilityProfile] | None,
        now: Instant,
    ) -> Mapping[str, AvailabilityProfile]:
        """Where to search: the room of the reservation to be changed counts as free, and that of a
        slot is what is free in all of it.
        """
        searched = self.free if availability is None else availability
        if old_id is not None:
            searched = {name: profile.copy() for name, profile in searched.items()}
            self._footprints[old_id].unbook(searched)
        return self.slots.rule.availability(searched, max(now, self.slots.as_of))
