"""Real daemons on loopback, which can be killed, stopped, starved and set back: three sites, and a
manager over two of them where one is wanted.

Each is ``gurd agent`` in a process of its own (``mortal``), with the files of a site of its own in
one temporary folder. Nothing here looks at what they promise.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gridtravel.agents.journal.events import CODEC, JobAccepted, JobOver
from gridtravel.gridcore.booking.calendar_events import ReservationChanged, ReservationGranted
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.journal.compaction import unpacked
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.gridio.system.private_files import make_private_folder
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from gridtravel.manager.book.events import GroupEnded, GroupHeld
from gridtravel.manager.checks import JOURNAL_FILE as MANAGER_JOURNAL
from gridtravel.manager.core import CODEC as MANAGER_CODEC
from gridtravel.simulator.processes.diary import DIARY_VARIABLE, WRITER_VARIABLE
from gridtravel.simulator.processes.disks import JournalFiles, SiteDisk, own_mounts
from gridtravel.simulator.processes.live_batch import LiveBatch
from gridtravel.simulator.processes.mortal import BEHIND_VARIABLE, FATE_VARIABLE, Sentence
from gridtravel.travel_agent.demo.sites import LOOPBACK, GridFolder

GRID: Final = "mortal"
USER: Final = "ada"
SITES: Final = {"alpha": 4, "beta": 3, "gamma": 2}
"""Nodes by site: few, so that trips get into each other's way."""
HOLD_S: Final = 3
"""Longest life of a hold at these sites, so that nobody has to wait long for its end."""
PASS_S: Final = 0.02
START_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 20.0
CONTACT_PORT_FIRST: Final = 13_000
CONTACT_PORTS: Final = 500
MANAGER: Final = "north"
CHILDREN: Final = ("alpha", "beta")
"""Sites of the manager, where there is one."""
MORTAL: Final = (sys.executable, "-m", "gridtravel.simulator.processes.mortal")
DIARY_FILE: Final = "diary"
END_EVENTS: Final = tuple(each for each in ReservationEvent if each is not ReservationEvent.COMMIT)
READY_WORD: Final = "ready "


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSpan:
    """From this record of its journal on a site's clock was that far behind."""

    after_records: int
    behind_s: float


@dataclass(frozen=True, slots=True)
class Absence:
    """A daemon was dead; true seconds since the epoch."""

    begins: float
    ends: float


