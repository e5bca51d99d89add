"""The balance of trade of one manager (calendar paper, end of section 2.2).

A manager keeps one account for each of its children, one for its parent, and one for itself: what
its own users had. Whoever asks borrows, whoever gives nodes lends: a child manager that came with
what it could not place borrows from those of its siblings that gave the nodes. What one lends
another borrows in the same record, so the accounts of a manager sum to zero, and so do those of a
whole tree.

Counted is real time, in node-seconds: all of a reservation that was kept to its end, and of one
that was given up after its start the time until then. The accounts follow from the journal's
``GroupHeld`` and ``GroupEnded`` records, and are therefore the same after each restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.trade import TradeAccount, TradeBalance, TradeBook
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.trust.identity import GridIdentity, Role
from gridtravel.manager.book.events import Part


def trader(owner: str, site: str) -> str:
    """In whose name the owner of a group trades: a manager in its own, a user of ``site`` in
    that of ``site``.
    """
    identity = GridIdentity.parse(owner)
    return identity.name if identity is not None and identity.role is Role.MANAGER else site


class TradeLedger:
    """The accounts of one manager; changed by its book alone, when a group ends."""

    def __init__(self, site: str) -> None:
        self._site = site
        self.book = TradeBook((site,))

    def close(self, reservation: Reservation, parts: tuple[Part, ...], until: Instant) -> None:
        """``reservation``, which was committed, is over at ``until``; before its start nothing was
        used.
        """
        used_s = max(0, min(until, reservation.end) - reservation.start)
        if not used_s:
            return
        borrower = trader(reservation.owner, self._site)
        for part in parts:
            for name in (part.child, borrower):
                self.book.accounts.setdefault(name, TradeBalance())
            self.book.record(part.child, borrower, part.nodes * used_s)

    def carry(self, accounts: Iterable[TradeAccount]) -> None:
        """Add what groups that nobody remembers have moved."""
        for each in accounts:
            balance = self.book.accounts.setdefault(each.member, TradeBalance())
            balance.lent += each.lent_node_s
            balance.borrowed += each.borrowed_node_s
            balance.local += each.local_node_s

    def debt_node_s(self, name: str) -> int:
        """What ``name`` has borrowed and not lent; below zero when others owe to it."""
        account = self.book.accounts.get(name)
        return 0 if account is None else -account.balance

    def accounts(self) -> tuple[TradeAccount, ...]:
        """All accounts, the own one first."""
        return tuple(
            TradeAccount(
                member=name,
                lent_node_s=each.lent,
                borrowed_node_s=each.borrowed,
                local_node_s=each.local,
            )
            for name, each in self.book.accounts.items()
        )


def refuse_debtor(
    site: str, debtor: str, request: ReservationRequest, *, debt_node_s: int, credit_node_s: int
) -> Decline:
    """The refusal of a request that would bring its asker deeper into debt than is allowed."""
    return Decline(
        rule=DeclineRule.TRADE,
        message=(
            f"{site}: {debtor} owes {debt_node_s} node-seconds, with what it has booked already;"
            f" {credit_node_s} more would pass, {request.nodes_max} nodes for"
            f" {request.duration_s} s are {request.nodes_max * request.duration_s}"
        ),
        nodes_now=credit_node_s // request.duration_s,
        site=site,
    )
