"""The calendar's verbs under the site's limits on user-settable reservations: inquire and amend.

``reserve`` is ``user_reservations.decide_reserve_within_limits``; the rules are there too. An
inquiry is limited as a reservation would be, so that what is offered is what would be granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gridcore.instants import Instant
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from local_sched.user_reservations import UserReservationLimits, limited_room, name_window_rule

if TYPE_CHECKING:
    from gridcore.calendar_events import CalendarEvent
    from gridcore.calendars import Calendar


def inquire_within_limits(
    calendar: Calendar,
    limits: UserReservationLimits,
    request: ReservationRequest,
    now: Instant,
    *,
    by: str | None,
    room: Mapping[str, AvailabilityProfile],
) -> Availability | Decline:
    """``Calendar.inquire`` under all limits. ``room``: what the queue leaves."""
    if request.replaces is not None:
        calendar.get(request.replaces, by)
    limited = limited_room(calendar, limits, request, now, room, request.replaces)
    if isinstance(limited, Decline):
        return limited
    answer = calendar.inquire(request, now, by=by, room=limited)
    if isinstance(answer, Decline) and answer.rule is DeclineRule.NO_ROOM:
        return name_window_rule(calendar, limits, request, answer, now, room)
    return answer


def decide_amend_within_limits(
    calendar: Calendar,
    limits: UserReservationLimits,
    reservation_id: str,
    request: ReservationRequest,
    by: str | None,
    now: Instant,
    *,
    room: Mapping[str, AvailabilityProfile],
) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
    """``Calendar.decide_amend`` under all limits, with what is amended left out of the sums.

    A change said twice gets its first answer, whatever the limits have become meanwhile.
    """
    owner = calendar.get(reservation_id, by).owner
    if request.replaces is not None or calendar.find_request(owner, request.request_id):
        return calendar.decide_amend(reservation_id, request, by, now, room=room)
    limited = limited_room(calendar, limits, request, now, room, reservation_id)
    if isinstance(limited, Decline):
        return limited, ()
    answer, events = calendar.decide_amend(reservation_id, request, by, now, room=limited)
    if isinstance(answer, Decline) and answer.rule is DeclineRule.NO_ROOM:
        as_replacement = replace(request, replaces=reservation_id)
        return name_window_rule(calendar, limits, as_replacement, answer, now, room), ()
    return answer, events
