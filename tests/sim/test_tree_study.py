"""``gurlab tree``, in small: a tree of three levels with faults, and what it costs to grow."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from simulator.cli import app
from simulator.tree_study import TreePlan, growth, run_tree
from simulator.tree_wire import TreeWeather


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
        weather=TreeWeather(loss=0.05, doubles=0.05),
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


def test_the_command() -> None:
    """The command tells the figures as JSON, and that nothing was broken by its exit code."""
    words = ["tree", "--agents", "4", "--nodes", "8", "--requests", "6", "--no-growth", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["breaches"] == []
    assert told["booked"] + told["refused"] + told["unknown"] == 6
