"""Balance of trade: who ran whose work (calendar paper, end of section 2.2).

Counted in node-seconds of real use, when a task ends. What one lends another borrows, so the
balances over all members sum to zero, to the last second.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError


@dataclass(slots=True)
class TradeBalance:
    """One member's account, in node-seconds."""

    lent: int = 0
    """Used here by work of other members (*supply* in the paper)."""
    borrowed: int = 0
    """Used elsewhere by work of this member (*consume*)."""
    local: int = 0
    """Used here by this member's own work."""

    @property
    def balance(self) -> int:
        """Lent minus borrowed; below zero for a debtor. The paper's tables show it negated."""
        return self.lent - self.borrowed

    @property
    def used(self) -> int:
        """All that was used here."""
        return self.lent + self.local


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeAccount:
    """One member's account as others are told it, in node-seconds; see ``TradeBalance``."""

    member: str
    lent_node_s: int = 0
    borrowed_node_s: int = 0
    local_node_s: int = 0

    @property
    def balance_node_s(self) -> int:
        """Lent minus borrowed; below zero for a debtor."""
        return self.lent_node_s - self.borrowed_node_s


class TradeBook:
    """The accounts of all members below one manager, by name. Only ``record`` changes them."""

    def __init__(self, members: tuple[str, ...]) -> None:
        self.accounts = {name: TradeBalance() for name in members}

    def record(self, lender: str, borrower: str, node_s: int) -> None:
        """``lender`` ran work of ``borrower``; the same member twice is local work."""
        if node_s < 0:
            raise InputError(f"use cannot be negative: {node_s} node-seconds")
        if lender == borrower:
            self.accounts[lender].local += node_s
        else:
            self.accounts[lender].lent += node_s
            self.accounts[borrower].borrowed += node_s

    def validate(self) -> None:
        """Assert that nothing is lent that nobody borrowed."""
        assert sum(each.balance for each in self.accounts.values()) == 0, "trade is conserved"
