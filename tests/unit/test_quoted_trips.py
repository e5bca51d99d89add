"""The travel agent brings the quotes of the offers that it planned with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.quotes import SharedKeyQuotes
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.log.folders import TripFolders
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.output.rendering import price_lines
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry
from tests.support.maintenance_world import KENNETH, MaintenanceWorld
from tests.support.metajob_builders import machine, metajob, stage
from tests.support.search_world import PatientClock

NOW = 1_000
OLD_PRICE, NEW_PRICE = 3_600, 36_000
LENGTH_S = 60
UTC = ZoneInfo("UTC")
WINDOW: dict[str, Any] = {"earliest_start": NOW + 100, "latest_end": NOW + 9_000}
TRIPS: dict[str, Metajob] = {
    "single": metajob(
        usage_pattern=UsagePattern.SINGLE,
        nodes_total=2,
        machines=(machine("left", nodes_max=4), machine("right", nodes_max=4)),
        duration_s=LENGTH_S,
        **WINDOW,
    ),
    "multiple": metajob(
        nodes_total=2,
        machines=(machine("left", nodes_max=1), machine("right", nodes_max=1)),
        duration_s=LENGTH_S,
        **WINDOW,
    ),
    "pipeline": metajob(
        usage_pattern=UsagePattern.PIPELINE,
        nodes_total=1,
        machines=(machine("left", nodes_max=4), machine("right", nodes_max=4)),
        duration_s=2 * LENGTH_S,
        stages=(
            stage("one", "left", duration_s=LENGTH_S),
            stage("two", "right", duration_s=LENGTH_S),
        ),
        **WINDOW,
    ),
}
"""Each of two nodes for a minute."""


class Present:
    """The agent of a site, whichever lives."""

    def __init__(self, world: MaintenanceWorld) -> None:
        self._world = world

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """See ``SiteServices``."""
        return self._world.agent.calendar_port(caller)

    def site_port(self, caller: Caller) -> SitePort:
        """See ``SiteServices``."""
        return self._world.agent.site_port(caller)


class Grid:
    """Two priced sites that sign quotes, and a traveller."""

    def __init__(self, folder: Path, *, signs: bool = True) -> None:
        self.clock = PatientClock(NOW)
        self.worlds = {
            name: MaintenanceWorld(
                folder / name,
                name=name,
                clock=self.clock,
                tariff=FlatTariff(OLD_PRICE),
                quote_signer=SharedKeyQuotes(name.encode()) if signs else None,
            )
            for name in ("left", "right")
        }

        def connect(entry: MachineEntry) -> SiteConnection:
            services = Present(self.worlds[entry.site])
            return InprocSite(
                services, KENNETH, through_codec=True, clock=self.clock, name=entry.site
            )

        machines = {
            name: MachineEntry(machine=name, site=name, endpoint=f"inproc:{name}")
            for name in self.worlds
        }
        config = GridConfig(
            path=Path("sites.toml"), credential_folder=Path("none"), zone=UTC, machines=machines
        )
        self.traveller = TravelAgent(
            config,
            folder / "laptop",
            connect,
            clock=self.clock,
            ids=SeededIds(1),
            journals=TripFolders(folder / "laptop" / "trips"),
        )

    def raise_prices(self) -> None:
        """At both sites, from now on."""
        for world in self.worlds.values():
            world.agent.calendar.tariff = FlatTariff(NEW_PRICE)


@asynccontextmanager
async def a_grid(folder: Path, *, signs: bool = True) -> AsyncIterator[Grid]:
    """Both sites serve."""
    grid = Grid(folder, signs=signs)
    async with AsyncExitStack() as stack:
        for world in grid.worlds.values():
            await world.start()
            stack.push_async_callback(world.stop)
        yield grid


def when_planned(change: Callable[[], None], told: list[News]) -> Callable[[News], None]:
    """Something happens between the first plan and its holds."""

    def listen(news: News) -> None:
        told.append(news)
        if news.step is Step.PLANNED and news.attempt == 1:
            change()

    return listen


@pytest.mark.parametrize("pattern", TRIPS)
async def test_a_trip_costs_what_was_planned(tmp_path: Path, pattern: str) -> None:
    """Sites raise their prices between the inquiry and the hold: the first attempt books, at the
    prices that were offered; without quotes it costs the new ones.
    """
    for signs, price in ((True, OLD_PRICE), (False, NEW_PRICE)):
        told: list[News] = []
        async with a_grid(tmp_path / str(signs), signs=signs) as grid:
            listener = when_planned(grid.raise_prices, told)
            booked = await grid.traveller.book(TRIPS[pattern], listener=listener)
            assert booked.state is TripState.BOOKED
            assert booked.price_millicredits == 2 * price * LENGTH_S // 3_600
            assert not [each for each in told if each.step is Step.DECLINED]
            assert all(leg.price_holds_until is None for leg in booked.legs)


@pytest.mark.parametrize("pattern", TRIPS)
async def test_an_expired_quote_makes_it_ask_again(tmp_path: Path, pattern: str) -> None:
    """The refusal is no end: the second attempt has new quotes, at the new price."""
    told: list[News] = []
    async with a_grid(tmp_path) as grid:

        def change() -> None:
            grid.raise_prices()
            grid.clock.advance(901)

        booked = await grid.traveller.book(TRIPS[pattern], listener=when_planned(change, told))
        assert booked.state is TripState.BOOKED
        assert booked.price_millicredits == 2 * NEW_PRICE * LENGTH_S // 3_600
        declined = [each for each in told if each.step is Step.DECLINED]
        assert declined
        assert all("expired" in each.text for each in declined)


@pytest.mark.parametrize("pattern", TRIPS)
async def test_a_quoted_trip_says_until_when_prices_hold(tmp_path: Path, pattern: str) -> None:
    """The first of all, for people; each leg's, for scripts; and nothing where none is quoted."""
    async with a_grid(tmp_path / "signing") as grid:
        found = await grid.traveller.quote(TRIPS[pattern])
        assert [leg.price_holds_until for leg in found.legs] == [NOW + 900] * len(found.legs)
        assert price_lines(found, UTC) == ["  prices hold until 1970-01-01 00:31:40 UTC"]
        shown = itinerary_json(found)["legs"]
        assert {each["price_holds_until"] for each in shown} == {"1970-01-01T00:31:40Z"}
    async with a_grid(tmp_path / "silent", signs=False) as grid:
        found = await grid.traveller.quote(TRIPS[pattern])
        assert price_lines(found, UTC) == []
        assert "price_holds_until" not in itinerary_json(found)["legs"][0]
