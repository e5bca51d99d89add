"""Where a site writes quotes on its offers, and reads those that come back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.quotes import GIVES_NONE, Quote, refuse_quote
from gridtravel.gridcore.errors import InputError

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import (
        Availability,
        Decline,
        Offer,
        ReservationRequest,
    )
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridio.trust.quotes import QuoteSigner

QUOTES_MAX: Final = 256
"""Most quotes in the answers to one call, some 50 ms of signing; offers behind them have none."""


class QuoteDesk:
    """One site's; without a signer or a lifetime it gives none."""

    def __init__(self, site: str, signer: QuoteSigner | None, lifetime_s: int) -> None:
        self._site = site
        self._signer = signer if lifetime_s > 0 else None
        self._reader = signer
        self._lifetime_s = lifetime_s

    def quoted(
        self,
        request: ReservationRequest,
        owner: str,
        availability: Availability,
        now: Instant,
        *,
        quotes_max: int = QUOTES_MAX,
    ) -> Availability:
        """The same offers, the first ``quotes_max`` with the site's word, to ``owner``, that their
        prices hold for ``request``.
        """
        if self._signer is None:
            return availability
        offers = availability.offers
        signed = [self._signed(each, request, owner, now) for each in offers[:quotes_max]]
        return replace(availability, offers=(*signed, *offers[quotes_max:]))

    def _signed(self, offer: Offer, request: ReservationRequest, owner: str, now: Instant) -> Offer:
        assert self._signer is not None, "the caller looked"
        expires_at = now + self._lifetime_s
        quote = Quote(
            site=self._site,
            owner=owner,
            account=request.account,
            resource_class=offer.resource_class,
            nodes=offer.nodes,
            start=offer.start,
            start_until=offer.start_until,
            duration_s=request.duration_s,
            unit_price_millicredits=offer.unit_price_millicredits,
            issued_at=now,
            expires_at=expires_at,
        )
        text = self._signer.sign(quote)
        return replace(offer, quote=text, quote_expires_at=expires_at) if text else offer

    def read(self, text: str) -> Quote | Decline | None:
        """The quote that came with a request, known to be this site's word; ``None``: none came.
        Whether it holds for the request is for the calendar to say.
        """
        if not text:
            return None
        if self._reader is None:
            return refuse_quote(self._site, GIVES_NONE)
        try:
            return self._reader.read(text)
        except InputError as fault:
            return refuse_quote(self._site, str(fault))
