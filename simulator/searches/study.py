"""The two searches of the travel agent on the same loaded grid: what each finds, and what it costs.

Unmodified agents under background load, in virtual time, over a network with latency. Every request
is booked twice, once with each search, and cancelled again, so that both meet the same calendars;
who goes first alternates. The optimum beside them is brute force over the sites' own room: every
second at which room can appear is tried.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridcore.trips.metajobs import Metajob, Objective, UsagePattern
from gridtravel.simulator.grid.background_load import LoadedSite, keep_busy, made_up, stretches
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan
from gridtravel.simulator.grid.simulated_site import CLASS_NAME, SitePlan
from gridtravel.simulator.grid.world import World, WorldPlan, WorldTypes
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.virtual_loop import run_virtual
from gridtravel.simulator.replay.swf import read_trace
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.sites.destinations import DEFAULT_ACCOUNT

if TYPE_CHECKING:
    from gridtravel.gridcore.capacity.profile import AvailabilityProfile
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop
    from gridtravel.simulator.replay.swf import TraceJob

SEARCHES: Final = (SearchChoice.SWEEP, SearchChoice.PROBE)
WARM_UP_S: Final = 86_400
"""The sites live so long before the first request: an empty machine would be no test."""
AHEAD_S: Final = 1_800
"""Every window begins so long after it is asked for: longer than both bookings take."""
DURATIONS_S: Final = (1_800, 3_600, 7_200, 14_400)
SLACKS_S: Final = (3_600, 21_600, 86_400)
"""How much longer than the trip the window is."""
SINGLE_SHARE: Final = 0.2
"""So many requests are for any one site, the others for all of them at once."""
LATENCY_S: Final = (0.01, 0.04)
"""Of each message, one way."""
PRICES: Final = (1_000, 3_000, 2_000)
"""Millicredits a node and hour at the sites, in turn; they matter for the lowest cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """One study, fixed by its seed."""

    requests: int = 100
    seed: int = 1
    sites: int = 3
    nodes: int = 128
    """Of each site; with a log: as the log's machine has."""
    interval_s: int = 1_800
    """Between two requests."""
    trace: Path | None = None
    """Workload log; ``None``: made-up jobs."""
    load: float = 0.8
    """Share of each site that made-up jobs ask for."""
    objective: Objective = Objective.EARLIEST_FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One request with one search."""

    request: int
    search: SearchChoice
    pattern: UsagePattern
    nodes: int
    best_start: Instant | None
    """The earliest common start that exists; ``None``: the window has none."""
    best_price: int | None
    start: Instant | None
    """``None``: declined."""
    price: int | None
    calls: Counter[str]
    """Questions by verb, from the wish to the answer."""
    seconds: float
    """Virtual."""
    cpu_s: float
    """Of everything in this process: the travel agent and the sites."""

    @property
    def delay_s(self) -> int | None:
        """How much later than the earliest start; ``None``: there is nothing to compare."""
        if self.start is None or self.best_start is None:
            return None
        return self.start - self.best_start


@dataclass(slots=True, kw_only=True)
class SearchResult:
    """What came of all requests."""

    plan: SearchPlan
    load_name: str
    jobs: int = 0
    """Of the background, handed in during the study."""
    tried: list[Tried] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    """Jobs in all queues, at each request."""


def run_search_study(
    plan: SearchPlan, progress: Callable[[int], None] = lambda done: None
) -> SearchResult:
    """Live one grid. ``progress`` hears how many requests are done."""
    length_s = WARM_UP_S + plan.requests * plan.interval_s
    nodes, name = plan.nodes, f"made-up jobs, load {plan.load:g}"
    loads: list[list[TraceJob]]
    chance = Chance(plan.seed, "searches")
    if plan.trace is not None:
        trace = read_trace(plan.trace)
        nodes, name = trace.procs, plan.trace.name
        loads = stretches(trace.jobs, plan.sites, length_s)
    else:
        loads = [
            made_up(chance.child(f"load-{n}"), nodes, plan.load, length_s)
            for n in range(plan.sites)
        ]
    result = SearchResult(plan=plan, load_name=name, jobs=sum(map(len, loads)))

    async def live(loop: VirtualLoop) -> None:
        await _Study(loop, plan, nodes, loads, result, chance).run(progress)

    run_virtual(live)
    return result


class _Study:
    def __init__(
        self,
        loop: VirtualLoop,
        plan: SearchPlan,
        nodes: int,
        loads: Sequence[Sequence[TraceJob]],
        result: SearchResult,
        chance: Chance,
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._result = result
        self._chance = chance.child("wishes")
        names = [f"site{number}" for number in range(1, plan.sites + 1)]
        world = WorldPlan(
            seed=plan.seed,
            sites=tuple(SitePlan(name=name, nodes=nodes) for name in names),
            laptops=tuple(LaptopPlan(name=each.value, wishes=(), search=each) for each in SEARCHES),
            conditions=NetworkConditions(latency_least_s=LATENCY_S[0], latency_most_s=LATENCY_S[1]),
        )
        self._world = World(world, loop, WorldTypes(site=LoadedSite))
        for number, (site, jobs) in enumerate(zip(self._sites(), loads, strict=True)):
            site.unit_price = PRICES[number % len(PRICES)]
            keep_busy(self._world.network, site, jobs)

    def _sites(self) -> list[LoadedSite]:
        found = [each for each in self._world.sites.values() if isinstance(each, LoadedSite)]
        assert len(found) == len(self._world.sites), "the world was made of them"
        return found

    async def run(self, progress: Callable[[int], None]) -> None:
        world = self._world
        for party in world.parties:
            party.start()
        await world.rest(WARM_UP_S)
        for number in range(self._plan.requests):
            begun = world.loop.time()
            metajob = self._wish(number)
            order = SEARCHES if number % 2 else SEARCHES[::-1]
            self._result.waiting.append(
                sum(len(site.agent.scheduler.waiting) for site in self._sites() if site.agent)
            )
            for search in order:
                self._result.tried.append(await self._book(number, search, metajob))
            world.event_log.lines.clear()
            progress(number + 1)
            await world.rest(max(0.0, begun + self._plan.interval_s - world.loop.time()))
        assert not world.event_log.violations, [str(v) for v in world.event_log.violations]

    def _now(self) -> Instant:
        return self._sites()[0].clock.now()

    def _wish(self, number: int) -> Metajob:
        """The next traveller's."""
        chance, sites = self._chance, self._sites()
        machines = []
        for site in sites:
            least = chance.whole(1, max(1, self._nodes // 16))
            most = chance.whole(least, max(least, self._nodes // 2))
            machines.append(MachineRequest(machine=site.name, nodes_min=least, nodes_max=most))
        is_single = chance.happens(SINGLE_SHARE)
        least_total = sum(each.nodes_min for each in machines)
        most_total = sum(each.nodes_max for each in machines)
        if is_single:
            machines = [
                MachineRequest(machine=site.name, nodes_min=1, nodes_max=self._nodes)
                for site in sites
            ]
            total = chance.whole(1, self._nodes // 2)
        else:
            total = chance.whole(least_total, (least_total + most_total) // 2)
        duration_s = chance.one_of(DURATIONS_S)
        begin = self._now() + AHEAD_S
        return Metajob(
            name=f"request-{number}",
            usage_pattern=UsagePattern.SINGLE if is_single else UsagePattern.MULTIPLE,
            nodes_total=total,
            machines=tuple(machines),
            duration_s=duration_s,
            earliest_start=begin,
            latest_end=begin + duration_s + chance.one_of(SLACKS_S),
            objective=self._plan.objective,
        )

    async def _book(self, number: int, search: SearchChoice, metajob: Metajob) -> Tried:
        """One booking, measured, and undone again."""
        world, laptop = self._world, self._world.laptops[search.value]
        life = laptop.life
        assert life is not None, "nothing dies in a study"
        agent = laptop.agent(life)
        best_start, best_price = self._best(metajob)
        said = world.network.event_log.messages
        before, begun, cpu = Counter(said), world.loop.time(), time.process_time()
        itinerary: Itinerary = await life.start(agent.book(metajob), "book")
        cpu_s, seconds = time.process_time() - cpu, world.loop.time() - begun
        calls = Counter(said) - before
        is_booked = itinerary.state is TripState.BOOKED
        if is_booked:
            await life.start(agent.cancel(itinerary.trip_id), "cancel")
        await life.start(agent.close(), "close")
        return Tried(
            request=number,
            search=search,
            pattern=metajob.usage_pattern,
            nodes=metajob.nodes_total,
            best_start=best_start,
            best_price=best_price,
            start=itinerary.legs[0].start if is_booked else None,
            price=sum(leg.price_millicredits for leg in itinerary.legs) if is_booked else None,
            calls=Counter({k: v for k, v in calls.items() if not k.endswith(" answer")}),
            seconds=seconds,
            cpu_s=cpu_s,
        )

    # -- brute force -------------------------------------------------------------------------------

    def _best(self, metajob: Metajob) -> tuple[Instant | None, int | None]:
        """The earliest start, and the least price, that exist in the sites' room now."""
        now, length_s = self._now(), metajob.duration_s + metajob.guard_s
        rooms: dict[str, AvailabilityProfile] = {}
        prices: dict[str, int] = {}
        for site in self._sites():
            assert site.agent is not None, "nothing dies in a study"
            rooms[site.name] = site.agent.availability(now, DEFAULT_ACCOUNT)[CLASS_NAME]
            tariff = site.agent.calendar.tariff
            prices[site.name] = tariff.unit_price_millicredits(CLASS_NAME, now, length_s)
        latest = metajob.latest_end - length_s
        edges = {metajob.earliest_start}
        for room in rooms.values():
            edges.update(at for at, _ in room.steps())
        first, least = None, None
        for start in sorted(each for each in edges if metajob.earliest_start <= each <= latest):
            free = {name: room.min_free(start, start + length_s) for name, room in rooms.items()}
            price = price_of(metajob, free, prices)
            if price is not None:
                first = start if first is None else first
                least = price if least is None else min(least, price)
        return first, least


def price_of(metajob: Metajob, free: dict[str, int], prices: dict[str, int]) -> int | None:
    """The least price of a trip in this room; ``None``: it does not fit."""
    total = metajob.nodes_total
    if metajob.usage_pattern is UsagePattern.SINGLE:
        names = [each.machine for each in metajob.candidates if free[each.machine] >= total]
        return min((total * prices[name] for name in names), default=None)
    sizes = {each.machine: each.nodes_min for each in metajob.machines}
    if any(free[name] < least for name, least in sizes.items()):
        return None
    left = total - sum(sizes.values())
    for each in sorted(metajob.machines, key=lambda each: prices[each.machine]):
        more = min(left, min(each.nodes_max, free[each.machine]) - sizes[each.machine])
        sizes[each.machine] += more
        left -= more
    return None if left else sum(sizes[name] * prices[name] for name in sizes)
