"""``gurlab economy``: three real sites that compete by price, from their start to their books.

Exit codes: 0 every promise was kept and all books agree, 1 not so, 2 wrong usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, say, tell, tell_all


def economy(
    out: Annotated[Path, typer.Option(help="Folder for tables and the picture of shares.")],
    stretch: Annotated[
        float,
        typer.Option(
            min=0.5, max=20, help="So many times longer jobs and deadlines, for a busy machine."
        ),
    ] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Let users with deadlines and budgets buy at three real sites (docs/accounting.md)."""
    import asyncio

    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.gridio.system.ids import RandomIds
    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.market.report import as_object, tables, write_files
    from gridtravel.simulator.market.run import hold_market
    from gridtravel.simulator.market.sites import SITES, lay_out
    from gridtravel.simulator.studies.charts import require_charts
    from gridtravel.travel_agent.demo.grid import interruptible, kept_grid

    require_charts()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"{out}: cannot be made: {fault.strerror}") from fault
    clock = SystemClock()
    ids = RandomIds(clock)
    progress = (lambda _: None) if as_json else tell
    with interruptible(), kept_grid("gurlab-economy-") as grid:
        lay_out(grid.folder, ids, clock.now())
        progress("three site daemons")
        grid.start_sites([site.name for site in SITES])
        market = asyncio.run(hold_market(grid, clock, ids, stretch=stretch, tell=progress))
    write_files(market, out)
    if as_json:
        print_json(as_object(market))
    else:
        console = TerminalConsole()
        for table in tables(market):
            console.print(table)
        say(f"written to {out}")
    tell_all(market.faults)
    if market.faults:
        raise typer.Exit(1)
