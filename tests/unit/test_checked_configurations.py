"""``gurd check-config`` and the daemons' start: what the one refuses the other refuses, in the same
words, with file, line and key, and before anything is made.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.daemon import run_agent
from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.authority import Authority
from gridtravel.gurd.cli import app
from gridtravel.manager.config import load_manager_config
from gridtravel.manager.daemon import run_manager
from tests.support.daemon_folders import DaemonFolder, a_daemon_folder

YEAR_S: Final = 366 * 86_400
HOSTS: Final = ["localhost"]

Spoil = Callable[[DaemonFolder], object]


def said(table: str, lines: str) -> Spoil:
    """Lines of the file."""
    return lambda site: site.say(table, lines)


def a_file(name: str, mode: int = 0o644) -> Spoil:
    """A file where the daemon wants none, or none like that."""

    def make(site: DaemonFolder) -> None:
        path = site.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)

    return make


def both(*spoils: Spoil) -> Spoil:
    """One after the other."""
    return lambda site: [each(site) for each in spoils]


def hook(key: str, name: str) -> Spoil:
    """A command of the site, in its folder."""
    return lambda site: site.say("[hooks]", f'{key} = ["{site.root / name}"]')


def credential_of(role: str, name: str) -> Spoil:
    """Another one in its place."""

    def issue(site: DaemonFolder) -> None:
        shutil.rmtree(site.root / "credential")
        make = site.authority.issue_site if role == "site" else site.authority.issue_manager
        make(name, site.root / "credential", SystemClock().now(), hosts=HOSTS)

    return issue


def an_old_credential(site: DaemonFolder) -> None:
    """Two years old, of an authority that is valid still."""
    shutil.rmtree(site.root / "credential")
    then = SystemClock().now() - 2 * YEAR_S
    authority = Authority.create(site.root / "old", "grid", SeededIds(2), then)
    make = authority.issue_site if site.kind == "agent" else authority.issue_manager
    make("lab" if site.kind == "agent" else "north", site.root / "credential", then, hosts=HOSTS)


def another_key(site: DaemonFolder) -> None:
    """The key of somebody else's certificate."""
    site.authority.issue_site("other", site.root / "other", SystemClock().now(), hosts=HOSTS)
    shutil.copy(site.root / "other" / "key.pem", site.root / "credential" / "key.pem")


def an_open_key(site: DaemonFolder) -> None:
    """Everybody may read it."""
    (site.root / "credential" / "key.pem").chmod(0o644)


NIGHT = 'name = "night"\nstart = "0 2 * * *"\nduration_s = 3600\nnodes = 1'
SLURM_NODES = "[" + ", ".join(f'"n{number}"' for number in range(16)) + "]"

