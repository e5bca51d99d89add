"""Five laptops that book at the same three loaded sites at once: what a booking costs, by sweep and
by probe, and whether everybody finishes.

Three real node agents as in ``booking_bench``, behind mutual TLS, small and nearly full: the trips
wish for about as much as there is. Each laptop has its own connections and its own memory, and
books one trip after the other; none waits for another.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, show
from bench.real_sites import SITES, sites_running
from gridtravel.gridcore.booking.reservations import ReservationRequest
from gridtravel.gridcore.trips.itineraries import Itinerary, LegState, TripState
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, UsagePattern
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.sites.config import load_grid_config

LAPTOPS: Final = 5
TRIPS_EACH: Final = 12
NODES: Final = 32
"""Of each site."""
FILLERS: Final = 60
"""Reservations in each calendar before the first trip."""
WINDOW_S: Final = 12 * 3600
DURATION_S: Final = 1200
DAY_S: Final = 86_400
MIXES: Final = {
    "sweep": (SearchChoice.SWEEP,) * LAPTOPS,
    "probe": (SearchChoice.PROBE,) * LAPTOPS,
    "both": tuple((SearchChoice.SWEEP, SearchChoice.PROBE)[n % 2] for n in range(LAPTOPS)),
}


class CountedSite:
    """A connection that counts every question to the site."""

    def __init__(self, inner: GrpcSite, calls: Counter[str]) -> None:
        self._inner = inner
        self.calendar = _Port(inner.calendar, calls)
        self.site = _Port(inner.site, calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Port:
    def __init__(self, inner: object, calls: Counter[str]) -> None:
        self._inner = inner
        self._calls = calls

    def __getattr__(self, verb: str) -> Any:
        self._calls[verb] += 1
        return getattr(self._inner, verb)


@dataclass(slots=True)
class Costs:
    """What the bookings of one mix cost."""

    calls: list[int] = field(default_factory=list)
    """Of booked trips."""
    attempts: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    booked: int = 0
    declined: int = 0
    half: int = 0
    """Trips of which the sites have some legs and not others; promised to be none."""


async def travel(
    agent: TravelAgent, calls: Counter[str], begin: int, seed: int, costs: Costs
) -> list[Itinerary]:
    """One laptop's trips, one after the other."""
    chance, trips = random.Random(seed), []
    for number in range(TRIPS_EACH):
        heard: Counter[Step] = Counter()

        def listen(news: News, heard: Counter[Step] = heard) -> None:
            heard[news.step] += 1

        before, started = calls.total(), time.perf_counter()
        trip = await agent.book(a_wish(chance, begin, f"rush-{seed}-{number}"), listener=listen)
        trips.append(trip)
        if trip.state is TripState.BOOKED:
            costs.booked += 1
            costs.calls.append(calls.total() - before)
            costs.attempts.append(heard[Step.PLANNED])
            costs.seconds.append(time.perf_counter() - started)
        else:
            costs.declined += 1
    return trips


def a_wish(chance: random.Random, begin: int, name: str) -> Metajob:
    """Some nodes of all three sites, some time in the same twelve hours."""
    earliest = begin + chance.randrange(0, WINDOW_S // 2, 600)
    return Metajob(
        name=name,
        usage_pattern=UsagePattern.MULTIPLE,
        nodes_total=chance.randint(6, 30),
        machines=tuple(
            MachineRequest(machine=site, nodes_min=1, nodes_max=NODES // 2) for site in SITES
        ),
        duration_s=DURATION_S,
        earliest_start=earliest,
        latest_end=earliest + WINDOW_S // 2,
    )


async def _fill(agent: TravelAgent, begin: int, name: str) -> None:
    """The same load in every calendar, other gaps at each site."""
    for number, site in enumerate(SITES):
        chance = random.Random(number)
        for count in range(FILLERS):
            start = begin + chance.randrange(0, WINDOW_S, 300)
            length_s = chance.choice((900, 1800, 3600))
            request = ReservationRequest(
                request_id=f"fill-{name}-{count}",
                account="default",
                nodes_min=(nodes := chance.randint(2, NODES // 2)),
                nodes_max=nodes,
                duration_s=length_s,
                earliest_start=start,
                latest_end=start + length_s,
            )
            await agent.connection(site).site.set_reservation(request, is_dry_run=False)


async def _measure_mix(
    name: str, searches: tuple[SearchChoice, ...], begin: int, ada: Credential, folder: Path
) -> Costs:
    clock, costs = SystemClock(), Costs()
    laptops: list[tuple[TravelAgent, Counter[str]]] = []
    for number, search in enumerate(searches):
        calls: Counter[str] = Counter()

        def connect(entry: Any, calls: Counter[str] = calls) -> Any:
            return CountedSite(GrpcSite(entry.endpoint, ada, site=entry.site), calls)

        settings = replace(load_grid_config(folder / "laptop" / "sites.toml"), search=search)
        state = folder / "laptop" / f"{name}-{number}"
        agent = TravelAgent(settings, state, connect, clock=clock, ids=RandomIds(clock))
        laptops.append((agent, calls))
    try:
        await _fill(laptops[0][0], begin, name)
        trips = await asyncio.gather(
            *(
                travel(agent, calls, begin, seed, costs)
                for seed, (agent, calls) in enumerate(laptops)
            )
        )
        for (agent, _), booked in zip(laptops, trips, strict=True):
            for trip in booked:
                report = await agent.status(trip.trip_id)
                states = {leg.state for leg in report.itinerary.legs}
                costs.half += bool(states - {LegState.BOOKED})
    finally:
        for agent, _ in laptops:
            await agent.close()
    return costs


def _figures(name: str, costs: Costs) -> list[Figure]:
    def figure(what: str, value: float, unit: str = "", must: float | None = None) -> Figure:
        return Figure(name=f"five laptops, {name}: {what}", value=value, unit=unit, must=must)

    return [
        figure("booked", costs.booked),
        figure("declined", costs.declined),
        figure("half trips", costs.half, must=0),
        figure("attempts a booking, mean", statistics.mean(costs.attempts)),
        figure("attempts a booking, most", max(costs.attempts)),
        figure("calls a booking, mean", statistics.mean(costs.calls)),
        figure("calls a booking, most", max(costs.calls)),
        figure("a booking, median", statistics.median(costs.seconds) * 1e3, "ms"),
        figure("a booking, longest", max(costs.seconds) * 1e3, "ms"),
    ]


def measure() -> list[Figure]:
    """Every figure of this file."""

    async def all_mixes(ada: Credential, folder: Path) -> list[Figure]:
        found: list[Figure] = []
        for number, (name, searches) in enumerate(MIXES.items()):
            begin = (SystemClock().now() // DAY_S + 2 + number) * DAY_S
            found += _figures(name, await _measure_mix(name, searches, begin, ada, folder))
        return found

    with sites_running(NODES) as (_, ada, folder):
        return asyncio.run(all_mixes(ada, folder))


if __name__ == "__main__":
    show(measure())
