"""Worlds in which laptops and a site lie: what must hold for all others holds, and is looked at."""

from __future__ import annotations

from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import WorldRecord, live

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


def test_a_world_without_liars_is_the_same_but_for_them() -> None:
    """The honest part of a world does not depend on whether others lie beside it."""
    plain, lying = (random_plan(5, sites_most=6, liars=liars) for liars in (False, True))
    assert lying.sites == plain.sites
    assert [each.wishes for each in lying.laptops if each.name not in lying.liars] == [
        each.wishes for each in plain.laptops
    ]
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
