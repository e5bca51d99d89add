"""Sweep's planning against brute force: whatever it answers is valid, nothing earlier exists."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Availability, Offer
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.trips.planning import (
    NoPlan,
    Plan,
    SiteShare,
    by_load,
    plan_common_start,
    plan_single,
)
from gridtravel.gridcore.trips.trip_wishes import Objective

HORIZON_S = 24
DURATION_S = 3
CAPACITY = 4

bookings = st.lists(
    st.tuples(st.integers(1, CAPACITY), st.integers(0, HORIZON_S), st.integers(1, 6)), max_size=6
)
prices = st.integers(0, 9)


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[SiteShare], list[AvailabilityProfile], list[int], int]:
    """Up to three small loaded sites, what the trip may take of each, their prices, and a total."""
    count = draw(st.integers(1, 3))
    profiles, shares, costs = [], [], []
    for number in range(count):
        profile = AvailabilityProfile(CAPACITY)
        for nodes, start, length_s in draw(bookings):
            if profile.fits(nodes, start, start + length_s):
                profile.book(nodes, start, start + length_s)
        least = draw(st.integers(1, 2))
        most = draw(st.integers(least, CAPACITY))
        profiles.append(profile)
        shares.append(SiteShare(name=f"s{number}", nodes_min=least, nodes_max=most))
        costs.append(draw(prices))
    least_total = sum(share.nodes_min for share in shares)
    most_total = sum(share.nodes_max for share in shares)
    return shares, profiles, costs, draw(st.integers(least_total, most_total))


def availability_of(profile: AvailabilityProfile, price: int) -> Availability:
    """What a site with this profile answers to an inquiry over the whole horizon."""
    runs = profile.starts(DURATION_S, 0, HORIZON_S, 1)
    return Availability(
        offers=tuple(
            Offer(
                start=first,
                start_until=until,
                nodes=nodes,
                resource_class="n",
                unit_price_millicredits=price,
            )
            for first, until, nodes in runs
        ),
        version=CalendarVersion("e", 0),
        known_until=HORIZON_S - DURATION_S + 1,
    )


def feasible(
    shares: list[SiteShare], profiles: list[AvailabilityProfile], total: int, start: int
) -> bool:
    """Brute force: some distribution of nodes fits at ``start``."""
    availability = [profile.min_free(start, start + DURATION_S) for profile in profiles]
    if any(have < share.nodes_min for have, share in zip(availability, shares, strict=True)):
        return False
    return sum(min(h, s.nodes_max) for h, s in zip(availability, shares, strict=True)) >= total


@given(grids())
def test_earliest_common_start_is_the_earliest_that_exists(
    grid: tuple[list[SiteShare], list[AvailabilityProfile], list[int], int],
) -> None:
    """The plan is valid, and no earlier second would do; no plan means that no second would do."""
    shares, profiles, costs, total = grid
    answers = {
        s.name: availability_of(p, c) for s, p, c in zip(shares, profiles, costs, strict=True)
    }
    plan = plan_common_start(shares, answers, total, fill_order=by_load(shares, answers))
    possible = [
        t for t in range(HORIZON_S - DURATION_S + 1) if feasible(shares, profiles, total, t)
    ]
    if isinstance(plan, NoPlan):
        assert not possible
        return
    assert plan.start == possible[0]
    assert sum(leg.nodes for leg in plan.legs) == total
    for leg, share, profile in zip(plan.legs, shares, profiles, strict=True):
        assert leg.start == plan.start
        assert share.nodes_min <= leg.nodes <= share.nodes_max
        assert profile.fits(leg.nodes, leg.start, leg.start + DURATION_S)


@given(grids(), st.integers(0, 60))
def test_lowest_cost_within_budget_is_the_lowest_that_exists(
    grid: tuple[list[SiteShare], list[AvailabilityProfile], list[int], int], budget: int
) -> None:
    """Of all starts and distributions none that the budget pays for is cheaper."""
    shares, profiles, costs, total = grid
    answers = {
        s.name: availability_of(p, c) for s, p, c in zip(shares, profiles, costs, strict=True)
    }
    plan = plan_common_start(
        shares, answers, total, budget_millicredits=budget, objective=Objective.LOWEST_COST
    )
    cheapest = None
    for start in range(HORIZON_S - DURATION_S + 1):
        availability = [profile.min_free(start, start + DURATION_S) for profile in profiles]
        ranges = [range(s.nodes_min, s.nodes_max + 1) for s in shares]
        for nodes in itertools.product(*ranges):
            if sum(nodes) != total or any(n > r for n, r in zip(nodes, availability, strict=True)):
                continue
            price = sum(n * c for n, c in zip(nodes, costs, strict=True))
            if price <= budget and (cheapest is None or price < cheapest):
                cheapest = price
    if cheapest is None:
        assert isinstance(plan, NoPlan)
    else:
        assert isinstance(plan, Plan)
        assert plan.price_millicredits == cheapest


@given(grids())
def test_single_takes_the_first_machine_that_is_free(
    grid: tuple[list[SiteShare], list[AvailabilityProfile], list[int], int],
) -> None:
    """Disneyland: one site, the earliest of all; ties go to the preferred one."""
    shares, profiles, costs, _ = grid
    total = shares[0].nodes_min
    answers = {
        s.name: availability_of(p, c) for s, p, c in zip(shares, profiles, costs, strict=True)
    }
    plan = plan_single(shares, answers, total)
    firsts = [profile.earliest_fit(total, DURATION_S, 0, HORIZON_S) for profile in profiles]
    possible = [first for first in firsts if first is not None]
    if not possible:
        assert isinstance(plan, NoPlan)
        return
    assert isinstance(plan, Plan)
    assert plan.start == min(possible)
    assert len(plan.legs) == 1


def test_the_least_loaded_site_gets_the_nodes_beyond_the_minimum() -> None:
    """Nodes go preferentially to the least loaded system (GUR paper, section 4)."""
    busy, idle = AvailabilityProfile(CAPACITY), AvailabilityProfile(CAPACITY)
    busy.book(3, 0, 2)
    shares = [
        SiteShare(name="busy", nodes_min=1, nodes_max=4),
        SiteShare(name="idle", nodes_min=1, nodes_max=4),
    ]
    answers = {"busy": availability_of(busy, 0), "idle": availability_of(idle, 0)}
    plan = plan_common_start(shares, answers, 5, fill_order=by_load(shares, answers))
    assert isinstance(plan, Plan)
    assert [leg.nodes for leg in plan.legs] == [1, 4]
    assert plan.start == 0