class LiveSite:
    """One site: its folder, and its daemon while there is one."""

    daemon = "agent"
    """Which of the programs it is."""

    def __init__(self, name: str, folder: GridFolder, clock: Clock, *, may_mount: bool) -> None:
        self.name = name
        self.folder = folder.site(name)
        self.config = folder.site_config(name)
        self.state = self.folder / "state"
        self.state.mkdir(mode=0o700)
        self.disk = SiteDisk(self.state, may_mount=may_mount)
        self.journal = JournalFiles(self.state)
        self.endpoint = ""
        self.spans: list[ClockSpan] = []
        self.starts = 0
        self.absences: list[Absence] = []
        """Between a death that was noticed and the next time it served."""
        self.pid_file = self.folder / "pid"
        """Where others find its process's id."""
        self._diary = folder.root / DIARY_FILE
        self._died_at: float | None = None
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._fate = self.folder / "fate"

    # -- life and death ----------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """Its process, which may be dead; 0: there never was one."""
        return self._process.pid if self._process is not None else 0

    def is_alive(self) -> bool:
        """True while its daemon lives."""
        is_alive = self._process is not None and self._process.poll() is None
        if self._process is not None and not is_alive and self._died_at is None:
            self._died_at = self._clock.now_precise()
        return is_alive

    async def start(self, *, behind_s: float = 0.0) -> bool:
        """Start the daemon and wait until it serves; False: it ended instead, and its last words
        are in its log.
        """
        out = self._launch(behind_s)
        give_up_at = self._clock.now_precise() + START_WITHIN_S
        while not out.read_text().startswith(READY_WORD):
            if not self.is_alive():
                return False
            if self._clock.now_precise() > give_up_at:
                raise UnavailableError(f"{self.name} does not start: {self.last_words()}")
            await self.rest(PASS_S)
        self._keep_endpoint(out.read_text().split()[1])
        if self._died_at is not None:
            self.absences.append(Absence(self._died_at, self._clock.now_precise()))
            self._died_at = None
        return True

    def _launch(self, behind_s: float) -> Path:
        """Start the process; where it says that it is ready."""
        assert not self.is_alive(), f"{self.name} is up"
        self.spare()
        self._note_clock(behind_s)
        self.starts += 1
        out = self.folder / "daemon.out"
        environment = {
            **os.environ,
            FATE_VARIABLE: str(self._fate),
            BEHIND_VARIABLE: str(behind_s),
            DIARY_VARIABLE: str(self._diary),
            WRITER_VARIABLE: self.name,
            "GRPC_VERBOSITY": "NONE",
        }
        with out.open("wb") as stdout, self.log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*MORTAL, self.daemon, "--exit-with-parent", "--config", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )
        self.pid_file.write_text(str(self.pid))
        return out

    def kill(self) -> None:
        """Kill -9; returns when it is dead."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def end(self) -> int:
        """Ask it to stop, and wait for that; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        give_up_at = self._clock.now_precise() + STOP_WITHIN_S
        while self.is_alive():
            if self._clock.now_precise() > give_up_at:
                raise UnavailableError(f"{self.name} does not stop when it is asked")
            await self.rest(PASS_S)
        return self._process.returncode

    def pause(self) -> None:
        """SIGSTOP."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def sentence(self, sentence: Sentence) -> None:
        """It dies at a write from now on, or somebody does, see ``mortal``."""
        beside = self._fate.with_suffix(".new")
        beside.write_text(str(sentence))
        beside.rename(self._fate)

    def spare(self) -> None:
        """It does not die by itself any more."""
        self._fate.unlink(missing_ok=True)

    async def rest(self, seconds: float) -> None:
        """Let time pass."""
        await self._clock.sleep_until(self._clock.now_precise() + seconds)

    # -- what it left ------------------------------------------------------------------------------

    @property
    def log(self) -> Path:
        """What it says, over all its lives."""
        return self.folder / "daemon.log"

    @property
    def journal_file(self) -> Path:
        """Its journal."""
        return self.journal.path

    def records(self) -> list[Record]:
        """Everything in its journal, oldest first."""
        return list(read_records(self.journal_file))

    def last_end(self) -> float:
        """When the last of what it ever granted ends, by the true clock."""
        behind_s = max((each.behind_s for each in self.spans), default=0.0)
        events = [CODEC.decode(record) for record in self.records()]
        ends = [each.reservation.end for each in events if isinstance(each, ReservationGranted)]
        return max(ends, default=0) + (behind_s if self.spans[-1].behind_s else 0.0)

    def is_busy(self) -> bool:
        """True while its journal has promises that are not over, or jobs."""
        ended: set[str] = set()
        begun: set[str] = set()
        for record in self.records():
            match CODEC.decode(record):
                case ReservationGranted(reservation=reservation):
                    begun.add(reservation.reservation_id)
                case ReservationChanged() as changed if changed.event in END_EVENTS:
                    ended.add(changed.reservation_id)
                case JobAccepted(job_id=job_id):
                    begun.add(job_id)
                case JobOver(job_id=job_id):
                    ended.add(job_id)
        return not begun <= ended

    def said_since(self, position: int) -> str:
        """What it has written to its log since that was so long."""
        with self.log.open("rb") as stream:
            stream.seek(position)
            return stream.read().decode("utf-8", "replace")

    def last_words(self) -> str:
        """The end of its log: a fault and its hint."""
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return "; ".join(line.strip() for line in lines[-2:]) or "it said nothing"

    def _note_clock(self, behind_s: float) -> None:
        last_s = self.spans[-1].behind_s if self.spans else 0.0
        if self.spans and last_s == behind_s:
            return
        count = sum(1 for _ in read_records(self.journal_file)) if self.spans else 0
        self.spans.append(ClockSpan(after_records=count, behind_s=behind_s))

    def _keep_endpoint(self, endpoint: str) -> None:
        """The same port again at the next start."""
        if endpoint == self.endpoint:
            return
        self.endpoint = endpoint
        text = self.config.read_text().replace(f'"{LOOPBACK}:0"', f'"{endpoint}"')
        self.config.write_text(text)


class LiveManager(LiveSite):
    """A calendar manager."""

    daemon = "manager"

    @property
    def journal_file(self) -> Path:
        """See ``LiveSite``."""
        return self.state / MANAGER_JOURNAL

    def records(self) -> list[Record]:
        """See ``LiveSite``."""
        return [each for packed in read_records(self.journal_file) for each in unpacked(packed)]

    def last_end(self) -> float:
        """See ``LiveSite``."""
        events = [MANAGER_CODEC.decode(record) for record in self.records()]
        return max(
            (each.reservation.end for each in events if isinstance(each, GroupHeld)), default=0
        )

    def is_busy(self) -> bool:
        """See ``LiveSite``."""
        held: set[str] = set()
        ended: set[str] = set()
        for record in self.records():
            match MANAGER_CODEC.decode(record):
                case GroupHeld(reservation=reservation):
                    held.add(reservation.reservation_id)
                case GroupEnded(group_id=group_id):
                    ended.add(group_id)
        return not held <= ended


class LiveGrid:
    """The sites, and the user who travels between them."""

    def __init__(
        self,
        folder: GridFolder,
        sites: Sequence[LiveSite],
        manager: LiveManager | None = None,
        batch: LiveBatch | None = None,
    ) -> None:
        self.folder = folder
        self.batch = batch
        """The site without an agent, where there is one."""
        self.sites = {each.name: each for each in sites}
        self.manager = manager
        self.diary = folder.root / DIARY_FILE
        """What everybody has written, in order (``diary``)."""
        self.evidence = folder.root / "evidence"
        """Where each leg's program writes that it has begun."""
        self.evidence.mkdir()
        self.races = folder.root / "races"
        """Where each copy of a race writes that, by the name of its laptop."""
        self.races.mkdir()

    @property
    def disk_kind(self) -> str:
        """How a disk is made full here."""
        is_mounted = all(each.disk.is_mounted for each in self.sites.values())
        return "a file system of 32 MiB" if is_mounted else "a limit on the size of files"

    @property
    def daemons(self) -> list[LiveSite]:
        """All of them, those that others need first."""
        return [*self.sites.values(), *([self.manager] if self.manager is not None else [])]

    def daemon(self, name: str) -> LiveSite:
        """One of them."""
        return next(each for each in self.daemons if each.name == name)

    async def start(self) -> None:
        """All daemons, and the user's list of machines."""
        for site in self.daemons:
            if site is self.manager:
                self._name_children(site)
            if not await site.start():
                raise UnavailableError(f"{site.name} did not start: {site.last_words()}")
        tables = [
            f'[machines.{each.name}]\nsite = "{each.name}"\nendpoint = "{each.endpoint}"\n'
            + ("is_manager = true\n" if each is self.manager else "")
            for each in self.daemons
        ]
        tables += [self.batch.table] if self.batch is not None else []
        self.folder.user_config(USER).write_text('credential = "credential"\n' + "\n".join(tables))

    def _name_children(self, manager: LiveSite) -> None:
        """The manager's configuration names where its sites are, which is known once they serve."""
        children = "".join(
            f'[[children]]\nname = "{name}"\nendpoint = "{self.sites[name].endpoint}"\n'
            for name in CHILDREN
        )
        manager.config.write_text(manager.config.read_text() + children)


