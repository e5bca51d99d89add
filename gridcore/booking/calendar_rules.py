"""What a site declares about its calendar: its nodes, the bounds it keeps, and what time costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

CHANGES_MAX: Final = 1_000
"""Of one reservation: the requests for them are remembered for as long as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceClass:
    """Interchangeable nodes: same features, one count."""

    name: str
    nodes: int
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or self.nodes < 1:
            raise InputError(f"resource class {self.name!r} needs a name and at least one node")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarRules:
    """Bounds that the owner sets, in seconds unless the name says otherwise."""

    horizon_s: int = 90 * 86_400
    """How far ahead anything may be booked (Catalina's SCHEDULING_WINDOW)."""
    hold_ttl_min_s: int = 2
    """A hold that would live shorter is refused."""
    hold_ttl_max_s: int = 300
    """Longest life of a hold, whatever was asked."""
    hold_margin_s: int = 1
    """A hold expires at least this long before it starts; at least 1."""
    doubt_max_s: int = 900
    """How long after its lifetime a hold of a trip may wait for the trip's outcome; then it is
    withdrawn.
    """
    tombstone_s: int = 86_400
    """How long a finished id is remembered, as long as there is room (``tombstones``); far longer
    than any message can be late, and than a traveller may take from the first hold of a trip to its
    decision.
    """
    offers_max: int = 512
    """Most offers in one answer."""

    def __post_init__(self) -> None:
        if not 1 <= self.hold_ttl_min_s <= self.hold_ttl_max_s:
            raise InputError(
                "calendar rules contradict each other:"
                " 1 <= hold_ttl_min_s <= hold_ttl_max_s is needed"
            )
        if self.doubt_max_s < 1:
            raise InputError("doubt_max_s must be at least 1: the others are asked once at least")
        if self.hold_margin_s < 1:
            raise InputError("hold_margin_s must be at least 1: a hold expires before it starts")
        if self.offers_max < 1:
            raise InputError("offers_max must be at least 1")
        if self.horizon_s <= self.lead_s:
            raise InputError(
                f"horizon_s must be greater than the {self.lead_s} s that a hold needs before it"
                " starts"
            )
        if self.tombstone_s < 2 * self.hold_ttl_max_s:
            raise InputError("tombstone_s must be at least twice hold_ttl_max_s")

    @property
    def lead_s(self) -> int:
        """A two-phase booking cannot start sooner than this after it is asked for."""
        return self.hold_ttl_min_s + self.hold_margin_s


class Tariff(Protocol):
    """A price list: asked with the facts of a request, it answers in whole millicredits.

    Deterministic, and never negative.
    """

    def unit_price_millicredits(self, resource_class: str, start: Instant, duration_s: int) -> int:
        """Price of one node of ``resource_class`` from ``start`` for ``duration_s`` seconds."""
        ...

    @property
    def price_step_s(self) -> int:
        """With the start the price changes at multiples of this alone; 0: never."""
        ...

    def highest_millicredits_per_node_hour(self, resource_class: str) -> int:
        """No hour of a node of ``resource_class`` costs more, whenever it is."""
        ...


@dataclass(frozen=True, slots=True)
class FlatTariff:
    """The same price at all times, rounded up to the next millicredit for each node."""

    millicredits_per_node_hour: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    """The same for classes that have another price."""

    def __post_init__(self) -> None:
        if min(self.millicredits_per_node_hour, *self.classes.values(), 0) < 0:
            raise InputError("a price must not be negative")

    def unit_price_millicredits(self, resource_class: str, start: Instant, duration_s: int) -> int:
        """See ``Tariff``."""
        del start
        return -(-self.highest_millicredits_per_node_hour(resource_class) * duration_s // 3600)

    @property
    def price_step_s(self) -> int:
        """See ``Tariff``."""
        return 0

    def highest_millicredits_per_node_hour(self, resource_class: str) -> int:
        """See ``Tariff``."""
        return self.classes.get(resource_class, self.millicredits_per_node_hour)
