"""Bad luck at every turn, on real daemons: what the user is told is clear and true, and nothing is
left behind. Sites that die, laptops that are killed and input that is wrong have files of their
own.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from gridtravel.gridio.cli_frame import EXIT_DECLINED, EXIT_OTHER
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.travel_agent.cli.interrupts import EXIT_INTERRUPTED
from tests.support.grid_world import GridWorld, metajob_text
from tests.support.gur_runner import PATIENCE_S, Said
from tests.support.speed import at_this_speed

pytestmark = pytest.mark.integration

BOTH = {"alpha": (1, 1), "beta": (1, 1)}
NARROW = 60


def a_file(folder: Path, text: str) -> str:
    """A metajob file of the user's."""
    path = folder / "trip.toml"
    path.write_text(text)
    return str(path)


def far_away(grid: GridWorld, folder: Path, name: str = "trip", **others: object) -> str:
    """A trip of one node at each of two sites, on a day that no other test books."""
    window = grid.window()
    wanted: dict[str, object] = {"earliest": window[0], "latest": window[1], "duration_s": 60}
    return a_file(folder, metajob_text(BOTH, 2, name=name, **(wanted | others)))  # type: ignore[arg-type]  # as named there


def check_nothing_left(grid: GridWorld, state: Path) -> None:
    """No site has anything of the laptop's trips."""
    for trip in (state / "trips").iterdir():
        assert [grid.live(site, trip.name) for site in ("alpha", "beta")] == [[], []]
    assert grid.holds() == []


def test_a_command_that_does_not_exist(grid: GridWorld, tmp_path: Path) -> None:
    """Watching ends with the exit code of a failure; what is wrong is said at once, and remembered
    when the sites have long forgotten it.
    """
    now = SystemClock().now()
    text = metajob_text(
        BOTH,
        2,
        earliest=now + at_this_speed(5),
        latest=now + 3600,
        duration_s=10,
        command=["no-such-program"],
    )
    state = grid.new_state()
    said = grid.gur("book", a_file(tmp_path, text), "--watch", state=state)
    assert said.code == EXIT_OTHER, said
    why = "cannot run no-such-program: No such file or directory"
    assert f"FAILED ({why})" in said.out
    told = json.loads(grid.gur("status", "trip", "--json", state=state).out)
    assert told["state"] == "FAILED"
    assert len(told["notes"]) == 1
    assert told["notes"][0].count(why) == 2
    assert why in grid.gur("history", "trip", state=state).out
    assert grid.gur("watch", "trip", state=state).code == EXIT_OTHER


def test_a_trip_that_went_well_remembers_how_its_legs_started(
    grid: GridWorld, tmp_path: Path
) -> None:
    """The spread of the actual starts is the last thing that is said, and stays."""
    now = SystemClock().now()
    text = metajob_text(
        BOTH,
        2,
        earliest=now + at_this_speed(5),
        latest=now + 3600,
        duration_s=10,
        command=["/bin/true"],
    )
    state = grid.new_state()
    said = grid.gur("book", a_file(tmp_path, text), "--watch", state=state)
    assert said.code == 0, said
    assert said.out.splitlines()[-1].startswith("all legs started within ")
    assert "all legs started within " in grid.gur("status", "trip", state=state).err


@pytest.mark.parametrize("search", ["sweep", "probe"])
def test_a_window_that_no_site_can_serve(grid: GridWorld, tmp_path: Path, search: str) -> None:
    """Refused with the start that would do, as exit code 3; that offer can be taken."""
    window = grid.window(3600)
    state = grid.new_state()
    full = metajob_text({"beta": (8, 8)}, 8, earliest=window[0], latest=window[1], duration_s=3600)
    assert grid.gur("book", a_file(tmp_path, full), state=state).code == 0
    wanted = metajob_text(BOTH, 2, earliest=window[0], latest=window[1], duration_s=600)
    file = a_file(tmp_path, wanted)
    said = grid.gur("book", file, "--search", search, state=state)
    assert said.code == EXIT_DECLINED
    assert "no room for 1 nodes" in said.out
    assert "it would work from" in said.out
    words = ("book", file, "--search", search, "--accept-alternative", "--json")
    told = json.loads(grid.gur(*words, state=state).out)
    assert told["state"] == "BOOKED"
    assert grid.holds() == []


def test_what_no_window_can_cure_is_not_called_an_offer(grid: GridWorld, tmp_path: Path) -> None:
    """More nodes than a machine has: no option of the command would help, and none is named."""
    window = grid.window()
    text = metajob_text({"alpha": (900, 900)}, 900, earliest=window[0], latest=window[1])
    said = grid.gur("book", a_file(tmp_path, text))
    assert said.code == EXIT_DECLINED
    assert "16 is all there is" in said.out
    assert "--accept-alternative" not in said.out


