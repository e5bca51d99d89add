"""What people type wrongly, or try: one clear line, the documented exit code, and no trace of it.

Every case is the real command in a process of its own. They run side by side once; each test then
looks at one of them.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from tests.support.grid_world import (
    DAY_S,
    GRID,
    NOBODY,
    SIDE_BY_SIDE,
    SITES,
    GridWorld,
    metajob_text,
    write_machines,
)
from tests.support.gur_runner import Said

pytestmark = pytest.mark.integration

PAPER_FILE = """\
[metajob]
total_nodes = 2
usage_pattern = multiple
machine_preference = alpha-machine, beta-machine
machine_preference_reorder = yes
duration = 600
earliest_start = 10:00_{day}
latest_end = 12:00_{day}
machines_dict_string = {machines}
"""
TYPED = ("missing key", "foreign authority", "foreign certificate")
"""Cases that are started as a shell would start them: what libraries write at their own start is
seen there only.
"""


class Laptop:
    """Where one case happens: files, a configuration and a memory of its own."""

    def __init__(self, grid: GridWorld, folder: Path) -> None:
        folder.mkdir()
        self.grid = grid
        self.folder = folder
        self.user = "ada"
        self.environment: dict[str, str] = {}

    def file(self, text: str, name: str = "trip.toml") -> str:
        """A file of the user's."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def trip(self, change: Callable[[str], str] = str, **chosen: object) -> str:
        """A metajob file that is good until ``change`` spoils it."""
        now = SystemClock().now()
        wanted: dict[str, object] = {
            "shares": {"alpha": (1, 4), "beta": (1, 4)},
            "nodes_total": 4,
            "earliest": now + 300 * DAY_S // 10,
            "latest": now + 301 * DAY_S // 10,
        }
        return self.file(change(metajob_text(**(wanted | chosen))))  # type: ignore[arg-type]

    def machines(self, **endpoints: str) -> Path:
        """A list of machines with other endpoints, or other credentials, than the good one."""
        path = self.folder / "sites.toml"
        self.environment["GUR_CONFIG"] = str(path)
        return write_machines(self.grid, self.user, path=path, **endpoints)

    def credential(self, authority: Authority, *, at: int) -> None:
        """Use a certificate of ``authority``, issued at another time."""
        out = self.folder / "credential"
        authority.issue_user("ada", out, at)
        path = self.machines()
        good = self.grid.folder.user("ada") / "credential"
        path.write_text(path.read_text().replace(str(good), str(out)))


def without(line: str) -> Callable[[str], str]:
    """A file in which every line that begins so is missing."""
    return lambda text: "\n".join(each for each in text.splitlines() if not each.startswith(line))


def instead(old: str, new: str) -> Callable[[str], str]:
    """A file in which a line that begins with ``old`` is ``new``."""
    return lambda text: "\n".join(
        new if each.startswith(old) else each for each in text.splitlines()
    )


def python_code(laptop: Laptop) -> list[str]:
    """Code where the paper's file has a dictionary."""
    code = f"__import__('pathlib').Path({str(laptop.folder / 'executed')!r}).touch()"
    text = PAPER_FILE.format(day="11/09/2030", machines="{'alpha-machine': " + code + "}")
    return ["book", laptop.file(text, "paper.gur")]


def expired(laptop: Laptop) -> list[str]:
    """A certificate that was good a month ago."""
    laptop.credential(laptop.grid.authority, at=SystemClock().now() - 30 * DAY_S)
    return ["book", laptop.trip()]


def not_yet(laptop: Laptop) -> list[str]:
    """A certificate from the future, as on a laptop whose clock is wrong."""
    laptop.credential(laptop.grid.authority, at=SystemClock().now() + 30 * DAY_S)
    return ["book", laptop.trip()]


def foreign(laptop: Laptop) -> list[str]:
    """A certificate of another authority that gives its grid the same name."""
    now = SystemClock().now()
    authority = Authority.create(laptop.folder / "foreign", GRID, RandomIds(), now)
    laptop.credential(authority, at=now)
    return ["book", laptop.trip()]


def foreign_behind_our_root(laptop: Laptop) -> list[str]:
    """The same, by somebody who has our root and so believes our sites."""
    words = foreign(laptop)
    root = laptop.grid.folder.user("ada") / "credential" / "root.pem"
    (laptop.folder / "credential" / "root.pem").write_bytes(root.read_bytes())
    return words


