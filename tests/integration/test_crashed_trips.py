"""A sample of ``gurlab crashes --real``: one death in a real trip of each kind."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from gridtravel.simulator.processes.crash_points import (
    HALF_STAGED,
    LAPTOP,
    Crash,
    Point,
    TripKind,
)
from gridtravel.simulator.processes.crashes import LaneReport, Share, live_share
from gridtravel.simulator.processes.live_batch import CLUSTER, why_no_slurm
from gridtravel.simulator.processes.live_grid import MANAGER
from gridtravel.simulator.processes.mortal import Stage
from gridtravel.simulator.processes.rounds import Return

pytestmark = pytest.mark.integration
PATIENCE_S = 280
STAGED_BYTES = 32_000_000
AWAY_S = 5.0
CRASHES = {
    TripKind.CO_START: Crash(
        kind=TripKind.CO_START,
        at=Point("beta", HALF_STAGED, 1),
        stage=Stage.AFTER,
        victim="beta",
    ),
    TripKind.PIPELINE: Crash(
        kind=TripKind.PIPELINE,
        at=Point("laptop", "trip-decided", 1),
        stage=Stage.BEFORE,
        victim=LAPTOP,
        back=Return.NEVER,
    ),
    TripKind.RACE: Crash(
        kind=TripKind.RACE,
        at=Point("gamma", "promise:runs", 1),
        stage=Stage.AFTER,
        victim="gamma",
        away_s=AWAY_S,
    ),
    TripKind.GROUP: Crash(
        kind=TripKind.GROUP,
        at=Point("north", "group-decided", 1),
        stage=Stage.AFTER,
        victim=MANAGER,
        away_s=AWAY_S,
    ),
}
"""At half of a large file, before the decision, while the winner is asked for, and when a group is
decided and none of its parts is.
"""
WITHOUT_AGENT = Crash(
    kind=TripKind.NO_AGENT,
    at=Point(CLUSTER, "marked", 1),
    stage=Stage.AFTER,
    victim=LAPTOP,
)
"""When the leg there is committed; the laptop is opened again."""


def live(*crashes: Crash) -> list[LaneReport]:
    """A grid for each of them, side by side."""
    shares = [Share(kind=each.kind, crashes=(each,), staged_bytes=STAGED_BYTES) for each in crashes]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(shares), mp_context=context) as pool:
        return list(pool.map(live_share, shares, timeout=PATIENCE_S))


def test_trips_keep_their_promises_whoever_dies() -> None:
    """Each crash comes about, nothing is broken, no leg that did not begin is forgiven, and whoever
    should have been booked is.
    """
    reports = live(*CRASHES.values())
    assert [report.broken for report in reports] == [[]] * len(reports)
    outcomes = {told.crash.kind: told.outcome for report in reports for told in report.told}
    assert outcomes == {
        TripKind.CO_START: "BOOKED",
        TripKind.PIPELINE: "ABSENT",
        TripKind.RACE: "BOOKED",
        TripKind.GROUP: "BOOKED",
    }
    forgiven = [what for report in reports for what in report.counts if "did not begin" in what]
    assert forgiven == []


@pytest.mark.skipif(bool(why_no_slurm()), reason=f"NOT TESTED: {why_no_slurm()}")
def test_a_trip_with_a_leg_without_an_agent_is_whole() -> None:
    """The laptop dies when that leg is committed, in a real Slurm, and is opened again: both begin,
    and Slurm has nothing left of it.
    """
    (report,) = live(WITHOUT_AGENT)
    assert report.broken == []
    assert [told.outcome for told in report.told] == ["BOOKED"]
    assert report.counts["begun together"] == 1
