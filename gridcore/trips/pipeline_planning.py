"""Planning a pipeline: when and where each stage of a chain goes, given what the sites answered.

The paper stops before this: "it would be easy to extend the multiple usage pattern to pipeline by
providing a time offset to each resource" (GUR paper, section 4). A fixed offset books a chain only
where all stages happen to fit at one rigid distance. Here a stage starts when the one before it has
ended and its data has moved, and waits at most its slack; within what the sites answered the result
is exact.

How: the least price at which stage k can start at t, as a step function of t, follows from that of
stage k - 1. Shift it by length and transfer, let each step reach as far as the slack, take the
lowest of what overlaps, and add the stage's own price where a machine has room. The first step of
the last function that the budget pays for is the earliest finish, its lowest the cheapest trip; the
starts before it are read off backwards. No second is tried one by one. Where price does not matter
every step costs nothing, steps that touch become one, and their number stays below that of all
offers together.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.planning import Plan, PlannedLeg
from gridtravel.gridcore.trips.trip_wishes import Objective

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gridtravel.gridcore.booking.reservations import Availability


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One stage as the planning sees it."""

    name: str
    machines: tuple[str, ...]
    """Where it may run, the preferred first."""
    nodes: int
    length_s: int
    """What is reserved, guard included."""
    transfer_s: int = 0
    """Kept free between the reserved end of the stage before and this start."""
    slack_s: int | None = None
    """Longest further wait; ``None``: any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChain:
    """The chain cannot be had within what is known."""

    stage: str
    """The first one that cannot be reached."""
    has_room: bool
    """True: there is room for it, but not when its turn comes."""
    cheapest_millicredits: int | None = None
    """Least price of a chain that fits but costs too much; ``None``: price was not the reason."""


class _Step(NamedTuple):
    """A stretch of starts ``[start, until)`` of one rank. The rank begins with what it costs (0
    where price does not matter); of overlapping stretches the lowest rank counts.
    """

    start: Instant
    until: Instant
    rank: tuple[int, ...]


def plan_chain(
    links: Sequence[ChainLink],
    availability: Mapping[tuple[str, str], Availability],
    *,
    budget_millicredits: int | None = None,
    objective: Objective = Objective.EARLIEST_FINISH,
) -> Plan | NoChain:
    """The best starts of all stages. ``availability``: by stage and machine; what is missing has no
    room.

    Earliest finish: machines in the order of preference where they are equally early and the budget
    allows it, else the cheapest. Lowest cost: of equally cheap chains the earliest finish. With the
    last start fixed, every stage before it starts as early as it can.
    """
    wants_cheapest = objective is Objective.LOWEST_COST
    plan = _plan(links, availability, is_priced=wants_cheapest, budget=None)
    if budget_millicredits is None or isinstance(plan, NoChain):
        return plan
    if plan.price_millicredits <= budget_millicredits:
        return plan
    if wants_cheapest:
        price = plan.price_millicredits
        return NoChain(stage=links[-1].name, has_room=True, cheapest_millicredits=price)
    return _plan(links, availability, is_priced=True, budget=budget_millicredits)


def latest_starts(links: Sequence[ChainLink], last_start: Instant) -> list[Instant]:
    """For each stage the latest start with which the last one can still start at ``last_start``."""
    found = [last_start]
    for before, link in zip(links[-2::-1], links[:0:-1], strict=True):
        found.append(found[-1] - link.transfer_s - before.length_s)
    return found[::-1]


def earliest_starts(links: Sequence[ChainLink], first_start: Instant) -> list[Instant]:
    """For each stage the earliest start when the first one starts at ``first_start``."""
    found = [first_start]
    for before, link in pairwise(links):
        found.append(found[-1] + before.length_s + link.transfer_s)
    return found


def _plan(
    links: Sequence[ChainLink],
    availability: Mapping[tuple[str, str], Availability],
    *,
    is_priced: bool,
    budget: int | None,
) -> Plan | NoChain:
    """``is_priced``: costs are counted, and ties between machines go to the cheaper one. With a
    budget the earliest finish that it pays for, else the cheapest chain; where nothing is priced
    both are the earliest.
    """
    rooms: list[list[_Step]] = []
    reached: list[list[_Step]] = []
    for position, link in enumerate(links):
        room = _lowest(_room(link, availability, is_priced=is_priced))
        if position == 0:
            steps = [_Step(start, until, rank[:1]) for start, until, rank in room]
        else:
            steps = _both(_after(reached[-1], links[position - 1], link), room)
        if not steps:
            return NoChain(stage=link.name, has_room=bool(room))
        rooms.append(room)
        reached.append(steps)
    cheapest = min(reached[-1], key=lambda step: step.rank[0])
    if budget is None:
        last = cheapest
    else:
        paid = next((step for step in reached[-1] if step.rank[0] <= budget), None)
        if paid is None:
            return NoChain(
                stage=links[-1].name, has_room=True, cheapest_millicredits=cheapest.rank[0]
            )
        last = paid
    return _read_back(links, availability, rooms, reached, last)


def _room(
    link: ChainLink, availability: Mapping[tuple[str, str], Availability], *, is_priced: bool
) -> Iterable[_Step]:
    """Where the stage could start by itself; rank: cost, preference, price."""
    for preference, machine in enumerate(link.machines):
        answer = availability.get((link.name, machine))
        for offer in answer.offers if answer is not None else ():
            if offer.nodes >= link.nodes and offer.start < offer.start_until:
                price = offer.price_millicredits(link.nodes)
                rank = (price if is_priced else 0, preference, price)
                yield _Step(offer.start, offer.start_until, rank)


def _after(steps: Sequence[_Step], before: ChainLink, link: ChainLink) -> list[_Step]:
    """When ``link`` may start at what cost, given when the stage before it may."""
    offset = before.length_s + link.transfer_s
    if link.slack_s is not None:
        reach = offset + link.slack_s
        return _lowest(_Step(start + offset, until + reach, rank) for start, until, rank in steps)
    for_ever = max(step.until for step in steps) + offset + _FOR_EVER_S
    return _lowest(_Step(start + offset, for_ever, rank) for start, _, rank in steps)


_FOR_EVER_S = 1 << 40


def _lowest(steps: Iterable[_Step]) -> list[_Step]:
    """The lowest rank at each instant: ascending, without overlaps, equal neighbours joined."""
    coming = sorted(steps, reverse=True)
    edges = sorted({edge for step in coming for edge in step[:2]})
    current: list[tuple[tuple[int, ...], Instant]] = []
    found: list[_Step] = []
    for start, until in pairwise(edges):
        while coming and coming[-1].start <= start:
            step = coming.pop()
            heapq.heappush(current, (step.rank, step.until))
        while current and current[0][1] <= start:
            heapq.heappop(current)
        if not current:
            continue
        rank = current[0][0]
        if found and found[-1].until == start and found[-1].rank == rank:
            found[-1] = found[-1]._replace(until=until)
        else:
            found.append(_Step(start, until, rank))
    return found


def _both(before: Sequence[_Step], room: Sequence[_Step]) -> list[_Step]:
    """Where both lists of steps are, with the sum of their costs."""
    found: list[_Step] = []
    left = right = 0
    while left < len(before) and right < len(room):
        a, b = before[left], room[right]
        start, until = max(a.start, b.start), min(a.until, b.until)
        if start < until:
            found.append(_Step(start, until, (a.rank[0] + b.rank[0],)))
        left += a.until <= b.until
        right += b.until <= a.until
    return _lowest(found)


def _read_back(
    links: Sequence[ChainLink],
    availability: Mapping[tuple[str, str], Availability],
    rooms: Sequence[Sequence[_Step]],
    reached: Sequence[Sequence[_Step]],
    last: _Step,
) -> Plan:
    """The starts that lead to the first start of ``last``, from the last stage to the first."""
    start, cost = last.start, last.rank[0]
    legs: list[PlannedLeg] = []
    for position in range(len(links) - 1, -1, -1):
        link = links[position]
        own, preference, price = next(
            step.rank for step in rooms[position] if step.start <= start < step.until
        )
        machine = link.machines[preference]
        offer = next(
            each
            for each in availability[link.name, machine].offers
            if each.start <= start < each.start_until
            and each.nodes >= link.nodes
            and each.price_millicredits(link.nodes) == price
        )
        legs.append(
            PlannedLeg(
                name=link.name,
                machine=machine,
                nodes=link.nodes,
                start=start,
                price_millicredits=price,
                quote=offer.quote,
                quote_expires_at=offer.quote_expires_at,
            )
        )
        if position == 0:
            break
        cost -= own
        latest = start - link.transfer_s - links[position - 1].length_s
        soonest = 0 if link.slack_s is None else latest - link.slack_s
        start = next(
            max(step.start, soonest)
            for step in reached[position - 1]
            if step.rank[0] == cost and step.start <= latest and soonest < step.until
        )
    return Plan(legs=tuple(reversed(legs)))
