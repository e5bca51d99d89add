"""Worlds in which laptops and a site lie: what must hold for all others holds, and is looked at."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gridtravel.gridcore.booking.reservations import TripRef
from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.gridcore.trips.trip_consensus import ROUNDS_MAX, Ballot, Phase, VoteQuestion
from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.exhaustive import SITES, one_trip
from gridtravel.simulator.grid.liars import Liar, LyingSite
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.simulated_laptop import TripWish
from gridtravel.simulator.grid.world import FaultKind, InjectedFault, WorldRecord, WorldTypes, live
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN

SAMPLE = 5


def clean(seed: int, *, sites_most: int = 4, liars: bool = True) -> WorldRecord:
    """Live a world in which every promise to the honest must be kept."""
    record = live(random_plan(seed, sites_most=sites_most, loss=0.4, liars=liars))
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def test_the_honest_are_as_without_liars(sim_seed: int) -> None:
    """Liars say thousands of things, most of them refused; the honest trips are whole or absent."""
    refused = 0
    for number in range(SAMPLE):
        record = clean(sim_seed * 1000 + number)
        refused += record.event_log.counts["lies refused: NotAuthorisedError"]
    assert refused > SAMPLE


def test_a_manager_lies_in_its_own_name_and_in_its_users() -> None:
    """Beside laptops and a site: it makes up holds, and is believed about for whom it asks. Whoever
    books through it, the honest legs are whole or absent, and no other trip is touched.
    """
    record = clean(23, sites_most=6)
    kinds = {name.rstrip("0123456789") for name in record.plan.liars}
    assert kinds == {"liar", "s", "m"}, "all three together"
    told = record.event_log.story(lines_max=10**9)
    made_up = [line for line in told if "answers user" in line and "m1.made-up-" in line]
    asked = [line for line in told if "answers m1: Reserve" in line and " m1-" in line]
    passed = [line for line in asked if " HELD" in line]
    assert made_up
    assert passed


def test_of_a_race_among_liars_one_copy_runs() -> None:
    """Whoever votes about it, queues copies under its name or sites that hear of it."""
    ran = Counter[str]()
    for seed in (5, 6):
        ran += clean(seed, sites_most=6).event_log.counts
    assert ran["races: 1 copies ran"] == 3
    assert not ran["races: 2 copies ran"]


def test_a_race_that_reached_too_few_sites_is_called_off() -> None:
    """Seeds 4 and 9: no copy had reached enough of the sites that keep the outcome. They refused to
    vote about a race that nobody had named to them, and ``gur resume`` failed for ever.
    """
    for seed in (4, 9):
        clean(seed, sites_most=6)


def test_a_race_whose_window_is_over_is_called_off_by_nobody() -> None:
    """The sites that keep its outcome are out of reach for an hour, and no copy could start any
    more: the user need not wait for them.
    """
    race = Metajob(
        name="race",
        usage_pattern=UsagePattern.SINGLE,
        is_race=True,
        nodes_total=1,
        machines=tuple(MachineRequest(machine=s, nodes_min=1, nodes_max=1) for s in SITES),
        duration_s=60,
        earliest_start=WORLD_BEGIN + 1,
        latest_end=WORLD_BEGIN + 300,
        task=TaskSpec(command=("run",)),
    )
    plan = one_trip()
    (laptop,) = plan.laptops
    cut = InjectedFault(
        kind=FaultKind.PARTITION, at_s=1.05, parties=tuple(SITES[1:]), lasts_s=3600.0
    )
    wish = TripWish(at_s=1.0, metajob=race)
    record = live(
        replace(plan, laptops=(replace(laptop, wishes=(wish,)),), faults=(cut,), storm_s=3610.0)
    )
    assert record.is_clean, [str(each) for each in record.event_log.violations]
    ended = [
        float(line.split()[0])
        for line in record.event_log.story(lines_max=10**9)
        if f"{laptop.name} " in line and "stores TripEnded" in line
    ]
    assert len(ended) == 1
    assert 300.0 < ended[0] < 400.0
    assert record.event_log.counts["races: 0 copies ran"] == 1


class FreezingSite(LyingSite):
    """Has the others promise the last round there is of each trip's cancellation, and then they can
    promise nobody anything any more.
    """

    async def _lie_about(self, liar: Liar, trip: TripRef) -> None:
        last = Ballot(ROUNDS_MAX, f"{self.name}:liar:1")
        question = VoteQuestion(instance=trip.cancellation, phase=Phase.PREPARE, ballot=last)
        for acceptor in trip.acceptors:
            if acceptor.site != self.name:
                await liar.say(acceptor.site, lambda way: way.calendar.vote(question))


def test_a_frozen_cancellation_ends_with_the_trips_time() -> None:
    """Seed 89: a lying keeper had used the rounds up, so that nobody could settle the cancellation,
    and ``gur resume`` failed for ever, also when no leg could begin any more.
    """
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    metajob = replace(wish.metajob, earliest_start=WORLD_BEGIN + 120, duration_s=60)
    wish = replace(wish, metajob=metajob, cancel_after_s=60.0)
    plan = replace(
        plan, laptops=(replace(laptop, wishes=(wish,)),), liars=(SITES[0],), storm_s=30.0
    )
    record = live(plan, WorldTypes(lying_site=FreezingSite))
    assert record.is_clean, [str(each) for each in record.event_log.violations]
    told = record.event_log.story(lines_max=10**9)
    ended = [float(line.split()[0]) for line in told if "stores TripEnded" in line]
    assert len(ended) == 1
    assert 180.0 < ended[0] < 240.0, "the legs' time is over"
    assert record.event_log.counts["told CANCELLED"] == 1


def test_a_world_without_liars_is_the_same_but_for_them() -> None:
    """The honest part of a world does not depend on whether others lie beside it."""
    plain, lying = (random_plan(5, sites_most=6, liars=liars) for liars in (False, True))
    assert lying.sites == plain.sites
    honest = [each for each in lying.laptops if each.name not in lying.liars]
    for one, other in zip(honest, plain.laptops, strict=True):
        more = [each.metajob for each in one.wishes[len(other.wishes) :]]
        assert one.wishes[: len(other.wishes)] == other.wishes
        assert all(each.is_race or "m1" in [m.machine for m in each.machines] for each in more)
    assert lying.liars
    assert not plain.liars


def test_a_world_with_liars_is_fixed_by_its_seed() -> None:
    """The same lies, to the last line."""
    plan = random_plan(3, sites_most=4, loss=0.3, liars=True)
    one, other = (live(plan).event_log.story(lines_max=10**9) for _ in range(2))
    assert one == other


def test_a_leg_begins_when_that_it_runs_is_on_the_disk() -> None:
    """Seed 71: with a slow disk a job was launched before "it runs" was stored. After a crash just
    then its site would have asked again, and perhaps have let the leg go beside the others.
    """
    clean(71, sites_most=10, liars=False)
