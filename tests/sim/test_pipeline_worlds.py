"""Worlds in which every trip is a pipeline, with all the faults of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from gridtravel.agents.trips.handover import HandoverReceiver
from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.gridio.sites.trip_participation import TripParticipant
from gridtravel.simulator.checks.pipeline_checkers import ORDERED
from gridtravel.simulator.checks.trip_checkers import ATOMIC, TORN, WHOLE
from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.exhaustive import SITES, one_trip
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import (
    FaultKind,
    InjectedFault,
    WorldPlan,
    WorldRecord,
    live,
)
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from tests.support.metajob_builders import stage

SAMPLE = 12
"""Worlds lived for each seed of the sample."""
WORLDS_MAX = 40
"""Within so many worlds the damage must show."""
STARTS_S = (60.0, 125.0, 190.0)
"""When the stages of ``a_chain`` start."""


def clean(plan: WorldPlan) -> WorldRecord:
    """Live a world in which every promise must be kept."""
    record = live(plan)
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def clean_seed(seed: int) -> WorldRecord:
    """Live a world of pipelines in which every promise must be kept."""
    return clean(random_plan(seed, sites_most=6, pipelines=1.0))


def a_chain() -> WorldPlan:
    """A stage of a minute at each of three sites, all of which end well, and nothing goes wrong. It
    is quiet when the trip is over, so that its laptop's log says what became of it.
    """
    plan = one_trip()
    (laptop,) = plan.laptops
    (wish,) = laptop.wishes
    stages = tuple(
        stage(f"stage{number}", site, nodes=2, duration_s=60, transfer_s=5 if number else 0)
        for number, site in enumerate(SITES)
    )
    metajob = replace(
        wish.metajob,
        usage_pattern=UsagePattern.PIPELINE,
        nodes_total=2,
        earliest_start=WORLD_BEGIN + int(STARTS_S[0]),
        stages=stages,
    )
    return replace(
        plan,
        sites=tuple(replace(each, runs_short=1.0) for each in plan.sites),
        laptops=(replace(laptop, wishes=(replace(wish, metajob=metajob),)),),
        storm_s=STARTS_S[-1] + 60.0,
    )


def test_random_pipelines(sim_seed: int) -> None:
    """Every stage or none; no stage before the one it waits for; some are whole."""
    outcomes: Counter[str] = Counter()
    for number in range(SAMPLE):
        outcomes.update(clean_seed(sim_seed * 1000 + number).outcomes.values())
    assert outcomes[WHOLE]


def test_a_laptop_that_comes_back_when_a_stage_is_over() -> None:
    """Its first stage ran nothing, because the laptop was away: ``gur resume`` ends well all the
    same, instead of saying for ever that the site does not take the job.
    """
    clean_seed(109)


def test_a_stage_whose_site_was_away_takes_those_behind_it_with_it() -> None:
    """The middle stage's site is dead from before that stage may begin until after it may: the
    stage is let go, as any leg that begins for itself, and the last one since it waits for it.
    The checker once knew either reason, and not both in one trip.
    """
    away = InjectedFault(
        kind=FaultKind.CRASH, at_s=STARTS_S[1] - 20.0, parties=(SITES[1],), lasts_s=50.0
    )
    record = clean(replace(a_chain(), faults=(away,)))
    assert list(record.outcomes.values()) == [TORN]
    torn = {what: n for what, n in record.event_log.counts.items() if what.startswith("torn")}
    reason = "no majority until a stage's start, and those behind it were let go"
    assert torn == {f"torn, excused: {reason}": 1}


def test_the_checker_sees_a_stage_that_is_let_go_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That those behind a stage are let go excuses them and not the stage itself: one whose site
    was there and lets it go is found, and not excused at the end either, when its laptop calls
    the trip FAILED.
    """
    ask = TripParticipant._check
    clean(a_chain())

    async def east_lets_go(self: TripParticipant, leg: Reservation) -> None:
        if leg.reservation_id.startswith(f"{SITES[1]}."):
            await self._release(leg.reservation_id, "nobody was here when it should have begun")
        else:
            await ask(self, leg)

    monkeypatch.setattr(TripParticipant, "_check", east_lets_go)
    record = live(a_chain())
    assert [each.rule for each in record.event_log.violations] == [ATOMIC]
    assert not [what for what in record.event_log.counts if what.startswith("torn, excused")]


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
