"""``gurlab economy`` from end to end: real daemons, real processes, real books."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridio.ledger.ledger import EARNED, GRANTED, HELD
from tests.support.shared_data import CHECKOUT
from tests.support.speed import at_this_speed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="measures shares by /proc"),
]
PATIENCE_S = 500
STRETCH_MAX = 2
"""Beside so much other work that this is not enough, the sites still keep what they promised."""


@pytest.fixture(scope="module")
def out() -> Iterator[Path]:
    """Where the files go. Not below ``tmp_path``, whose names are too long for a local socket."""
    with tempfile.TemporaryDirectory(prefix="eco-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def market(out: Path) -> dict[str, Any]:
    """What the command tells, after it has ended well and left nothing behind."""
    place = out / "tmp"
    place.mkdir()
    stretch = min(STRETCH_MAX, at_this_speed(1))
    argv = ["economy", "--out", str(out / "found"), "--stretch", str(stretch), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "gridtravel.simulator.cli.main", *argv],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert list(place.iterdir()) == []
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_who_is_admitted_ends_in_time_and_pays_what_was_agreed(market: dict[str, Any]) -> None:
    """Nobody pays above his budget for a job; shared nodes cost what was agreed, whole nodes at
    most what was held. All three sites have work.
    """
    admitted = [job for job in market["jobs"] if job["site"] is not None]
    assert {job["site"] for job in admitted} == {"quay", "harbour", "meadow"}
    for job in admitted:
        assert job["state"] == "COMPLETED", job
        assert job["ended_s"] <= job["deadline_s"], job
        assert 0 < job["paid"] <= job["price"] <= job["budget"], job
        if job["site"] == "harbour":
            assert job["paid"] == job["price"], job


def test_the_books_of_all_sites_balance(market: dict[str, Any]) -> None:
    """No credits are made or lost, nothing stays held, and each site has earned what its jobs
    paid.
    """
    paid: dict[str, int] = defaultdict(int)
    for job in market["jobs"]:
        for ask in job["asks"]:
            paid[ask["site"]] += job["paid"] if ask["is_taken"] else ask["price"]
    for site, kept in market["accounts"].items():
        given = market["granted"][site]
        assert sum(kept.values()) == 0, site
        assert kept[HELD] == 0, site
        assert kept[EARNED] == paid[site], site
        assert -kept[GRANTED] == sum(given.values()), site


def test_no_user_spends_more_than_one_budget_over_all_sites(market: dict[str, Any]) -> None:
    """Though each was granted more at the three sites together."""
    paid: dict[str, int] = defaultdict(int)
    for job in market["jobs"]:
        paid[job["user"]] += job["paid"] or 0
        paid[job["user"]] += sum(ask["price"] for ask in job["asks"] if not ask["is_taken"])
    for user, budget in market["budgets"].items():
        assert 0 < paid[user] <= budget
        assert market["spent"][user] == paid[user]
        assert sum(given[user] for given in market["granted"].values()) > budget


def test_refusals_name_terms_that_pass(market: dict[str, Any]) -> None:
    """Somebody takes up what a refusal offered, and is admitted; somebody cannot pay it, and is
    refused by all.
    """
    asks = [ask for job in market["jobs"] for ask in job["asks"]]
    refused = [ask for ask in asks if ask["rule"] in ("deadline", "budget")]
    assert any(ask["would_pass"] for ask in refused)
    assert any(ask["is_offer"] and ask["is_taken"] for ask in asks)
    poor = [job for job in market["jobs"] if job["site"] is None]
    assert poor
    for job in poor:
        assert all(not ask["is_taken"] for ask in job["asks"])


def test_shares_are_measured_and_drawn(market: dict[str, Any], out: Path) -> None:
    """Several jobs have the one processor at a time, none before or after its stay, and together
    not much more than there is; the picture and its figures are there.
    """
    found = out / "found"
    with (found / "shares.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    shared = {job["job"]: job for job in market["jobs"] if job["site"] == "harbour"}
    assert {row["job"] for row in rows} <= shared.keys()
    by_moment: dict[str, float] = defaultdict(float)
    crowd: dict[str, int] = defaultdict(int)
    for row in rows:
        by_moment[row["seconds"]] += float(row["share"])
        crowd[row["seconds"]] += float(row["share"]) > 0
        assert float(row["seconds"]) <= shared[row["job"]]["ended_s"] + 1
    assert max(crowd.values()) >= 2
    moments = sorted(by_moment, key=float)
    length_s = float(moments[-1]) - float(moments[0])
    used_s = sum(max(float(r["cpu_s"]) for r in rows if r["job"] == job) for job in shared)
    assert 0 < used_s <= length_s + 2
    for name in ("shares.png", "shares.svg", "jobs.csv", "asks.csv", "accounts.csv"):
        assert (found / name).stat().st_size > 0, name
