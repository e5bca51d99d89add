"""The search behind an inquiry: which starts are possible, with how many nodes, at what price; or
why none is.

Pure functions over an owner's classes, rules, tariff and free room. The answer to a refused request
is searched for as well: the earliest start at which it would fit, and the largest size that fits
its window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridcore.instants import Instant
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Offer,
    Reservation,
    ReservationRequest,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridcore.calendar_rules import ResourceClass
    from gridcore.calendars import Calendar
    from gridcore.profile import AvailabilityProfile


def find(
    calendar: Calendar,
    request: ReservationRequest,
    now: Instant,
    room: Mapping[str, AvailabilityProfile],
    *,
    lead_s: int,
    running: Reservation | None = None,
) -> Availability | Decline:
    """All starts for ``request`` in ``room``, or a ``Decline``.

    ``lead_s``: nothing may start sooner than ``now + lead_s``. ``running``: the reservation that is
    being amended; its own start may lie in the past and stays possible.
    """
    classes = [
        each for each in calendar.classes.values() if set(request.features) <= set(each.features)
    ]
    refusal = _refuse_outright(calendar, classes, request, now)
    if refusal is not None:
        return refusal
    soonest = now + lead_s
    if running is not None and running.start <= now:
        soonest = running.start
    earliest = max(request.earliest_start, soonest)
    latest_end = min(request.latest_end, now + calendar.rules.horizon_s)
    if (
        latest_end - earliest < request.duration_s
        and request.latest_end <= now + calendar.rules.horizon_s
    ):
        when = _earliest(calendar, classes, request, soonest, now, room)
        message = (
            f"the start must be at least {lead_s} s ahead: within the window asked for no time is left"
            f" for {request.duration_s} s"
        )
        return _decline(calendar, DeclineRule.START_TOO_SOON, message, earliest=when)
    offers = _offers(calendar, classes, request, earliest, latest_end, room)
    affordable = _within_budget(offers, request)
    if affordable:
        return _bounded(calendar, affordable, latest_end - request.duration_s + 1)
    if offers:
        cheapest = min(offer.unit_price_millicredits for offer in offers) * request.nodes_min
        message = (
            f"the least price is {cheapest} millicredits for {request.nodes_min} nodes,"
            f" the budget is {request.budget_millicredits}"
        )
        return _decline(calendar, DeclineRule.BUDGET, message)
    when = _earliest(calendar, classes, request, soonest, now, room)
    nodes_now = max(
        (_largest(request, earliest, latest_end, room[each.name]) for each in classes), default=0
    )
    message = f"no room for {request.nodes_min} nodes for {request.duration_s} s within the window"
    return _decline(calendar, DeclineRule.NO_ROOM, message, earliest=when, nodes_now=nodes_now)


def _refuse_outright(
    calendar: Calendar, classes: list[ResourceClass], request: ReservationRequest, now: Instant
) -> Decline | None:
    """Refusals that no other time would cure, or that need no search."""
    if not classes:
        known = sorted({feature for each in calendar.classes.values() for feature in each.features})
        message = f"no nodes with all of {', '.join(request.features)}; known features: {', '.join(known) or 'none'}"
        return _decline(calendar, DeclineRule.FEATURES, message)
    largest = max(each.nodes for each in classes)
    if request.nodes_min > largest:
        message = f"{request.nodes_min} nodes were asked for, {largest} is all there is"
        return _decline(calendar, DeclineRule.TOO_LARGE, message, nodes_now=largest)
    if request.latest_end <= now:
        message = f"the window ended {now - request.latest_end} s ago"
        return _decline(calendar, DeclineRule.WINDOW_PAST, message, earliest=None)
    horizon = now + calendar.rules.horizon_s
    if max(request.earliest_start, now) + request.duration_s > horizon:
        message = f"reservations must end within {calendar.rules.horizon_s} s from now"
        return _decline(calendar, DeclineRule.BEYOND_HORIZON, message)
    return None


def _offers(
    calendar: Calendar,
    classes: list[ResourceClass],
    request: ReservationRequest,
    earliest: Instant,
    latest_end: Instant,
    room: Mapping[str, AvailabilityProfile],
) -> list[Offer]:
    """Every run of possible starts in every fitting class, in order of start, then price, then
    class.
    """
    offers = []
    for each in classes:
        runs = room[each.name].starts(request.duration_s, earliest, latest_end, request.nodes_min)
        for first, until, nodes in runs:
            price = calendar.tariff.unit_price_millicredits(each.name, first, request.duration_s)
            offers.append(
                Offer(
                    start=first,
                    start_until=until,
                    nodes=nodes,
                    resource_class=each.name,
                    unit_price_millicredits=price,
                )
            )
    offers.sort(
        key=lambda offer: (
            offer.start,
            offer.unit_price_millicredits,
            -offer.nodes,
            offer.resource_class,
        )
    )
    return offers


def _within_budget(offers: list[Offer], request: ReservationRequest) -> list[Offer]:
    """The offers that the budget pays for, each cut to the number of nodes it pays for."""
    budget = request.budget_millicredits
    if budget is None:
        return offers
    kept = []
    for offer in offers:
        unit = offer.unit_price_millicredits
        nodes = offer.nodes if unit == 0 else min(offer.nodes, budget // unit)
        if nodes >= request.nodes_min:
            kept.append(
                Offer(
                    start=offer.start,
                    start_until=offer.start_until,
                    nodes=nodes,
                    resource_class=offer.resource_class,
                    unit_price_millicredits=unit,
                )
            )
    return kept


def _bounded(calendar: Calendar, offers: list[Offer], known_until: Instant) -> Availability:
    """Cut a long answer short, and say up to where it is complete."""
    bound = calendar.rules.offers_max
    if len(offers) > bound:
        known_until = min(known_until, offers[bound].start)
        offers = [offer for offer in offers[:bound] if offer.start < known_until] or offers[:1]
    return Availability(offers=tuple(offers), version=calendar.version, known_until=known_until)


def _earliest(
    calendar: Calendar,
    classes: list[ResourceClass],
    request: ReservationRequest,
    soonest: Instant,
    now: Instant,
    room: Mapping[str, AvailabilityProfile],
) -> Instant | None:
    """Earliest start for ``nodes_min`` nodes, never before the one asked for, whatever the window's
    end.
    """
    horizon = now + calendar.rules.horizon_s
    begin = max(request.earliest_start, soonest)
    found = [
        room[each.name].earliest_fit(request.nodes_min, request.duration_s, begin, horizon)
        for each in classes
        if each.nodes >= request.nodes_min
    ]
    return min((start for start in found if start is not None), default=None)


def _largest(
    request: ReservationRequest,
    earliest: Instant,
    latest_end: Instant,
    profile: AvailabilityProfile,
) -> int:
    """Most nodes that fit anywhere in the window."""
    return max(
        (nodes for _, _, nodes in profile.starts(request.duration_s, earliest, latest_end, 1)),
        default=0,
    )


def _decline(
    calendar: Calendar,
    rule: DeclineRule,
    message: str,
    *,
    earliest: Instant | None = None,
    nodes_now: int = 0,
) -> Decline:
    return Decline(
        rule=rule,
        message=f"{calendar.site}: {message}",
        earliest=earliest,
        nodes_now=nodes_now,
        site=calendar.site,
    )