def directory(laptop: Laptop) -> list[str]:
    """A folder where a file belongs."""
    return ["book", str(laptop.folder)]


def unreachable(laptop: Laptop) -> list[str]:
    """Nothing listens at one of the sites."""
    laptop.machines(beta="127.0.0.1:9")
    return ["book", laptop.trip()]


def mismatch(laptop: Laptop) -> list[str]:
    """The address of one site under the name of another."""
    laptop.machines(beta=laptop.grid.endpoint("gamma"))
    return ["book", laptop.trip()]


def unmapped(laptop: Laptop) -> list[str]:
    """A user of the grid whom no site has mapped."""
    laptop.user = NOBODY
    return ["book", laptop.trip()]


def state_is_a_file(laptop: Laptop) -> list[str]:
    """GUR_STATE points to a file."""
    laptop.environment["GUR_STATE"] = laptop.file("", "state")
    return ["book", laptop.trip()]


def no_list(laptop: Laptop) -> list[str]:
    """GUR_CONFIG points to nothing."""
    laptop.environment["GUR_CONFIG"] = str(laptop.folder / "nothing.toml")
    return ["book", laptop.trip()]


def bad_endpoint(laptop: Laptop) -> list[str]:
    """An address that is none."""
    laptop.machines(beta="nowhere")
    return ["book", laptop.trip()]


def unknown_host(laptop: Laptop) -> list[str]:
    """A host name that no name service knows."""
    laptop.machines(beta="no-such-host.invalid:7101")
    return ["book", laptop.trip()]


def no_credential(laptop: Laptop) -> list[str]:
    """Nobody has logged in yet."""
    path = laptop.machines()
    good = laptop.grid.folder.user("ada") / "credential"
    path.write_text(path.read_text().replace(str(good), str(laptop.folder / "nothing")))
    return ["book", laptop.trip()]


def half_a_log(laptop: Laptop) -> list[str]:
    """A trip's log that a power failure cut to nothing."""
    folder = laptop.folder / "laptop" / "trips" / "trip-half"
    folder.mkdir(parents=True)
    (folder / "trip.journal").write_bytes(b"\0" * 4096)
    laptop.environment["GUR_STATE"] = str(laptop.folder / "laptop")
    return ["status", "trip-half"]


@dataclass(frozen=True, slots=True)
class Case:
    """A command that must fail, how, and what its one line must name."""

    code: int
    names: str
    words: Callable[[Laptop], list[str]]


CASES = {
    "missing key": Case(2, "duration", lambda it: ["book", it.trip(without("duration"))]),
    "wrong date": Case(
        2,
        "02/30/2030",
        lambda it: ["book", it.trip(instead("latest_end", 'latest_end = "13:00_02/30/2030"'))],
    ),
    "min over max": Case(2, "at least 4", lambda it: ["book", it.trip(shares={"alpha": (4, 2)})]),
    "unknown machine": Case(
        2, "zeta-machine", lambda it: ["book", it.trip(shares={"alpha": (1, 4), "zeta": (1, 4)})]
    ),
    "past window": Case(
        2, "window ended", lambda it: ["book", it.trip(earliest=1000, latest=9000)]
    ),
    "zero duration": Case(2, "duration", lambda it: ["book", it.trip(duration_s=0)]),
    "file to stage is missing": Case(
        2,
        "nothing.dat",
        lambda it: [
            "book",
            it.trip(instead("command", 'command=["a"]\nstage_in=["nothing.dat"]'), command=["a"]),
        ],
    ),
    "python code": Case(2, "machines_dict_string", python_code),
    "directory": Case(2, "is not a file", directory),
    "binary file": Case(2, "trip.toml", lambda it: ["book", it.file("\0\1\2" * 99)]),
    "other account": Case(
        5,
        "may not charge",
        lambda it: ["book", it.trip(instead("nodes_max", 'nodes_max = 4\naccount = "grace"'))],
    ),
    "other login": Case(
        5,
        "grace",
        lambda it: ["book", it.trip(instead("nodes_max", 'nodes_max = 4\nlogin="grace"'))],
    ),
    "expired certificate": Case(5, "expired", expired),
    "certificate from the future": Case(5, "not valid", not_yet),
    "foreign authority": Case(5, "authority", foreign),
    "foreign certificate": Case(5, "certificate", foreign_behind_our_root),
    "no credential": Case(5, "credential", no_credential),
    "unreachable site": Case(4, "beta", unreachable),
    "unknown host name": Case(4, "no-such-host.invalid is not known", unknown_host),
    "other site": Case(5, "beta", mismatch),
    "unmapped user": Case(5, NOBODY, unmapped),
    "state is a file": Case(2, "state", state_is_a_file),
    "no list of machines": Case(2, "nothing.toml", no_list),
    "bad endpoint": Case(2, "nowhere", bad_endpoint),
    "unknown trip": Case(2, "no-such", lambda it: ["cancel", "no-such"]),
    "trip that is a path": Case(2, "../..", lambda it: ["status", "../../../etc"]),
    "damaged log": Case(1, "trip.journal", half_a_log),
}


