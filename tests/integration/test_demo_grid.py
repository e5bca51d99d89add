"""Starting and ending a demonstration grid, with daemons that misbehave as real ones hardly can."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.travel_agent.demo.grid import demo_grid
from gridtravel.travel_agent.demo.sites import DEMO_SITES
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.grid_world import kill_site
from tests.support.shared_data import CHECKOUT

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
PATIENCE_S = 180

STUBBORN_DAEMON = """
import os, signal, socket, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if "{mode}" == "deaf" else signal.SIG_DFL)
if "{mode}" == "broken":
    sys.exit("no such thing")
door = socket.create_server(("127.0.0.1", 0))
subprocess.Popen(["setsid", "sh", "-c", "sleep 600 & sleep 600"], stdin=subprocess.DEVNULL)
print("ready 127.0.0.1:%d" % door.getsockname()[1], flush=True)
time.sleep(600)
"""

HOST = """
import sys, time
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.travel_agent.demo.grid import demo_grid, interruptible
with interruptible(), demo_grid(SystemClock(), RandomIds(), daemon=sys.argv[1:]) as grid:
    print(grid.folder.root, *grid.endpoints.values(), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A variable that every process of the test inherits, and is found by."""
    name = RandomIds().new_id("demotest")
    monkeypatch.setenv("DEMO_GRID_TEST", name)
    yield name
    for pid in _marked(name):
        os.kill(pid, signal.SIGKILL)


def _marked(marker: str) -> list[int]:
    """The processes with the marker in their environment, this one aside."""
    found = []
    for name in os.listdir("/proc"):
        try:
            environment = Path("/proc", name, "environ").read_bytes() if name.isdigit() else b""
        except OSError:
            continue
        if f"DEMO_GRID_TEST={marker}".encode() in environment and int(name) != os.getpid():
            found.append(int(name))
    return found


def _await_end(marker: str, folder: Path) -> None:
    """Until nothing of the grid is left; a failure names what is."""
    give_up_at = time.monotonic() + PATIENCE_S
    while _marked(marker) or folder.exists():
        assert time.monotonic() < give_up_at, (_marked(marker), folder.exists())
        time.sleep(0.05)


def _daemon(tmp_path: Path, mode: str) -> list[str]:
    script = tmp_path / f"{mode}.py"
    script.write_text(STUBBORN_DAEMON.replace("{mode}", mode))
    return [sys.executable, str(script)]


def _is_served(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@pytest.mark.parametrize("mode", ["tame", "deaf"])
def test_nothing_is_left_after_the_with(tmp_path: Path, marker: str, mode: str) -> None:
    """Daemons, orphans in sessions of their own, ports and files are gone, also when a daemon does
    not listen to TERM.
    """
    with demo_grid(SystemClock(), RandomIds(), daemon=_daemon(tmp_path, mode)) as grid:
        config = load_grid_config(grid.config)
        assert list(config.machines) == [site.machine for site in DEMO_SITES]
        assert all(_is_served(endpoint) for endpoint in grid.endpoints.values())
        assert grid.folder.root.stat().st_mode & 0o777 == 0o700
        assert len(_marked(marker)) >= 1 + 3 * 3
    assert _marked(marker) == []
    assert not grid.folder.root.exists()
    assert not any(_is_served(endpoint) for endpoint in grid.endpoints.values())


def test_a_failure_inside_ends_the_grid_too(tmp_path: Path, marker: str) -> None:
    """An exception passes through, and nothing stays behind it."""
    folders = []

    def fail() -> None:
        with demo_grid(SystemClock(), RandomIds(), daemon=_daemon(tmp_path, "tame")) as grid:
            folders.append(grid.folder.root)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert _marked(marker) == []
    assert not folders[0].exists()


def test_a_daemon_that_does_not_start_is_told_with_its_last_words(
    tmp_path: Path, marker: str
) -> None:
    """The fault names the site and what it said, and the others are ended."""
    with (
        pytest.raises(UnavailableError, match=r"ended with code 1: no such thing"),
        demo_grid(SystemClock(), RandomIds(), daemon=_daemon(tmp_path, "broken")),
    ):
        raise AssertionError("it did not start")
    assert _marked(marker) == []


def test_a_site_can_be_killed_and_started_again(tmp_path: Path, marker: str) -> None:
    """The same site, another process, and its new endpoint is known."""
    with demo_grid(SystemClock(), RandomIds(), daemon=_daemon(tmp_path, "tame")) as grid:
        before = grid.endpoints["purdue"]
        kill_site(grid, "purdue", _marked(marker))
        assert not _is_served(before)
        grid.start_sites(["purdue"])
        assert _is_served(grid.endpoints["purdue"])
    assert _marked(marker) == []


def _start_host(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOST, *_daemon(tmp_path, "tame")],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_the_host_ends_the_grid(
    tmp_path: Path, marker: str, number: signal.Signals
) -> None:
    """Killed with -9 or asked to stop in any way, the demonstration takes everything along."""
    with _start_host(tmp_path) as host:
        assert host.stdout is not None
        folder, *endpoints = host.stdout.readline().split()
        give_up_at = time.monotonic() + PATIENCE_S
        while len(_marked(marker)) < 2 + 3 * 3:  # what a daemon starts may come after its word
            assert time.monotonic() < give_up_at, _marked(marker)
            time.sleep(0.05)
        host.send_signal(number)
        host.wait(PATIENCE_S)
        if number is not signal.SIGKILL:
            assert not Path(folder).exists()
    _await_end(marker, Path(folder))
    assert not any(_is_served(endpoint) for endpoint in endpoints)


def test_a_host_that_ignores_interrupts_can_be_stopped(tmp_path: Path, marker: str) -> None:
    """A script's background command begins with SIGINT ignored; SIGTERM must end it still."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        host = _start_host(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    with host:
        assert host.stdout is not None
        folder = Path(host.stdout.readline().split()[0])
        host.send_signal(signal.SIGTERM)
        host.wait(PATIENCE_S)
    assert not folder.exists()
    _await_end(marker, folder)


@pytest.mark.parametrize("delay_s", [0.1, 0.3, 0.5, 0.8])
def test_interrupted_while_starting_it_leaves_nothing(
    tmp_path: Path, marker: str, delay_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at any moment: before the imports, while keys are made, while daemons come up."""
    place = Path(tempfile.mkdtemp(prefix="grid-"))
    monkeypatch.setenv("TMPDIR", str(place))
    with _start_host(tmp_path) as host:
        time.sleep(delay_s)
        host.send_signal(signal.SIGINT)
        host.wait(PATIENCE_S)
    _await_end(marker, tmp_path / "nothing")
    place.rmdir()  # which it could not be if anything were left in it


def test_a_keeper_that_is_killed_takes_the_grid_along(tmp_path: Path, marker: str) -> None:
    """Without its keeper the grid ends too, and the ``with`` still clears up."""
    with demo_grid(SystemClock(), RandomIds(), daemon=_daemon(tmp_path, "tame")) as grid:
        folder = grid.folder.root
        keeper = next(
            pid
            for pid in _marked(marker)
            if b"keeper.py" in Path("/proc", str(pid), "cmdline").read_bytes()
        )
        os.kill(keeper, signal.SIGKILL)
    assert not folder.exists()
    assert not any(_is_served(endpoint) for endpoint in grid.endpoints.values())