SITES: Final[dict[str, tuple[Spoil, str, str]]] = {
    # name: (what is spoiled, the key, words of the message)
    "socket without its folder": (said("[site]", 'socket = "gone/a.sock"'), "site.socket", "gone"),
    "socket path too long": (
        said("[site]", f'socket = "{"x" * 108}"'), "site.socket", "at most 107 bytes",
    ),
    "state path too long": (said("[site]", f'state = "{"x" * 108}"'), "site.state", "107 bytes"),
    "socket is a file": (
        both(a_file("s"), said("[site]", 'socket = "s"')), "site.socket", "is no socket",
    ),
    "socket in a file": (
        both(a_file("s"), said("[site]", 'socket = "s/a"')), "site.socket", "no folder",
    ),
    "something beside the socket": (
        both(a_file("s.d"), said("[site]", 'socket = "s"')), "site.socket", "in the way",
    ),
    "nonsense to listen at": (said("[site]", 'listen = "nonsense"'), "site.listen", "no address"),
    "no port": (said("[site]", 'listen = "127.0.0.1"'), "site.listen", "no address"),
    "port too large": (said("[site]", 'listen = "127.0.0.1:65536"'), "site.listen", "no address"),
    "other digits": (said("[site]", 'listen = "[::]:\u0661\u0662"'), "site.listen", "address"),
    "socket to listen at": (said("[site]", 'listen = "unix:/tmp/x"'), "site.listen", "no address"),
    "naked IPv6": (said("[site]", 'listen = "::1:7000"'), "site.listen", "no address"),
    "unknown host": (said("[site]", 'listen = "gone.invalid:0"'), "site.listen", "not known"),
    "foreign address": (said("[site]", 'listen = "192.0.2.1:0"'), "site.listen", "cannot listen"),
    "unknown group": (said("[site]", 'socket_group = "gone"'), "site.socket_group", "no group"),
    "unknown zone": (said("[site]", 'time_zone = "Mars/Base"'), "site.time_zone", "Mars/Base"),
    "state is a file": (both(a_file("state"), said("[site]", "")), "site.state", "is no folder"),
    "state below a file": (
        both(a_file("s"), said("[site]", 'state = "s/lab"')), "site.state", "is no folder",
    ),
    "journal is a folder": (
        lambda site: (site.root / "state" / "agent.journal").mkdir(parents=True),
        "site.state",
        "keeps a file",
    ),
    "areas is a file": (a_file("state/areas"), "site.state", "in the way"),
    "state is a dead link": (
        lambda site: (site.root / "state").symlink_to(site.root / "gone"),
        "site.state",
        "is no folder",
    ),
    "no credential": (
        lambda site: shutil.rmtree(site.root / "credential"), "site.credential", "no credential",
    ),
    "another name": (said("[site]", 'name = "labb"'), "site.credential", "not that of the site"),
    "a manager's credential": (
        credential_of("manager", "labs"), "site.credential", "not that of the site",
    ),
    "an expired certificate": (an_old_credential, "site.credential", "expired"),
    "a key that does not fit": (another_key, "site.credential", "does not belong"),
    "a key for everybody": (an_open_key, "site.credential", "open to others"),
    "no grid-mapfile": (
        lambda site: (site.root / "grid-mapfile").unlink(), "site.grid_mapfile", "no grid-mapfile",
    ),
    "a wrong grid-mapfile": (
        lambda site: (site.root / "grid-mapfile").write_text("ada\n"),
        "site.grid_mapfile",
        "line 1",
    ),
    "no hook": (hook("prologue", "gone"), "hooks.prologue", "does not exist"),
    "a hook that may not run": (
        both(a_file("h"), hook("epilogue", "h")), "hooks.epilogue", "may not be run",
    ),
    "a folder as hook": (hook("prologue", "ca"), "hooks.prologue", "is a folder"),
    "no command for notices": (
        said("[notify]", 'command = ["/gone"]'), "notify.command", "does not exist",
    ),
    "no password": (
        said("[notify]", 'smtp_host = "h"\nsmtp_login = "x"\nsender = "a@b"\n'
             'smtp_password_file = "/gone"'), "notify.smtp_password_file", "/gone",
    ),
    "more nodes than there are": (
        said("[[standing]]", f"{NIGHT}\nnodes = 17".replace("nodes = 1\n", "")), "standing.0", "16",
    ),
    "the 31st of February": (
        said("[[standing]]", NIGHT.replace("* * *", "31 2 *")), "standing.0", "no day fits",
    ),
    "a standing reservation longer than the horizon": (
        said("[[standing]]", NIGHT.replace("3600", "99999999")), "standing.0", "longer than",
    ),
    "features that no node has": (
        said("[[standing]]", f'{NIGHT}\nfeatures = ["gpu"]'), "standing.0", "gpu",
    ),
    "a rule twice": (
        both(said("[[standing]]", NIGHT), said("[[standing]] # again", NIGHT)),
        "standing.1",
        "already",
    ),
    "a class twice": (
        said("[[classes]] # again", 'name = "thin"\nnodes = 2'), "classes.1.name", "already",
    ),
    "shares that nobody enforces": (
        said("[[classes]] # shared", 'name = "cpu"\nnodes = 5000\npolicy = "libra"'),
        "classes.1.nodes",
        "processors too few",
    ),
    "a class without a name": (said("[[classes]]", 'name = ""'), "classes.0.name", "class"),
    "a Slurm node twice": (
        said("[slurm]", f"nodes = {SLURM_NODES.replace('n15', 'n0')}"), "slurm.nodes", "twice",
    ),
    "no slurm.conf": (
        said("[slurm]", f'nodes = {SLURM_NODES}\nconf = "gone.conf"'), "slurm.conf", "gone.conf",
    ),
    "weights without effect": (
        both(said("[queue]", 'order = "sjf"'), said("[priority]", "queue_time = 2")),
        "priority",
        "no effect",
    ),
    "a ladder that is none": (
        said("[calendar]", 'published_slots = "many"'), "calendar.published_slots", "ladder",
    ),
    "lifetimes that contradict each other": (
        said("[calendar]", "hold_ttl_min_s = 400"), "calendar", "contradict",
    ),
    "true nodes": (said("[[classes]]", "nodes = true"), "classes.0.nodes", "integer"),
}  # fmt: skip

