"""Bookings through a whole tree of managers: what they cost, how often shadows suffice, and whether
every promise is kept.

Travellers come one after the other, half of them at the top and half at a region, and ask for a few
nodes at some moment ahead. Meanwhile messages are lost and doubled, and agents and managers die and
come back. A promise counts as kept when, in the second in which the reservation starts, the sites
named in it have exactly the nodes promised.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt, prod
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.tree_site import SITE_RULES
from gridtravel.simulator.tree.wire import BOOKING, Cost, TreeConditions
from gridtravel.simulator.tree.world import TreeManager, TreeShape, TreeWorld

TRAVELLER: Final = Caller(subject="/O=grid/OU=users/CN=traveller", login="traveller")
LEAD_S: Final = 150
"""No traveller asks for a start nearer than this; hold, commit and retries need it in bad weather.
"""
NODES_ASKED_MAX: Final = 80
DURATIONS_S: Final = (60, 1_800)
TRIES_MAX: Final = 60
PAUSE_S: Final = 2.0
HORIZONS_S: Final = (600, 1_800, 3_600, SITE_RULES.horizon_s)
"""Upper ends of the classes in which the hit rate is told: how far ahead the start lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    """One run, fixed by its seed."""

    agents: int = 200
    nodes: int = 50
    """Of each agent."""
    requests: int = 10_000
    seed: int = 1
    interval_s: float = 1.0
    """Mean pause between two travellers."""
    nodes_asked_max: int = NODES_ASKED_MAX
    conditions: TreeConditions = field(default_factory=TreeConditions)
    restarts: int = 0
    """Deaths of agents and of managers, in turn, spread over the run."""
    stale_s: float = 0.05
    """How long agents hold back what they publish: the interval of their updates."""
    between: tuple[int, ...] = ()
    """Levels of managers between the top and the regions: so many below each of the level above."""
    regions: int | None = None
    """``None``: as many as agents in each, as nearly as can be."""

    @property
    def shape(self) -> TreeShape:
        """Agents spread evenly over the regions."""
        regions = self.regions or max(1, isqrt(self.agents))
        sizes = [
            self.agents * (number + 1) // regions - self.agents * number // regions
            for number in range(regions)
        ]
        return TreeShape(
            agents_by_region=tuple(sizes),
            nodes=self.nodes,
            between=self.between,
            stale_s=self.stale_s,
        )


@dataclass(slots=True)
class HitCount:
    """Bookings of one horizon."""

    bookings: int = 0
    hits: int = 0
    """Planned from shadows alone: nobody was inquired of, and no hold was refused."""


@dataclass(slots=True)
class TreeResult:
    """What came out."""

    nodes: int
    booked: int = 0
    refused: int = 0
    unknown: int = 0
    """The traveller gave up before it heard an outcome."""
    from_above: int = 0
    """Granted by the top to travellers that asked at a region."""
    levels: int = 3
    """Of the tree: managers and, at the bottom, agents."""
    stale_s: float = 0.0
    verbs: Counter[str] = field(default_factory=Counter)
    """Messages of all granted bookings, to hold and to commit, without news."""
    wait_s: float = 0.0
    """Virtual time from asking to the confirmed commit, of all granted bookings."""
    news: int = 0
    by_horizon: dict[int, HitCount] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)
    restarts: int = 0
    virtual_s: float = 0.0

    @property
    def messages_a_booking(self) -> float:
        """Questions with their answers; of granted bookings."""
        return self.verbs.total() / max(1, self.booked)

    @property
    def seconds_a_booking(self) -> float:
        """What a traveller waits; a message takes 0 to 20 ms one way."""
        return self.wait_s / max(1, self.booked)

    @property
    def hit_rate(self) -> float:
        """Over all horizons."""
        hits = sum(each.hits for each in self.by_horizon.values())
        return hits / max(1, self.booked)


def interval_for(load: float, nodes: int) -> float:
    """The mean pause between travellers that asks for the share ``load`` of all node-seconds."""
    asked_node_s = (1 + NODES_ASKED_MAX) / 2 * sum(DURATIONS_S) / 2
    return asked_node_s / (load * nodes)


def run_tree(plan: TreePlan) -> TreeResult:
    """Live one tree, in virtual time."""

    async def live(loop: VirtualLoop) -> TreeResult:
        study = _Study(loop, plan)
        return await study.run()

    return run_virtual(live)


async def negotiate(
    world: TreeWorld, host: TreeManager, request: ReservationRequest
) -> Reservation | Decline | None:
    """Hold and commit, and ask again when there is no answer; ``None``: the outcome is not known.
    What cannot be held in a few attempts is taken back.
    """
    held: Reservation | Decline | None = None
    for _ in range(5):
        try:
            held = await host.living_port(TRAVELLER).reserve(request, ttl_s=40)
            break
        except UnavailableError:
            await world.passes(PAUSE_S)
    for _ in range(TRIES_MAX):
        try:
            if held is None:
                await host.living_port(TRAVELLER).release_request(request.request_id)
                return None
            if isinstance(held, Decline):
                return held
            return await host.living_port(TRAVELLER).commit(held.reservation_id)
        except UnavailableError:
            await world.passes(PAUSE_S)
    return None


