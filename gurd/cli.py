"""``gurd``: what whoever runs a daemon types.

    gurd agent --config site.toml          serve one node
    gurd manager --config manager.toml     serve a calendar manager
    gurd check-config FILE                 say what is wrong with a configuration, start nothing
    gurd bridge --socket PATH              the far end of somebody's SSH login (docs/ssh.md)
    gurd ca ...                            the grid's certificate authority

Exit codes as everywhere (docs/exit-codes.md): 0 done, 2 wrong usage or configuration, 4
unavailable, 5 not authorised, 1 anything else.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from gridcore.errors import GridError, InputError
from gridio.ssh import bridge
from gridio.ssh.bridge import DEFAULT_SOCKET
from gurd.ca import ca_app

PR_SET_PDEATHSIG: Final = 1

app = typer.Typer(
    name="gurd",
    help="The daemons of a grid: node agents, calendar managers, the certificate authority.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(ca_app)

ConfigOption = Annotated[Path, typer.Option("--config", help="The daemon's TOML file.")]
ParentOption = Annotated[
    bool, typer.Option(help="Stop when the process that started this one is gone.")
]


@app.command()
def agent(config: ConfigOption, exit_with_parent: ParentOption = False) -> None:
    """Serve one node: its calendar, its queue, its jobs."""

    def serve() -> None:
        from agents.daemon import run_agent
        from agents.site_config import load_site_config
        from gridio.logs import configure_logging

        if exit_with_parent:
            _die_with_parent()
        loaded = load_site_config(config)
        configure_logging(level=loaded.file.site.log_level.upper(), site=loaded.name)
        asyncio.run(run_agent(loaded))

    _guarded(serve)


@app.command()
def manager(config: ConfigOption, exit_with_parent: ParentOption = False) -> None:
    """Serve a calendar manager over agents and other managers."""

    def serve() -> None:
        from gridio.logs import configure_logging
        from manager.daemon import run_manager
        from manager.manager_config import load_manager_config

        if exit_with_parent:
            _die_with_parent()
        loaded = load_manager_config(config)
        configure_logging(site=loaded.name)
        asyncio.run(run_manager(loaded))

    _guarded(serve)


@app.command("check-config")
def check_config(
    file: Annotated[Path, typer.Argument(help="A site's or a manager's TOML file.")],
) -> None:
    """Read a configuration and its credential as the daemon would; start nothing."""

    def check() -> None:
        import tomllib

        from agents.site_config import load_site_config
        from gridio.clock import SystemClock
        from gridio.credentials import Usage, load_credential, require_credential
        from gridio.gridmap import load_grid_map
        from manager.manager_config import load_manager_config

        try:
            is_manager = "manager" in tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as fault:
            raise InputError(f"cannot read the configuration {file}: {fault}") from None
        loaded = load_manager_config(file) if is_manager else load_site_config(file)
        credential = load_credential(loaded.credential)
        require_credential(credential, SystemClock().now(), Usage.SERVER)
        entries = len(load_grid_map(loaded.grid_mapfile))
        typer.echo(f"{loaded.name}: good; {credential.subject}, {entries} grid-mapfile entries")

    _guarded(check)


@app.command("bridge")
def bridge_command(
    socket: Annotated[str, typer.Option(help="The agent's local socket.")] = DEFAULT_SOCKET,
) -> None:
    """Join standard input and output to the agent's socket: what an SSH login starts."""
    raise typer.Exit(bridge.bridge(socket))


def main() -> None:
    """``python -m gurd.cli``; the command itself begins in ``gurd.entry``."""
    # gRPC's library writes of failed handshakes to standard error too; we say it better.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    app()


def _guarded(work: Callable[[], None]) -> None:
    """A fault becomes one line and its exit code."""
    try:
        work()
    except GridError as fault:
        hint = f"\n  {fault.hint}" if fault.hint else ""
        typer.echo(f"gurd: {fault.message}{hint}", err=True)
        raise typer.Exit(fault.exit_code) from None


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
