"""``gur status`` never shows a trip as booked that is not, nor the reverse.

Typed from a second process at every step of a booking and of a cancellation, the laptop killed at
each of them, and all the time while both go on; compared with what stands in the sites' journals
right before and right after.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridio.system.clock import SystemClock
from tests.support.grid_world import GridWorld, metajob_text, until
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration
SITES = ("alpha", "beta")
BOOK_STEPS = [("held", 1), ("held", 2), ("decided", 1), ("committed", 1), ("committed", 2)]
BOOK_STEPS += [("submitted", 1), ("submitted", 2)]
CANCEL_STEPS = [("let go", 1), ("let go", 2)]
BOOKED = ("BOOKED", "RUNNING", "COMPLETED")


@dataclass(frozen=True, slots=True)
class Sample:
    """One look from outside."""

    at: str
    shown: str
    """The state shown; empty: another command had the trip, and nothing was shown."""
    before: bool
    """Booked by the sites' books before the look."""
    after: bool

    @property
    def is_true(self) -> bool:
        """What was shown was so at some time while somebody looked."""
        if not self.shown:
            return True
        return (self.shown in BOOKED) in (self.before, self.after)


class Onlooker:
    """Looks at one laptop's only trip."""

    def __init__(self, grid: GridWorld, memory: Path) -> None:
        self._grid = grid
        self._memory = memory

    def is_booked(self) -> bool:
        """By the books of both sites."""
        trips = [each.name for each in (self._memory / "trips").glob("*")]
        return any(
            all(
                [each.state for each in self._grid.live(site, trip)] == [ReservationState.COMMITTED]
                for site in SITES
            )
            for trip in trips
        )

    def look(self, at: str) -> Sample:
        """Type ``gur status`` once."""
        before = self.is_booked()
        said = self._grid.gur("status", "--json", state=self._memory)
        assert said.code == 0, said
        assert "Traceback" not in said.err, said
        trips: list[dict[str, Any]] = json.loads(said.out)["trips"]
        shown = str(trips[-1].get("state", "")) if trips else ""
        return Sample(at, shown, before, self.is_booked())

    def look_until(self, is_over: Callable[[], bool], at: str) -> list[Sample]:
        """Again and again."""
        samples = []
        while not is_over():
            samples.append(self.look(at))
        return samples


def a_laptop(grid: GridWorld, folder: Path, window: tuple[int, int]) -> tuple[Path, Path]:
    """A metajob file over both sites, and the memory of the laptop that it lies on."""
    folder.mkdir()
    file = folder / "trip.toml"
    shares = dict.fromkeys(SITES, (1, 1))
    file.write_text(
        metajob_text(shares, 2, earliest=window[0], latest=window[1], command=["/bin/true"])
    )
    return file, folder / "memory"


def test_a_laptop_killed_at_any_step_shows_what_the_books_say(
    grid: GridWorld, tmp_path: Path
) -> None:
    """Killed while it books, or while it cancels: before anybody resumes, and after."""
    window = grid.window()
    samples: list[Sample] = []

    def kill(verb: str, step: tuple[str, int]) -> list[Sample]:
        name = f"{verb} {step[0]} {step[1]}"
        file, memory = a_laptop(grid, tmp_path / name.replace(" ", "-"), window)
        onlooker = Onlooker(grid, memory)
        words = ["book", str(file)]
        if verb == "cancel":
            assert grid.gur(*words, state=memory).code == 0
            words = ["cancel", "trip"]
        said = grid.gur(*words, state=memory, stop_at=(*step, int(signal.SIGKILL)))
        assert said.code == -signal.SIGKILL, (name, said)
        killed = onlooker.look(f"{name}, killed")
        assert grid.gur("resume", "trip", state=memory).code in (0, 3), name
        resumed = onlooker.look(f"{name}, resumed")
        assert killed.shown, (name, killed)
        assert resumed.shown, (name, resumed)
        grid.gur("cancel", "trip", state=memory)
        return [killed, resumed, onlooker.look(f"{name}, cancelled")]

    steps = [("book", each) for each in BOOK_STEPS] + [("cancel", each) for each in CANCEL_STEPS]
    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(lambda each: kill(*each), steps):
            samples += found
    assert [each for each in samples if not each.is_true] == []
    assert {each.shown in BOOKED for each in samples} == {True, False}


def test_what_the_sites_settle_among_themselves_is_shown(grid: GridWorld, tmp_path: Path) -> None:
    """The laptop was killed before the second site was told to commit, and nobody resumes: when
    the sites have made the trip whole, it is shown as booked.
    """
    start = SystemClock().now() + at_this_speed(8)
    file, memory = a_laptop(grid, tmp_path / "laptop", (start, start + 3600))
    said = grid.gur("book", str(file), state=memory, stop_at=("committed", 1, int(signal.SIGKILL)))
    assert said.code == -signal.SIGKILL, said
    onlooker = Onlooker(grid, memory)
    samples = onlooker.look_until(onlooker.is_booked, "in doubt")
    until(onlooker.is_booked, "the sites have settled it")
    samples.append(onlooker.look("settled"))
    assert [each for each in samples if not each.is_true] == []
    assert samples[-1].shown in BOOKED
    grid.gur("cancel", "trip", state=memory)


def test_status_all_the_time_while_trips_come_and_go(grid: GridWorld, tmp_path: Path) -> None:
    """A second process looks again and again while a trip is booked and cancelled, three times."""
    window = grid.window()
    samples: list[Sample] = []
    for number in range(3):
        file, memory = a_laptop(grid, tmp_path / f"{number}", window)
        onlooker = Onlooker(grid, memory)
        is_over = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(onlooker.look_until, is_over.is_set, f"round {number}")
            try:
                assert grid.gur("book", str(file), state=memory).code == 0
                samples.append(onlooker.look("booked"))
                assert grid.gur("cancel", "trip", state=memory).code in (0, 1)
            finally:
                is_over.set()
            samples += looking.result()
        assert grid.gur("cancel", "trip", state=memory).code == 0
        samples.append(onlooker.look("cancelled"))
    assert [each for each in samples if not each.is_true] == []
    assert samples[-1].shown == "CANCELLED"
