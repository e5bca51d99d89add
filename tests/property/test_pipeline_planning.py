"""Planning a pipeline against brute force: every chain of starts of a small instance is tried."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import event, given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Availability, Offer
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.trips.pipeline_planning import (
    ChainLink,
    NoChain,
    earliest_starts,
    latest_starts,
    plan_chain,
)
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.gridcore.trips.trip_wishes import Objective

HORIZON_S = 22
CAPACITY = 3
MACHINES = ("left", "right")

bookings = st.lists(
    st.tuples(st.integers(1, CAPACITY), st.integers(0, HORIZON_S), st.integers(1, 9)), max_size=7
)


@dataclass(frozen=True)
class Instance:
    """A small grid, a chain, and what the machines answer about it."""

    profiles: dict[str, AvailabilityProfile]
    prices: dict[str, int]
    links: tuple[ChainLink, ...]

    def answers(self) -> dict[tuple[str, str], Availability]:
        """What every machine says about every stage."""
        return {
            (link.name, machine): Availability(
                offers=tuple(
                    Offer(
                        start=first,
                        start_until=until,
                        nodes=nodes,
                        resource_class="n",
                        unit_price_millicredits=self.prices[machine] * link.length_s,
                    )
                    for first, until, nodes in self.profiles[machine].starts(
                        link.length_s, 0, HORIZON_S, link.nodes
                    )
                ),
                version=CalendarVersion("e", 0),
                known_until=HORIZON_S,
            )
            for link in self.links
            for machine in link.machines
        }

    def price(self, link: ChainLink, machine: str) -> int:
        """What a stage costs at a machine."""
        return self.prices[machine] * link.length_s * link.nodes

    def chains(self) -> list[tuple[int, int]]:
        """Brute force: (finish, price) of every chain of starts and machines that is possible."""
        places = [
            [
                (start, machine)
                for machine in link.machines
                for start in range(HORIZON_S - link.length_s + 1)
                if self.profiles[machine].fits(link.nodes, start, start + link.length_s)
            ]
            for link in self.links
        ]
        found = []
        for chain in itertools.product(*places):
            starts = [start for start, _ in chain]
            if self.is_chain(starts):
                price = sum(
                    self.price(link, machine)
                    for link, (_, machine) in zip(self.links, chain, strict=True)
                )
                found.append((starts[-1] + self.links[-1].length_s, price))
        return found

    def is_chain(self, starts: list[int]) -> bool:
        """Each stage after the one before plus its transfer, and within its slack."""
        for (before, link), (start, following) in zip(
            itertools.pairwise(self.links), itertools.pairwise(starts), strict=True
        ):
            wait_s = following - start - before.length_s - link.transfer_s
            if wait_s < 0 or (link.slack_s is not None and wait_s > link.slack_s):
                return False
        return True


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """One or two loaded machines, one to three stages, with and without slack."""
    profiles = {}
    for machine in MACHINES:
        profiles[machine] = AvailabilityProfile(CAPACITY)
        for nodes, start, length_s in draw(bookings):
            if profiles[machine].fits(nodes, start, start + length_s):
                profiles[machine].book(nodes, start, start + length_s)
    links = tuple(
        ChainLink(
            name=f"stage{number}",
            machines=draw(st.sampled_from([("left",), ("left", "right"), ("right", "left")])),
            nodes=draw(st.integers(1, CAPACITY)),
            length_s=draw(st.integers(1, 5)),
            transfer_s=draw(st.integers(0, 3)) if number else 0,
            slack_s=draw(st.none() | st.integers(0, 4)) if number else None,
        )
        for number in range(draw(st.integers(1, 3)))
    )
    prices = {machine: draw(st.integers(0, 4)) for machine in MACHINES}
    return Instance(profiles, prices, links)


def check_valid(instance: Instance, plan: Plan) -> None:
    """The plan is a chain, has room everywhere, and says its true price."""
    assert [leg.name for leg in plan.legs] == [link.name for link in instance.links]
    assert instance.is_chain([leg.start for leg in plan.legs])
    for leg, link in zip(plan.legs, instance.links, strict=True):
        assert leg.machine in link.machines
        assert leg.nodes == link.nodes
        assert instance.profiles[leg.machine].fits(leg.nodes, leg.start, leg.start + link.length_s)
        assert leg.price_millicredits == instance.price(link, leg.machine)


def finish_of(instance: Instance, plan: Plan) -> int:
    """When the last stage ends."""
    return plan.legs[-1].start + instance.links[-1].length_s


@given(instances())
def test_no_chain_finishes_earlier(instance: Instance) -> None:
    """The plan is valid, no chain at all finishes before it, and none was missed."""
    plan = plan_chain(instance.links, instance.answers())
    chains = instance.chains()
    event("planned" if isinstance(plan, Plan) else "impossible")
    if isinstance(plan, NoChain):
        assert not chains
        return
    check_valid(instance, plan)
    assert finish_of(instance, plan) == min(finish for finish, _ in chains)


@given(instances(), st.integers(0, 90))
def test_no_chain_within_the_budget_finishes_earlier(instance: Instance, budget: int) -> None:
    """With a budget: valid, paid for, and the earliest of those that are; else the refusal names
    the cheapest chain.
    """
    plan = plan_chain(instance.links, instance.answers(), budget_millicredits=budget)
    chains = instance.chains()
    paid = [finish for finish, price in chains if price <= budget]
    if isinstance(plan, NoChain):
        assert not paid
        cheapest = min((price for _, price in chains), default=None)
        assert plan.cheapest_millicredits == cheapest
        return
    check_valid(instance, plan)
    assert plan.price_millicredits <= budget
    assert finish_of(instance, plan) == min(paid)


@given(instances(), st.none() | st.integers(0, 90))
def test_no_chain_is_cheaper(instance: Instance, budget: int | None) -> None:
    """Lowest cost: no chain is cheaper, and of the cheapest none finishes earlier."""
    plan = plan_chain(
        instance.links,
        instance.answers(),
        budget_millicredits=budget,
        objective=Objective.LOWEST_COST,
    )
    chains = [(price, finish) for finish, price in instance.chains()]
    paid = [each for each in chains if budget is None or each[0] <= budget]
    if isinstance(plan, NoChain):
        assert not paid
        return
    check_valid(instance, plan)
    assert (plan.price_millicredits, finish_of(instance, plan)) == min(paid)


@given(instances())
def test_every_stage_before_the_last_starts_as_early_as_it_can(instance: Instance) -> None:
    """With the finish fixed no stage waits without need, and equally early machines go by the order
    of preference.
    """
    plan = plan_chain(instance.links, instance.answers())
    if isinstance(plan, NoChain):
        return
    starts = [leg.start for leg in plan.legs]
    for position, (leg, link) in enumerate(zip(plan.legs, instance.links, strict=True)):
        for machine in link.machines[: link.machines.index(leg.machine)]:
            assert not instance.profiles[machine].fits(
                link.nodes, leg.start, leg.start + link.length_s
            )
        if position == 0 and len(starts) > 1:
            for start in range(leg.start):
                assert not (
                    instance.is_chain([start, *starts[1:]])
                    and any(
                        instance.profiles[machine].fits(link.nodes, start, start + link.length_s)
                        for machine in link.machines
                    )
                )


@given(instances(), st.integers(0, 9))
def test_bounds_of_the_starts_meet(instance: Instance, first: int) -> None:
    """The earliest starts behind a first start are the latest before the last of them."""
    earliest = earliest_starts(instance.links, first)
    assert latest_starts(instance.links, earliest[-1]) == earliest
    assert instance.is_chain(earliest)


def test_a_stage_that_has_room_at_the_wrong_time_is_told_apart() -> None:
    """The refusal names the first stage that cannot be reached, and whether it has room at all."""
    links = (
        ChainLink(name="first", machines=("left",), nodes=1, length_s=5),
        ChainLink(name="second", machines=("right",), nodes=1, length_s=5, slack_s=0),
    )
    free, early = AvailabilityProfile(1), AvailabilityProfile(1)
    early.book(1, 5, HORIZON_S)
    instance = Instance({"left": free, "right": early}, {"left": 0, "right": 0}, links)
    assert plan_chain(links, instance.answers()) == NoChain(stage="second", has_room=True)
    full = AvailabilityProfile(1)
    full.book(1, 0, HORIZON_S)
    instance = Instance({"left": free, "right": full}, {"left": 0, "right": 0}, links)
    assert plan_chain(links, instance.answers()) == NoChain(stage="second", has_room=False)
