"""How a manager says no: which shortage of all its children together, and what would pass.

The counterpart of ``gridcore.booking.fitting`` for a sum of calendars that belong to others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, ReservationRequest
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.search.combining import Span, distribute, offer_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Everything that is known about a request that found no room."""

    site: str
    request: ReservationRequest
    capacity: int
    """Nodes with the features asked for, at the children that were in reach."""
    spans: Sequence[Span]
    """What there is within the window."""
    refusals: Mapping[str, Decline]
    """What the children said, in their order."""
    missing: Sequence[str]
    """Children that were not in reach."""


def refuse(shortage: Shortage, earliest: Instant | None) -> Decline:
    """The refusal. ``earliest``: the first start at which the request would fit."""
    rule, message = _reason(shortage)
    request = shortage.request
    offers = (
        offer_of(span, 1, request.nodes_max, request.budget_millicredits) for span in shortage.spans
    )
    away = f" (not in reach: {', '.join(shortage.missing)})" if shortage.missing else ""
    return Decline(
        rule=rule,
        message=f"{shortage.site}: {message}{away}",
        earliest=earliest,
        nodes_now=max((offer.nodes for offer in offers if offer is not None), default=0),
        site=shortage.site,
    )


def refuse_window(site: str, request: ReservationRequest, now: Instant, lead_s: int) -> Decline:
    """The refusal of a window that is over, or too near."""
    if request.latest_end <= now:
        rule = DeclineRule.WINDOW_PAST
        message = f"the window ended {now - request.latest_end} s ago"
    else:
        rule = DeclineRule.START_TOO_SOON
        message = (
            f"the start must be at least {lead_s} s ahead:"
            f" no {request.duration_s} s are left within the window asked for"
        )
    return Decline(rule=rule, message=f"{site}: {message}", site=site)


def _reason(shortage: Shortage) -> tuple[DeclineRule, str]:
    """What no other time would cure comes first."""
    request = shortage.request
    rules = list(dict.fromkeys(each.rule for each in shortage.refusals.values()))
    if not shortage.capacity and request.features:
        return DeclineRule.FEATURES, f"no nodes with all of {', '.join(request.features)}"
    if request.nodes_min > shortage.capacity:
        return DeclineRule.TOO_LARGE, (
            f"{request.nodes_min} nodes were asked for, {shortage.capacity} is all there is"
        )
    if not shortage.spans and len(rules) == 1:
        first = next(iter(shortage.refusals.values()))
        return first.rule, first.message
    if request.budget_millicredits is not None:
        whole = [distribute(span.rooms, request.nodes_min) for span in shortage.spans]
        prices = [
            sum(share.price_millicredits for share in shares)
            for shares in whole
            if sum(share.nodes for share in shares) == request.nodes_min
        ]
        if prices:
            return DeclineRule.BUDGET, (
                f"the least price is {min(prices)} millicredits for {request.nodes_min} nodes,"
                f" the budget is {request.budget_millicredits}"
            )
    return DeclineRule.NO_ROOM, (
        f"no room for {request.nodes_min} nodes for {request.duration_s} s within the window"
    )
