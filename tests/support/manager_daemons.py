"""Real daemons on loopback: managers over agents, in two levels, each with a folder of its own."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.agents.journal.events import CODEC
from gridtravel.gridcore.booking.calendar_events import ReservationChanged, ReservationGranted
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridio.journal.compaction import unpacked
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import RandomIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gridio.trust.credentials import Credential
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from gridtravel.gridio.trust.identity import Role
from tests.support.gur_runner import PATIENCE_S, GurProcess, Said
from tests.support.ports import free_ports

CLOCK = SystemClock()
GURD = (sys.executable, "-m", "gridtravel.gurd.cli")
AGENTS = {"alpha": 4, "beta": 4, "gamma": 2}
MANAGERS = {"north": ("alpha", "beta"), "top": ("north", "gamma")}
HOUR_S = 3600


@dataclass
class Tree:
    """Five daemons and their addresses."""

    root: Path
    authority: Authority
    ada: Credential
    ports: dict[str, int]
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start one daemon, and read the line that says it serves."""
        kind = "manager" if name in MANAGERS else "agent"
        folder = self.root / name
        with (folder / "log").open("a") as log:
            process = subprocess.Popen(
                [*GURD, kind, "--exit-with-parent", "--config", str(folder / "config.toml")],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.processes[name] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == f"ready 127.0.0.1:{self.ports[name]}\n", (folder / "log").read_text()

    def end(self, name: str, number: signal.Signals) -> int:
        """End one daemon; its exit code."""
        process = self.processes.pop(name)
        process.send_signal(number)
        assert process.stdout is not None
        process.stdout.close()
        return process.wait(PATIENCE_S)

    @asynccontextmanager
    async def as_ada(self, name: str) -> AsyncIterator[GrpcSite]:
        """A user's connection."""
        role = Role.MANAGER if name in MANAGERS else Role.SITE
        endpoint = f"127.0.0.1:{self.ports[name]}"
        connection = GrpcSite(endpoint, self.ada, site=name, role=role)
        try:
            yield connection
        finally:
            await connection.close()

    def states(self, name: str) -> dict[str, ReservationEvent | None]:
        """Reservation -> what last happened to it, by the agent's own journal."""
        found: dict[str, ReservationEvent | None] = {}
        stored = read_records(self.root / name / "state" / JOURNAL_FILE)
        for record in (each for packed in stored for each in unpacked(packed)):
            match CODEC.decode(record):
                case ReservationGranted(reservation=reservation):
                    found[reservation.reservation_id] = None
                case ReservationChanged(reservation_id=reservation_id, event=event):
                    found[reservation_id] = event
        return found

    def gur(self, process: GurProcess, *words: str) -> Said:
        """A command of ada's, who has everybody on her list."""
        home = self.root / "gur"
        config = home / "sites.toml"
        if not home.exists():
            home.mkdir()
            text = f'credential = "{self.root / "ada"}"\ntime_zone = "UTC"\n'
            for name, port in self.ports.items():
                kind = "is_manager = true\n" if name in MANAGERS else ""
                text += f'[machines.{name}]\nsite = "{name}"\nendpoint = "127.0.0.1:{port}"\n{kind}'
            config.write_text(text)
        environment = {
            **os.environ,
            "GUR_CONFIG": str(config),
            "GUR_STATE": str(home / "state"),
        }
        return process.run(words, environment, None)


@contextmanager
def tree_of_daemons(root: Path, extra: Mapping[str, str] | None = None) -> Iterator[Tree]:
    """All five, running. ``extra``: lines for the end of somebody's configuration."""
    now = CLOCK.now()
    authority = Authority.create(root / "ca", "grid", RandomIds(), now)
    ada = authority.issue_user("ada", root / "ada", now)
    names = [*AGENTS, *MANAGERS]
    ports = itertools.count(free_ports(len(names)))
    tree = Tree(root, authority, ada, dict(zip(names, ports, strict=False)))
    for name in names:
        _lay_out(tree, name, (extra or {}).get(name, ""))
    try:
        for name in names:
            tree.start(name)
        yield tree
    finally:
        for name in list(tree.processes):
            tree.end(name, signal.SIGKILL)


def _lay_out(tree: Tree, name: str, extra: str) -> None:
    folder, now = tree.root / name, CLOCK.now()
    folder.mkdir()
    hosts = ["127.0.0.1"]
    listen = f'name = "{name}"\nlisten = "127.0.0.1:{tree.ports[name]}"\n'
    if name in AGENTS:
        tree.authority.issue_site(name, folder / "credential", now, hosts=hosts)
        text = f'[site]\n{listen}[[classes]]\nname = "node"\nnodes = {AGENTS[name]}\n'
        text += '[host]\nrun_as = "daemon"\n'
    else:
        tree.authority.issue_manager(name, folder / "credential", now, hosts=hosts)
        text = f"[manager]\n{listen}"
        for child in MANAGERS[name]:
            kind = "manager" if child in MANAGERS else "agent"
            endpoint = f"127.0.0.1:{tree.ports[child]}"
            text += f'[[children]]\nname = "{child}"\nendpoint = "{endpoint}"\nkind = "{kind}"\n'
        above = [each for each, below in MANAGERS.items() if name in below]
        for parent in above:
            endpoint = f"127.0.0.1:{tree.ports[parent]}"
            text += f'[parent]\nname = "{parent}"\nendpoint = "{endpoint}"\n'
    (folder / "config.toml").write_text(text + extra)
    entries = [grid_map_entry(tree.ada.subject, ["ada", "physics"])]
    for manager, children in MANAGERS.items():
        if name in children:
            entries.append(grid_map_entry(f"/O=grid/OU=managers/CN={manager}", ["@manager"]))
    entries += [
        grid_map_entry(f"/O=grid/OU=managers/CN={child}", ["@manager"])
        for child in MANAGERS.get(name, ())
        if child in MANAGERS
    ]
    write_grid_map(folder / "grid-mapfile", GridMap(entries))