class _Study:
    def __init__(self, loop: VirtualLoop, plan: TreePlan) -> None:
        self._loop = loop
        self._plan = plan
        self._chance = random.Random(plan.seed)
        self._world = TreeWorld(loop, plan.shape, seed=plan.seed, conditions=plan.conditions)
        self._result = TreeResult(
            nodes=plan.agents * plan.nodes, levels=3 + len(plan.between), stale_s=plan.stale_s
        )
        for horizon_s in HORIZONS_S:
            self._result.by_horizon[horizon_s] = HitCount()

    async def run(self) -> TreeResult:
        world, result, plan = self._world, self._result, self._plan
        await world.start()
        troubles = asyncio.create_task(self._make_trouble())
        async with asyncio.TaskGroup() as travellers:
            for number in range(plan.requests):
                travellers.create_task(self._travel(number))
                await world.passes(self._chance.expovariate(1 / plan.interval_s))
            await troubles
        await world.quiet()
        result.breaches += world.breaches()
        for each in world.managers:
            each.live.book.trade.book.validate()
        result.news = world.wire.news
        result.virtual_s = self._loop.time()
        await world.close()
        return result

    async def _travel(self, number: int) -> None:
        """One traveller, from its wish to the moment at which its promise falls due."""
        world, chance, result = self._world, self._chance, self._result
        now = world.clock.now()
        ahead_s = LEAD_S + int(chance.random() ** 2 * (SITE_RULES.horizon_s - 3_000))
        duration_s = chance.randrange(*DURATIONS_S)
        request = ReservationRequest(
            request_id=f"wish-{number}",
            account="physics",
            nodes_min=(nodes := chance.randint(1, self._plan.nodes_asked_max)),
            nodes_max=nodes,
            duration_s=duration_s,
            earliest_start=now + ahead_s,
            latest_end=now + ahead_s + duration_s + 600,
        )
        at_top = chance.random() < 0.5
        host = world.top if at_top else chance.choice(world.regions)
        cost = Cost()
        BOOKING.set(cost)
        asked_at = world.clock.now_precise()
        answer = await negotiate(world, host, request)
        if not isinstance(answer, Reservation):
            result.refused += answer is not None
            result.unknown += answer is None
            return
        result.booked += 1
        result.from_above += bool(answer.granted_by)
        result.verbs += cost.calls
        result.wait_s += world.clock.now_precise() - asked_at
        count = result.by_horizon[next(each for each in HORIZONS_S if ahead_s <= each)]
        count.bookings += 1
        count.hits += not cost.calls["inquire"] and not cost.refused_holds
        await world.passes(answer.start - world.clock.now_precise() + 0.5)
        self._check(answer)

    def _check(self, promised: Reservation) -> None:
        """It starts now: is it there?"""
        if promised.nodes != sum(part.nodes for part in promised.parts):
            self._result.breaches.append(f"{promised.reservation_id}: parts do not add up")
        for part in promised.parts:
            kept = self._world.sites[part.site].calendar.reservations.get(part.reservation_id)
            if (
                kept is None
                or kept.state is not ReservationState.COMMITTED
                or (kept.nodes, kept.interval) != (part.nodes, promised.interval)
            ):
                self._result.breaches.append(
                    f"{promised.reservation_id}: {part.site} does not have {part.reservation_id}"
                )

    async def _make_trouble(self) -> None:
        """An agent dies, then a manager, and so on; each comes back after a while."""
        world, plan = self._world, self._plan
        every_s = plan.requests * plan.interval_s / (plan.restarts + 1)
        for number in range(plan.restarts):
            await world.passes(every_s)
            self._result.restarts += 1
            if number % 2:
                manager = self._chance.choice(world.managers)
                await manager.die()
                await world.passes(self._chance.random() * 10)
                manager.begin()
            else:
                site = self._chance.choice(list(world.sites.values()))
                site.is_up = False
                await world.passes(self._chance.random() * 10)
                site.restart()


def growth(
    requests: int, *, seed: int, stale_s: float, sizes: Sequence[int] = (10, 100, 1_000, 10_000)
) -> Iterator[TreeResult]:
    """The same travellers in trees of so many nodes, in clear weather; at most 50 an agent."""
    for size in sizes:
        agents = max(2, size // 50)
        plan = TreePlan(
            agents=agents,
            nodes=size // agents,
            requests=requests,
            seed=seed,
            nodes_asked_max=5,
            interval_s=10.0,
            stale_s=stale_s,
        )
        yield run_tree(plan)


DEPTHS: Final[Sequence[tuple[tuple[int, ...], int]]] = (((), 14), ((6,), 36), ((4, 4), 64))
"""Trees of three, four and five levels over the same agents: managers in between, regions."""


def depths(plan: TreePlan) -> Iterator[TreeResult]:
    """``plan`` in deeper and deeper trees, as far as there are agents for all regions."""
    for between, most in DEPTHS:
        regions = min(most, plan.agents)
        if regions >= prod(between):
            yield run_tree(replace(plan, between=between, regions=regions))


STALE_S: Final = (0.05, 10.0, 60.0, 300.0, 900.0)
"""Intervals of the agents' updates at which the effect of staleness is told."""


def staleness(plan: TreePlan, intervals: Sequence[float] = STALE_S) -> Iterator[TreeResult]:
    """``plan`` with older and older shadows."""
    for stale_s in intervals:
        yield run_tree(replace(plan, stale_s=stale_s))