@dataclass(frozen=True, slots=True)
class Played:
    """What all cases said, and what the sites' journals held before and after."""

    said: dict[str, Said]
    folders: dict[str, Path]
    before: dict[str, int]
    after: dict[str, int]


@pytest.fixture(scope="module")
def played(shared_grid: GridWorld, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Every case, once."""
    shared_grid.mend()
    root = tmp_path_factory.mktemp("bad-input")
    before = shared_grid.sizes()
    folders = {name: root / name for name in CASES}

    def play(name: str) -> Said:
        laptop = Laptop(shared_grid, folders[name])
        words = CASES[name].words(laptop)
        state = laptop.folder / "memory"
        return shared_grid.gur(
            *words,
            "--json",
            user=laptop.user,
            state=state,
            is_typed=name in TYPED,
            more=laptop.environment,
        )

    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        said = dict(zip(CASES, pool.map(play, CASES), strict=True))
    return Played(said, folders, before, shared_grid.sizes())


@pytest.mark.parametrize("name", CASES)
def test_bad_input_gets_one_clear_line_and_its_exit_code(played: Played, name: str) -> None:
    """One line that names what is wrong, at most a hint below it, the documented exit code, and
    with --json one object that says the same.
    """
    said, case = played.said[name], CASES[name]
    first, *shadow_estimates = said.err.splitlines() or [""]
    assert first.startswith("gur: "), said
    assert case.names in first, said
    assert "Traceback" not in said.err
    assert len(shadow_estimates) <= 1, said
    assert all(line.startswith("  ") for line in shadow_estimates), said
    assert said.code == case.code, said
    fault = json.loads(said.out)["error"]
    assert set(fault) == {"message", "hint", "exit_code"}
    assert f"gur: {fault['message']}" == first
    assert fault["exit_code"] == case.code


def test_bad_input_changes_nothing_anywhere(played: Played) -> None:
    """No site's journal has one record more, and nothing of what was brought in was executed."""
    assert played.before == played.after
    assert not (played.folders["python code"] / "executed").exists()


def test_bad_input_leaves_no_trip_on_the_laptop(played: Played) -> None:
    """What was refused before anybody was asked is not remembered as a trip."""
    asked = {
        "unreachable site",
        "unknown host name",
        "other site",
        "unmapped user",
        "other account",
    }
    certificates = {"foreign authority", "foreign certificate"}
    for name, folder in played.folders.items():
        trips = list((folder / "memory").glob("trips/*"))
        assert not trips or name in asked | certificates, name


def test_the_good_file_behind_the_bad_ones_is_good(grid: GridWorld, tmp_path: Path) -> None:
    """The table spoils one thing each: unspoilt, its file can be quoted, and a quote leaves no
    trace at the sites or on the laptop.
    """
    laptop, state = Laptop(grid, tmp_path / "good"), tmp_path / "memory"
    file = laptop.trip()
    before = grid.sizes()
    said = grid.gur("quote", file, "--json", state=state)
    assert said.code == 0, said
    answer = json.loads(said.out)
    assert answer["state"] == "PLANNED"
    assert {leg["site"] for leg in answer["legs"]} == {"alpha", "beta"}
    assert grid.sizes() == before
    assert not state.exists()
    assert tomllib.loads(Path(file).read_text())["nodes_total"] == 4
    assert set(SITES) >= {"alpha", "beta"}
