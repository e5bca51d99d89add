"""``gurlab tree``, in small: a tree of three levels with faults, and what it costs to grow."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gridtravel.simulator.cli.main import app
from gridtravel.simulator.tree.study import (
    TreePlan,
    depths,
    growth,
    interval_for,
    run_tree,
    staleness,
)
from gridtravel.simulator.tree.wire import TreeConditions


@pytest.mark.parametrize("seed", [1, 2])
def test_no_promise_is_broken(seed: int) -> None:
    """With messages lost and doubled, and with agents and managers dying, every committed booking
    is at its sites when it starts, and no manager keeps anything that belongs to no booking.
    """
    plan = TreePlan(
        agents=12,
        nodes=8,
        requests=40,
        seed=seed,
        interval_s=3.0,
        nodes_asked_max=28,
        conditions=TreeConditions(loss=0.05, doubles=0.05),
        restarts=6,
    )
    result = run_tree(plan)
    assert result.breaches == []
    assert result.restarts == 6
    assert result.booked + result.refused + result.unknown == 40
    assert result.booked > 20
    assert result.from_above > 0


def test_same_seed_same_world() -> None:
    """A run is fixed by its plan, so that what it finds can be looked at again."""
    plan = TreePlan(agents=4, nodes=8, requests=8, nodes_asked_max=10, restarts=2)
    assert run_tree(plan) == run_tree(plan)


def test_messages_do_not_grow_with_the_nodes() -> None:
    """Fifty times as many nodes: no more messages a booking than the depth of the tree and the
    parts of a booking ask for, and the shadows alone are nearly always enough.
    """
    small, large = growth(10, seed=1, stale_s=0.05, sizes=(10, 500))
    assert small.breaches == large.breaches == []
    assert large.messages_a_booking <= max(small.messages_a_booking, 6.0)
    assert large.hit_rate >= 0.8


def test_old_shadows_and_deep_trees_break_no_promise() -> None:
    """Shadows that are fifteen minutes old are right less often, which costs messages and nothing
    else; a level more breaks none either.
    """
    plan = TreePlan(
        agents=12,
        nodes=20,
        requests=30,
        interval_s=interval_for(0.6, 240) / 2,
        conditions=TreeConditions(loss=0.02, doubles=0.02),
        restarts=4,
    )
    fresh, old = staleness(plan, (0.05, 900.0))
    assert fresh.breaches == old.breaches == []
    assert old.hit_rate < fresh.hit_rate
    assert old.messages_a_booking > fresh.messages_a_booking
    flat, deeper = islice(depths(replace(plan, requests=15)), 2)
    assert (flat.levels, deeper.levels) == (3, 4)
    assert flat.breaches == deeper.breaches == []


def test_the_findings_as_files(tmp_path: Path) -> None:
    """Tables, pictures and claims, as the studies write them."""
    pytest.importorskip("matplotlib")
    words = ["tree", "--agents", "4", "--nodes", "8", "--requests", "3", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, [*words, "--no-growth"])
    assert result.exit_code == 0, result.output
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert claims[0]["id"] == "tree-no-promise-broken"
    assert claims[0]["holds"]
    header, *lines = (tmp_path / "tree-staleness.csv").read_text().splitlines()
    assert header.startswith("nodes,levels,update_interval_s,booked")
    assert [line.split(",")[2] for line in lines] == ["0.05", "10.0", "60.0", "300.0", "900.0"]
    assert (tmp_path / "tree-depth.png").stat().st_size > 1_000


def test_the_command() -> None:
    """The command tells the figures as JSON, and that nothing was broken by its exit code."""
    words = ["tree", "--agents", "4", "--nodes", "8", "--requests", "6", "--no-growth", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["breaches"] == []
    assert told["booked"] + told["refused"] + told["unknown"] == 6
