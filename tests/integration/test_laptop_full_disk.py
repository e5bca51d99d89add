"""A full disk below the laptop's memory, for real: a small file system of the command's own. No
trip begins that cannot be remembered, and none is remembered that never began.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import ReservationState
from tests.support.strange_site import StrangeScene, a_strange_scene

pytestmark = pytest.mark.integration

PAGE = 4096
MOUNT = "unshare --mount sh -ec"
COMMAND = f"{sys.executable} -m gridtravel.travel_agent.cli.main"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[StrangeScene]:
    """A site and a laptop; the memory of the laptop is an empty folder."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("NOT TESTED: a laptop's full disk. It takes root and unshare(1)")
    (tmp_path / "laptop").mkdir()
    async with a_strange_scene(tmp_path) as made:
        yield made


async def on_a_disk(scene: StrangeScene, *, options: str, pages_left: int, then: str) -> list[str]:
    """Book with so many pages left; make room, and do ``then``. Lines of all that was said."""
    memory = scene.folder / "laptop"
    script = f"""
        mount -t tmpfs -o {options} none {memory}
        dd if=/dev/zero of={memory}/ballast bs={PAGE} 2>/dev/null || true
        truncate -s -{pages_left * PAGE} {memory}/ballast
        code=0; {COMMAND} book {scene.metajob()} 2>&1 || code=$?
        echo "booked with $code"
        rm {memory}/ballast
        {then}
    """
    done = await asyncio.to_thread(
        subprocess.run,
        [*shlex.split(MOUNT), script],
        env=dict(scene.environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("options", "pages_left"),
    [("size=64k", 0), ("size=64k,nr_inodes=3", 4)],
    ids=["bytes", "names"],
)
async def test_a_trip_that_cannot_be_remembered_is_not_booked(
    scene: StrangeScene, options: str, pages_left: int
) -> None:
    """One line and the next step, exit code 1 (no site is at fault); no site was asked for
    anything, and no trip is left, of whatever year.
    """
    said = await on_a_disk(
        scene, options=options, pages_left=pages_left, then=f"{COMMAND} history --json"
    )
    at = said.index("booked with 1")
    first, second = said[:at]
    assert first.startswith("gur: ")
    assert "No space left on device" in first
    assert "GUR_STATE" in second
    assert said[at + 1 :] == ["{", '  "trips": []', "}"]
    assert not scene.site.calendar.reservations


@pytest.mark.parametrize("argument_bytes", [2200, 2400], ids=["late", "early"])
async def test_a_disk_that_fills_up_meanwhile(scene: StrangeScene, argument_bytes: int) -> None:
    """What was begun is told with the way to end it, and that ends it, by what was decided when the
    disk was full: the trip is booked and remembered, or nothing of it is.
    """
    path = scene.metajob()
    long = "x" * argument_bytes
    path.write_text(path.read_text().replace('["true"]', f'["true", "{long}"]'))
    scene.metajob = lambda: path  # type: ignore[method-assign]
    history = f"{COMMAND} history --json"
    ids = history + ' | sed -n \'s/.*"trip": "\\(.*\\)".*/\\1/p\''
    then = f'trip=$({ids}); echo "trip $trip"; {COMMAND} resume $trip >&2; {history}'
    said = await on_a_disk(scene, options="size=64k", pages_left=1, then=then)
    at = said.index("booked with 1")
    trip = said[at + 1].removeprefix("trip ")
    (told,) = [each for each in said[:at] if each.startswith("gur: ")]
    assert "No space left on device" in told
    assert f"gur resume {trip}" in said[said.index(told) + 1]
    (remembered,) = json.loads("\n".join(said[at + 2 :]))["trips"]
    assert remembered["asked_at"] > "2026"
    kept = {each.state for each in scene.site.calendar.reservations.values() if each.state.is_live}
    expected = {"BOOKED": {ReservationState.COMMITTED}, "ABSENT": set()}
    assert kept == expected[remembered["state"]]
