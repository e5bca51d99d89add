"""``gur demo`` from end to end, with real daemons and real tasks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.shared_data import CHECKOUT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
PATIENCE_S = 180


@pytest.fixture
def place() -> Iterator[Path]:
    """Where the demonstration puts its files, and whose path its processes are known by. Not below
    ``tmp_path``, whose names are too long for a local socket.
    """
    with tempfile.TemporaryDirectory(prefix="grid-") as folder:
        yield Path(folder)
        for pid in _processes(Path(folder)):
            os.kill(pid, signal.SIGKILL)


def _processes(place: Path) -> list[int]:
    """All processes that name the place in their command line, environment or working folder:
    daemons by their configuration, supervisors by their orders, tasks by where they work.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        home = Path("/proc", name)
        try:
            words = (home / "cmdline").read_bytes() + (home / "environ").read_bytes()
            words += os.fsencode(os.readlink(home / "cwd"))
        except OSError:
            continue
        if str(place).encode() in words:
            found.append(int(name))
    return found


@contextmanager
def _demo(place: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A demonstration. When the test fails meanwhile it is ended at once, and what it said on
    standard error belongs to the failure.
    """
    demo = subprocess.Popen(
        [sys.executable, "-m", "gridtravel.travel_agent.cli.main", "demo", *options],
        cwd=CHECKOUT,
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with demo:
        try:
            yield demo
        except BaseException as failure:
            demo.kill()
            failure.add_note(f"the demonstration said: {demo.communicate()[1]}")
            raise


def _gur(found: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Another command of the user's, in another terminal."""
    return subprocess.run(
        [sys.executable, "-m", "gridtravel.travel_agent.cli.main", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "GUR_CONFIG": found["GUR_CONFIG"], "GUR_STATE": found["GUR_STATE"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _await_end(place: Path) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while _processes(place) or any(place.iterdir()):
        assert time.monotonic() < give_up_at, (_processes(place), list(place.iterdir()))
        time.sleep(0.05)


def test_the_demonstration_shows_what_it_promises(place: Path) -> None:
    """Two legs, booked whole, start together and come to the reference to the last bit; the kept
    grid serves its user until Ctrl-C; then nothing is left.
    """
    with _demo(place, "--keep", "--json") as demo:
        assert demo.stdout is not None
        text = ""
        for line in demo.stdout:
            text += line
            if line == "}\n":
                break
        found = json.loads(text)
        assert found["faults"] == []
        assert found["verified"] is True
        assert found["itinerary"]["state"] == "COMPLETED"
        legs = {leg["machine"]: leg for leg in found["itinerary"]["legs"]}
        assert sum(leg["nodes"] for leg in legs.values()) == 12
        assert 1 <= legs["purduesp"]["nodes"] <= 2
        assert legs["datastar655"]["start"] == legs["purduesp"]["start"]
        assert found["spread_ms"] is not None
        assert {leg: result["exchanges"] for leg, result in found["results"].items()} == {
            "datastar655": 3600,
            "purduesp": 3600,
        }
        sites = json.loads(_gur(found, "sites", "--json").stdout)["sites"]
        assert [site["reachable"] for site in sites] == [True, True, True]
        status = _gur(found, "status", "ocean-atmosphere", "--json")
        assert json.loads(status.stdout)["state"] == "COMPLETED"
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=PATIENCE_S)
    assert (demo.returncode, errors) == (0, "")
    assert _processes(place) == []
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)]
)
def test_interrupted_in_the_midst_it_leaves_nothing(
    place: Path, number: signal.Signals, code: int
) -> None:
    """While daemons and tasks run, Ctrl-C, SIGTERM and even kill -9 end everything: supervisors and
    tasks too, which outlive a daemon.
    """
    with _demo(place) as demo:
        assert demo.stdout is not None
        assert any(line.startswith("The request:") for line in demo.stdout)
        assert len(_processes(place)) >= 1 + 1 + 3 + 2 * 3
        demo.send_signal(number)
        demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == code
    if number is not signal.SIGKILL:
        assert _processes(place) == []
    _await_end(place)
