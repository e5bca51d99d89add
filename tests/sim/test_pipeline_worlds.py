"""Worlds in which every trip is a pipeline, with all the faults of the others."""

from __future__ import annotations

from collections import Counter

import pytest

from gridtravel.agents.trips.handover import HandoverReceiver
from gridtravel.simulator.checks.pipeline_checkers import ORDERED
from gridtravel.simulator.checks.trip_checkers import WHOLE
from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import WorldRecord, live

SAMPLE = 12
"""Worlds lived for each seed of the sample."""
WORLDS_MAX = 40
"""Within so many worlds the damage must show."""


def clean(seed: int, *, sites_most: int = 6) -> WorldRecord:
    """Live a world of pipelines in which every promise must be kept."""
    record = live(random_plan(seed, sites_most=sites_most, pipelines=1.0))
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def test_random_pipelines(sim_seed: int) -> None:
    """Every stage or none; no stage before the one it waits for; some are whole."""
    outcomes: Counter[str] = Counter()
    for number in range(SAMPLE):
        outcomes.update(clean(sim_seed * 1000 + number).outcomes.values())
    assert outcomes[WHOLE]


def test_a_laptop_that_comes_back_when_a_stage_is_over() -> None:
    """Its first stage ran nothing, because the laptop was away: ``gur resume`` ends well all the
    same, instead of saying for ever that the site does not take the job.
    """
    clean(109)


def test_the_checker_sees_a_stage_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """With sites that take over without asking, the order is found broken."""

    async def at_once(*_: object) -> str:
        return ""

    monkeypatch.setattr(HandoverReceiver, "_from", at_once)
    broken: Counter[str] = Counter()
    for seed in range(WORLDS_MAX):
        record = live(random_plan(seed, sites_most=4, pipelines=1.0))
        broken.update(each.rule for each in record.event_log.violations)
        if broken[ORDERED]:
            return
    raise AssertionError(f"nothing seen in {WORLDS_MAX} worlds: {broken}")
