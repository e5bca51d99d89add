"""Laptops that are interrupted or killed at any step of a booking: the trip is whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.cli.interrupts import EXIT_INTERRUPTED
from gridtravel.travel_agent.output.rendering import resumed_json
from tests.support.grid_world import SIDE_BY_SIDE, GridWorld, metajob_text, until
from tests.support.gur_runner import PATIENCE_S, Said
from tests.support.shared_data import CHECKOUT
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

STEPS = [("asked", 1), ("held", 1), ("decided", 1), ("committed", 1), ("submitted", 1)]
"""A step of each kind of a booking at two sites, in the order in which they come. Every single
message is gone through where no process has to be started: tests/sim/test_booking_faults.py.
"""
STOPS_ITSELF = """
import signal, sys
from tests.support.gur_process import arm
from gridtravel.travel_agent.cli.main import main
arm("planned", 1, signal.SIGSTOP)
sys.argv = sys.argv[1:]
main()
"""
DECIDED_AT = STEPS.index(("decided", 1))


@dataclass(frozen=True, slots=True)
class Laptop:
    """A laptop with one metajob file, and what became of its booking."""

    grid: GridWorld
    folder: Path
    said: Said

    @property
    def state(self) -> Path:
        """Its memory."""
        return self.folder / "memory"

    def trip(self) -> str:
        """The id of its only trip."""
        (folder,) = (self.state / "trips").iterdir()
        return folder.name

    def gur(self, *words: str) -> Said:
        """Another command on the same laptop."""
        return self.grid.gur(*words, state=self.state)

    def resume(self) -> dict[str, Any]:
        """What ``gur resume`` says."""
        said = self.gur("resume", self.trip(), "--json")
        assert said.code == 0, said
        found: dict[str, Any] = json.loads(said.out)
        return found

    def states(self) -> list[ReservationState]:
        """States of the live reservations of its trip in all sites' books."""
        return [
            kept.state
            for site in ("alpha", "beta", "gamma")
            for kept in self.grid.live(site, self.trip())
        ]


def book(
    grid: GridWorld, folder: Path, step: str, count: int, number: int, window: tuple[int, int]
) -> Laptop:
    """Book at two sites; the laptop's command gets the signal at a step."""
    folder.mkdir()
    file = folder / "trip.toml"
    file.write_text(
        metajob_text(
            {"alpha": (1, 1), "beta": (1, 1)},
            2,
            earliest=window[0],
            latest=window[1],
            duration_s=30,
            command=["/bin/true"],
        )
    )
    said = grid.gur("book", str(file), state=folder / "memory", stop_at=(step, count, int(number)))
    return Laptop(grid, folder, said)


def book_all(
    grid: GridWorld,
    root: Path,
    number: signal.Signals,
    window: tuple[int, int],
    steps: list[tuple[str, int]],
) -> dict[tuple[str, int], Laptop]:
    """A laptop for each step, side by side."""

    def one(step: tuple[str, int]) -> Laptop:
        folder = root / f"{number.name}-{step[0]}-{step[1]}"
        return book(grid, folder, *step, number, window)

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        return dict(zip(steps, pool.map(one, steps), strict=True))


def test_ctrl_c_at_any_step_undoes_what_was_begun(grid: GridWorld, tmp_path: Path) -> None:
    """One line and exit code 130; nothing of the trip is left at any site when the command ends,
    and resume has nothing to do.
    """
    laptops = book_all(grid, tmp_path, signal.SIGINT, grid.window(), STEPS)
    for step, laptop in laptops.items():
        assert laptop.said.code == EXIT_INTERRUPTED, (step, laptop.said)
        assert len(laptop.said.faults) == 1, (step, laptop.said)
        assert "Traceback" not in laptop.said.err, (step, laptop.said)
        assert laptop.states() == [], step
        assert not any(grid.active_jobs(site, laptop.trip()) for site in ("alpha", "beta"))
    said = laptops["submitted", 1].gur("status", "--json")
    assert json.loads(said.out)["trips"][0]["state"] == "CANCELLED"
    assert laptops["held", 1].resume()["done"] == "nothing to do"


