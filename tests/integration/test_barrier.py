"""The barrier of a trip as programs meet it: real processes on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

pytestmark = pytest.mark.integration

LEGS = ("atmosphere", "ocean", "river")
PATIENCE_S = 180


def contacts() -> dict[str, str]:
    """A free port for each leg."""
    found = {}
    with ExitStack() as doors:
        for leg in LEGS:
            door = doors.enter_context(socket.socket())
            door.bind(("127.0.0.1", 0))
            found[leg] = f"127.0.0.1:{door.getsockname()[1]}"
    return found


def start(
    leg: str, where: Mapping[str, str], *, trip: str = "trip-1", limit_s: float = PATIENCE_S
) -> subprocess.Popen[str]:
    """One leg at its barrier."""
    companions = [
        {"leg": each, "site": each, "nodes": 1, "contact": where[each]}
        for each in where
        if each != leg
    ]
    variables = {
        "GRID_TRIP": trip,
        "GRID_LEG": leg,
        "GRID_CONTACT": where[leg],
        "GRID_COMPANIONS": json.dumps(companions),
    }
    return subprocess.Popen(
        [sys.executable, "-m", "gridtravel.local_sched.barrier", "--limit-s", str(limit_s)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it complained of."""
    _, said = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


@pytest.mark.parametrize("order", [LEGS, LEGS[::-1]], ids=["host first", "host last"])
def test_all_go_when_all_have_come(order: tuple[str, ...]) -> None:
    """Nobody passes before the last has come, whoever is the last; then everybody does."""
    where = contacts()
    early = [start(leg, where) for leg in order[:-1]]
    with pytest.raises(subprocess.TimeoutExpired):
        early[0].wait(timeout=0.5)
    late = start(order[-1], where)
    assert [ends(each) for each in (*early, late)] == [(0, "")] * 3


def test_a_leg_that_does_not_come_is_named() -> None:
    """Those who came end with 1, and the host says whom it missed."""
    where = contacts()
    host = start("atmosphere", where, limit_s=2)
    guest = start("ocean", where, limit_s=2)
    assert ends(host) == (1, "grid-barrier: these legs did not come: river\n")
    assert ends(guest)[0] == 1


def test_a_stranger_is_not_counted() -> None:
    """Who does not know the trip, or says nothing sensible, does not open the barrier."""
    where = {leg: contact for leg, contact in contacts().items() if leg != "river"}
    host = start("atmosphere", where)
    stranger = start("ocean", where, trip="trip-2", limit_s=1)
    assert ends(stranger)[0] == 1
    assert host.poll() is None
    guest = start("ocean", where)
    assert (ends(host)[0], ends(guest)[0]) == (0, 0)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"GRID_COMPANIONS": "nonsense"}, "not the leg of a trip"),
        ({"GRID_CONTACT": "nowhere"}, "no contact"),
        ({"GRID_CONTACT": ""}, "gives its legs no contact"),
    ],
)
def test_no_place_to_meet(changes: dict[str, str], named: str) -> None:
    """Outside a trip, or without a contact, it ends at once with 2 and says why."""
    companion = {"leg": "ocean", "site": "s", "nodes": 1, "contact": "127.0.0.1:1"}
    variables = {
        "GRID_TRIP": "t",
        "GRID_LEG": "atmosphere",
        "GRID_CONTACT": "127.0.0.1:2",
        "GRID_COMPANIONS": json.dumps([companion]),
    }
    said = subprocess.run(
        [sys.executable, "-m", "gridtravel.local_sched.barrier"],
        env={**os.environ, **variables, **changes},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert said.returncode == 2
    assert named in said.stderr
