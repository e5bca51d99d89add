"""What a manager's book answers: the decisions, without any talk to children.

Decide, then apply, as in ``gridcore.booking.calendars``: each method looks and returns its answer
with the events that would make it true. The talk to children lies between two decisions
(``manager.two_phase.coordinator``); what was true before it is looked up again after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gridtravel.gridcore.booking.calendar_events import FinishedForgotten, RequestTombstoned
from gridtravel.gridcore.booking.calendar_rules import CHANGES_MAX, CalendarRules
from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.book.events import BookEvent, GroupDecided, GroupEnded, GroupHeld, Part
from gridtravel.manager.book.groups import CompositeBook, Group
from gridtravel.manager.book.trade import refuse_debtor


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRules:
    """Bounds of one manager."""

    calendar: CalendarRules
    """Lifetimes of holds, tombstones, offers in an answer; ``horizon_s`` bounds the children's."""
    commit_margin_s: int = 5
    """A group's hold expires this long before the first of its children's holds does: the time in
    which a commit that came at the last moment still reaches every child.
    """

    debt_max_node_s: int | None = None
    """What a child may owe the others, with what it asks for; ``None``: anything."""

    slot_rule: SlotRule = field(default_factory=SlotRule)
    """How much of the nodes below is promised in advance, and what counts as that."""

    def __post_init__(self) -> None:
        if self.debt_max_node_s is not None and self.debt_max_node_s < 0:
            raise InputError("debt_max_node_s must not be negative")
        if self.commit_margin_s < 1:
            raise InputError("commit_margin_s must be at least 1")