MANAGERS: Final[dict[str, tuple[Spoil, str, str]]] = {
    "state path too long": (
        said("[manager]", f'state = "{"x" * 108}"'), "manager.state", "107 bytes",
    ),
    "nonsense to listen at": (said("[manager]", 'listen = "nonsense"'), "manager.listen", "no add"),
    "unknown group": (
        said("[manager]", 'socket_group = "gone"'), "manager.socket_group", "no group",
    ),
    "state is a file": (a_file("state"), "manager.state", "is no folder"),
    "another name": (said("[manager]", 'name = "south"'), "manager.credential", "not that of"),
    "a site's credential": (credential_of("site", "norths"), "manager.credential", "not that of"),
    "an expired certificate": (an_old_credential, "manager.credential", "expired"),
    "no grid-mapfile": (
        lambda each: (each.root / "grid-mapfile").unlink(), "manager.grid_mapfile", "no grid",
    ),
    "a child twice": (
        said("[[children]] # second", 'name = "alpha"'), "children.1", "announced twice",
    ),
    "an address twice": (
        said("[[children]] # second", 'endpoint = "alpha.invalid:7101"'),
        "children.1",
        "same endpoint",
    ),
    "its own child by name": (said("[[children]]", 'name = "north"'), "children.0", "own child"),
    "its own child by address": (
        both(said("[manager]", 'listen = "0.0.0.0:17345"'),
             said("[[children]]", 'endpoint = "localhost:17345"')),
        "children.0.endpoint",
        "itself listens",
    ),
    "a parent that is a child": (
        said("[parent]", 'name = "alpha"\nendpoint = "top.invalid:1"'), "parent", "cycle",
    ),
    "a parent at a child's address": (
        said("[parent]", 'name = "top"\nendpoint = "beta.invalid:7101"'), "parent", "cycle",
    ),
    "a child nowhere": (said("[[children]]", 'endpoint = "alpha"'), "children.0", "no address"),
}  # fmt: skip


def checked(folder: DaemonFolder) -> tuple[int, str]:
    """What ``gurd check-config`` says: its exit code, and standard error."""
    done = CliRunner().invoke(app, ["check-config", str(folder.config)])
    return done.exit_code, done.stderr


def started(folder: DaemonFolder) -> GridError:
    """The fault that ends a daemon at its start."""

    async def run() -> None:
        async with asyncio.timeout(60):
            if folder.kind == "agent":
                await run_agent(load_site_config(folder.config))
            else:
                await run_manager(load_manager_config(folder.config))

    with pytest.raises(GridError) as caught:
        asyncio.run(run())
    return caught.value


def refused_by_both(folder: DaemonFolder, key: str, words: str) -> None:
    """In the same words, with a place and a next step; and nothing is made."""
    config = folder.config
    before = sorted(os.listdir(folder.root))
    code, told = checked(folder)
    fault = started(folder)
    assert code == fault.exit_code != 0
    line, hint, *more = told.splitlines()
    assert not more
    assert line == f"gurd: {fault.message}"
    assert hint.strip() == (fault.hint or "")
    assert hint.strip()
    assert str(config) in line
    assert ", line " in line
    assert f"{key}: " in line
    assert words in line
    assert sorted(os.listdir(folder.root)) == before


@pytest.mark.parametrize("name", SITES)
def test_what_would_not_start_at_a_site(tmp_path: Path, name: str) -> None:
    """Every mistake is found by the check and by the start."""
    spoil, key, words = SITES[name]
    folder = a_daemon_folder(tmp_path, "agent")
    spoil(folder)
    refused_by_both(folder, key, words)


@pytest.mark.parametrize("name", MANAGERS)
def test_what_would_not_start_of_a_manager(tmp_path: Path, name: str) -> None:
    """The same, of a manager."""
    spoil, key, words = MANAGERS[name]
    folder = a_daemon_folder(tmp_path, "manager")
    spoil(folder)
    refused_by_both(folder, key, words)


@contextmanager
def listening(where: str | tuple[str, int]) -> Iterator[socket.socket]:
    """Another program."""
    family = socket.AF_UNIX if isinstance(where, str) else socket.AF_INET
    with socket.socket(family) as other:
        other.bind(where)
        other.listen(1)
        yield other


@pytest.mark.parametrize("kind", ["agent", "manager"])
def test_a_port_that_another_program_has(tmp_path: Path, kind: str) -> None:
    """It may be free again later: exit code 4."""
    folder = a_daemon_folder(tmp_path, kind)
    table = "site" if kind == "agent" else "manager"
    with listening(("127.0.0.1", 0)) as other:
        folder.say(f"[{table}]", f'listen = "127.0.0.1:{other.getsockname()[1]}"')
        refused_by_both(folder, f"{table}.listen", "another program has the port")
        assert checked(folder)[0] == 4


def test_a_socket_that_another_program_has(tmp_path: Path) -> None:
    """The same of the local socket; what a killed daemon left is in nobody's way."""
    folder = a_daemon_folder(tmp_path, "agent")
    folder.say("[site]", 'socket = "a.sock"')
    with listening(str(tmp_path / "a.sock")):
        refused_by_both(folder, "site.socket", "another daemon listens")
    assert checked(folder) == (0, "")


def test_commands_of_slurm_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looked for where the daemon will."""
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = a_daemon_folder(tmp_path, "agent")
    folder.say("[slurm]", f"nodes = {SLURM_NODES}")
    refused_by_both(folder, "slurm", "no command sbatch")


def test_an_administrator_that_nobody_can_be(tmp_path: Path) -> None:
    """The site starts, and it is said."""
    folder = a_daemon_folder(tmp_path, "agent")
    folder.say("[site]", 'admins = ["nobody", "no-such-login"]')
    code, told = checked(folder)
    assert code == 0
    assert told.count("note: ") == 1
    assert "'no-such-login'" in told
