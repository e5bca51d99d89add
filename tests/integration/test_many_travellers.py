"""Two hundred bookings at once promise no processor twice, by the sites' own journals."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.booking.calendar_events import (
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.reservations import Reservation, ReservationEvent
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.metajob_file.reader import parse_metajob
from tests.support.grid_world import SITES, USERS, GridWorld, metajob_text

pytestmark = pytest.mark.integration

LAPTOPS = 12
TRIPS_EACH = 17
WINDOW_S = 3 * 3600


def a_wish(number: int, window: tuple[int, int]) -> Metajob:
    """The ``number``-th of many different wishes, all for the same few hours."""
    shares: dict[str, tuple[int, int]] = [
        {"alpha": (1, 12), "beta": (1, 8)},
        {"alpha": (2, 16), "gamma": (1, 3)},
        {"alpha": (1, 6), "beta": (1, 6), "gamma": (1, 2)},
        {"beta": (1, 8), "gamma": (1, 4)},
        {"alpha": (1, 16), "beta": (1, 8), "gamma": (1, 4)},
    ][number % 5]
    is_single = number % 5 == 4
    least = sum(nodes for nodes, _ in shares.values())
    text = metajob_text(
        shares,
        1 + number % 4 if is_single else least + number % 4,
        earliest=window[0] + 600 * (number % 3),
        latest=window[1],
        duration_s=(300, 700, 1100)[number % 3],
        pattern="single" if is_single else "multiple",
        name=f"wish-{number}",
    )
    now = SystemClock().now()
    return parse_metajob(text, now=now, zone=ZoneInfo("UTC"), form="toml").metajob


def most_promised(live: dict[str, Reservation], kept: Reservation) -> int:
    """Most nodes promised in any second of ``kept``. A leg and the hold that is to change it are
    promised once: one of the two will be used.
    """
    forms: dict[str, list[Reservation]] = {}
    for key, each in live.items():
        forms.setdefault(each.request.replaces or key, []).append(each)
    seconds = {kept.start, *(each.start for each in live.values())}
    return max(
        sum(
            max((each.nodes for each in group if each.start <= second < each.end), default=0)
            for group in forms.values()
        )
        for second in seconds
        if kept.start <= second < kept.end
    )


def check_every_second(grid: GridWorld, site: str) -> None:
    """Play a site's journal again, and count the nodes promised in each second after each event.

    Arithmetic of its own: nothing of the calendar that wrote the journal is trusted.
    """
    live: dict[str, Reservation] = {}
    for at, event in grid.records(site):
        match event:
            case ReservationGranted(reservation=kept) | ReservationMoved(reservation=kept):
                live[kept.reservation_id] = kept
                top = most_promised(live, kept)
                assert top <= SITES[site], f"{site}: {kept.reservation_id} is one too many"
            case ReservationChanged() if event.event is ReservationEvent.COMMIT:
                assert live[event.reservation_id].start > at, "committed before it starts"
            case ReservationChanged():
                del live[event.reservation_id]
            case _:
                continue


@pytest.mark.timeout(300)
async def test_two_hundred_bookings_at_once_promise_nothing_twice(grid: GridWorld) -> None:
    """All bookings finish, booked or declined; what is booked stands whole in the sites' books,
    what is declined is absent from them; no second has more nodes promised than there are; and no
    hold is left.
    """
    window = grid.window(WINDOW_S)
    wishes = [a_wish(number, window) for number in range(LAPTOPS * TRIPS_EACH)]
    async with AsyncExitStack() as stack:
        laptops = [
            await stack.enter_async_context(grid.laptop(USERS[number % len(USERS)]))
            for number in range(LAPTOPS)
        ]
        results = await asyncio.gather(
            *(laptops[number % LAPTOPS].book(wish) for number, wish in enumerate(wishes)),
            return_exceptions=True,
        )
        faults = [each for each in results if isinstance(each, BaseException)]
        assert not faults, Counter(str(each) for each in faults)
    trips = [each for each in results if isinstance(each, Itinerary)]
    states = Counter(each.state for each in trips)
    assert set(states) == {TripState.BOOKED, TripState.DECLINED}
    for site in SITES:
        check_every_second(grid, site)
    grid.check_whole(trips, window)


async def test_travellers_who_compete_for_the_last_room_do_not_all_lose(grid: GridWorld) -> None:
    """Of ten who want more than half of two sites for the same hour, one gets it: refusing each
    other's holds must not end in nobody having anything.
    """
    window = grid.window(3600)
    text = metajob_text(
        {"alpha": (9, 16), "beta": (5, 8)},
        14,
        earliest=window[0],
        latest=window[1],
        duration_s=3600,
    )
    wish = parse_metajob(text, now=SystemClock().now(), zone=ZoneInfo("UTC"), form="toml").metajob
    async with AsyncExitStack() as stack:
        laptops = [
            await stack.enter_async_context(grid.laptop(USERS[number % 2])) for number in range(10)
        ]
        trips = await asyncio.gather(*(laptop.book(wish) for laptop in laptops))
    states = Counter(trip.state for trip in trips)
    assert states == {TripState.BOOKED: 1, TripState.DECLINED: 9}
    assert not grid.holds()
