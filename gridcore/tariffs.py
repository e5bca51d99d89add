"""What time costs. A tariff is asked with the facts of a request and answers in integer
millicredits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gridcore.errors import InputError
from gridcore.instants import Instant


class Tariff(Protocol):
    """A price list. Deterministic, and never negative."""

    def unit_price_millicredits(self, resource_class: str, start: Instant, duration_s: int) -> int:
        """Price of one node of ``resource_class`` from ``start`` for ``duration_s`` seconds."""
        ...


@dataclass(frozen=True, slots=True)
class FlatTariff:
    """The same price at all times, rounded up to the next millicredit for each node."""

    millicredits_per_node_hour: int = 0

    def __post_init__(self) -> None:
        if self.millicredits_per_node_hour < 0:
            raise InputError("a price must not be negative")

    def unit_price_millicredits(self, resource_class: str, start: Instant, duration_s: int) -> int:
        """See ``Tariff``."""
        return -(-self.millicredits_per_node_hour * duration_s // 3600)
