"""``gurlab compare-search``: both searches of the travel agent on the same loaded grid."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Final

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.trip_wishes import Objective
from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, tell

LOG: Final = "SDSC-SP2-1998-4.2-cln.swf.gz"
"""Of the paper's own institution, from the years before it."""


def compare_search(
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="How many trips.")] = 500,
    sites: Annotated[int, typer.Option(min=1, max=16, help="Sites of the grid.")] = 3,
    seed: Annotated[int, typer.Option(help="Fixes everything but the CPU times.")] = 1,
    trace: Annotated[
        Path | None,
        typer.Option(help=f"Workload log (SWF); default: {LOG} in GRID_SHARED/traces, if there."),
    ] = None,
    made_up: Annotated[
        bool, typer.Option("--made-up", help="Load the sites with made-up jobs instead.")
    ] = False,
    load: Annotated[
        float, typer.Option(min=0.01, max=2.0, help="Share of the sites that those ask for.")
    ] = 0.8,
    objective: Annotated[
        Objective, typer.Option(help="earliest_finish or lowest_cost.")
    ] = Objective.EARLIEST_FINISH,
    rows: Annotated[
        Path | None, typer.Option("--csv", help="A row for each request and search.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Book the same trips by sweep and by probe, against brute force (docs/searches.md)."""
    from rich.progress import Progress

    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.searches.report import as_json as to_json
    from gridtravel.simulator.searches.report import as_table, write_rows
    from gridtravel.simulator.searches.study import SearchPlan, run_search_study

    plan = SearchPlan(
        requests=requests,
        seed=seed,
        sites=sites,
        trace=_load(trace, is_made_up=made_up),
        load=load,
        objective=objective,
    )
    console = TerminalConsole(to_stderr=True)
    logging.disable(logging.CRITICAL)
    try:
        with Progress(
            console=console, transient=True, disable=as_json or not console.is_terminal
        ) as bar:
            task = bar.add_task("requests", total=requests)
            result = run_search_study(plan, lambda done: bar.update(task, completed=done))
    finally:
        logging.disable(logging.NOTSET)
    if rows is not None:
        write_rows(rows, result.tried)
    if as_json:
        print_json(to_json(result))
    else:
        TerminalConsole().print(as_table(result))


def _load(trace: Path | None, *, is_made_up: bool) -> Path | None:
    """The log that loads the sites; ``None``: made-up jobs, which is said when nobody asked."""
    from gridtravel.simulator.studies.logs import find_log

    if is_made_up:
        if trace is not None:
            raise InputError("--made-up and --trace exclude each other", hint="give one")
        return None
    try:
        return find_log(trace, LOG)
    except InputError as fault:
        if trace is not None:
            raise
        tell(f"note: {fault.message}; the jobs are made up")
        return None
