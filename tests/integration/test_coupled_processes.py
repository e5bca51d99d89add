from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import gridtravel.travel_agent.demo.coupled
from gridtravel.travel_agent.demo.coupled.reference import verify
from gridtravel.travel_agent.demo.coupled.stepping import STEPS_PER_YEAR

pytestmark = pytest.mark.integration
PROGRAMS = Path(gridtravel.travel_agent.demo.coupled.__file__).parent
PATIENCE_S = 180


def _free_contact() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _start(
    stack: ExitStack,
    folder: Path,
    program: str,
    place: dict[str, str],
    *,
    years: int = 1,
    patience_s: float = 60,
) -> subprocess.Popen[str]:
    """A model as a site starts it: alone in its folder, with the grid's variables and no others.
    It does not outlive ``stack``.
    """
    folder.mkdir()
    for file in ("coupling.py", "stepping.py", program):
        shutil.copy(PROGRAMS / file, folder)
    command = [sys.executable, "-I", program]
    run = subprocess.Popen(
        [*command, "--years", str(years), "--patience-s", str(patience_s)],
        cwd=folder,
        env={"PATH": os.defpath, "LANG": "C.UTF-8", **place},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.enter_context(run)
    stack.callback(run.kill)
    return run


def _place(leg: str, contact: str, other: str, other_contact: str, trip: str) -> dict[str, str]:
    companion = {"leg": other, "site": f"site-{other}", "nodes": 2, "contact": other_contact}
    return {
        "GRID_TRIP": trip,
        "GRID_LEG": leg,
        "GRID_SITE": f"site-{leg}",
        "GRID_NODES": "10",
        "GRID_CONTACT": contact,
        "GRID_COMPANIONS": json.dumps([companion]),
    }


def _finish(*runs: subprocess.Popen[str]) -> list[tuple[int, str, str]]:
    """Exit code, output and errors of each."""
    told = [run.communicate(timeout=PATIENCE_S) for run in runs]
    return [(run.returncode, *each) for run, each in zip(runs, told, strict=True)]


@pytest.mark.parametrize("ocean_leg", ["a-leg", "z-leg"])
def test_two_processes_come_to_the_reference_to_the_last_bit(
    tmp_path: Path, ocean_leg: str
) -> None:
    """Coupled over a real socket, whichever side listens, the results equal the reference."""
    here, there = _free_contact(), _free_contact()
    with ExitStack() as stack:
        water = _place(ocean_leg, here, "middle", there, "trip-1")
        air = _place("middle", there, ocean_leg, here, "trip-1")
        runs = _finish(
            _start(stack, tmp_path / "water", "ocean.py", water),
            _start(stack, tmp_path / "air", "atmosphere.py", air),
        )
    assert [(code, errors) for code, _, errors in runs] == [(0, ""), (0, "")]
    assert "met middle at site-middle" in runs[0][1]
    ocean, atmosphere = (
        json.loads((tmp_path / folder / "result.json").read_text()) for folder in ("water", "air")
    )
    assert verify(ocean, atmosphere, STEPS_PER_YEAR).faults == ()
    assert (ocean["leg"], ocean["trip"], ocean["nodes"]) == (ocean_leg, "trip-1", 10)


def test_a_stranger_is_turned_away_and_the_companion_let_in(tmp_path: Path) -> None:
    """Whoever does not know the trip's identifier does not become the companion."""
    here, there = _free_contact(), _free_contact()
    with ExitStack() as stack:
        water = _start(
            stack, tmp_path / "water", "ocean.py", _place("north", here, "south", there, "trip-1")
        )
        assert water.stdout is not None
        assert water.stdout.readline().startswith("ocean on 10 nodes waits for south")
        stranger = _start(
            stack,
            tmp_path / "stranger",
            "atmosphere.py",
            _place("south", there, "north", here, "trip-2"),
            patience_s=1.0,
        )
        code, _, errors = _finish(stranger)[0]
        assert code == 1
        assert "atmosphere: north at" in errors
        air = _start(
            stack,
            tmp_path / "air",
            "atmosphere.py",
            _place("south", there, "north", here, "trip-1"),
        )
        runs = _finish(water, air)
    assert [code for code, _, _ in runs] == [0, 0]
    assert "turned a visitor away: somebody of another trip" in runs[0][1]


def test_different_settings_on_both_sides_are_refused(tmp_path: Path) -> None:
    """Two programs that would count different steps do not begin."""
    here, there = _free_contact(), _free_contact()
    with ExitStack() as stack:
        _start(
            stack, tmp_path / "water", "ocean.py", _place("north", here, "south", there, "trip-1")
        )
        air = _start(
            stack,
            tmp_path / "air",
            "atmosphere.py",
            _place("south", there, "north", here, "trip-1"),
            years=2,
        )
        code, _, errors = _finish(air)[0]
    assert code == 1
    assert errors.count("\n") == 1
    assert not (tmp_path / "air" / "result.json").exists()


def test_a_companion_that_dies_is_told_in_one_line(tmp_path: Path) -> None:
    """The survivor ends with exit code 1, one line, and no result that somebody could believe."""
    here, there = _free_contact(), _free_contact()
    with ExitStack() as stack:
        water = _start(
            stack,
            tmp_path / "water",
            "ocean.py",
            _place("north", here, "south", there, "trip-1"),
            years=10_000,
        )
        air = _start(
            stack,
            tmp_path / "air",
            "atmosphere.py",
            _place("south", there, "north", here, "trip-1"),
            years=10_000,
        )
        assert air.stdout is not None
        assert any(line.startswith("met north") for line in air.stdout)
        air.kill()
        code, _, errors = _finish(water)[0]
    assert code == 1
    assert "lost the companion" in errors
    assert not (tmp_path / "water" / "result.json").exists()
