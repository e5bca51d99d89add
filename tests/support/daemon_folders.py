"""Folders of daemons that would start, for tests that spoil one thing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.authority import Authority

GRID_MAP = '"/O=grid/OU=users/CN=ada"  {login},physics\n"/O=grid/OU=managers/CN=top"  @manager\n'


@dataclass
class DaemonFolder:
    """Everything that a daemon needs, and its configuration, table by table."""

    root: Path
    kind: str
    """``agent`` or ``manager``."""
    authority: Authority
    tables: dict[str, str]
    """Name of a table in brackets -> its lines."""

    @property
    def config(self) -> Path:
        """The file, written anew."""
        path = self.root / "config.toml"
        blocks = (f"{name}\n{lines}\n" for name, lines in self.tables.items())
        path.write_text("\n".join(blocks))
        return path

    def say(self, table: str, lines: str) -> None:
        """Add lines to a table, or a table."""
        kept = self.tables.get(table, "").splitlines()
        keys = {line.partition("=")[0].strip() for line in lines.splitlines()}
        kept = [line for line in kept if line.partition("=")[0].strip() not in keys]
        self.tables[table] = "\n".join([*kept, lines])


def a_daemon_folder(root: Path, kind: str, login: str = "nobody") -> DaemonFolder:
    """A site of 16 nodes named ``lab``, or a manager named ``north`` of two children."""
    authority = Authority.create(root / "ca", "grid", SeededIds(1), SystemClock().now())
    hosts = ["localhost", "127.0.0.1", "::1"]
    (root / "grid-mapfile").write_text(GRID_MAP.format(login=login))
    if kind == "agent":
        authority.issue_site("lab", root / "credential", SystemClock().now(), hosts=hosts)
        tables = {
            "[site]": 'name = "lab"\nlisten = "127.0.0.1:0"',
            "[[classes]]": 'name = "thin"\nnodes = 16',
            "[host]": 'run_as = "daemon"',
        }
    else:
        authority.issue_manager("north", root / "credential", SystemClock().now(), hosts=hosts)
        tables = {
            "[manager]": 'name = "north"\nlisten = "127.0.0.1:0"',
            "[[children]]": 'name = "alpha"\nendpoint = "alpha.invalid:7101"',
            "[[children]] # second": 'name = "beta"\nendpoint = "beta.invalid:7101"',
        }
    return DaemonFolder(root, kind, authority, tables)