@contextmanager
def live_grid(
    clock: Clock,
    ids: IdSource,
    *,
    names: Sequence[str] = tuple(SITES),
    small_disks: bool = True,
    has_manager: bool = False,
    batch: LiveBatch | None = None,
) -> Iterator[LiveGrid]:
    """Found a grid in a folder of its own; nothing is started yet, and nothing is left behind.
    ``names``: of the sites. ``small_disks``: disks that can be filled.
    """
    may_mount = small_disks and own_mounts()
    with TemporaryDirectory(prefix="gurlab-", ignore_cleanup_errors=True) as name:
        folder = GridFolder(root=Path(name))
        _lay_out(folder, ids, clock, names, has_manager=has_manager)
        sites = [LiveSite(name, folder, clock, may_mount=may_mount) for name in names]
        manager = LiveManager(MANAGER, folder, clock, may_mount=False) if has_manager else None
        grid = LiveGrid(folder, sites, manager, batch)
        try:
            yield grid
        finally:
            for site in grid.daemons:
                site.kill()
                site.disk.remove()


def _lay_out(
    folder: GridFolder, ids: IdSource, clock: Clock, names: Sequence[str], *, has_manager: bool
) -> None:
    now = clock.now()
    authority = Authority.create(folder.root / "authority", GRID, ids, now)
    subject = authority.issue_user(USER, folder.user(USER) / "credential", now).subject
    for number, name in enumerate(names):
        home = folder.site(name)
        make_private_folder(home)
        authority.issue_site(name, home / "credential", now, hosts=[LOOPBACK])
        entries = [grid_map_entry(subject, [USER])]
        if has_manager and name in CHILDREN:
            entries.append(grid_map_entry(f"/O={GRID}/OU=managers/CN={MANAGER}", ["@manager"]))
        write_grid_map(home / "grid-mapfile", GridMap(entries))
        first = CONTACT_PORT_FIRST + number * CONTACT_PORTS
        folder.site_config(name).write_text(
            f"""\
[site]
name = "{name}"
listen = "{LOOPBACK}:0"
contact_ports = "{first}-{first + CONTACT_PORTS - 1}"

[calendar]
hold_ttl_min_s = 1
hold_ttl_max_s = {HOLD_S}

[[classes]]
name = "node"
nodes = {SITES[name]}

[reservations]
per_account = -1

[queue]
kill_grace_s = 1

[host]
run_as = "daemon"
"""
        )
    if has_manager:
        home = folder.site(MANAGER)
        make_private_folder(home)
        authority.issue_manager(MANAGER, home / "credential", now, hosts=[LOOPBACK])
        write_grid_map(home / "grid-mapfile", GridMap([grid_map_entry(subject, [USER])]))
        folder.site_config(MANAGER).write_text(
            f"""\
[manager]
name = "{MANAGER}"
listen = "{LOOPBACK}:0"

[calendar]
hold_ttl_min_s = 1
hold_ttl_max_s = {HOLD_S}
commit_margin_s = 1

[upkeep]
retry_max_s = 1
isolation_s = 1

"""
        )
