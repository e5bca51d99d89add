"""Five laptops at the same three loaded sites at once, over real daemons: nobody waits for ever.

Some of them sweep and some probe; they refuse each other's holds, and test reservations take room
too. What a booking then costs is measured by ``python -m bench.contention_bench``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.booking.two_phase import ATTEMPTS_MAX
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.search.trials import TRIALS_MAX
from tests.support.grid_world import USERS, GridWorld, metajob_text

pytestmark = pytest.mark.integration

SEARCHES = (
    SearchChoice.SWEEP,
    SearchChoice.PROBE,
    SearchChoice.SWEEP,
    SearchChoice.PROBE,
    SearchChoice.SWEEP,
)
TRIPS_EACH = 5
WINDOW_S = 2 * 3600


class Ears:
    """Counts what one booking did."""

    def __init__(self) -> None:
        self.heard: Counter[Step] = Counter()

    def __call__(self, news: News) -> None:
        """See ``Listener``."""
        self.heard[news.step] += 1


def a_wish(number: int, window: tuple[int, int]) -> Metajob:
    """Nodes of all three sites for twenty minutes: about as many wishes as there is room for."""
    text = metajob_text(
        {"alpha": (1, 12), "beta": (1, 6), "gamma": (1, 2)},
        5 + number % 5,
        earliest=window[0],
        latest=window[1],
        duration_s=1200,
        name=f"rush-{number}",
    )
    now = SystemClock().now()
    return parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob


async def test_five_laptops_finish_and_leave_no_half_trip(grid: GridWorld) -> None:
    """Every booking ends, booked or declined, within its bounded attempts and test reservations;
    every trip is whole or absent at every site.
    """
    window = grid.window(WINDOW_S)
    ears = [Ears() for _ in range(len(SEARCHES) * TRIPS_EACH)]

    async with AsyncExitStack() as stack:
        laptops = [
            await stack.enter_async_context(grid.laptop(USERS[n % len(USERS)], search=search))
            for n, search in enumerate(SEARCHES)
        ]

        async def travel(which: int) -> list[Itinerary]:
            numbers = range(which * TRIPS_EACH, (which + 1) * TRIPS_EACH)
            return [
                await laptops[which].book(a_wish(number, window), listener=ears[number])
                for number in numbers
            ]

        results = await asyncio.gather(*(travel(which) for which in range(len(SEARCHES))))
    trips = [trip for each in results for trip in each]
    states = Counter(trip.state for trip in trips)
    assert set(states) <= {TripState.BOOKED, TripState.DECLINED}
    assert states[TripState.BOOKED] >= len(SEARCHES)
    assert max(each.heard[Step.PLANNED] for each in ears) <= ATTEMPTS_MAX
    assert max(each.heard[Step.OFFERED] for each in ears) <= TRIALS_MAX
    grid.check_whole(trips, window)


@pytest.mark.parametrize("search", [SearchChoice.SWEEP, SearchChoice.PROBE])
async def test_of_five_who_want_the_same_one_gets_it(grid: GridWorld, search: SearchChoice) -> None:
    """More than half of each site in the only hour there is: refusing each other must not end in
    nobody having anything.
    """
    window = grid.window(3600)
    text = metajob_text(
        {"alpha": (9, 16), "beta": (5, 8), "gamma": (3, 4)},
        17,
        earliest=window[0],
        latest=window[1],
        duration_s=3600,
    )
    wish = parse_metajob(text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml").metajob
    async with AsyncExitStack() as stack:
        laptops = [
            await stack.enter_async_context(grid.laptop(USERS[n % len(USERS)], search=search))
            for n in range(len(SEARCHES))
        ]
        trips = await asyncio.gather(*(laptop.book(wish) for laptop in laptops))
    states = Counter(trip.state for trip in trips)
    assert states == {TripState.BOOKED: 1, TripState.DECLINED: 4}
    grid.check_whole(trips, window)
