"""Planning a trip whose legs start together, or at any one site: where, when, how many nodes each.

Pure functions over the availability that inquiries returned. Within that knowledge the answer is
exact: the earliest common start that exists, not the first one that a walk in steps happens to
meet. Each site's room is a step function of the start; whether all sites together can take the trip
is therefore constant between two neighbouring edges of these functions, so it is enough to look at
the first start behind each edge, in order.

How the nodes are divided: the paper fills the least loaded machine first, and gives "more nodes to
the more heavily loaded clusters" when that is not possible in the window (GUR paper, section 4).
``plan_common_start`` divides by what the sites offered. ``fill`` and ``shifted`` divide before
anything was asked, for a search that tries one division after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_wishes import Objective

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gridtravel.gridcore.booking.reservations import Availability, Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteShare:
    """How many nodes of a trip one site may take."""

    name: str
    nodes_min: int
    nodes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLeg:
    """One site's part of a plan; nobody has promised it yet."""

    name: str
    """Of the leg: its machine, or its stage of a pipeline."""
    machine: str
    nodes: int
    start: Instant
    price_millicredits: int
    quote: str = field(default="", compare=False, repr=False)
    """Of the offer it rests on (``Offer.quote``)."""
    quote_expires_at: Instant | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Starts and a distribution of nodes, in the order of the shares or stages; never empty."""

    legs: tuple[PlannedLeg, ...]

    @property
    def start(self) -> Instant:
        """First second of the first leg; of every leg where they start together."""
        return min(leg.start for leg in self.legs)

    @property
    def price_millicredits(self) -> int:
        """What all legs cost together."""
        return sum(leg.price_millicredits for leg in self.legs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPlan:
    """Nothing fits before ``known_until``; beyond it the sites have not been asked."""

    known_until: Instant
    nodes_now: int
    """Most nodes that all sites together have at one common start."""
    cheapest_millicredits: int | None
    """Least price of a start that fits but costs too much; ``None``: price was not the reason."""


def plan_common_start(
    shares: Sequence[SiteShare],
    availability: Mapping[str, Availability],
    nodes_total: int,
    *,
    not_before: Instant = 0,
    budget_millicredits: int | None = None,
    objective: Objective = Objective.EARLIEST_FINISH,
    fill_order: Sequence[str] = (),
) -> Plan | NoPlan:
    """The best start that all sites of ``shares`` have in common, with ``nodes_total`` nodes in
    all.

    ``availability`` has an entry for each share. ``fill_order``: who gets nodes beyond its minimum
    first; default the order of ``shares``. For the lowest cost the cheapest sites are filled first.
    """
    known_until = min((availability[share.name].known_until for share in shares), default=0)
    edges = _edges((availability[share.name] for share in shares), not_before, known_until)
    order = list(fill_order) or [share.name for share in shares]
    best: Plan | None = None
    nodes_now, cheapest = 0, None
    cursors = {share.name: _Cursor(availability[share.name], share) for share in shares}
    for start in edges:
        offers = {name: cursor.at(start) for name, cursor in cursors.items()}
        room = [(share, offers[share.name]) for share in shares]
        within = sum(
            min(share.nodes_max, offer.nodes) for share, offer in room if offer is not None
        )
        if any(offer is None for _, offer in room):
            continue
        nodes_now = max(nodes_now, within)
        if within < nodes_total:
            continue
        found = {name: offer for name, offer in offers.items() if offer is not None}
        plan = _distribute(shares, found, nodes_total, start, _filling(order, found, objective))
        price = plan.price_millicredits
        if budget_millicredits is not None and price > budget_millicredits:
            plan = _distribute(
                shares, found, nodes_total, start, _filling(order, found, Objective.LOWEST_COST)
            )
            price = plan.price_millicredits
            if price > budget_millicredits:
                cheapest = price if cheapest is None else min(cheapest, price)
                continue
        if objective is Objective.EARLIEST_FINISH:
            return plan
        if best is None or price < best.price_millicredits:
            best = plan
    if best is not None:
        return best
    return NoPlan(
        known_until=known_until,
        nodes_now=nodes_now,
        cheapest_millicredits=cheapest,
    )


def plan_single(
    shares: Sequence[SiteShare],
    availability: Mapping[str, Availability],
    nodes_total: int,
    *,
    not_before: Instant = 0,
    budget_millicredits: int | None = None,
    objective: Objective = Objective.EARLIEST_FINISH,
) -> Plan | NoPlan:
    """The best start at any one site (the paper's Disneyland); ties go to the earlier share."""
    plans: list[tuple[tuple[int, int, int], Plan]] = []
    refusals: list[NoPlan] = []
    for position, share in enumerate(shares):
        alone = SiteShare(name=share.name, nodes_min=nodes_total, nodes_max=nodes_total)
        answer = plan_common_start(
            [alone],
            availability,
            nodes_total,
            not_before=not_before,
            budget_millicredits=budget_millicredits,
            objective=objective,
        )
        if isinstance(answer, NoPlan):
            refusals.append(answer)
        elif objective is Objective.EARLIEST_FINISH:
            plans.append(((answer.start, answer.price_millicredits, position), answer))
        else:
            plans.append(((answer.price_millicredits, answer.start, position), answer))
    if plans:
        return min(plans, key=lambda ranked: ranked[0])[1]
    costs = [each.cheapest_millicredits for each in refusals if each.cheapest_millicredits]
    return NoPlan(
        known_until=min((each.known_until for each in refusals), default=0),
        nodes_now=max((each.nodes_now for each in refusals), default=0),
        cheapest_millicredits=min(costs, default=None),
    )


def by_load(shares: Sequence[SiteShare], availability: Mapping[str, Availability]) -> list[str]:
    """Names of the shares, the least loaded first: who could start earliest, then who has most room
    there; ties keep the order of preference (paper: "in order of the least loaded system").
    """

    def load(position: int) -> tuple[int, int, int]:
        offers = availability[shares[position].name].offers
        if not offers:
            return (availability[shares[position].name].known_until, 0, position)
        return (offers[0].start, -offers[0].nodes, position)

    return [shares[position].name for position in sorted(range(len(shares)), key=load)]


def fill(shares: Sequence[SiteShare], nodes_total: int) -> dict[str, int] | None:
    """Minimums everywhere, then as much as possible to each in order; ``None``: minimums and
    maximums do not allow the total.
    """
    sizes = {share.name: share.nodes_min for share in shares}
    left = nodes_total - sum(sizes.values())
    for share in shares:
        more = min(max(left, 0), share.nodes_max - share.nodes_min)
        sizes[share.name] += more
        left -= more
    return sizes if left == 0 else None


def shifted(
    shares: Sequence[SiteShare], sizes: Mapping[str, int], step: int
) -> dict[str, int] | None:
    """The same total with up to ``step`` nodes moved from the first share that can give some to
    those behind it; ``None``: minimums and maximums bind.

    Nodes only move towards the end, so a chain of these comes to an end: everything as far behind
    as it goes.
    """
    for position, giver in enumerate(shares):
        spare = sizes[giver.name] - giver.nodes_min
        takers = shares[position + 1 :]
        room = sum(share.nodes_max - sizes[share.name] for share in takers)
        moving = left = min(step, spare, room)
        if not moving:
            continue
        changed = dict(sizes)
        changed[giver.name] -= moving
        for share in takers:
            more = min(left, share.nodes_max - sizes[share.name])
            changed[share.name] += more
            left -= more
        return changed
    return None


def shifting_step(shares: Sequence[SiteShare], nodes_total: int, distributions_max: int) -> int:
    """How many nodes to move at once, so that a chain of ``shifted`` has about
    ``distributions_max`` links at most.
    """
    free = nodes_total - sum(share.nodes_min for share in shares)
    moves = free * max(0, len(shares) - 1)
    return max(1, -(-moves // max(1, distributions_max)))


def _edges(
    answers: Iterable[Availability], not_before: Instant, known_until: Instant
) -> list[Instant]:
    """Every start behind which the answer may change, ascending."""
    edges = {not_before}
    for answer in answers:
        for offer in answer.offers:
            edges.update((offer.start, offer.start_until))
    return sorted(edge for edge in edges if not_before <= edge < known_until)


class _Cursor:
    """Walks one site's offers along rising starts, so that a whole search reads each offer once."""

    def __init__(self, answer: Availability, share: SiteShare) -> None:
        self._coming = sorted(answer.offers, key=lambda offer: offer.start, reverse=True)
        self._current: list[Offer] = []
        self._share = share

    def at(self, start: Instant) -> Offer | None:
        """The offer with most nodes for ``start``, of equal ones the cheapest; ``None``: not the
        minimum. ``start`` must not fall from one call to the next.
        """
        while self._coming and self._coming[-1].start <= start:
            self._current.append(self._coming.pop())
        self._current = [offer for offer in self._current if start < offer.start_until]
        share = self._share
        usable = [offer for offer in self._current if offer.nodes >= share.nodes_min]
        return max(
            usable,
            key=lambda offer: (min(offer.nodes, share.nodes_max), -offer.unit_price_millicredits),
            default=None,
        )


def _filling(order: Sequence[str], offers: Mapping[str, Offer], objective: Objective) -> list[str]:
    if objective is Objective.EARLIEST_FINISH:
        return list(order)
    rank = {name: position for position, name in enumerate(order)}
    return sorted(order, key=lambda name: (offers[name].unit_price_millicredits, rank[name]))


def _distribute(
    shares: Sequence[SiteShare],
    offers: Mapping[str, Offer],
    nodes_total: int,
    start: Instant,
    filling: Sequence[str],
) -> Plan:
    """Minimums everywhere, then the rest in the order of ``filling``. The caller knows that it
    fits.
    """
    nodes = {share.name: share.nodes_min for share in shares}
    most = {share.name: min(share.nodes_max, offers[share.name].nodes) for share in shares}
    left = nodes_total - sum(nodes.values())
    for name in filling:
        more = min(left, most[name] - nodes[name])
        nodes[name] += more
        left -= more
    legs = tuple(
        PlannedLeg(
            name=share.name,
            machine=share.name,
            nodes=nodes[share.name],
            start=start,
            price_millicredits=offers[share.name].price_millicredits(nodes[share.name]),
            quote=offers[share.name].quote,
            quote_expires_at=offers[share.name].quote_expires_at,
        )
        for share in shares
    )
    return Plan(legs=legs)
