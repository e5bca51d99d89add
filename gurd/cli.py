"""``gurd``: the command that sets up and runs the daemons of a grid::

    gurd agent --config site.toml          serve one node
    gurd manager --config manager.toml     serve a calendar manager
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

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.cli_frame import command_line
from gridtravel.gridio.ssh import bridge
from gridtravel.gridio.ssh.bridge import DEFAULT_SOCKET
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
    """Read a configuration and its credential as the daemon would; start nothing."""
    from gridtravel.agents.config.site_file import PAGE as SITE_PAGE
    from gridtravel.agents.config.site_file import SiteConfig, load_site_config
    from gridtravel.agents.config.state_folder import check_logins
    from gridtravel.agents.own_card import OwnCard
    from gridtravel.gridio.config_file import read_document
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.gridio.trust.credentials import Usage, load_credential, require_credential
    from gridtravel.gridio.trust.gridmap import load_grid_map
    from gridtravel.local_sched.accounts.account_files import AccountFiles
    from gridtravel.local_sched.accounts.run_accounts import RunAs
    from gridtravel.manager.config import load_manager_config

    is_manager = "manager" in read_document(file, SITE_PAGE)
    loaded = load_manager_config(file) if is_manager else load_site_config(file)
    credential = load_credential(loaded.credential)
    require_credential(credential, SystemClock().now(), Usage.SERVER)
    grid_map = load_grid_map(loaded.grid_mapfile)
    if note := loaded.file.connections.note():
        typer.echo(f"note: {note}", err=True)
    if isinstance(loaded, SiteConfig):
        site = loaded.file.site
        card = OwnCard(credential, advertise=site.advertise, listen=site.listen)
        if problem := card.problem(SystemClock().now()):
            typer.echo(f"note: no other site can reach {loaded.name}: {problem}", err=True)
        run_as = RunAs(loaded.file.host.run_as)
        logins = grid_map.logins()
        with contextlib.closing(AccountFiles()) as files:
            checked = check_logins(loaded.state, run_as, logins, files)
            for note in asyncio.run(checked):
                typer.echo(f"note: {note}", err=True)
    entries = f"{len(grid_map)} grid-mapfile entries"
    typer.echo(f"{loaded.name}: good; {credential.subject}, {entries}")


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
