"""A world from a seed: how many sites and travellers, what they want, and what goes wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.simulator.grid.lying_manager import ManagerPlan
from gridtravel.simulator.grid.random_pipelines import PIPELINES, with_pipelines
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, TripWish
from gridtravel.simulator.grid.simulated_site import SitePlan
from gridtravel.simulator.grid.world import (
    FaultKind,
    InjectedFault,
    LocalWish,
    PlannedCrash,
    WorldPlan,
)
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.kernel.network import NetworkConditions
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN, ClockStep
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.choices import SearchChoice

STORM_S: Final = 240.0
SITES_LEAST: Final = 2
LEGS_MOST: Final = 5
BACK_MOST_S: Final = 90.0
"""Longest time that a party stays dead, unless it never comes back."""
STEPS_MOST: Final = 250
"""Crash points lie within so many callbacks of a life: that is where bookings are made."""


LYING_SITES: Final = 0.7
"""Share of the worlds with liars in which a site is one of them."""
LYING_MANAGERS: Final = 0.6
"""Share of the worlds with liars in which a manager is one of them."""
CHANGES: Final = 0.35
"""Share of the trips that their users change."""


def random_plan(
    seed: int,
    *,
    sites_most: int = 20,
    loss: float = 0.5,
    changes: float = CHANGES,
    pipelines: float = PIPELINES,
    liars: bool = False,
) -> WorldPlan:
    """The world of this seed. ``loss``: the most that its network loses, of each message;
    ``changes``: how many of the trips are amended; ``pipelines``: how many of the others are.
    ``liars``: one site of it lies, and beside each two honest laptops there is one that does.
    """
    chance = Chance(seed, "plan")
    count = chance.whole(SITES_LEAST, max(SITES_LEAST, sites_most))
    sites = tuple(_site(chance, f"s{number}") for number in range(1, count + 1))
    names = [each.name for each in sites]
    laptops = tuple(
        _laptop(chance, f"user{number}", sites)
        for number in range(1, 2 + chance.whole(0, count) // 3)
    )
    parties = [*names, *(each.name for each in laptops)]
    # From a source of its own, so that all else is as in a world without changes.
    laptops = tuple(
        _changing(Chance(seed, f"changes {each.name}"), each, sites, changes) for each in laptops
    )
    laptops = tuple(
        with_pipelines(Chance(seed, f"pipelines {each.name}"), each, pipelines) for each in laptops
    )
    plan = WorldPlan(
        seed=seed,
        sites=sites,
        laptops=laptops,
        conditions=_conditions(chance, loss),
        faults=tuple(_faults(chance, names, parties)),
        crashes=tuple(_crashes(chance, names, parties)),
        local_wishes=tuple(_local(chance, sites)),
        storm_s=STORM_S,
        watched=tuple(chance.some_of(names, min(2, count))),
    )
    return with_liars(Chance(seed, "liars"), plan) if liars else plan


def with_liars(chance: Chance, plan: WorldPlan) -> WorldPlan:
    """The same world with liars in it. In half of the worlds its users let only the other sites
    keep their trips, so that the lying one is a party and nothing else.
    """
    plan = _with_races(Chance(plan.seed, "races"), plan)
    site = chance.one_of(plan.sites).name if chance.happens(LYING_SITES) else ""
    keepers = tuple(each.name for each in plan.sites if each.name != site)
    honest = plan.laptops
    if site and chance.happens(0.5):
        honest = tuple(replace(each, keepers=keepers) for each in honest)
    lying = tuple(
        LaptopPlan(name=f"liar{number}", wishes=())
        for number in range(1, 1 + max(1, len(honest) // 2))
    )
    names = [each.name for each in lying]
    plan = replace(plan, laptops=(*honest, *lying), liars=(*names, site) if site else tuple(names))
    return _with_manager(Chance(plan.seed, "lying manager"), plan)


def _with_races(chance: Chance, plan: WorldPlan) -> WorldPlan:
    """Each user has a copy of one more job wait in several queues, and one of them may run."""
    laptops = (
        replace(each, wishes=(*each.wishes, _race(chance, f"{each.name}-r", plan.sites)))
        for each in plan.laptops
    )
    return replace(plan, laptops=tuple(laptops))


def _race(chance: Chance, name: str, sites: tuple[SitePlan, ...]) -> TripWish:
    at_s = chance.seconds(0.5, STORM_S * 0.8)
    copies = chance.some_of(sites, chance.whole(2, min(LEGS_MOST, len(sites))))
    duration_s, earliest = chance.whole(20, 120), WORLD_BEGIN + int(at_s)
    metajob = Metajob(
        name=name,
        usage_pattern=UsagePattern.SINGLE,
        is_race=True,
        nodes_total=1,
        machines=tuple(
            MachineRequest(machine=each.name, nodes_min=1, nodes_max=1) for each in copies
        ),
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=earliest + duration_s + chance.whole(300, 1200),
        task=TaskSpec(command=("run",)),
    )
    cancel_after_s = chance.seconds(1.0, 200.0) if chance.happens(0.25) else None
    return TripWish(
        at_s=at_s, metajob=metajob, cancel_after_s=cancel_after_s, tries=chance.whole(1, 4)
    )


def _with_manager(chance: Chance, plan: WorldPlan) -> WorldPlan:
    """In most worlds a manager over up to three of the sites lies as well, and honest users have it
    hold legs of further trips of theirs, which run no programs there.
    """
    if not chance.happens(LYING_MANAGERS):
        return plan
    below = chance.some_of(plan.sites, chance.whole(1, min(3, len(plan.sites))))
    manager = ManagerPlan(name="m1", children=tuple(each.name for each in below))
    laptops = []
    for laptop in plan.laptops:
        if laptop.name in plan.liars:
            laptops.append(laptop)
            continue
        wishes = (
            _through(manager.name, _wish(chance, f"{laptop.name}-m{number}", plan.sites))
            for number in range(1, 1 + chance.whole(1, 3))
        )
        laptops.append(replace(laptop, wishes=(*laptop.wishes, *wishes), managers=(manager.name,)))
    return replace(
        plan,
        laptops=tuple(laptops),
        managers=(manager,),
        liars=(*plan.liars, manager.name),
    )


def _through(manager: str, wish: TripWish) -> TripWish:
    """The same with a leg at the manager, without programs, and at two sites at the most: few of
    larger trips are ever booked.
    """
    job = wish.metajob
    legs = (*job.machines[:2], MachineRequest(machine=manager, nodes_min=1, nodes_max=1))
    nodes_total = sum(each.nodes_min for each in legs)
    metajob = replace(job, machines=legs, nodes_total=nodes_total, task=None)
    return replace(wish, metajob=metajob, tries=4)


def _site(chance: Chance, name: str) -> SitePlan:
    is_skewed, is_set = chance.happens(0.4), chance.happens(0.15)
    step = ClockStep(at_s=chance.seconds(5.0, STORM_S), by_s=chance.seconds(-20.0, 20.0))
    return SitePlan(
        name=name,
        nodes=chance.whole(2, 8),
        skew_s=chance.seconds(-3.0, 3.0) if is_skewed else 0.0,
        clock_steps=(step,) if is_set else (),
        compacts=chance.one_of([0.0, 0.5]),
        write_s=chance.seconds(0.0, 0.02) if chance.happens(0.5) else 0.0,
    )


def _laptop(chance: Chance, name: str, sites: tuple[SitePlan, ...]) -> LaptopPlan:
    wishes = [_wish(chance, f"{name}-{n}", sites) for n in range(1, 1 + chance.whole(1, 3))]
    is_skewed = chance.happens(0.4)
    return LaptopPlan(
        name=name,
        wishes=tuple(wishes),
        skew_s=chance.seconds(-3.0, 3.0) if is_skewed else 0.0,
        search=SearchChoice.PROBE if chance.child("search").happens(0.3) else SearchChoice.AUTO,
    )


def _wish(chance: Chance, name: str, sites: tuple[SitePlan, ...]) -> TripWish:
    at_s = chance.seconds(0.5, STORM_S * 0.8)
    legs = chance.some_of(sites, chance.whole(1, min(LEGS_MOST, len(sites))))
    machines = []
    for site in legs:
        nodes = chance.whole(1, max(1, site.nodes - 1))
        machines.append(MachineRequest(machine=site.name, nodes_min=nodes, nodes_max=nodes))
    soon = chance.happens(0.4)
    ahead_s = chance.whole(15, 90) if soon else chance.whole(300, 900)
    duration_s = chance.whole(20, 300)
    earliest = WORLD_BEGIN + int(at_s) + ahead_s
    has_task = chance.happens(0.7)
    metajob = Metajob(
        name=name,
        usage_pattern=UsagePattern.MULTIPLE,
        nodes_total=sum(each.nodes_min for each in machines),
        machines=tuple(machines),
        duration_s=duration_s,
        earliest_start=earliest,
        latest_end=earliest + duration_s + chance.whole(0, 900),
        task=TaskSpec(command=("run",)) if has_task else None,
    )
    cancel_after_s = chance.seconds(1.0, 300.0) if chance.happens(0.25) else None
    return TripWish(
        at_s=at_s, metajob=metajob, cancel_after_s=cancel_after_s, tries=chance.whole(1, 4)
    )


def _changing(
    chance: Chance, laptop: LaptopPlan, sites: tuple[SitePlan, ...], share: float
) -> LaptopPlan:
    """Some of the trips are changed, between at once and shortly before they start."""
    wishes = tuple(
        replace(
            wish,
            change=_change(chance, wish.metajob, sites),
            amend_after_s=chance.seconds(0.5, 200.0),
        )
        if chance.happens(share)
        else wish
        for wish in laptop.wishes
    )
    return replace(laptop, wishes=wishes)


def _change(chance: Chance, metajob: Metajob, sites: tuple[SitePlan, ...]) -> TripChange:
    """Another time, another size, or other sites."""
    if chance.happens(0.5):
        later_s = chance.whole(-60, 400)
        start = metajob.earliest_start + later_s
        duration_s = chance.whole(20, 300)
        end = start + duration_s + chance.whole(0, 900)
        return TripChange(earliest_start=start, latest_end=end, duration_s=duration_s)
    machines = metajob.machines
    if chance.happens(0.5):
        machines = tuple(chance.some_of(machines, chance.whole(1, len(machines))))
    known = {each.machine for each in machines}
    more = [each.name for each in sites if each.name not in known]
    if more and chance.happens(0.5):
        machines = (
            *machines,
            MachineRequest(machine=chance.one_of(more), nodes_min=1, nodes_max=1),
        )
    sizes = {each.name: each.nodes for each in sites}
    resized = []
    for each in machines:
        nodes = chance.whole(1, sizes[each.machine])
        resized.append(MachineRequest(machine=each.machine, nodes_min=nodes, nodes_max=nodes))
    total = sum(each.nodes_min for each in resized)
    return TripChange(metajob=replace(metajob, machines=tuple(resized), nodes_total=total))


def _conditions(chance: Chance, loss: float) -> NetworkConditions:
    worst = chance.happens(0.3)
    return NetworkConditions(
        latency_most_s=chance.one_of([0.01, 0.08, 0.5]),
        loss=loss if worst else chance.seconds(0.0, loss),
        double=chance.one_of([0.0, 0.05, 0.2]),
        late=chance.one_of([0.0, 0.01, 0.05]),
        notice=chance.one_of([0.1, 0.5, 0.9]),
    )


def _faults(chance: Chance, names: list[str], parties: list[str]) -> list[InjectedFault]:
    faults = []
    for _ in range(chance.whole(0, 3 + len(names) // 2)):
        kind = chance.one_of(list(FaultKind))
        at_s, lasts_s = chance.seconds(1.0, STORM_S), chance.seconds(0.5, BACK_MOST_S)
        who: tuple[str, ...] = (chance.one_of(names),)
        ends: float | None = lasts_s
        if kind is FaultKind.CRASH:
            who = (chance.one_of(parties),)
            ends = None if who[0] not in names and chance.happens(0.2) else lasts_s
        elif kind is FaultKind.PAUSE:
            who = (chance.one_of(parties),)
        elif kind is FaultKind.PARTITION:
            who = tuple(chance.some_of(parties, chance.whole(1, max(1, len(parties) // 2))))
        faults.append(
            InjectedFault(
                kind=kind, at_s=at_s, parties=who, lasts_s=ends, write_s=chance.seconds(0.5, 20.0)
            )
        )
    return faults


def _crashes(chance: Chance, names: list[str], parties: list[str]) -> list[PlannedCrash]:
    """Crashes at chosen points of the first lives of some parties."""
    crashes = []
    for party in chance.some_of(parties, chance.whole(0, max(1, len(parties) // 3))):
        kind = chance.one_of(list(PointKind))
        most = STEPS_MOST if kind is PointKind.STEP else STEPS_MOST // 10
        is_lost = party not in names and chance.happens(0.2)
        crashes.append(
            PlannedCrash(
                at=CrashPoint(party=party, kind=kind, number=chance.whole(1, most)),
                back_after_s=None if is_lost else chance.seconds(0.2, BACK_MOST_S),
            )
        )
    return crashes


def _local(chance: Chance, sites: tuple[SitePlan, ...]) -> list[LocalWish]:
    """What the sites' own users want meanwhile."""
    return [
        LocalWish(
            site=site.name,
            name=f"local-{number}",
            at_s=chance.seconds(0.1, STORM_S),
            nodes=chance.whole(1, site.nodes),
            limit_s=chance.whole(20, 400),
            is_reservation=chance.happens(0.4),
            ahead_s=chance.whole(0, 600),
        )
        for site in sites
        for number in range(chance.whole(0, 2))
    ]
