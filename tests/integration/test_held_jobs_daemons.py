"""What runs is decided with the trip: real daemons, and a laptop that is killed for good."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridio.system.clock import SystemClock
from tests.support.grid_world import GridWorld, metajob_text, until
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

COMMAND = 'cat small.dat large.dat > both; echo "$GRID_COMPANIONS" > companions'
LARGE_BYTES = 5 << 20
SITES = ("alpha", "beta")


def a_trip(folder: Path, start: int, *, large: bool) -> Path:
    """A metajob over two sites whose task takes files along."""
    folder.mkdir()
    (folder / "small.dat").write_bytes(b"42\n")
    (folder / "large.dat").write_bytes(os.urandom(LARGE_BYTES) if large else b"43\n")
    file = folder / "trip.toml"
    text = metajob_text(
        {"alpha": (1, 1), "beta": (1, 1)},
        2,
        earliest=start,
        latest=start + 3600,
        duration_s=30,
        command=["/bin/sh", "-c", COMMAND],
    )
    assert "command" in text
    staged = 'stage_in = ["small.dat", "large.dat"]\ncommand'
    file.write_text(text.replace("command", staged, 1))
    return file


def areas(grid: GridWorld, site: str) -> list[Path]:
    """The folders of the legs at a site."""
    root = grid.folder.site(site) / "state" / "areas"
    return sorted(root.iterdir()) if root.is_dir() else []


def test_a_killed_laptop_leaves_both_legs_running_or_none(grid: GridWorld, tmp_path: Path) -> None:
    """Killed when every leg is held: nothing stays. Killed when COMMIT is chosen and one leg was
    told: both run at their start with their files, and know where the other is, though no laptop
    ever comes back.
    """
    start = SystemClock().now() + at_this_speed(12)
    memory = {step: tmp_path / f"memory-{step}" for step in ("decided", "committed")}
    file = a_trip(tmp_path / "work", start, large=False)
    for step, state in memory.items():
        said = grid.gur("book", str(file), state=state, stop_at=(step, 1, signal.SIGKILL))
        assert said.code == -signal.SIGKILL, said
    (trip,) = [each.name for each in (memory["committed"] / "trips").iterdir()]
    (lost,) = [each.name for each in (memory["decided"] / "trips").iterdir()]
    for site in SITES:
        until(lambda site=site: ran(grid, site) == 1, f"{site} has run its leg")  # type: ignore[misc]
    for site, other in (SITES, SITES[::-1]):
        (area,) = [each for each in areas(grid, site) if (each / "companions").exists()]
        assert (area / "both").read_bytes() == b"42\n43\n"
        (companion,) = json.loads((area / "companions").read_text())
        assert (companion["leg"], companion["site"]) == (f"{other}-machine", other)
        assert companion["contact"].startswith("127.0.0.1:")
    assert {each.state for site in SITES for each in grid.live(site, trip)} <= {
        ReservationState.COMMITTED
    }
    assert not [each for site in SITES for each in grid.live(site, lost)]


def ran(grid: GridWorld, site: str) -> int:
    """Legs at a site whose task has come to its end."""
    return sum(
        (each / "companions").exists() and bool((each / "companions").read_text().strip())
        for each in areas(grid, site)
    )


def test_large_files_may_come_after_the_booking(grid: GridWorld, tmp_path: Path) -> None:
    """A laptop that is killed when the trip is booked and the large files are not sent: the jobs
    wait; ``gur resume``, given in another folder, sends the rest, and says when a file has changed.
    """
    start, state = grid.window()[0], tmp_path / "memory"
    file = a_trip(tmp_path / "work", start, large=True)
    said = grid.gur("book", str(file), state=state, stop_at=("submitted", 2, signal.SIGKILL))
    assert said.code == -signal.SIGKILL, said
    (trip,) = [each.name for each in (state / "trips").iterdir()]
    large = file.parent / "large.dat"
    content = large.read_bytes()
    large.write_bytes(b"another")
    said = grid.gur("resume", trip, state=state)
    assert said.code == 2, said
    assert "is not what it was" in said.err
    large.write_bytes(content)
    said = grid.gur("resume", trip, "--json", state=state)
    assert said.code == 0, said
    assert "sent its files" in json.loads(said.out)["done"]
    for site in SITES:
        (leg,) = grid.live(site, trip)
        area = grid.folder.site(site) / "state" / "areas" / leg.reservation_id
        assert (area / "large.dat").read_bytes() == content
    again = grid.gur("resume", trip, "--json", state=state)
    assert json.loads(again.out)["done"] == "nothing to do"
