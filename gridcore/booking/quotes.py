"""A site's word that a price holds for a while: what was quoted, to whom, until when.

A quote is a value; that a site has said it is proved by ``gridio.trust.quotes``. It says nothing
about room: whoever brings it may find the nodes gone, but not the price changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    DURATION_LIMIT_S,
    NODES_LIMIT,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.identifiers import check_id
from gridtravel.gridcore.timing.instants import Instant

UNIT_PRICE_MAX: Final = 2**62
"""Most millicredits for a node and a reservation; what the wire can carry."""

GIVES_NONE: Final = "no quotes are given here"


def refuse_quote(site: str, why: str) -> Decline:
    """The answer of ``site`` to a request whose quote it does not keep to."""
    message = f"{site}: the quote does not hold: {why}; ask again what it costs"
    return Decline(rule=DeclineRule.QUOTE, message=message, site=site)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """One offer, as it was made to one caller."""

    site: str
    owner: str
    """To whom it was made: who would own the reservation."""
    account: str
    resource_class: str
    nodes: int
    """Most nodes of the offer."""
    start: Instant
    start_until: Instant
    """Behind the last start of the offer."""
    duration_s: int
    unit_price_millicredits: int
    """For one node over the whole duration."""
    issued_at: Instant
    """On the site's clock, as ``expires_at``."""
    expires_at: Instant
    """First second at which it no longer holds."""

    def __post_init__(self) -> None:
        check_id("site", self.site)
        if not self.owner or not self.account or not self.resource_class:
            raise InputError("a quote names an owner, an account and a class")
        if not 1 <= self.nodes <= NODES_LIMIT or not 1 <= self.duration_s <= DURATION_LIMIT_S:
            raise InputError("a quote is for at least one node and one second")
        if not 0 <= self.start < self.start_until:
            raise InputError("a quote is for at least one start")
        if not 0 <= self.unit_price_millicredits <= UNIT_PRICE_MAX:
            raise InputError("the price of a quote is not negative, nor beyond all measure")
        if not 0 <= self.issued_at < self.expires_at:
            raise InputError("a quote expires after it is issued")

    def why_not(self, request: ReservationRequest, *, site: str, owner: str, now: Instant) -> str:
        """Why it does not hold for ``request``; empty: it does."""
        if self.site != site:
            return f"it is a quote of {self.site}"
        if self.owner != owner:
            return "it was made to somebody else"
        if self.account != request.account:
            return f"it is for the account {self.account}"
        if now >= self.expires_at:
            return f"it expired {now - self.expires_at} s ago"
        if self.duration_s != request.duration_s:
            return f"it is for {self.duration_s} s, {request.duration_s} s are asked for"
        if request.nodes_min > self.nodes:
            return f"it is for at most {self.nodes} nodes, {request.nodes_min} are asked for"
        first, last = self._starts(request)
        if first > last:
            return "it is for other starts"
        return ""

    def narrowed(self, request: ReservationRequest) -> ReservationRequest:
        """What of ``request`` the quote is for, where it holds for it."""
        first, last = self._starts(request)
        return replace(
            request,
            nodes_max=min(request.nodes_max, self.nodes),
            earliest_start=first,
            latest_end=last + self.duration_s,
        )

    def _starts(self, request: ReservationRequest) -> tuple[Instant, Instant]:
        """The first and the last start that both allow."""
        last = request.latest_end - request.duration_s
        return max(self.start, request.earliest_start), min(self.start_until - 1, last)
