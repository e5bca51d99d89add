"""Both searches on small loaded grids: what they propose is valid, and nothing is left behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.trips.metajobs import Metajob, Objective, UsagePattern
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.travel_agent.search.probe import Probe
from gridtravel.travel_agent.search.sweep import Search, Sweep
from gridtravel.travel_agent.search.trials import TRIALS_MAX
from tests.support.search_world import (
    NOW,
    CalendarSite,
    LogPage,
    PatientClock,
    a_context,
    a_trip,
    ways_to,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CAPACITY = 4
WINDOW_S = 40
BEGIN = NOW + 10
LENGTH_S = 5
GONE = Decline(rule=DeclineRule.CHANGED, message="somebody was quicker")

loads = st.lists(
    st.tuples(st.integers(1, CAPACITY), st.integers(BEGIN, BEGIN + WINDOW_S), st.integers(1, 9)),
    max_size=7,
)


@dataclass(frozen=True)
class Instance:
    """A trip, and what its sites have in their books already."""

    metajob: Metajob
    loads: tuple[list[tuple[int, int, int]], ...]
    prices: tuple[int, ...]

    def sites(self, clock: PatientClock) -> dict[str, CalendarSite]:
        """The sites, afresh."""
        return {
            each.machine: CalendarSite(
                each.machine, clock, nodes=CAPACITY, load=load, price=price * 3600
            )
            for each, load, price in zip(
                self.metajob.machines, self.loads, self.prices, strict=True
            )
        }


@st.composite
def instances(draw: st.DrawFn, machines_max: int = 3, *, is_single: bool = False) -> Instance:
    """Up to ``machines_max`` sites, and a trip of any size that their limits allow."""
    count = draw(st.integers(1, machines_max))
    names = "abc"[:count]
    least = {name: draw(st.integers(1, 2)) for name in names}
    most = {name: draw(st.integers(least[name], CAPACITY)) for name in names}
    nodes = st.integers(sum(least.values()), sum(most.values()))
    if is_single:
        nodes = st.integers(min(least.values()), max(most.values())).filter(
            lambda total: any(least[n] <= total <= most[n] for n in names)
        )
    metajob = a_trip(
        {name: (least[name], most[name]) for name in names},
        draw(nodes),
        pattern=UsagePattern.SINGLE if is_single else UsagePattern.MULTIPLE,
        preference_reorder=draw(st.booleans()),
        objective=draw(st.sampled_from(Objective)),
        budget_millicredits=draw(st.none() | st.integers(0, 60)),
        earliest_start=BEGIN,
        latest_end=BEGIN + WINDOW_S,
        duration_s=LENGTH_S,
    )
    return Instance(
        metajob,
        tuple(draw(loads) for _ in names),
        tuple(draw(st.integers(0, 3)) for _ in names),
    )


def possible_starts(metajob: Metajob, sites: dict[str, CalendarSite]) -> list[int]:
    """Brute force: every second of the window at which some distribution fits and is paid for."""
    found = []
    candidates = {each.machine: each for each in metajob.candidates}
    for start in range(BEGIN, BEGIN + WINDOW_S - LENGTH_S + 1):
        availability = {
            name: sites[name].availability(start, start + LENGTH_S) for name in candidates
        }
        price = {
            name: sites[name].book.tariff.unit_price_millicredits("n", start, LENGTH_S)
            for name in candidates
        }
        if metajob.usage_pattern is UsagePattern.SINGLE:
            total = metajob.nodes_total
            costs = [total * price[n] for n in candidates if availability[n] >= total]
            cost = min(costs, default=None)
        else:
            cost = cheapest(metajob, availability, price)
        budget = metajob.budget_millicredits
        if cost is not None and (budget is None or cost <= budget):
            found.append(start)
    return found


def cheapest(metajob: Metajob, availability: dict[str, int], price: dict[str, int]) -> int | None:
    """Least cost of the whole trip in this room; ``None``: it does not fit."""
    sizes = {each.machine: each.nodes_min for each in metajob.machines}
    if any(availability[name] < least for name, least in sizes.items()):
        return None
    left = metajob.nodes_total - sum(sizes.values())
    for each in sorted(metajob.machines, key=lambda each: price[each.machine]):
        more = min(left, min(each.nodes_max, availability[each.machine]) - sizes[each.machine])
        sizes[each.machine] += more
        left -= more
    return None if left else sum(sizes[name] * price[name] for name in sizes)


def check_plan(plan: Plan, metajob: Metajob, sites: dict[str, CalendarSite]) -> None:
    """Within the window, the limits and the budget; together; and in room that is free."""
    limits = {each.machine: each for each in metajob.machines}
    assert sum(leg.nodes for leg in plan.legs) == metajob.nodes_total
    for leg in plan.legs:
        assert leg.start == plan.start
        assert limits[leg.machine].nodes_min <= leg.nodes <= limits[leg.machine].nodes_max
        assert sites[leg.machine].availability(leg.start, leg.start + LENGTH_S) >= leg.nodes
    assert metajob.earliest_start <= plan.start
    assert plan.start + LENGTH_S <= metajob.latest_end
    if metajob.usage_pattern is UsagePattern.MULTIPLE:
        assert [leg.machine for leg in plan.legs] == list(limits)
    else:
        assert len(plan.legs) == 1
    if metajob.budget_millicredits is not None:
        assert plan.price_millicredits <= metajob.budget_millicredits


def live(
    instance: Instance, make: Callable[[dict[str, CalendarSite], PatientClock, LogPage], Search]
) -> tuple[Plan | Decline, dict[str, CalendarSite]]:
    """One proposal, checked; the sites are as they were before it."""
    clock, log = PatientClock(NOW), LogPage()
    sites = instance.sites(clock)
    answer = asyncio.run(make(sites, clock, log).propose())
    assert not any(site.live() for site in sites.values())
    assert log.announced() == set()
    for site in sites.values():
        site.book.validate()
    if isinstance(answer, Plan):
        check_plan(answer, instance.metajob, sites)
    return answer, sites


def sweep_of(instance: Instance) -> tuple[Plan | Decline, dict[str, CalendarSite]]:
    """What the sweep proposes."""
    job = instance.metajob
    return live(instance, lambda sites, clock, log: Sweep(a_context(job, ways_to(job, sites))))


def probe_of(instance: Instance) -> tuple[Plan | Decline, dict[str, CalendarSite]]:
    """What the probe proposes."""
    job = instance.metajob
    return live(
        instance,
        lambda sites, clock, log: Probe(a_context(job, ways_to(job, sites), log=log, clock=clock)),
    )


@given(instances())
def test_sweep_is_never_later_than_brute_force(instance: Instance) -> None:
    """For the earliest finish its start is the earliest that exists, and it finds one if there is
    one, whatever the objective.
    """
    plan, sites = sweep_of(instance)
    possible = possible_starts(instance.metajob, sites)
    assert isinstance(plan, Plan) == bool(possible)
    if isinstance(plan, Plan) and instance.metajob.objective is Objective.EARLIEST_FINISH:
        assert plan.start == possible[0]


@given(instances())
def test_a_probe_proposes_what_is_possible_and_sets_a_bounded_number(instance: Instance) -> None:
    """Its start may be later than the earliest, but it is a start; and it comes to an end."""
    plan, sites = probe_of(instance)
    if isinstance(plan, Plan):
        assert plan.start in possible_starts(instance.metajob, sites)
    assert sum(site.calls["reserve"] for site in sites.values()) <= TRIALS_MAX + len(sites)
    assert not any(site.calls["inquire"] or site.calls["describe"] for site in sites.values())


@given(instances(machines_max=2))
def test_a_probe_misses_no_start_of_two_machines(instance: Instance) -> None:
    """Of two machines every distribution is tried over the whole window: what fits is found, as far
    as money does not matter.
    """
    plan, sites = probe_of(instance)
    if instance.metajob.budget_millicredits is None:
        assert isinstance(plan, Plan) == bool(possible_starts(instance.metajob, sites))


@given(instances(is_single=True))
def test_both_searches_find_the_first_machine_that_is_free(instance: Instance) -> None:
    """Single: with nothing but set and cancel the same start is found as with inquiries."""
    swept, sites = sweep_of(instance)
    probed, _ = probe_of(instance)
    possible = possible_starts(instance.metajob, sites)
    assert isinstance(swept, Plan) == bool(possible)
    if isinstance(swept, Plan) and instance.metajob.objective is Objective.EARLIEST_FINISH:
        assert swept.start == possible[0]
        if instance.metajob.budget_millicredits is None:
            assert isinstance(probed, Plan)
            assert probed.start == swept.start


@given(instances(), st.lists(st.tuples(st.integers(0, 2), st.integers(0, WINDOW_S)), max_size=4))
def test_a_search_goes_on_while_others_book(
    instance: Instance, others: list[tuple[int, int]]
) -> None:
    """Between two proposals somebody else takes room: what is proposed next is valid again, and
    nothing is promised twice.
    """
    clock, job = PatientClock(NOW), instance.metajob
    for is_probe in (False, True):
        sites = instance.sites(clock)
        trip = a_context(job, ways_to(job, sites), clock=clock, trip_id="t-1")
        search = Probe(trip) if is_probe else Sweep(trip)
        answer = asyncio.run(disturbed(search, sites, others))
        if isinstance(answer, Plan):
            check_plan(answer, job, sites)
        for site in sites.values():
            site.book.validate()


async def disturbed(
    search: Search, sites: dict[str, CalendarSite], others: list[tuple[int, int]]
) -> Plan | Decline:
    """The last proposal, after others have booked between the proposals."""
    answer = await search.propose()
    for number, (which, offset) in enumerate(others):
        if isinstance(answer, Decline):
            break
        site = list(sites.values())[which % len(sites)]
        await take(site, f"other-{number}", BEGIN + offset)
        await search.learn({leg.name: GONE for leg in answer.legs})
        answer = await search.propose()
    return answer


async def take(site: CalendarSite, name: str, start: int) -> Reservation | Decline:
    """Somebody else books what is left of a node there."""
    request = ReservationRequest(
        request_id=name,
        account="default",
        nodes_min=1,
        nodes_max=CAPACITY,
        duration_s=LENGTH_S,
        earliest_start=start,
        latest_end=start + LENGTH_S,
    )
    return await site.reserve(request, ttl_s=100)
