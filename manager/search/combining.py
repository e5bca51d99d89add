"""From the children's availability to one answer, and from one answer to a distribution.

Pure functions. Each child's room is a step function of the start, so between two neighbouring edges
of these functions nothing changes, and the sum over the children has to be taken once for each such
*span*. The start is chosen by first fit (calendar paper, section 2.3); within the span the nodes
are taken where they cost least, of equal prices from as few children as possible, for each part
more is one more site to start together.

A child takes part with one resource class at a time. Among several that it offers for a start the
one with most nodes counts, so the price that is quoted is never below what will be charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gridtravel.gridcore.booking.reservations import Availability, Offer
from gridtravel.gridcore.timing.instants import Instant

MIXED_CLASS = "mixed"
"""Resource class of what is made of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRoom:
    """What one child could give at some start."""

    child: str
    nodes: int
    unit_price_millicredits: int
    """For one node over the whole duration."""
    resource_class: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Starts in ``[start, until)`` that find the same room at every child."""

    start: Instant
    until: Instant
    rooms: tuple[ChildRoom, ...]
    """In the order of the children; only those with room."""
    usable: int | None = None
    """How many of these nodes may be promised in all; ``None``: all of them."""

    def most(self, nodes_max: int) -> int:
        """``nodes_max``, or as many as may be promised."""
        return nodes_max if self.usable is None else min(nodes_max, self.usable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one child is to give."""

    child: str
    nodes: int
    price_millicredits: int
    resource_class: str


def spans(answers: Mapping[str, Availability], known_until: Instant) -> Iterator[Span]:
    """All starts before ``known_until`` at which any child has room, in order, without overlaps."""
    cursors = {child: _Cursor(child, answer) for child, answer in answers.items()}
    edges = sorted(
        {
            edge
            for answer in answers.values()
            for offer in answer.offers
            for edge in (offer.start, offer.start_until)
            if edge < known_until
        }
    )
    for position, start in enumerate(edges):
        rooms = [room for each in cursors.values() if (room := each.at(start)) is not None]
        if rooms:
            until = edges[position + 1] if position + 1 < len(edges) else known_until
            yield Span(start=start, until=until, rooms=tuple(rooms))


def distribute(
    rooms: Sequence[ChildRoom],
    nodes_max: int,
    budget_millicredits: int | None = None,
    *,
    from_roomiest: bool = False,
) -> tuple[Share, ...]:
    """As many nodes as possible, at most ``nodes_max``, for at most the budget, at the least price;
    in the order of ``rooms``. Empty when the budget does not pay for one node. ``from_roomiest``:
    where one room is enough, from the largest, for ``rooms`` may show too much.
    """
    left, money = nodes_max, budget_millicredits
    taken: dict[str, Share] = {}
    by_price = sorted(rooms, key=lambda room: room.unit_price_millicredits)
    for unit, level in groupby(by_price, key=lambda room: room.unit_price_millicredits):
        if money is not None and unit:
            left = min(left, money // unit)
        for room, nodes in _fewest(list(level), left, from_roomiest=from_roomiest):
            taken[room.child] = Share(
                child=room.child,
                nodes=nodes,
                price_millicredits=nodes * unit,
                resource_class=room.resource_class,
            )
            left -= nodes
            money = None if money is None else money - nodes * unit
    return tuple(taken[room.child] for room in rooms if room.child in taken)


def offer_of(
    span: Span, nodes_min: int, nodes_max: int, budget_millicredits: int | None
) -> Offer | None:
    """The children's room in ``span`` as one offer; ``None``: less than ``nodes_min``.

    Its price for any number of nodes is at least what the cheapest distribution of them costs,
    because the cheapest nodes are counted first.
    """
    shares = distribute(span.rooms, span.most(nodes_max), budget_millicredits)
    nodes = sum(share.nodes for share in shares)
    if nodes < max(1, nodes_min):
        return None
    price = sum(share.price_millicredits for share in shares)
    return Offer(
        start=span.start,
        start_until=span.until,
        nodes=nodes,
        resource_class=class_of(share.resource_class for share in shares),
        unit_price_millicredits=-(-price // nodes),
    )


def joined(offers: Iterable[Offer]) -> list[Offer]:
    """Neighbouring offers that differ in nothing but their start, as one. The offers of one answer
    then carry one class name, since they are one resource to whoever asked.
    """
    found: list[Offer] = []
    for offer in offers:
        last = found[-1] if found else None
        if (
            last is not None
            and last.start_until == offer.start
            and (last.nodes, last.unit_price_millicredits)
            == (offer.nodes, offer.unit_price_millicredits)
        ):
            name = class_of((last.resource_class, offer.resource_class))
            found[-1] = _offer(last, until=offer.start_until, name=name)
        else:
            found.append(offer)
    name = class_of(offer.resource_class for offer in found)
    return [_offer(offer, until=offer.start_until, name=name) for offer in found]


def class_of(names: Iterable[str]) -> str:
    """The one name that all have, or ``MIXED_CLASS``."""
    different = list(dict.fromkeys(names))
    return different[0] if len(different) == 1 else MIXED_CLASS


def _offer(offer: Offer, *, until: Instant, name: str) -> Offer:
    return Offer(
        start=offer.start,
        start_until=until,
        nodes=offer.nodes,
        resource_class=name,
        unit_price_millicredits=offer.unit_price_millicredits,
    )


def _fewest(
    rooms: Sequence[ChildRoom], nodes: int, *, from_roomiest: bool
) -> list[tuple[ChildRoom, int]]:
    """``nodes`` nodes from as few rooms as possible: the largest first, and for the rest the
    smallest that has it, which keeps large rooms for large requests. Ties keep their order.
    """
    free = list(rooms)
    taken: list[tuple[ChildRoom, int]] = []
    while free and nodes > 0:
        enough = [room for room in free if room.nodes >= nodes]
        if enough:
            choose = max if from_roomiest else min
            taken.append((choose(enough, key=lambda room: room.nodes), nodes))
            break
        largest = max(free, key=lambda room: room.nodes)
        free.remove(largest)
        taken.append((largest, largest.nodes))
        nodes -= largest.nodes
    return taken


class _Cursor:
    """Walks one child's offers along rising starts, so that a whole merge reads each once."""

    def __init__(self, child: str, answer: Availability) -> None:
        self._child = child
        self._coming = sorted(answer.offers, key=lambda offer: offer.start, reverse=True)
        self._current: list[Offer] = []

    def at(self, start: Instant) -> ChildRoom | None:
        """The child's room for ``start``, which must not fall from one call to the next."""
        while self._coming and self._coming[-1].start <= start:
            self._current.append(self._coming.pop())
        self._current = [offer for offer in self._current if start < offer.start_until]
        best = max(
            self._current,
            key=lambda offer: (offer.nodes, -offer.unit_price_millicredits),
            default=None,
        )
        if best is None:
            return None
        return ChildRoom(
            child=self._child,
            nodes=best.nodes,
            unit_price_millicredits=best.unit_price_millicredits,
            resource_class=best.resource_class,
        )
