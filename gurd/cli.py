"""``gurd``: the command that sets up and runs the daemons of a grid::

    gurd agent --config site.toml          serve one node
    gurd manager --config manager.toml     serve a calendar manager
    gurd check-ledger FILE                 count a site's accounts again
    gurd check-config FILE                 say what is wrong with a configuration, start nothing
    gurd bridge --socket PATH              the far end of a user's SSH login (docs/ssh.md)
    gurd ca ...                            the grid's certificate authority

Exit codes as everywhere (docs/exit-codes.md): 0 done, 2 wrong usage or configuration, 4
unavailable, 5 not authorised, 1 anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridio.cli_frame import command_line
from gridtravel.gridio.ssh import bridge
from gridtravel.gridio.ssh.bridge import DEFAULT_SOCKET
from gridtravel.gridio.terminal.text import say, tell
from gridtravel.gurd.ca import ca_app

PR_SET_PDEATHSIG: Final = 1

app = command_line(
    "gurd", "The daemons of a grid: node agents, calendar managers, the certificate authority."
)
app.add_typer(ca_app)

ConfigOption = Annotated[Path, typer.Option("--config", help="The daemon's TOML file.")]
ParentOption = Annotated[
    bool, typer.Option(help="Stop when the process that started this one is gone.")
]


@app.command()
def agent(config: ConfigOption, exit_with_parent: ParentOption = False) -> None:
    """Serve one node: its calendar, its queue, its jobs."""
    from gridtravel.agents.config.site_file import load_site_config
    from gridtravel.agents.daemon import run_agent
    from gridtravel.gridio.system.logs import configure_logging

    if exit_with_parent:
        _die_with_parent()
    loaded = load_site_config(config)
    configure_logging(level=loaded.file.site.log_level.upper(), site=loaded.name)
    asyncio.run(run_agent(loaded))


@app.command()
def manager(config: ConfigOption, exit_with_parent: ParentOption = False) -> None:
    """Serve a calendar manager over agents and other managers."""
    from gridtravel.gridio.system.logs import configure_logging
    from gridtravel.manager.config import load_manager_config
    from gridtravel.manager.daemon import run_manager

    if exit_with_parent:
        _die_with_parent()
    loaded = load_manager_config(config)
    configure_logging(level=loaded.file.manager.log_level.upper(), site=loaded.name)
    asyncio.run(run_manager(loaded))


@app.command("check-config")
def check_config(
    file: Annotated[Path, typer.Argument(help="A site's or a manager's TOML file.")],
) -> None:
    """Ask all that a daemon with this configuration would ask at its start; start nothing."""
    from gridtravel.agents.config.checks import SiteReady, check_site
    from gridtravel.agents.config.site_file import PAGE as SITE_PAGE
    from gridtravel.agents.config.site_file import load_site_config
    from gridtravel.gridio.config_file import read_document
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.local_sched.accounts.account_files import AccountFiles
    from gridtravel.manager.checks import ManagerReady, check_manager
    from gridtravel.manager.config import load_manager_config

    now = SystemClock().now()
    ready: SiteReady | ManagerReady
    if "manager" in read_document(file, SITE_PAGE):
        managing = load_manager_config(file)
        name, ready = managing.name, check_manager(managing, now)
    else:
        serving = load_site_config(file)
        with contextlib.closing(AccountFiles()) as files:
            name, ready = serving.name, asyncio.run(check_site(serving, now, files))
    for note in ready.notes:
        tell(f"note: {note}")
    entries = f"{len(ready.grid_map)} grid-mapfile entries"
    say(f"{name}: good; {ready.credential.subject}, {entries}")


@app.command("check-ledger")
def check_ledger(
    file: Annotated[Path, typer.Argument(help="The `ledger` in a site's state folder.")],
) -> None:
    """Count a site's accounts again, also beside its daemon: no credits were made or lost."""
    from gridtravel.gridio.ledger.ledger import Ledger

    if not file.is_file() or not file.stat().st_size:
        raise NotFoundError(f"no ledger at {file}", hint="it is called ledger, in the state folder")
    ledger = Ledger(file)
    with contextlib.closing(ledger):
        ledger.check()
        users = [name for name in ledger.accounts() if not name.startswith(":")]
        say(f"{file}: balances; {len(users)} accounts, {len(ledger.open_holds())} open holds")


@app.command("bridge")
def bridge_command(
    socket: Annotated[str, typer.Option(help="The agent's local socket.")] = DEFAULT_SOCKET,
) -> None:
    """Join standard input and output to the agent's socket: what an SSH login starts."""
    raise typer.Exit(bridge.bridge(socket))


def main() -> None:
    """``python -m gurd.cli``; the command itself begins in ``gurd.entry``."""
    app()


def _die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent goes away; it may be gone already."""
    if sys.platform != "linux":
        raise InputError("--exit-with-parent works on Linux only")
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent or parent == 1:
        raise SystemExit(0)


if __name__ == "__main__":
    main()