def test_two_trips_of_one_name(grid: GridWorld, tmp_path: Path) -> None:
    """A declined one of the same second does not hide the one that is booked, and which one was
    taken is said once.
    """
    state = grid.new_state()
    booked = json.loads(
        grid.gur("book", far_away(grid, tmp_path, "twin"), "--json", state=state).out
    )
    text = metajob_text(
        {"gamma": (4, 4)}, 4, earliest=2 * 10**9, latest=2 * 10**9 + 7200, name="twin"
    )
    assert grid.gur("book", a_file(tmp_path, text), state=state).code == EXIT_DECLINED
    said = grid.gur("status", "twin", "--json", state=state)
    assert json.loads(said.out)["trip"] == booked["trip"]
    said = grid.gur("status", "twin", state=state)
    assert f"2 trips are called twin; this is {booked['trip']}" in said.err
    assert grid.gur("cancel", "twin", state=state).code == 0
    assert "all are over" in grid.gur("status", "twin", state=state).err


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_probe_that_is_interrupted_leaves_no_test_reservation(
    grid: GridWorld, tmp_path: Path, kind: signal.Signals, count: int
) -> None:
    """Ctrl-C at any answer to a test reservation: nothing is left when the command ends. Killed:
    ``gur resume`` finds the test reservations in the log and releases them.
    """
    state = grid.new_state()
    said = grid.gur(
        *("book", far_away(grid, tmp_path), "--search", "probe"),
        state=state,
        stop_at=("offered", count, int(kind)),
    )
    if kind is signal.SIGINT:
        assert said.code == EXIT_INTERRUPTED, said
        assert len(said.faults) == 1, said
    else:
        (folder,) = (state / "trips").iterdir()
        told = json.loads(grid.gur("resume", folder.name, "--json", state=state).out)
        assert told["state"] == "ABSENT"
        assert "holds may have existed" in told["found"]
    check_nothing_left(grid, state)


def test_a_quote_by_probe_that_is_interrupted(grid: GridWorld, tmp_path: Path) -> None:
    """A quote holds nothing, also when Ctrl-C ends it between two test reservations."""
    said = grid.gur(
        *("quote", far_away(grid, tmp_path), "--search", "probe"),
        stop_at=("offered", 2, int(signal.SIGINT)),
    )
    assert said.code == EXIT_INTERRUPTED, said
    assert grid.holds() == []


def test_a_site_that_is_dead_when_it_is_probed(grid: GridWorld, tmp_path: Path) -> None:
    """One line that names it, exit code 4, and no test reservation at the site that lives."""
    state = grid.new_state()
    file = far_away(grid, tmp_path)
    grid.kill("beta")
    said = grid.gur("book", file, "--search", "probe", state=state)
    assert said.code == 4
    assert "beta" in said.faults[0]
    assert grid.holds() == []


@pytest.mark.parametrize("search", ["sweep", "probe"])
def test_a_site_whose_disk_is_full(grid: GridWorld, tmp_path: Path, search: str) -> None:
    """It cannot promise what it cannot write down: one line that says so, exit code 4, the other
    site is let go, and the site ends rather than forget. With room again it has kept its word.
    """
    state = grid.new_state()
    kept = json.loads(grid.gur("book", far_away(grid, tmp_path), "--json", state=state).out)
    resource.prlimit(grid.pid("beta"), resource.RLIMIT_FSIZE, (0, 0))
    late = grid.new_state()
    said = grid.gur("book", far_away(grid, tmp_path), "--search", search, state=late)
    assert said.code == 4
    assert "cannot write the journal" in said.faults[0]
    grid.kill("beta")
    grid.start("beta")
    for trip in (late / "trips").iterdir():
        assert grid.gur("resume", trip.name, state=late).code == 0
    check_nothing_left(grid, late)
    told = json.loads(grid.gur("status", kept["trip"], "--json", state=state).out)
    assert told["state"] == "BOOKED"


def in_a_terminal(grid: GridWorld, state: Path, *words: str, **more: str) -> Said:
    """What a command shows in a terminal of ``NARROW`` columns."""
    mine, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, NARROW, 0, 0))
    environment = grid.environment("ada", state) | more
    environment.pop("COLUMNS")
    done = subprocess.Popen(
        [sys.executable, "-m", "gridtravel.travel_agent.cli.main", *words],
        env=environment,
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    shown = b""
    while select.select([mine], [], [], PATIENCE_S)[0]:
        try:
            shown += os.read(mine, 65_536)
        except OSError:
            break
    os.close(mine)
    return Said(done.wait(PATIENCE_S), shown.decode().replace("\r\n", "\n"), "")


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["no colour", "dumb"])
def test_a_narrow_terminal_without_colour(
    grid: GridWorld, tmp_path: Path, more: dict[str, str]
) -> None:
    """60 columns: no word is broken, so that ids can be copied; where colour is not wanted, or not
    known, no escape sequence is written.
    """
    state = grid.new_state()
    booked = json.loads(grid.gur("book", far_away(grid, tmp_path), "--json", state=state).out)
    for words in (("status", booked["trip"]), ("sites",), ("history",), ("history", "trip")):
        said = in_a_terminal(grid, state, *words, **more)
        assert said.code == 0, said
        assert "\x1b" not in said.out, said
        if words[0] == "status":
            for leg in booked["legs"]:
                assert leg["reservation"] in said.out
        if words[0] == "sites":
            assert grid.endpoint("alpha") in said.out
