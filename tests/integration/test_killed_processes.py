"""A sample of ``gurlab kills``: real daemons and laptops, one trouble of each kind."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gridtravel.simulator.processes.rounds import Trouble, plan_round

pytestmark = pytest.mark.integration
SEED = 3
PATIENCE_S = 280
PARTS = (range(0, 4), range(4, 7), range(7, 10))
"""Rounds of campaigns on grids of their own, side by side."""


def kills(rounds: range) -> dict[str, Any]:
    """What a campaign came to, as the command tells it."""
    words = ["kills", "--seed", f"{SEED}", "--first", f"{rounds.start}", "--json"]
    words += ["--rounds", f"{len(rounds)}"]
    done = subprocess.run(
        [sys.executable, "-m", "gridtravel.simulator.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_no_promise_is_broken_whatever_is_killed() -> None:
    """One round of each kind of trouble; which kinds they were is in the table."""
    with ThreadPoolExecutor(len(PARTS)) as pool:
        reports = list(pool.map(kills, PARTS))
    rows = [row for report in reports for row in report["troubles"]]
    assert [row["trouble"] for row in rows] == [trouble.value for trouble in Trouble]
    assert [report["broken"] for report in reports] == [[]] * len(PARTS)
    assert any(row["reached"] for row in rows)
    assert all(sum(row["outcomes"].values()) == row["rounds"] == 1 for row in rows)


def test_a_seed_is_the_same_plan_again() -> None:
    """And another seed another one."""
    assert plan_round(1, 7) == plan_round(1, 7)
    assert plan_round(1, 7) != plan_round(2, 7)
    kinds = [plan_round(1, number).trouble for number in range(len(Trouble))]
    assert kinds == list(Trouble)
