"""Valid defaults for the values of the domain, so that a test states only what matters to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, ResourceClass, Tariff
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Decline,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.gridcore.timing.instants import Instant, Interval

OWNER = "ada"
SITE = "lab"


def a_request(
    request_id: str = "request-1",
    *,
    nodes: int | tuple[int, int] = 2,
    duration_s: int = 10,
    start: Instant | None = None,
    earliest: Instant = 0,
    until: Instant | None = None,
    **others: Any,
) -> ReservationRequest:
    """Two nodes for ten seconds within 1000 from `earliest`; `start` asks for exactly that."""
    nodes_min, nodes_max = (nodes, nodes) if isinstance(nodes, int) else nodes
    if start is not None:
        earliest, until = start, start + duration_s
    return ReservationRequest(
        request_id=request_id,
        account="physics",
        nodes_min=nodes_min,
        nodes_max=nodes_max,
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=earliest + max(1000, 2 * duration_s) if until is None else until,
        **others,
    )


def some_rules(**others: int) -> CalendarRules:
    """Rules small enough to reach every bound within a hundred seconds."""
    chosen = {
        "horizon_s": 2000,
        "hold_ttl_min_s": 2,
        "hold_ttl_max_s": 20,
        "hold_margin_s": 1,
        "tombstone_s": 100,
        "offers_max": 512,
    }
    return CalendarRules(**(chosen | others))


def a_calendar(
    nodes: int = 4,
    *,
    classes: Iterable[ResourceClass] | None = None,
    rules: CalendarRules | None = None,
    tariff: Tariff | None = None,
    site: str = SITE,
    origin: Instant = 0,
    slot_rule: SlotRule | None = None,
) -> Calendar:
    """An empty calendar of one class, `node`, without features."""
    return Calendar(
        site,
        [ResourceClass(name="node", nodes=nodes)] if classes is None else classes,
        rules=rules or some_rules(),
        tariff=tariff,
        origin=origin,
        slot_rule=slot_rule,
    )


def a_reservation(reservation_id: str = "lab.1", **others: Any) -> Reservation:
    """Two nodes of class `node` during [20, 30), committed."""
    chosen: dict[str, Any] = {
        "reservation_id": reservation_id,
        "site": SITE,
        "owner": OWNER,
        "request": a_request(f"for-{reservation_id}"),
        "resource_class": "node",
        "nodes": 2,
        "interval": Interval(20, 30),
        "state": ReservationState.COMMITTED,
        "created_at": 0,
    }
    return Reservation(**(chosen | others))


def carry_out(calendar: Calendar, events: Iterable[CalendarEvent]) -> None:
    """Apply what was decided, and check the book after each event."""
    for event in events:
        calendar.apply(event)
        calendar.validate()


def hold(
    calendar: Calendar,
    request: ReservationRequest,
    now: Instant = 0,
    *,
    ttl_s: int | None = 10,
    owner: str = OWNER,
) -> Reservation:
    """A granted hold; a refusal fails the test."""
    answer, events = calendar.decide_reserve(request, owner, ttl_s, now)
    assert isinstance(answer, Reservation), answer
    carry_out(calendar, events)
    return answer


def book(
    calendar: Calendar, request: ReservationRequest, now: Instant = 0, *, owner: str = OWNER
) -> Reservation:
    """A reservation committed at once; a refusal fails the test."""
    return hold(calendar, request, now, ttl_s=None, owner=owner)


def commit(calendar: Calendar, reservation_id: str, now: Instant = 0) -> Reservation:
    """A hold, committed; a refusal fails the test."""
    answer, events = calendar.decide_commit(reservation_id, None, now)
    assert isinstance(answer, Reservation), answer
    carry_out(calendar, events)
    return answer


def release(calendar: Calendar, reservation_id: str, now: Instant = 0) -> None:
    """Undo a reservation."""
    carry_out(calendar, calendar.decide_release(reservation_id, None, now))


def refused(answer: object) -> Decline:
    """The refusal that a test expects, in place of something granted."""
    assert isinstance(answer, Decline), answer
    return answer


def room_shown(summary: CalendarSummary) -> dict[str, AvailabilityProfile]:
    """The least room that a summary allows, by class: in each slot what is free in all of it."""
    availability = {}
    for each in summary.classes:
        origin = each.slots[0].start if each.slots else 0
        availability[each.name] = AvailabilityProfile(each.capacity, origin)
        for slot in each.slots:
            availability[each.name].book(each.capacity - slot.free_min, slot.start, slot.end)
    return availability


def free_per_second(calendar: Calendar, seconds: range, name: str = "node") -> list[int]:
    """Free nodes of one class at each second."""
    return [calendar.free[name].free_at(second) for second in seconds]
