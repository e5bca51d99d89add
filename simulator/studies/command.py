"""``gurlab study``: run one published study, or list them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.terminal.text import say, tell


def study(
    name: Annotated[str | None, typer.Argument(help="Which study; see --list.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables, pictures and claims.json.")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Log to use (SWF); default: the study's own, in GRID_SHARED/traces."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Only the first so many jobs of each stretch.", min=1)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The first seed, where workloads are drawn; 1.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many; default: the study's own.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Processes at once.")] = 2,
    is_list: Annotated[bool, typer.Option("--list", help="Name the studies and stop.")] = False,
) -> None:
    """Repeat a published study and compare what comes out with the paper (docs/studies.md)."""
    from rich.table import Table

    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.studies.charts import require_charts
    from gridtravel.simulator.studies.logs import find_log
    from gridtravel.simulator.studies.registry import STUDIES, study_named
    from gridtravel.simulator.studies.study import Setting, write_claims

    if is_list:
        for each in STUDIES.values():
            say(f"{each.name:<24}{each.title}; {f'log {each.log}' if each.log else 'no log'}")
        return
    if name is None or out is None:
        raise InputError("say which study and where to write", hint="gurlab study NAME --out DIR")
    chosen = study_named(name)
    if not chosen.seeds and (seed is not None or seeds is not None):
        raise InputError(f"nothing in {name} is drawn", hint="leave out --seed and --seeds")
    if not chosen.log and trace is not None:
        raise InputError(f"{name} takes no log", hint="leave out --trace")
    log = find_log(trace, chosen.log) if chosen.log else Path()
    require_charts()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"{out}: cannot be made: {fault.strerror}") from fault
    claims = chosen.run(
        Setting(
            trace=log,
            out=out,
            tell=_tell,
            limit=limit,
            seed=1 if seed is None else seed,
            seeds=chosen.seeds if seeds is None else seeds,
            workers=workers,
        )
    )
    write_claims(out / "claims.json", claims)
    table = Table("claim", "holds", title=f"{chosen.name}: {chosen.title}")
    for claim in claims:
        table.add_row(claim.claim, "yes" if claim.holds else "no")
    TerminalConsole().print(table)
    say(f"written to {out}")


def _tell(what: str) -> None:
    """Progress, on standard error so that results can be piped."""
    tell(f"{what} …")
