"""What a manager answers is exactly what its children together have, second by second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.capacity.ladders import EXACT, LadderLevel, SlotLadder
from gridtravel.manager.search.combining import ChildRoom, distribute
from gridtravel.manager.search.shadow_estimates import ShadowEstimate, may_have_room, sure_room
from gridtravel.manager.shadows.roll_up import RollingSum, roll_up
from tests.support.child_site import ChildSite
from tests.support.manager_world import a_wish, a_world
from tests.support.virtual_time import START, LoopClock, run_virtually

SPAN_S = 60
"""Length of the time in which anything is booked."""
FIRST = START + 20
LADDERS = (EXACT, SlotLadder((LadderLevel(4, 3), LadderLevel(12))), SlotLadder((LadderLevel(7),)))


class StoppedClock(LoopClock):
    """Needs no loop."""

    def now_precise(self) -> float:
        """The beginning."""
        return float(START)


@dataclass(frozen=True)
class Load:
    """One child: its nodes, its price, and what it has booked already."""

    nodes: int
    hourly: int
    bookings: tuple[tuple[int, int, int], ...]

    def site(self, name: str, ladder: SlotLadder = EXACT, *, stopped: bool = False) -> ChildSite:
        """The child; bookings that do not fit are left out."""
        clock = StoppedClock() if stopped else None
        site = ChildSite(name, self.nodes, hourly=self.hourly, clock=clock, ladder=ladder)
        for nodes, offset_s, length_s in self.bookings:
            start = FIRST + offset_s
            if site.calendar.free["node"].fits(nodes, start, start + length_s):
                site.book(nodes, start, start + length_s)
        return site

    def free(self, site: ChildSite, start: int, duration_s: int) -> int:
        """By looking at each second."""
        profile = site.calendar.free["node"]
        return min(profile.free_at(second) for second in range(start, start + duration_s))


bookings = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, SPAN_S), st.integers(1, 25)), max_size=6
)
loads = st.builds(
    Load,
    nodes=st.integers(1, 6),
    hourly=st.sampled_from([0, 3600, 7200]),
    bookings=bookings.map(tuple),
)
families = st.lists(loads, min_size=1, max_size=4)


@given(
    family=families,
    nodes=st.tuples(st.integers(1, 14), st.integers(0, 6)),
    duration_s=st.integers(1, 30),
    window_s=st.integers(0, SPAN_S),
)
def test_offers_are_the_sum_over_the_children_at_each_start(
    family: Sequence[Load], nodes: tuple[int, int], duration_s: int, window_s: int
) -> None:
    """At each start of the window the manager offers what a naive sum over the children's seconds
    gives, never more than was asked for, and nothing where that is below the minimum; a refusal
    names the first start at which the sum suffices.
    """
    nodes_min, nodes_max = nodes[0], nodes[0] + nodes[1]

    async def scene() -> None:
        sites = [load.site(f"c{number}") for number, load in enumerate(family)]
        async with a_world(*sites) as world:
            end = FIRST + window_s + duration_s
            wish = a_wish(nodes=(nodes_min, nodes_max), duration_s=duration_s, earliest=FIRST)
            (answer,) = await world.ada.inquire([_until(wish, end)])

            def sum_at(start: int) -> int:
                pairs = zip(family, sites, strict=True)
                return sum(load.free(site, start, duration_s) for load, site in pairs)

            offered = {}
            if isinstance(answer, Availability):
                assert answer.known_until == end - duration_s + 1
                for offer in answer.offers:
                    for start in range(offer.start, offer.start_until):
                        assert start not in offered, "offers never overlap"
                        offered[start] = offer.nodes
            for start in range(FIRST, end - duration_s + 1):
                there = sum_at(start)
                expected = min(there, nodes_max) if there >= nodes_min else None
                assert offered.get(start) == expected, start
            if isinstance(answer, Decline):
                later = range(FIRST, FIRST + 3 * SPAN_S)
                first = next((start for start in later if sum_at(start) >= nodes_min), None)
                assert answer.earliest == first
                most = max(sum_at(start) for start in range(FIRST, end - duration_s + 1))
                assert answer.nodes_now == min(most, nodes_max)

    run_virtually(scene)


@given(
    family=families,
    nodes=st.integers(1, 14),
    duration_s=st.integers(1, 30),
    window_s=st.integers(0, SPAN_S),
)
def test_what_is_reserved_is_the_first_start_that_exists(
    family: Sequence[Load], nodes: int, duration_s: int, window_s: int
) -> None:
    """A hold is at the earliest start of the window at which the children have the nodes between
    them, whatever slots their shadows are made of; when there is none it is refused. It never
    costs more than was quoted.
    """

    async def scene() -> None:
        coarse = LADDERS[nodes % len(LADDERS)]
        sites = [load.site(f"c{number}", coarse) for number, load in enumerate(family)]
        async with a_world(*sites) as world:
            end = FIRST + window_s + duration_s
            wish = _until(a_wish(nodes=nodes, duration_s=duration_s, earliest=FIRST), end)
            starts = range(FIRST, end - duration_s + 1)
            pairs = list(zip(family, sites, strict=True))
            first = next(
                (
                    start
                    for start in starts
                    if sum(load.free(site, start, duration_s) for load, site in pairs) >= nodes
                ),
                None,
            )
            (quote,) = await world.ada.inquire([wish])
            answer = await world.ada.reserve(wish, ttl_s=20)
            if first is None:
                assert isinstance(answer, Decline)
            else:
                assert isinstance(answer, Reservation)
                assert isinstance(quote, Availability)
                assert (answer.start, answer.nodes) == (first, nodes)
                assert answer.price_millicredits <= quote.offers[0].price_millicredits(nodes)
                await world.ada.release(answer.reservation_id)
            world.assert_whole_or_absent()

    run_virtually(scene)


@given(family=families, ladders=st.tuples(st.sampled_from(LADDERS), st.sampled_from(LADDERS)))
def test_the_rolled_up_summary_never_shows_more_than_there_is(
    family: Sequence[Load], ladders: tuple[SlotLadder, SlotLadder]
) -> None:
    """In every slot of the sum at least as many nodes are free at every second as it says, and at
    least as many node-seconds; with exact ladders it says exactly what there is.
    """
    below, own = ladders
    sites = [load.site(f"c{n}", below, stopped=True) for n, load in enumerate(family)]
    summaries = [summarise(site.calendar, below, START, horizon_s=10 * SPAN_S) for site in sites]
    total = roll_up(
        "north",
        summaries,
        RollingSum(own, 10 * SPAN_S),
        version=CalendarVersion("e", 1),
        now=START,
    )
    (only,) = total.classes
    assert only.capacity == sum(load.nodes for load in family)
    at = START
    for slot in only.slots:
        assert slot.start == at
        at = slot.end
        free = [
            sum(site.calendar.free["node"].free_at(second) for site in sites)
            for second in range(slot.start, slot.end)
        ]
        assert slot.free_min <= min(free)
        assert slot.free_node_s <= sum(free)
        if below == own == EXACT:
            assert (slot.free_min, slot.free_node_s) == (min(free), sum(free))
    behind = range(at, at + SPAN_S)
    for site, load in zip(sites, family, strict=True):
        assert all(site.calendar.free["node"].free_at(each) == load.nodes for each in behind)


@given(
    load=loads,
    ladder=st.sampled_from(LADDERS),
    duration_s=st.integers(1, 30),
    offset_s=st.integers(0, SPAN_S),
    window_s=st.integers(0, SPAN_S),
)
def test_a_fresh_shadow_never_misleads(
    load: Load, ladder: SlotLadder, duration_s: int, offset_s: int, window_s: int
) -> None:
    """What a shadow shows for sure is there, and a child that it rules out has nothing."""
    site = load.site("c", ladder, stopped=True)
    summary = summarise(site.calendar, ladder, START, horizon_s=10 * SPAN_S)
    soonest = FIRST + offset_s
    end = soonest + window_s + duration_s
    wish = _until(a_wish(nodes=1, duration_s=duration_s, earliest=soonest), end)
    starts = range(soonest, end - duration_s + 1)
    hint = ShadowEstimate(child="c", is_manager=False, summary=summary)
    for start in starts:
        room = sure_room(hint, wish, start)
        assert (room.nodes if room else 0) <= load.free(site, start, duration_s)
    if not may_have_room(summary, wish, soonest):
        assert all(load.free(site, start, duration_s) == 0 for start in starts)


@given(
    rooms=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), max_size=6),
    nodes_max=st.integers(1, 30),
    budget=st.none() | st.integers(0, 60),
)
def test_a_distribution_is_the_cheapest_of_its_size(
    rooms: Sequence[tuple[int, int]], nodes_max: int, budget: int | None
) -> None:
    """As many nodes as there are, were asked for, and are paid for; each the cheapest left."""
    offered = [
        ChildRoom(child=f"c{n}", nodes=nodes, unit_price_millicredits=price, resource_class="node")
        for n, (nodes, price) in enumerate(rooms)
    ]
    shares = distribute(offered, nodes_max, budget)
    prices = sorted(price for nodes, price in rooms for _ in range(nodes))[:nodes_max]
    while budget is not None and sum(prices) > budget:
        prices.pop()
    assert sum(share.nodes for share in shares) == len(prices)
    assert sum(share.price_millicredits for share in shares) == sum(prices)
    room_of = {room.child: room.nodes for room in offered}
    assert all(0 < share.nodes <= room_of[share.child] for share in shares)
    assert [share.child for share in shares] == sorted(share.child for share in shares)


def _until(wish: ReservationRequest, end: int) -> ReservationRequest:
    return replace(wish, latest_end=end)
