"""What a booking over three sites costs beside the bare calls it needs: targets, rows 1 to 4.

Three real node agents, each a process with a journal on the disk and 1,000 reservations in its
calendar, behind mutual TLS. The base is nine bare echo calls over the same kind of channel in three
rounds of three. Base and bookings take turns within one run.

- *plain*: inquire, hold, commit at all three, each round at once; holds and commits durable;
- *atomic*: the same, with the outcome accepted by a majority of the sites before anything is
  committed (docs/protocol.md), so that it survives the laptop;
- *trip*: the travel agent's own ``book``, with its search and its log.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import grpc
import grpc.aio

from bench.counted_calls import Counted
from bench.figures import Figure, show
from bench.real_sites import ECHO, SITES, sites_running
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Availability,
    Reservation,
    ReservationRequest,
    TripRef,
)
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, UsagePattern
from gridtravel.gridcore.trips.planning import Plan, SiteShare, plan_common_start
from gridtravel.gridio.rpc.client.grpc_site import CLIENT_OPTIONS, GrpcSite
from gridtravel.gridio.sites.trip_voting import TravellersVoting
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.sites.config import load_grid_config

NODES = 1000
OUTSTANDING = 1000
ROUNDS = 12
BOOKINGS = 10
IN_FLIGHT = 16
HOLDERS = 64
ASKED = 10
DURATION_S = 600
DAY_S = 86_400

Call = Callable[[], Awaitable[object]]


class Grid:
    """The three sites as one user reaches them, and the calls that are compared."""

    def __init__(
        self, ports: Sequence[tuple[int, str]], ada: Credential, agent: TravelAgent
    ) -> None:
        self._echoes = []
        self._channels = []
        secrets = grpc.ssl_channel_credentials(ada.root_pem, ada.key_pem, ada.cert_pem)
        for site, (port, _) in zip(SITES, ports, strict=True):
            name = ("grpc.ssl_target_name_override", f"{site}.sites.grid.internal")
            channel = grpc.aio.secure_channel(
                f"127.0.0.1:{port}", secrets, options=[*CLIENT_OPTIONS, name]
            )
            self._channels.append(channel)
            self._echoes.append(
                channel.unary_unary(ECHO, request_serializer=bytes, response_deserializer=bytes)
            )
        self._cards: dict[str, str] = {}
        self.sites = {
            site: GrpcSite(endpoint, ada, site=site)
            for site, (_, endpoint) in zip(SITES, ports, strict=True)
        }
        self._agent = agent
        self._ids = RandomIds()
        self.booked: list[tuple[str, str]] = []
        self.trips: list[str] = []
        self.calls: dict[bool, int] = {False: 0, True: 0}
        """Questions asked by the last booking: plain, and atomic."""
        self._begin = SystemClock().now() + DAY_S

    async def close(self) -> None:
        """End every connection."""
        for site in self.sites.values():
            await site.close()
        for channel in self._channels:
            await channel.close(None)

    def request(self, request_id: str) -> ReservationRequest:
        """Ten nodes of each site for ten minutes, some time in the second day from now."""
        return ReservationRequest(
            request_id=request_id,
            account="default",
            nodes_min=ASKED,
            nodes_max=ASKED,
            duration_s=DURATION_S,
            earliest_start=self._begin,
            latest_end=self._begin + 20 * DAY_S,
        )

    async def fill(self) -> None:
        """1,000 reservations in each calendar, spread over ten days."""
        for number in range(OUTSTANDING):
            start = self._begin + (number * 7919) % (10 * DAY_S)
            request = self.request(f"fill-{number}").at(start, 1 + number % 10)
            await asyncio.gather(
                *(
                    each.site.set_reservation(request, is_dry_run=False)
                    for each in self.sites.values()
                )
            )

    async def echo_3x3(self) -> None:
        """The base: three rounds of three bare calls."""
        for _ in range(3):
            await asyncio.gather(*(echo(b"x" * 64, timeout=10) for echo in self._echoes))

    async def plain(self) -> None:
        """Inquire, hold, commit."""
        await self._co_allocate(is_atomic=False)

    async def atomic(self) -> None:
        """Inquire, hold, have the acceptors decide, commit."""
        await self._co_allocate(is_atomic=True)

    async def trip(self) -> None:
        """The whole travel agent."""
        metajob = Metajob(
            name="bench",
            usage_pattern=UsagePattern.MULTIPLE,
            nodes_total=3 * ASKED,
            machines=tuple(
                MachineRequest(machine=site, nodes_min=ASKED, nodes_max=ASKED) for site in SITES
            ),
            duration_s=DURATION_S,
            earliest_start=self._begin,
            latest_end=self._begin + 20 * DAY_S,
        )
        itinerary = await self._agent.book(metajob)
        self.trips.append(itinerary.trip_id)

    async def hold_one(self) -> None:
        """One durable hold at one site."""
        answer = await self.sites[SITES[0]].calendar.reserve(
            self.request(self._ids.new_id("hold")).at(self._begin + 15 * DAY_S, 1), ttl_s=60
        )
        assert isinstance(answer, Reservation), answer
        self.booked.append((SITES[0], answer.reservation_id))

    async def echo_one(self) -> None:
        """One bare call."""
        await self._echoes[0](b"x" * 64, timeout=10)

    async def tidy(self) -> None:
        """Release what the last bookings took, outside of what is timed."""
        for site, reservation_id in self.booked:
            await self.sites[site].calendar.release(reservation_id)
        self.booked.clear()
        for trip in self.trips:
            await self._agent.cancel(trip)
        self.trips.clear()

    async def _card(self, site: str) -> str:
        """Where the site says that it is; asked once, as a laptop does."""
        if site not in self._cards:
            self._cards[site] = (await self.sites[site].calendar.describe()).card
        return self._cards[site]

    async def _co_allocate(self, *, is_atomic: bool) -> None:
        trip_id = self._ids.new_id("trip")
        request = self.request(trip_id)
        counted = [Counted(each.calendar) for each in self.sites.values()]
        calendars = {
            site: cast(CalendarPort, each) for site, each in zip(SITES, counted, strict=True)
        }
        answers = await asyncio.gather(*(each.inquire([request]) for each in calendars.values()))
        known = {site: answer[0] for site, answer in zip(SITES, answers, strict=True)}
        offers = {site: each for site, each in known.items() if isinstance(each, Availability)}
        shares = [SiteShare(name=site, nodes_min=ASKED, nodes_max=ASKED) for site in SITES]
        plan = plan_common_start(shares, offers, 3 * ASKED)
        assert isinstance(plan, Plan), plan
        cards = [await self._card(site) for site in SITES]
        acceptors = tuple(
            Acceptor(site=site, endpoint=self.sites[site].endpoint, card=card)
            for site, card in zip(SITES, cards, strict=True)
        )
        trips = {
            site: TripRef(
                trip_id=trip_id,
                leg=site,
                participants=SITES,
                acceptors=acceptors if is_atomic else (),
                ends_at=plan.start + DURATION_S,
            )
            for site in SITES
        }
        held = await asyncio.gather(
            *(
                calendars[site].reserve(
                    _with_trip(request.at(plan.start, ASKED), trips[site]), ttl_s=30
                )
                for site in SITES
            )
        )
        reservations = [each for each in held if isinstance(each, Reservation)]
        assert len(reservations) == len(SITES), held
        if is_atomic:
            voting = TravellersVoting(trips[SITES[0]].instance, calendars)
            assert await voting.propose_first() is not None
        await asyncio.gather(
            *(calendars[each.site].commit(each.reservation_id) for each in reservations)
        )
        self.booked += [(each.site, each.reservation_id) for each in reservations]
        self.calls[is_atomic] = sum(each.calls for each in counted)


def _with_trip(request: ReservationRequest, trip: TripRef) -> ReservationRequest:
    return replace(request, trip=trip)


async def _timed(call: Call) -> float:
    begin = time.perf_counter()
    await call()
    return time.perf_counter() - begin


def processor_s() -> float:
    """Seconds of processor time that this process, the sites and whatever they started have had."""
    ran_ns = 0
    processes = [str(os.getpid())]
    for process in processes:
        for thread in Path(f"/proc/{process}/task").iterdir():
            ran_ns += int((thread / "schedstat").read_text(encoding="ascii").split()[0])
            processes += (thread / "children").read_text(encoding="ascii").split()
    return ran_ns / 1e9


def forced_writes(folder: Path, count: int) -> list[float]:
    """Seconds that each write took to be safe from power loss: what each round of a booking but the
    first waits for, at three sites on one disk.
    """
    took = []
    descriptor = os.open(folder / "forced", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(count):
        begin = time.perf_counter()
        os.write(descriptor, b"x" * 800)
        os.fdatasync(descriptor)
        took.append(time.perf_counter() - begin)
    os.close(descriptor)
    return took


async def _rate(call: Call, total: int, in_flight: int) -> float:
    """Calls a second with ``in_flight`` at a time."""
    gate = asyncio.Semaphore(in_flight)

    async def one() -> None:
        async with gate:
            await call()

    begin = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(total)))
    return total / (time.perf_counter() - begin)


async def _measure(ports: list[tuple[int, str]], ada: Credential, folder: Path) -> list[Figure]:
    clock = SystemClock()
    settings = load_grid_config(folder / "laptop" / "sites.toml")
    agent = TravelAgent(
        settings,
        folder / "laptop" / "state",
        lambda entry: GrpcSite(entry.endpoint, ada, site=entry.site),
        clock=clock,
        ids=RandomIds(clock),
    )
    grid = Grid(ports, ada, agent)
    try:
        await grid.fill()
        one = {"echo": grid.echo_3x3, "plain": grid.plain, "atomic": grid.atomic, "trip": grid.trip}
        times: dict[str, list[float]] = {name: [] for name in one}
        busy = dict.fromkeys(one, 0.0)
        forced: list[float] = []
        for call in one.values():
            await call()
        for _ in range(ROUNDS):
            for name, call in one.items():
                before = processor_s()
                times[name] += [await _timed(call) for _ in range(BOOKINGS)]
                busy[name] += processor_s() - before
            await grid.tidy()
            forced += forced_writes(folder, BOOKINGS)
        median = {name: statistics.median(each) for name, each in times.items()}
        rates: dict[str, list[float]] = {name: [] for name in ("echo", "plain", "hold", "bare")}
        for _ in range(5):
            rates["echo"].append(await _rate(grid.echo_3x3, 64, IN_FLIGHT))
            rates["plain"].append(await _rate(grid.plain, 48, IN_FLIGHT))
            await grid.tidy()
            rates["bare"].append(await _rate(grid.echo_one, 512, HOLDERS))
            rates["hold"].append(await _rate(grid.hold_one, 512, HOLDERS))
            await grid.tidy()
        rate = {name: statistics.median(each) for name, each in rates.items()}
    finally:
        await grid.close()
        await agent.close()
    return [
        Figure(
            name="booking: nine bare echoes in three rounds", value=median["echo"] * 1e3, unit="ms"
        ),
        Figure(
            name="booking: one forced write to the disk in the same run",
            value=statistics.median(forced) * 1e3,
            unit="ms",
        ),
        Figure(name="booking: plain over 3 sites", value=median["plain"] * 1e3, unit="ms"),
        Figure(name="booking: atomic over 3 sites", value=median["atomic"] * 1e3, unit="ms"),
        Figure(name="booking: messages, plain", value=2 * grid.calls[False], unit=""),
        Figure(name="booking: messages, atomic", value=2 * grid.calls[True], unit=""),
        _ratio("booking: plain over 3 sites / echoes", median["plain"], median["echo"], 1.6, 1.0),
        _ratio("booking: processor time, plain / echoes", busy["plain"], busy["echo"]),
        _ratio("booking: processor time, atomic / echoes", busy["atomic"], busy["echo"]),
        _ratio("booking: plain, 16 in flight / echoes", rate["echo"], rate["plain"], 1.4, 0.8),
        _ratio("booking: atomic / plain", median["atomic"], median["plain"], 1.5, 1.2),
        _ratio("booking: the travel agent's book / echoes", median["trip"], median["echo"]),
        _ratio(
            "booking: bare calls / durable holds a second, 64 callers",
            rate["bare"],
            rate["hold"],
            1.25,
            1.0,
        ),
    ]


def _ratio(
    name: str, value: float, base: float, must: float | None = None, aim: float | None = None
) -> Figure:
    return Figure(name=name, value=value / base, unit="x", must=must, aim=aim)


def measure() -> list[Figure]:
    """Every figure of this file."""
    with sites_running(NODES) as (ports, ada, folder):
        return asyncio.run(_measure(ports, ada, folder))


if __name__ == "__main__":
    show(measure())