async def test_a_laptop_killed_at_any_step_finishes_or_undoes_on_resume(
    grid: GridWorld, tmp_path: Path
) -> None:
    """Killed before every leg was held and written down: resume undoes the trip everywhere. Killed
    after: resume makes it whole, with a job at each site. It says what it found and did, and has
    nothing to do the second time.
    """
    laptops = book_all(grid, tmp_path, signal.SIGKILL, grid.window(), STEPS)
    assert {laptop.said.code for laptop in laptops.values()} == {-signal.SIGKILL}
    answers = {}
    for step, laptop in laptops.items():
        async with grid.laptop(state=laptop.state) as agent:
            answers[step] = resumed_json(await agent.resume(laptop.trip()))
    for position, (step, laptop) in enumerate(laptops.items()):
        answer, states = answers[step], laptop.states()
        assert answer["found"], step
        assert answer["done"], step
        if position < DECIDED_AT:
            assert (answer["state"], states) == ("ABSENT", []), (step, answer)
            continue
        assert answer["state"] == "BOOKED", (step, answer)
        assert states == [ReservationState.COMMITTED] * 2, step
        assert all(leg["job"] for leg in answer["legs"]), (step, answer)
        for site in ("alpha", "beta"):
            assert len(grid.active_jobs(site, laptop.trip())) == 1, step
    assert answers["decided", 1]["done"] == "committed every leg"
    assert answers["held", 1]["found"] == "nothing was decided; 2 holds may have existed"
    again = laptops["committed", 1].resume()
    assert again["done"] == "nothing to do"


def test_sites_settle_a_trip_whose_laptop_never_comes_back(grid: GridWorld, tmp_path: Path) -> None:
    """Without any resume: what was not decided is absent when the holds' lifetime is over, and what
    was decided is whole, though one site was never told.
    """
    start = SystemClock().now() + at_this_speed(8)
    steps = [("held", 1), ("held", 2), ("decided", 1), ("committed", 1)]
    laptops = book_all(grid, tmp_path, signal.SIGKILL, (start, start + 3600), steps)
    for step in steps[:3]:
        until(lambda laptop=laptops[step]: laptop.states() == [], f"{step}: absent")  # type: ignore[misc]
    whole = laptops["committed", 1]
    until(lambda: whole.states() == [ReservationState.COMMITTED] * 2, "whole")
    until(lambda: not grid.holds(), "no hold outlives its lifetime")
    assert whole.states() == [ReservationState.COMMITTED] * 2
    said = whole.gur("cancel", whole.trip(), "--json")
    assert json.loads(said.out)["state"] == "CANCELLED", said
    assert whole.states() == []


@pytest.fixture
def waiting(grid: GridWorld, tmp_path: Path) -> Iterator[tuple[Laptop, subprocess.Popen[str]]]:
    """A booking that hangs, because a site stands still since it was inquired."""
    start, end = grid.window()
    file = tmp_path / "trip.toml"
    file.write_text(metajob_text({"alpha": (1, 1), "beta": (1, 1)}, 2, earliest=start, latest=end))
    process = subprocess.Popen(
        [sys.executable, "-c", STOPS_ITSELF, "gur", "book", str(file)],
        env=grid.environment("ada", tmp_path / "memory"),
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    laptop = Laptop(grid, tmp_path, Said(0, "", ""))
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), "it ended before it had planned"
        grid.pause("beta")
        process.send_signal(signal.SIGCONT)
        until(lambda: bool(grid.live("alpha", laptop.trip())), "one site holds its leg")
        yield laptop, process
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_while_a_site_stands_still(
    grid: GridWorld, waiting: tuple[Laptop, subprocess.Popen[str]]
) -> None:
    """The command ends all the same; the hold at the living site is released, and resume settles
    the other one when its site is back.
    """
    laptop, process = waiting
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == EXIT_INTERRUPTED, err
    assert laptop.states() == []
    grid.go_on("beta")
    answer = laptop.resume()
    assert answer["state"] == "ABSENT"
    until(lambda: laptop.states() == [], "what was on its way to the site books nothing")
    assert not grid.holds()


def test_two_commands_about_one_trip(
    grid: GridWorld, waiting: tuple[Laptop, subprocess.Popen[str]]
) -> None:
    """While one command works on a trip, another is told so in one line, and changes nothing; the
    list of trips is shown nevertheless.
    """
    laptop, process = waiting
    with ThreadPoolExecutor(3) as pool:
        trip = laptop.trip()
        words = [("resume", trip), ("cancel", trip), ("status",)]
        resume, cancel, status = pool.map(lambda each: laptop.gur(*each), words)
    for said in (resume, cancel):
        assert said.code == 1, said
        (line,) = said.faults
        assert "another command" in line
        assert trip in line
    assert status.code == 0
    assert "another command" in status.err
    grid.go_on("beta")
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert laptop.states() == [ReservationState.COMMITTED] * 2
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda _: laptop.gur("cancel", trip), range(2)))
    assert {said.code for said in both} <= {0, 1}
    assert 0 in {said.code for said in both}
    assert laptop.states() == []
