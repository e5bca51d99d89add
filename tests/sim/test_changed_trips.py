"""Trips that are changed in simulated grids: all old or all new, whatever dies meanwhile."""

from __future__ import annotations

import pytest

from gridtravel.simulator.cli.torture import story_of
from gridtravel.simulator.grid.exhaustive import LAPTOP, LATER_S, PAIR_KINDS, one_trip, points_of
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import PlannedCrash, WorldPlan, WorldRecord, live
from tests.support.sim_ablations import Ablation
from tests.support.sim_change_ablations import (
    CHANGE_ABLATIONS,
    WITHOUT_SOUTH,
    lost_in_a_change,
    one_changed_trip,
)

SAMPLE = 6
"""Worlds lived for each seed of the sample."""


def clean(plan: WorldPlan) -> WorldRecord:
    """Live a world in which every promise must be kept."""
    record = live(plan)
    broken = [str(each) for each in record.event_log.violations]
    assert record.is_clean, "\n".join([*broken, *story_of(record)])
    return record


def test_a_change_costs_what_a_booking_costs() -> None:
    """Three inquiries, holds, votes and commits more, and each leg is called ready again; the jobs
    follow by themselves, and start together at the new time.
    """
    record, plain = clean(one_changed_trip()), clean(one_trip())
    more = record.event_log.messages - plain.event_log.messages
    verbs = ("Inquire", "Reserve", "Commit", "Vote", "Submit")
    assert [more[verb] for verb in verbs] == [3, 3, 3, 3 + 3 * 2, 0]
    starts = [line for line in record.event_log.lines if line.template.startswith("launches")]
    assert [round(line.at_s) for line in starts] == [660, 660, 660]
    assert record.event_log.counts["amended: changed"] == 1


def test_every_message_and_write_of_a_change_may_be_the_last() -> None:
    """Each party dies at each message and write from the change on, and comes back after its holds'
    lifetimes, the laptop never: every leg is old, or every leg is new.
    """
    whole, booked = live(one_changed_trip()), live(one_trip())
    before = {(point.party, point.kind): point.number for point in points_of(booked, PAIR_KINDS)}
    forms: dict[bool, int] = {}
    for point in points_of(whole, PAIR_KINDS):
        if point.number <= before.get((point.party, point.kind), 0) - 3:
            continue
        back_after_s = None if point.party == LAPTOP else LATER_S
        crash = PlannedCrash(at=point, back_after_s=back_after_s)
        record = clean(one_changed_trip(crashes=(crash,)))
        starts = [line for line in record.event_log.lines if line.template.startswith("launches")]
        assert len({round(line.at_s) for line in starts}) <= 1, crash
        for line in starts[:1]:
            is_new = round(line.at_s) == 660
            forms[is_new] = forms.get(is_new, 0) + 1
    assert set(forms) == {False, True}, "both outcomes were seen"


def test_a_site_that_is_left_out_hears_of_it_without_the_laptop() -> None:
    """The change goes on at two of three sites, and the laptop is lost at one message after the
    other: the third keeps its leg exactly when nothing was changed.
    """
    outcomes = [live(plan) for plan in lost_in_a_change(WITHOUT_SOUTH)]
    broken = [str(each) for record in outcomes for each in record.event_log.violations]
    assert not broken, broken
    assert len(outcomes) > 40


def test_random_worlds_in_which_trips_change(sim_seed: int) -> None:
    """Every trip is changed, amid every kind of fault."""
    for number in range(SAMPLE):
        clean(random_plan(sim_seed * 1000 + number, sites_most=6, loss=0.3, changes=1.0))


@pytest.mark.parametrize("seed", [1357, 6242])
def test_worlds_that_once_broke_a_promise(seed: int) -> None:
    """1357: a changed pipeline is cancelled when its first stage's time has gone by at a dead site.
    In the other one a pipeline moved away from the only site that kept its outcome, which was dead
    meanwhile, came back, and ran the old stages beside the new.
    """
    clean(random_plan(seed, sites_most=20, loss=0.5))


@pytest.mark.parametrize("ablation", CHANGE_ABLATIONS, ids=[each.name for each in CHANGE_ABLATIONS])
def test_damage_of_a_change_is_found(ablation: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the safeguard some world breaks the very promise that it is there for."""
    plans = list(ablation.worlds())
    ablation.take_away(monkeypatch)
    seen: dict[str, None] = {}
    for plan in plans:
        for violation in live(plan, ablation.types).event_log.violations:
            seen[violation.rule] = None
        if any(rule in seen for rule in ablation.rules):
            return
    pytest.fail(f"without {ablation.name} nothing of {ablation.rules} was broken, only {seen}")
