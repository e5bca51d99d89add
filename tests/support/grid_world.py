"""A real grid for tests: three site daemons as processes, users, laptops, and the sites' own books.

The processes belong to the keeper of the demonstration (``travel_agent.demo.keeper``), so nothing
is left behind when a test fails or is killed. What a site has promised is read from its journal,
never asked of the daemon whose word is under test.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.system.private_files import make_private_folder
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.composition import open_travel_agent
from gridtravel.travel_agent.demo import keeper as demo_keeper
from gridtravel.travel_agent.demo.grid import DAEMON, DemoGrid
from gridtravel.travel_agent.demo.sites import LOOPBACK
from gridtravel.travel_agent.sites.config import load_grid_config
from tests.support.gur_runner import PATIENCE_S, GurProcess, Said
from tests.support.ports import CONTACT_PORT_FIRST, CONTACT_PORTS_A_WORKER
from tests.support.site_books import SiteBooks

GRID: Final = "testgrid"
SITES: Final = {"alpha": 16, "beta": 8, "gamma": 4}
"""Nodes by site. The machines that users know are ``<site>-machine``."""
PRICES: Final = {"alpha": 36_000, "beta": 18_000, "gamma": 54_000}
"""Millicredits for a node and hour."""
USERS: Final = ("ada", "grace", "edsger")
NOBODY: Final = "mallory"
"""Has a certificate of this grid and is in nobody's grid-mapfile."""
PASS_S: Final = 0.1
"""Between two looks at what is waited for: many a look reads a whole journal or all of /proc."""
SIDE_BY_SIDE: Final = 3
"""Commands that run at the same time."""
CONTACT_PORTS: Final = CONTACT_PORTS_A_WORKER // len(SITES)
DAY_S: Final = 86_400