class CompositeCalendar(CompositeBook):
    """One manager's groups and its answers."""

    def __init__(self, site: str, rules: ManagerRules) -> None:
        super().__init__(site)
        self.rules = rules

    def known_request(
        self, request: ReservationRequest, owner: str, amended_id: str | None = None
    ) -> Reservation | Decline | None:
        """The answer to a request that was heard before; ``None`` for a new one, and for an amended
        one that is still on its way. ``amended_id``: the only group that it may have been about.
        """
        if (owner, request.request_id) in self.tombstoned:
            return self._finished(request)
        heard = self._by_request.get((owner, request.request_id))
        if heard is None:
            return None
        group = self.groups[heard[0]]
        target = group.amends or group.group_id
        if heard[1] != request or amended_id not in (None, target):
            raise InputError(
                f"request id {request.request_id!r} was used for another request",
                hint="use a new id for each request",
            )
        if not group.reservation.state.is_live:
            return self._finished(request)
        return None if group.amends is not None else group.reservation

    def credit_node_s(self, debtor: str) -> int | None:
        """What the child ``debtor`` may still ask for; ``None``: anything."""
        most_node_s = self.rules.debt_max_node_s
        return None if most_node_s is None else max(0, most_node_s - self.debt_node_s(debtor))

    def refuse_debtor(self, request: ReservationRequest, debtor: str) -> Decline | None:
        """A child that owes much already may ask for no more than its debt allows."""
        credit_node_s = self.credit_node_s(debtor)
        if credit_node_s is None or request.nodes_max * request.duration_s <= credit_node_s:
            return None
        return refuse_debtor(
            self.site,
            debtor,
            request,
            debt_node_s=self.debt_node_s(debtor),
            credit_node_s=credit_node_s,
        )

    def refuse_replacing(self, group_id: str, by: str, verb: str) -> Decline | None:
        """Only what is committed can change, and one change at a time. ``NotFoundError`` or
        ``NotAuthorisedError`` when ``by`` has no such group.
        """
        group = self.get(group_id, by)
        if group.reservation.state is not ReservationState.COMMITTED:
            return self._refuse_state(group, verb)
        if group_id in self._successor:
            return self._refuse_state(group, verb, "another change of it is under way")
        if self.requests_for(group_id) > CHANGES_MAX:
            why = f"it was changed {CHANGES_MAX} times; cancel it and book it again"
            return self._refuse_state(group, verb, why)
        if verb == "replace" and group.reservation.request.trip is not None:
            why = "a leg at a manager cannot be changed with its trip; cancel it and book it again"
            return self._refuse_state(group, verb, why)
        return None

    def decide_held(
        self, reservation: Reservation, parts: tuple[Part, ...], amends: str | None, now: Instant
    ) -> tuple[Reservation | Decline, tuple[BookEvent, ...]]:
        """Every child holds its part: is there still somebody who wants the group, and time to
        commit it?
        """
        request, owner = reservation.request, reservation.owner
        if (owner, request.request_id) in self.tombstoned:
            return self._finished(request), ()
        old_id = amends or request.replaces
        if old_id is not None:
            refusal = self.refuse_replacing(old_id, owner, "replace")
            if refusal is not None:
                return refusal, ()
        expires_at = reservation.hold_expires_at or now
        if expires_at < now + self.rules.calendar.hold_ttl_min_s:
            message = (
                f"{self.site}: the start is too near: the children's holds would leave"
                f" {max(0, expires_at - now)} s to commit"
            )
            return Decline(rule=DeclineRule.START_TOO_SOON, message=message, site=self.site), ()
        return reservation, (GroupHeld(reservation=reservation, parts=parts, amends=amends),)

    def decide_commit(
        self, group_id: str, by: str | None, now: Instant
    ) -> tuple[Reservation | Decline | None, tuple[BookEvent, ...]]:
        """The decision of phase two; ``None`` when it is taken and the children must be told. A
        hold whose lifetime is over is refused, also when nobody swept it yet; but not one whose
        trip is decided by acceptors, for that does not expire by itself.
        """
        group = self.get(group_id, by)
        state, expires_at = group.reservation.state, group.reservation.hold_expires_at
        if state is ReservationState.COMMITTED:
            return group.reservation, ()
        if state is not ReservationState.HELD:
            return self._refuse_state(group, "commit"), ()
        if group.is_decided:
            return None, ()
        if expires_at is not None and expires_at <= now and not group.asks_first:
            ended = GroupEnded(group_id=group_id, event=ReservationEvent.EXPIRE, at=now)
            return self._refuse_state(group, "commit", "it is EXPIRED"), (ended,)
        return None, (GroupDecided(group_id=group_id, at=now),)

    def decide_release(self, group_id: str, by: str | None, now: Instant) -> tuple[BookEvent, ...]:
        """Undo a hold or cancel a reservation, with the amendment that is under way. Succeeds also
        for what is unknown or over already.
        """
        if group_id not in self.groups:
            return ()
        group = self.get(group_id, by)
        if not group.reservation.state.is_live:
            return ()
        return self._endings(group, ReservationEvent.RELEASE, now)

    def decide_release_request(
        self, request_id: str, by: str, now: Instant
    ) -> tuple[BookEvent, ...]:
        """Undo whatever the request booked; if it has booked nothing yet, see to it that it never
        does.
        """
        known = self.find_request(by, request_id)
        if known is not None:
            return self.decide_release(known.amends or known.group_id, by, now)
        if (by, request_id) in self.tombstoned:
            return ()
        return (RequestTombstoned(owner=by, request_id=request_id, at=now),)

    def decide_sweep(self, now: Instant) -> tuple[BookEvent, ...]:
        """Holds whose lifetime is over expire; groups whose time is over are complete; old
        tombstones are forgotten. What was decided neither expires nor ends before all children have
        answered.
        """
        expiries = [
            GroupEnded(group_id=group.group_id, event=ReservationEvent.EXPIRE, at=now)
            for group in self.undecided()
            if (group.reservation.hold_expires_at or now) <= now and not group.asks_first
        ]
        events: list[BookEvent] = list(expiries)
        expired = {each.group_id for each in expiries}
        for group in self.live():
            is_firm = group.reservation.state is ReservationState.COMMITTED
            if is_firm and group.reservation.end <= now:
                endings = self._endings(group, ReservationEvent.COMPLETE, now)
                events.extend(each for each in endings if each.group_id not in expired)
        before = now - self.rules.calendar.tombstone_s
        stones = [*self.finished_at.values(), *self.tombstoned.values()]
        if stones and min(stones) < before:
            events.append(FinishedForgotten(before=before))
        return tuple(events)

    def in_doubt(self, now: Instant) -> list[Group]:
        """Holds whose lifetime is over, and whose trip others decide about."""
        return [
            group
            for group in self.undecided()
            if group.asks_first and (group.reservation.hold_expires_at or now) <= now
        ]

    def next_moment(self, now: Instant) -> Instant | None:
        """When a hold's lifetime or a group's time will next be over; not what is over already and
        waits for an answer.
        """
        expiries = [
            group.reservation.hold_expires_at
            for group in self.undecided()
            if not (group.asks_first and (group.reservation.hold_expires_at or now) <= now)
        ]
        ends = [
            each.reservation.end
            for each in self.live()
            if each.reservation.state is ReservationState.COMMITTED
        ]
        return min([each for each in expiries if each is not None] + ends, default=None)

    def _endings(
        self, group: Group, event: ReservationEvent, now: Instant
    ) -> tuple[GroupEnded, ...]:
        """The end of a group, after that of the amendment which cannot outlive it."""
        endings = []
        successor = self.groups.get(self._successor.get(group.group_id, ""))
        if successor is not None and successor.amends is not None:
            endings.append(
                GroupEnded(group_id=successor.group_id, event=ReservationEvent.RELEASE, at=now)
            )
        endings.append(GroupEnded(group_id=group.group_id, event=event, at=now))
        return tuple(endings)

    def _finished(self, request: ReservationRequest) -> Decline:
        message = (
            f"request {request.request_id} was answered, and what it booked has ended;"
            " ask with a new id"
        )
        return Decline(rule=DeclineRule.FINISHED, message=message, site=self.site)

    def _refuse_state(self, group: Group, verb: str, why: str = "") -> Decline:
        reason = why or f"it is {group.reservation.state}"
        message = f"cannot {verb} reservation {group.group_id}: {reason}"
        return Decline(rule=DeclineRule.STATE, message=message, site=self.site)
