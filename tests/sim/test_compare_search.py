"""``gurlab compare-search``: both searches against brute force on one loaded grid."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gridtravel.gridcore.trips.metajobs import Objective
from gridtravel.simulator.cli.main import app
from gridtravel.simulator.grid.background_load import made_up, stretches
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.searches.report import COLUMNS, figures
from gridtravel.simulator.searches.study import SearchPlan, run_search_study
from gridtravel.travel_agent.choices import SearchChoice

PLAN = SearchPlan(requests=40, nodes=32, load=1.1, interval_s=3_600)


def test_sweep_meets_the_optimum_and_probe_inquires_of_nobody() -> None:
    """On unmodified agents with full queues: sweep books whatever can be booked, at the earliest
    second that exists by brute force; probe books valid trips with set and cancel alone.
    """
    result = run_search_study(PLAN)
    sweep, probe = (figures(result, each) for each in (SearchChoice.SWEEP, SearchChoice.PROBE))
    assert 5 < sweep.possible < PLAN.requests, "the load is neither nothing nor everything"
    assert (sweep.missed, sweep.exact) == (0, sweep.booked)
    assert probe.verbs.get("Inquire", 0) == 0
    assert 0 < probe.booked <= probe.possible
    assert probe.calls_mean > sweep.calls_mean
    for each in result.tried:
        if each.start is not None:
            assert each.best_start is not None, "what was booked was possible"
            assert each.start >= each.best_start


def test_sweep_pays_the_least_price_that_exists() -> None:
    """Lowest cost: no start in the window is cheaper by brute force."""
    result = run_search_study(replace(PLAN, objective=Objective.LOWEST_COST))
    sweep = figures(result, SearchChoice.SWEEP)
    assert sweep.booked
    assert sweep.price_over_best == 1.0


def test_the_same_seed_gives_the_same_trips() -> None:
    """Everything but the CPU times."""

    def told(seed: int) -> list[object]:
        tried = run_search_study(replace(PLAN, requests=6, seed=seed)).tried
        return [replace(each, cpu_s=0.0) for each in tried]

    first = told(1)
    assert told(1) == first
    assert told(2) != first


def test_the_command_writes_json_and_rows(tmp_path: Path) -> None:
    """Figures of both searches as JSON, every request with both of them as CSV."""
    rows = tmp_path / "rows.csv"
    words = ["compare-search", "--requests", "3", "--made-up", "--json", "--csv", str(rows)]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.stdout)
    assert [each["search"] for each in found["searches"]] == ["sweep", "probe"]
    assert found["load"] == "made-up jobs, load 0.8"
    with rows.open(encoding="utf-8") as lines:
        table = list(csv.reader(lines))
    assert tuple(table[0]) == COLUMNS
    assert len(table) == 1 + 2 * 3


def test_without_a_log_the_load_is_made_up_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is named must be there; the usual one may be missing."""
    monkeypatch.setenv("GRID_SHARED", str(tmp_path))
    answer = CliRunner().invoke(app, ["compare-search", "--requests", "1"])
    assert answer.exit_code == 0
    assert "made up" in answer.stderr
    assert "made-up jobs" in answer.stdout
    answer = CliRunner().invoke(app, ["compare-search", "--trace", str(tmp_path / "none.swf")])
    assert answer.exit_code == 2
    assert "none.swf" in answer.stderr


def test_each_site_lives_another_stretch() -> None:
    """Spread over the log, each from time zero; a log that is too short is refused."""
    jobs = made_up(Chance(1), 8, 0.5, 400_000)
    found = stretches(jobs, 3, 20_000)
    assert len({tuple(each) for each in found}) == 3
    for stretch in found:
        assert stretch[0].submit == 0
        assert stretch[-1].submit < 20_000
