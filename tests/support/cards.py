"""The cards of grids that tests make within their own process."""

from __future__ import annotations

from typing import Final

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridio.trust.cards import SharedKeyCards

CARDS: Final = SharedKeyCards(b"the authority of a test")


def card_of(site: str, endpoint: str = "", *, now: int = 0) -> str:
    """The card of a site that is reached at ``endpoint``, else at port 7101 of its name."""
    return CARDS.issue(site, endpoint or f"{site}:7101", now)


def an_acceptor(site: str, endpoint: str = "") -> Acceptor:
    """A site that keeps outcomes, with its card."""
    where = endpoint or f"{site}:1"
    return Acceptor(site=site, endpoint=where, card=card_of(site, where))
