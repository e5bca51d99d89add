"""What an unprivileged user may reserve: policies 2 to 4 of the GUR and Catalina paper, section 3.

(Policy 1, only after all queued jobs, is ``LocalScheduler.free_after_queue``.)

* policy 2: a number of live reservations for each account;
* policy 3: nodes and seconds of each reservation;
* policy 4: a global number of node-seconds in any window of ``window_s`` seconds, wherever it is
put.

Policy 4 is not checked after the search: it is turned into *closed windows*, which the search sees
as times with fewer nodes, so that it finds the earliest start that keeps the rule (Catalina made
temporary blocking reservations for the same end). A window is closed for a request when the
reservations that touch it leave less than the whole request; a request that touches no closed
window keeps the rule. That errs on the safe side by at most the length of the request at either
edge of a full window, and needs one sum instead of one for each start::

    node-seconds in [t, t + W)          limit - nodes x duration
            ______                    ----------------------------
        ___/      \\___                closed: every second of every window whose sum is above it

The calendar's verbs under these limits are ``inquire_within_limits``,
``decide_reserve_within_limits`` and ``decide_amend_within_limits``. All three look in the same
room, so that what is offered is what would be granted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Final

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.quotes import Quote
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant, Interval

SYSTEM_OWNER = "system"
"""Owner of the site's own reservations (maintenance, standing, shortpools); no limit counts
them.
"""
SIZES_MAX = 64
"""Sizes for which closed windows are worked out when a request names a range of nodes."""

Room = dict[str, AvailabilityProfile]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLimits:
    """For one account; ``None``: no limit, 0 reservations: none allowed."""

    reservations_max: int | None = None
    nodes_max: int | None = None
    """Of each reservation."""
    duration_max_s: int | None = None
    """Of each reservation."""

    def __post_init__(self) -> None:
        for value in (self.reservations_max, self.nodes_max, self.duration_max_s):
            if value is not None and value < 0:
                raise InputError(
                    f"a limit must not be negative: {value}", hint="leave it out for no limit"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserReservationLimits:
    """All limits of a site."""

    default: AccountLimits = field(default_factory=AccountLimits)
    accounts: Mapping[str, AccountLimits] = field(default_factory=dict)
    """For accounts that have their own."""
    window_s: int = 86_400
    window_node_seconds_max: int | None = None
    """Most node-seconds of user-settable reservations in any window of ``window_s``."""

    def __post_init__(self) -> None:
        if self.window_s < 1:
            raise InputError(f"the window must be at least 1 second: {self.window_s}")
        if self.window_node_seconds_max is not None and self.window_node_seconds_max < 0:
            raise InputError("window_node_seconds_max must not be negative")

    def of(self, account: str) -> AccountLimits:
        """The limits of one account."""
        return self.accounts.get(account, self.default)


NO_LIMITS: Final = UserReservationLimits()


def counted(
    reservations: Iterable[Reservation], now: Instant, leaving_out: str | None = None
) -> list[Reservation]:
    """The reservations that limits count: live, not over, not the site's own. ``leaving_out``: the
    one that is being replaced."""
    return [
        each
        for each in reservations
        if each.state.is_live
        and each.end > now
        and each.owner != SYSTEM_OWNER
        and each.reservation_id != leaving_out
    ]


def refuse_by_account(
    limits: UserReservationLimits, request: ReservationRequest, live: Sequence[Reservation]
) -> Decline | None:
    """Policies 2 and 3: the rule that refuses the request, with what would pass, or ``None``."""
    account = limits.of(request.account)
    if account.reservations_max is not None:
        held = sum(1 for each in live if each.request.account == request.account)
        if held >= account.reservations_max:
            ends = sorted(each.end for each in live if each.request.account == request.account)
            told = (
                f"account {request.account} has {held} reservations,"
                f" {account.reservations_max} is the most"
            )
            earliest = ends[held - account.reservations_max] if account.reservations_max else None
            return Decline(rule=DeclineRule.LIMIT_RESERVATIONS, message=told, earliest=earliest)
    if account.nodes_max is not None and request.nodes_min > account.nodes_max:
        told = (
            f"account {request.account} may reserve {account.nodes_max} nodes at a time,"
            f" {request.nodes_min} were asked for"
        )
        return Decline(rule=DeclineRule.LIMIT_NODES, message=told, nodes_now=account.nodes_max)
    if account.duration_max_s is not None and request.duration_s > account.duration_max_s:
        told = (
            f"account {request.account} may reserve {account.duration_max_s} s at a time,"
            f" {request.duration_s} s were asked for"
        )
        return Decline(rule=DeclineRule.LIMIT_DURATION, message=told)
    most = limits.window_node_seconds_max
    wanted = request.nodes_min * min(request.duration_s, limits.window_s)
    if most is not None and wanted > most:
        told = (
            f"{wanted} node-seconds in {limits.window_s} s were asked for;"
            f" all user-settable reservations together may have {most}"
        )
        largest = most // min(request.duration_s, limits.window_s)
        return Decline(rule=DeclineRule.LIMIT_NODE_SECONDS, message=told, nodes_now=largest)
    return None


def availability_within_limits(
    limits: UserReservationLimits,
    request: ReservationRequest,
    live: Sequence[Reservation],
    availability: Mapping[str, AvailabilityProfile],
) -> Room:
    """Copies of ``availability`` in which policies 3 and 4 show as missing nodes."""
    copies = {name: profile.copy() for name, profile in availability.items()}
    largest = limits.of(request.account).nodes_max
    for profile in copies.values():
        if largest is not None and largest < request.nodes_max:
            profile.cap(largest, profile.origin, request.latest_end)
        for interval, nodes in closed_windows(limits, request, live):
            profile.cap(nodes, interval.start, interval.end)
    return copies


def closed_windows(
    limits: UserReservationLimits, request: ReservationRequest, live: Sequence[Reservation]
) -> list[tuple[Interval, int]]:
    """Times at which the global limit leaves the request fewer nodes than it may take, and how
    many.

    Intervals of one number do not overlap; those of different numbers do, and the smallest counts.
    """
    most = limits.window_node_seconds_max
    if most is None:
        return []
    per_node = min(request.duration_s, limits.window_s)
    sums = _window_sums(live, limits.window_s)
    found = []
    allowed = 0
    for nodes in _sizes(request.nodes_min, request.nodes_max):
        if nodes * per_node > most:
            found.append((Interval(request.earliest_start, request.latest_end), allowed))
            break
        found += [
            (each, allowed) for each in _above(sums, most - nodes * per_node, limits.window_s)
        ]
        allowed = nodes
    return found


def quota_left(
    limits: UserReservationLimits, live: Sequence[Reservation], start: Instant
) -> int | None:
    """Node-seconds the global limit leaves in the window that begins at ``start``; ``None``: no
    limit.
    """
    most = limits.window_node_seconds_max
    if most is None:
        return None
    end = start + limits.window_s
    used = sum(each.nodes * max(0, min(each.end, end) - max(each.start, start)) for each in live)
    return max(most - used, 0)


def limited_availability(
    calendar: Calendar,
    limits: UserReservationLimits,
    request: ReservationRequest,
    now: Instant,
    availability: Mapping[str, AvailabilityProfile],
    replaced_id: str | None = None,
) -> Mapping[str, AvailabilityProfile] | Decline:
    """Where the calendar may look for ``request``, or the rule that refuses it whatever is free.

    The calendar counts the room of ``replaced_id`` as free by itself. So it is given back, the
    limits are drawn, and it is taken again: below them, where they are narrower than the old
    reservation, and the calendar ends up at the limits and not that much above. A change that can
    only give back, where a limit has become narrower, finds no other room than its own.
    """
    if limits.window_node_seconds_max is None and limits.of(request.account) == AccountLimits():
        return availability
    live = counted(calendar.unordered_live(), now, leaving_out=replaced_id)
    refusal = refuse_by_account(limits, request, live)
    if refusal is not None and calendar.gives_back(request, replaced_id, now):
        nothing = {name: profile.copy() for name, profile in availability.items()}
        for profile in nothing.values():
            profile.cap(0, profile.origin, request.latest_end)
        return nothing
    if refusal is not None:
        told = f"{calendar.site}: {refusal.message}"
        return replace(refusal, site=calendar.site, message=told)
    if limits.of(request.account).nodes_max is None and limits.window_node_seconds_max is None:
        return availability
    replaced = calendar.reservations.get(replaced_id or "")
    if replaced is None or not replaced.state.is_live or replaced.end <= now:
        return availability_within_limits(limits, request, live, availability)
    name, nodes, start = replaced.resource_class, replaced.nodes, max(replaced.start, now)
    freed = {each: profile.copy() for each, profile in availability.items()}
    freed[name].unbook(nodes, start, replaced.end)
    limited = availability_within_limits(limits, request, live, freed)
    limited[name].withdraw(nodes, start, replaced.end)
    return limited


def inquire_within_limits(
    calendar: Calendar,
    limits: UserReservationLimits,
    request: ReservationRequest,
    now: Instant,
    *,
    by: str | None,
    availability: Mapping[str, AvailabilityProfile],
) -> Availability | Decline:
    """``Calendar.inquire`` under all limits. ``availability``: what the queue leaves."""
    if request.replaces is not None:
        calendar.get(request.replaces, by)
    limited = limited_availability(calendar, limits, request, now, availability, request.replaces)
    if isinstance(limited, Decline):
        return limited
    answer = calendar.inquire(request, now, by=by, availability=limited)
    if isinstance(answer, Decline) and answer.rule is DeclineRule.NO_ROOM:
        return _name_window_rule(calendar, limits, request, answer, now, availability)
    return answer


def decide_reserve_within_limits(
    calendar: Calendar,
    limits: UserReservationLimits,
    request: ReservationRequest,
    owner: str,
    ttl_s: int | None,
    now: Instant,
    *,
    availability: Mapping[str, AvailabilityProfile],
    contact: str = "",
    quote: Quote | None = None,
) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
    """``Calendar.decide_reserve`` under all limits. ``availability``: what the queue leaves.

    A request said twice gets its first answer, whatever the limits have become meanwhile.
    """
    known = calendar.find_request(owner, request.request_id)
    if known is not None:
        return calendar.decide_reserve(
            request, owner, ttl_s, now, availability=availability, contact=contact, quote=quote
        )
    limited = limited_availability(calendar, limits, request, now, availability, request.replaces)
    if isinstance(limited, Decline):
        return limited, ()
    answer, events = calendar.decide_reserve(
        request, owner, ttl_s, now, availability=limited, contact=contact, quote=quote
    )
    if isinstance(answer, Decline) and answer.rule is DeclineRule.NO_ROOM:
        return _name_window_rule(calendar, limits, request, answer, now, availability), ()
    return answer, events


def decide_amend_within_limits(
    calendar: Calendar,
    limits: UserReservationLimits,
    reservation_id: str,
    request: ReservationRequest,
    by: str | None,
    now: Instant,
    *,
    availability: Mapping[str, AvailabilityProfile],
    quote: Quote | None = None,
) -> tuple[Reservation | Decline, tuple[CalendarEvent, ...]]:
    """``Calendar.decide_amend`` under all limits, with what is amended left out of the sums.

    A change said twice gets its first answer, whatever the limits have become meanwhile.
    """
    owner = calendar.get(reservation_id, by).owner
    if request.replaces is not None or calendar.find_request(owner, request.request_id):
        return calendar.decide_amend(reservation_id, request, by, now, availability=availability)
    limited = limited_availability(calendar, limits, request, now, availability, reservation_id)
    if isinstance(limited, Decline):
        return limited, ()
    answer, events = calendar.decide_amend(
        reservation_id, request, by, now, availability=limited, quote=quote
    )
    if isinstance(answer, Decline) and answer.rule is DeclineRule.NO_ROOM:
        as_replacement = replace(request, replaces=reservation_id)
        return _name_window_rule(calendar, limits, as_replacement, answer, now, availability), ()
    return answer, events


def _name_window_rule(
    calendar: Calendar,
    limits: UserReservationLimits,
    request: ReservationRequest,
    refusal: Decline,
    now: Instant,
    availability: Mapping[str, AvailabilityProfile],
) -> Decline:
    """Say that the global limit refused, where the nodes themselves would have been free."""
    if limits.window_node_seconds_max is None:
        return refusal
    if not isinstance(calendar.inquire(request, now, availability=availability), Availability):
        return refusal
    told = (
        f"{calendar.site}: user-settable reservations may take {limits.window_node_seconds_max}"
        f" node-seconds in any {limits.window_s} s; what is left is too little for"
        f" {request.nodes_min} nodes for {request.duration_s} s within the window asked for"
    )
    return Decline(
        rule=DeclineRule.LIMIT_NODE_SECONDS,
        message=told,
        earliest=refusal.earliest,
        nodes_now=refusal.nodes_now,
        site=refusal.site,
    )


def _sizes(nodes_min: int, nodes_max: int) -> list[int]:
    """Every size of the range, or evenly spread ones if they are many; both ends are always
    there.
    """
    span = nodes_max - nodes_min
    if span < SIZES_MAX:
        return list(range(nodes_min, nodes_max + 1))
    return sorted({nodes_min + span * step // (SIZES_MAX - 1) for step in range(SIZES_MAX)})


def _window_sums(live: Sequence[Reservation], window_s: int) -> list[tuple[Instant, int]]:
    """Node-seconds reserved in the window that begins at each corner; linear between corners, 0
    outside.
    """
    slopes: dict[Instant, int] = {}
    for each in live:
        for corner, change in (
            (each.start - window_s, each.nodes),
            (each.end - window_s, -each.nodes),
            (each.start, -each.nodes),
            (each.end, each.nodes),
        ):
            slopes[corner] = slopes.get(corner, 0) + change
    corners = sorted(slopes)
    slope_behind = list(accumulate(slopes[corner] for corner in corners))
    sums = [0]
    for (corner, following), slope in zip(pairwise(corners), slope_behind, strict=False):
        sums.append(sums[-1] + slope * (following - corner))
    return list(zip(corners, sums, strict=False))


def _above(sums: Sequence[tuple[Instant, int]], level: int, window_s: int) -> list[Interval]:
    """The union of all windows whose sum is above ``level``, as intervals in order."""
    found: list[Interval] = []
    for (corner, total), (following, total_then) in pairwise(sums):
        length = following - corner
        first, last = 0, length - 1
        slope = (total_then - total) // length
        if slope > 0:
            first = max(0, (level - total) // slope + 1)
        elif slope < 0:
            last = min(length - 1, (total - level - 1) // -slope)
        elif total <= level:
            continue
        if first > last or total + slope * first <= level:
            continue
        begin, end = corner + first, corner + last + window_s
        if found and begin <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(end, found[-1].end))
        else:
            found.append(Interval(begin, end))
    return found
