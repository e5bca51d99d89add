"""``gurlab torture`` and ``gurlab crashes`` as their users meet them."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gridtravel.simulator.cli import torture as torture_module
from gridtravel.simulator.cli.main import app
from gridtravel.simulator.cli.torture import SeedResult


def test_seeds_are_lived_and_counted() -> None:
    """One JSON object: worlds, faults by kind, trips, and no failure."""
    answer = CliRunner().invoke(
        app, ["torture", "--seeds", "1..3", "--sites", "4", "--workers", "1", "--json"]
    )
    assert answer.exit_code == 0, answer.output
    told = json.loads(answer.stdout)
    assert (told["worlds"], told["failures"]) == (3, [])
    assert told["faults"]["lost message"] > 0
    assert told["messages"] > 0


def test_a_failing_seed_is_told_and_ends_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its story and the command that shows it again go to standard error; the exit code is 1."""
    result = SeedResult(
        seed=8,
        sites=3,
        travellers=1,
        faults={},
        counts={},
        outcomes={},
        messages=0,
        doubt_longest_s=0.0,
        lasted_s=0.0,
        callbacks=0,
        violations=("a trip is whole or absent: t is torn",),
        story=("    1.000000  ada        $ gur book t",),
    )
    monkeypatch.setattr(torture_module, "run_seed", lambda *_: result)
    answer = CliRunner().invoke(app, ["torture", "--seeds", "8", "--sites", "4"])
    assert answer.exit_code == 1
    assert "t is torn" in answer.stderr
    assert "$ gur book t" in answer.stderr
    assert "gurlab torture --seeds 8 --sites 4 --loss 0.5" in answer.stderr
    assert "failing seeds: 8" in answer.stdout


def test_a_story_of_a_clean_world() -> None:
    """``--story`` tells all that happened, in order of time."""
    answer = CliRunner().invoke(app, ["torture", "--seeds", "3", "--sites", "3", "--story"])
    assert answer.exit_code == 0
    assert "$ gur book" in answer.stdout
    assert "stores" in answer.stdout


@pytest.mark.parametrize("seeds", ["", "a..b", "5..1", "-1", "1..99999999999"])
def test_what_is_no_range_of_seeds_is_refused(seeds: str) -> None:
    """One clear error, and nothing is lived."""
    answer = CliRunner().invoke(app, ["torture", f"--seeds={seeds}"])
    assert answer.exit_code == 2
    assert "seeds" in answer.stderr


def test_crashes_of_one_trip_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row for each party and kind of point, with outcomes and the longest doubt."""
    from gridtravel.simulator.grid import exhaustive

    whole = exhaustive.points_of
    monkeypatch.setattr(exhaustive, "points_of", lambda *asked: whole(*asked)[::40])
    arguments = ["crashes", "--pairs", "--every", "5", "--workers", "1", "--json"]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    rows = json.loads(answer.stdout)
    assert all(row["failures"] == [] and row["worlds"] > 0 for row in rows)
    assert any(row["at"] == "two points" for row in rows)
    table = CliRunner().invoke(app, ["crashes", "--workers", "1"])
    assert "booked" in table.stdout
