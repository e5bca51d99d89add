"""``gurlab tree``: bookings through a whole tree of calendar managers, in virtual time.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, say, tell, tell_all

if TYPE_CHECKING:
    from gridtravel.simulator.tree.report import TreeFindings
    from gridtravel.simulator.tree.study import TreePlan, TreeResult

GROWTH_REQUESTS_MAX = 200
SERIES_REQUESTS_MAX = 1_000


def tree(
    agents: Annotated[int, typer.Option(min=2, max=2000, help="Agents below the regions.")] = 200,
    requests: Annotated[int, typer.Option(min=1, help="Travellers, one after the other.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Fixes the whole run.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of each agent.")] = 50,
    loss: Annotated[float, typer.Option(min=0.0, max=0.5, help="Messages that are lost.")] = 0.02,
    doubles: Annotated[float, typer.Option(min=0.0, max=0.5, help="Calls that come twice.")] = 0.02,
    restarts: Annotated[int, typer.Option(min=0, help="Deaths of agents and managers.")] = 20,
    stale_s: Annotated[
        float, typer.Option(min=0.0, max=900.0, help="How long agents hold back their news.")
    ] = 0.05,
    load: Annotated[
        float, typer.Option(min=0.01, max=10.0, help="Share of all nodes that is asked for.")
    ] = 0.5,
    with_growth: Annotated[
        bool, typer.Option("--growth/--no-growth", help="Also trees of 10 to 10,000 nodes.")
    ] = True,
    with_series: Annotated[
        bool, typer.Option("--series/--no-series", help="Also older shadows, and deeper trees.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables, pictures and claims.json; all series.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Book through a tree of three levels with faults: messages, hits of the shadows, promises."""
    from gridtravel.simulator.tree.report import write_findings
    from gridtravel.simulator.tree.study import TreePlan, interval_for
    from gridtravel.simulator.tree.wire import TreeConditions

    _prepare(out)
    plan = TreePlan(
        agents=agents,
        nodes=nodes,
        requests=requests,
        seed=seed,
        interval_s=interval_for(load, agents * nodes),
        conditions=TreeConditions(loss=loss, doubles=doubles),
        restarts=restarts,
        stale_s=stale_s,
    )
    found, cpu_s = _find(plan, with_growth=with_growth, with_series=with_series or out is not None)
    if as_json:
        print_json(_as_json(found))
    else:
        _show(found, cpu_s)
    if out is not None:
        write_findings(out, found)
        tell(f"written to {out}")
    tell_all(f"broken: {each}" for each in found.breaches[:20])
    if found.breaches:
        raise typer.Exit(1)


def _prepare(out: Path | None) -> None:
    """What would fail at the end fails now."""
    if out is None:
        return
    from gridtravel.simulator.studies.charts import require_charts

    require_charts()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise InputError(f"{out}: cannot be made: {fault.strerror}") from fault


def _find(
    plan: TreePlan, *, with_growth: bool, with_series: bool
) -> tuple[TreeFindings, dict[int, float]]:
    """Live all trees; also the processor time that each took, by the identity of its result."""
    from dataclasses import replace

    from gridtravel.simulator.tree.report import TreeFindings
    from gridtravel.simulator.tree.study import depths, growth, run_tree, staleness

    cpu_s: dict[int, float] = {}

    def timed(what: str, results: Iterable[TreeResult]) -> list[TreeResult]:
        found = []
        before = time.process_time()
        for each in results:
            cpu_s[id(each)] = time.process_time() - before
            found.append(each)
            tell(f"{what}: {each.nodes} nodes, {each.booked} booked …")
            before = time.process_time()
        return found

    smaller = replace(plan, requests=min(plan.requests, SERIES_REQUESTS_MAX))
    few = min(plan.requests, GROWTH_REQUESTS_MAX)
    # Thousands of lost messages are what is wanted here, and no news.
    logging.disable(logging.CRITICAL)
    try:
        (main,) = timed("the tree", (run_tree(each) for each in (plan,)))
        grown = growth(few, seed=plan.seed, stale_s=plan.stale_s) if with_growth else ()
        found = TreeFindings(
            main=main,
            grown=timed("growth", grown),
            stale=timed("staleness", staleness(smaller) if with_series else ()),
            deep=timed("depth", depths(smaller) if with_series else ()),
        )
    finally:
        logging.disable(logging.NOTSET)
    return found, cpu_s


def _figures(result: TreeResult) -> dict[str, Any]:
    return {
        "nodes": result.nodes,
        "levels": result.levels,
        "update_interval_s": result.stale_s,
        "booked": result.booked,
        "refused": result.refused,
        "unknown": result.unknown,
        "granted_above": result.from_above,
        "restarts": result.restarts,
        "messages_a_booking": round(result.messages_a_booking, 3),
        "seconds_a_booking": round(result.seconds_a_booking, 3),
        "news": result.news,
        "hit_rate": round(result.hit_rate, 4),
        "hit_rate_by_horizon_s": {
            str(horizon_s): {"bookings": each.bookings, "hits": each.hits}
            for horizon_s, each in result.by_horizon.items()
        },
        "breaches": result.breaches,
    }


def _as_json(found: TreeFindings) -> dict[str, Any]:
    return _figures(found.main) | {
        "growth": [_figures(each) for each in found.grown],
        "staleness": [_figures(each) for each in found.stale],
        "depth": [_figures(each) for each in found.deep],
    }


def _show(found: TreeFindings, cpu_s: dict[int, float]) -> None:
    from rich.table import Table

    from gridtravel.gridio.terminal.console import TerminalConsole

    console, result = TerminalConsole(), found.main
    say(
        f"{result.nodes} nodes: {result.booked} booked ({result.from_above} of them granted above),"
        f" {result.refused} refused, {result.unknown} without an outcome;"
        f" {result.restarts} restarts, {len(result.breaches)} promises broken"
    )
    say(
        f"{result.messages_a_booking:.2f} messages and {result.seconds_a_booking:.2f} s a booking,"
        f" {result.news} news in {result.virtual_s:.0f} s of virtual time"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("start ahead up to (s)", "bookings", "planned by shadows alone"):
        table.add_column(heading, justify="right")
    for horizon_s, each in result.by_horizon.items():
        rate = f"{each.hits / each.bookings:.1%}" if each.bookings else "-"
        table.add_row(str(horizon_s), str(each.bookings), rate)
    console.print(table)
    for title, results in (
        ("nodes in the tree", found.grown),
        ("updates every (s)", found.stale),
        ("levels", found.deep),
    ):
        if not results:
            continue
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in (title, "booked", "messages", "s", "ms of processor", "by shadows alone"):
            table.add_column(heading, justify="right")
        for one in results:
            first = {"nodes in the tree": one.nodes, "levels": one.levels}.get(title, one.stale_s)
            table.add_row(
                f"{first:g}",
                str(one.booked),
                f"{one.messages_a_booking:.2f}",
                f"{one.seconds_a_booking:.2f}",
                f"{1000 * cpu_s[id(one)] / max(1, one.booked):.1f}",
                f"{one.hit_rate:.1%}",
            )
        console.print(table)