class GridWorld(SiteBooks):
    """The running grid, as ``grid_world`` gives it out."""

    def __init__(self, grid: DemoGrid, keeper_pid: int) -> None:
        super().__init__(grid.folder, SITES)
        self._grid = grid
        self._keeper_pid = keeper_pid
        self._windows = 0
        self._laptops = 0
        self.root = grid.folder.root
        self.authority = Authority.create(
            self.root / "authority", GRID, RandomIds(), SystemClock().now()
        )
        self._down: dict[str, None] = dict.fromkeys(SITES)
        self._paused: dict[str, None] = {}
        self._processes: SimpleQueue[GurProcess] = SimpleQueue()
        for number in range(SIDE_BY_SIDE):
            self._processes.put(GurProcess(self.root / f"gur-{number}"))

    # -- sites -------------------------------------------------------------------------------------

    def start(self, *names: str) -> None:
        """Start daemons (again, at the port they had) and wait until they serve."""
        self._grid.start_sites(names)
        for name in names:
            config = self.folder.site_config(name)
            lines = config.read_text().splitlines()
            listen = f'listen = "{self._grid.endpoints[name]}"'
            config.write_text(
                "\n".join(listen if each.startswith("listen") else each for each in lines) + "\n"
            )
            self._down.pop(name, None)

    def kill(self, name: str) -> None:
        """Kill a daemon with -9, unless it has ended by itself; returns when it is dead. Its tasks
        go on, as they should.
        """
        self._down[name] = None
        self._paused.pop(name, None)
        kill_site(self._grid, name, demo_keeper.descendants(self._keeper_pid))

    def pause(self, name: str) -> None:
        """Make a daemon as slow as can be: SIGSTOP."""
        self._paused[name] = None
        os.kill(self.pid(name), signal.SIGSTOP)

    def go_on(self, name: str) -> None:
        """Let a paused daemon go on."""
        self._paused.pop(name, None)
        os.kill(self.pid(name), signal.SIGCONT)

    def mend(self) -> None:
        """Every site runs, whatever a test left."""
        for name in list(self._paused):
            self.go_on(name)
        if self._down:
            self.start(*list(self._down))

    def pid(self, name: str) -> int:
        """The process of a site's daemon."""
        return daemon_pid(self.folder.site_config(name), demo_keeper.descendants(self._keeper_pid))

    def endpoint(self, name: str) -> str:
        """``host:port`` of a site."""
        return self._grid.endpoints[name]

    def tasks(self, name: str) -> list[int]:
        """Processes that a site's tasks consist of, by their working folder."""
        areas = self.folder.site(name) / "state" / "areas"
        found = []
        for pid in demo_keeper.descendants(self._keeper_pid):
            with contextlib.suppress(OSError):
                if Path("/proc", str(pid), "cwd").readlink().is_relative_to(areas):
                    found.append(pid)
        return found

    # -- users and their laptops -------------------------------------------------------------------

    def config(self, user: str) -> Path:
        """What GUR_CONFIG points to."""
        return self.folder.user_config(user)

    def new_state(self) -> Path:
        """A laptop's memory that no other test uses."""
        self._laptops += 1
        return self.root / "laptops" / str(self._laptops)

    @asynccontextmanager
    async def laptop(
        self,
        user: str = "ada",
        state: Path | None = None,
        *,
        search: SearchChoice | None = None,
    ) -> AsyncIterator[TravelAgent]:
        """A travel agent of ``user``, in this process, over real gRPC."""
        config = load_grid_config(self.config(user))
        agent = open_travel_agent(config, state or self.new_state(), search=search)
        try:
            yield agent
        finally:
            await agent.close()

    def environment(self, user: str, state: Path) -> dict[str, str]:
        """The environment of a command of ``user``'s."""
        own = {"GUR_CONFIG": str(self.config(user)), "GUR_STATE": str(state)}
        return {**os.environ, **own, "COLUMNS": "200"}

    def gur(
        self,
        *words: str,
        user: str = "ada",
        state: Path | None = None,
        stop_at: tuple[str, int, int] | None = None,
        is_typed: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> Said:
        """Run a command to its end, in a process of its own. ``stop_at``: the signal it gets, after
        a step and its count. ``is_typed``: as a shell would start it, imports and all. ``more``: of
        the environment.
        """
        own = self.environment(user, state or self.new_state()) | dict(more or {})
        if is_typed:
            argv = [sys.executable, "-m", "gridtravel.travel_agent.cli.main", *words]
            done = subprocess.run(
                argv, env=own, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            )
            return Said(done.returncode, done.stdout, done.stderr)
        process = self._processes.get(timeout=PATIENCE_S)
        try:
            return process.run(words, own, stop_at)
        finally:
            self._processes.put(process)

    def end_processes(self) -> None:
        """No command is run any more."""
        while not self._processes.empty():
            self._processes.get().end()

    def window(self, length_s: int = DAY_S // 2) -> tuple[int, int]:
        """Hours of a far-away day that no other test books."""
        self._windows += 1
        start = SystemClock().now() + self._windows * DAY_S
        return start, start + length_s


@contextmanager
def grid_world() -> Iterator[GridWorld]:
    """Found the grid and start its sites; leave nothing behind."""
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-S", str(demo_keeper.__file__), "gur-test-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        grid = DemoGrid(keeper, DAEMON)
    except BaseException:
        keeper.communicate()
        raise
    try:
        world = GridWorld(grid, keeper.pid)
        try:
            _lay_out(world)
            world.start(*SITES)
            for user in (*USERS, NOBODY):
                write_machines(world, user)
            yield world
        finally:
            world.end_processes()
    finally:
        grid.take_down()


def daemon_pid(config: Path, pids: Iterable[int]) -> int:
    """The one of these processes that is the daemon with this configuration."""
    wanted = str(config).encode()
    for pid in pids:
        with contextlib.suppress(OSError):
            if wanted in Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0"):
                return pid
    raise AssertionError(f"the daemon of {config} does not run")


def kill_site(grid: DemoGrid, name: str, pids: Iterable[int]) -> None:
    """Kill a site's daemon, one of ``pids`` unless it has ended by itself, with -9; return when the
    keeper has found it dead.
    """
    with contextlib.suppress(AssertionError, ProcessLookupError):
        os.kill(daemon_pid(grid.folder.site_config(name), pids), signal.SIGKILL)
    assert name in grid.ended_sites()


def write_machines(world: GridWorld, user: str, *, path: Path | None = None, **others: str) -> Path:
    """A user's list of machines; ``others``: endpoints that are not the sites' own."""
    tables = [
        f'[machines.{site}-machine]\nsite = "{site}"\n'
        f'endpoint = "{others.get(site, world.endpoint(site))}"\n'
        for site in SITES
    ]
    path = path or world.config(user)
    credential = world.folder.user(user) / "credential"
    path.write_text(f'credential = "{credential}"\n\n' + "\n".join(tables))
    return path


def metajob_text(
    shares: dict[str, tuple[int, int]],
    nodes_total: int,
    *,
    earliest: int,
    latest: int,
    duration_s: int = 600,
    command: Sequence[str] = (),
    pattern: str = "multiple",
    name: str = "trip",
    extra: str = "",
) -> str:
    """A metajob file in TOML; ``shares``: least and most nodes by site."""
    words = ", ".join(f'"""{word}"""' for word in command)
    task = f"[task]\ncommand = [{words}]\n" if command else ""
    machines = "".join(
        f'[[machines]]\nname = "{site}-machine"\nnodes_min = {least}\nnodes_max = {most}\n'
        for site, (least, most) in shares.items()
    )
    return (
        f'name = "{name}"\nusage_pattern = "{pattern}"\nnodes_total = {nodes_total}\n'
        f'duration = "{duration_s}s"\nearliest_start = "{format_utc(earliest)}"\n'
        f'latest_end = "{format_utc(latest)}"\n{extra}\n{task}{machines}'
    )


def until(
    is_so: Callable[[], bool],
    what: str,
    patience_s: float = PATIENCE_S,
    *,
    pass_s: float = PASS_S,
) -> None:
    """Wait until something is so; a failure says what never was."""
    give_up_at = time.monotonic() + patience_s  # noqa: TID251 - real processes live in real time
    while not is_so():
        assert time.monotonic() < give_up_at, f"waited {patience_s} s for: {what}"  # noqa: TID251
        time.sleep(pass_s)  # noqa: TID251


def _lay_out(world: GridWorld) -> None:
    now = SystemClock().now()
    subjects = {
        user: world.authority.issue_user(user, world.folder.user(user) / "credential", now).subject
        for user in (*USERS, NOBODY)
    }
    for number, (name, nodes) in enumerate(SITES.items()):
        home = world.folder.site(name)
        make_private_folder(home)
        world.authority.issue_site(name, home / "credential", now, hosts=[LOOPBACK])
        entries = [grid_map_entry(subjects[user], [user]) for user in USERS]
        write_grid_map(home / "grid-mapfile", GridMap(entries))
        first = CONTACT_PORT_FIRST + number * CONTACT_PORTS
        world.folder.site_config(name).write_text(
            f"""\
[site]
name = "{name}"
listen = "{LOOPBACK}:0"
contact_ports = "{first}-{first + CONTACT_PORTS - 1}"
admins = ["edsger"]

[calendar]
hold_ttl_min_s = 1

[[classes]]
name = "{name}-node"
nodes = {nodes}

[prices]
millicredits_per_node_hour = {PRICES[name]}

[queue]
kill_grace_s = 1

[host]
run_as = "daemon"
"""
        )
