"""``gurlab tree``: bookings through a whole tree of calendar managers, in virtual time.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from simulator.tree_study import TreeResult

GROWTH_REQUESTS_MAX = 200


def tree(
    agents: Annotated[int, typer.Option(min=2, max=2000, help="Agents below the regions.")] = 200,
    requests: Annotated[int, typer.Option(min=1, help="Travellers, one after the other.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Fixes the whole run.")] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of each agent.")] = 50,
    loss: Annotated[float, typer.Option(min=0.0, max=0.5, help="Messages that are lost.")] = 0.02,
    doubles: Annotated[float, typer.Option(min=0.0, max=0.5, help="Calls that come twice.")] = 0.02,
    restarts: Annotated[int, typer.Option(min=0, help="Deaths of agents and managers.")] = 20,
    stale_s: Annotated[
        float, typer.Option(min=0.0, max=60.0, help="How long agents hold back their news.")
    ] = 0.05,
    load: Annotated[
        float, typer.Option(min=0.01, max=10.0, help="Share of all nodes that is asked for.")
    ] = 0.5,
    with_growth: Annotated[
        bool, typer.Option("--growth/--no-growth", help="Also trees of 10 to 10,000 nodes.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON.")] = False,
) -> None:
    """Book through a tree of three levels with faults: messages, hits of the shadows, promises."""
    from simulator.tree_study import TreePlan, growth, interval_for, run_tree
    from simulator.tree_wire import TreeWeather

    plan = TreePlan(
        agents=agents,
        nodes=nodes,
        requests=requests,
        seed=seed,
        interval_s=interval_for(load, agents * nodes),
        weather=TreeWeather(loss=loss, doubles=doubles),
        restarts=restarts,
        stale_s=stale_s,
    )
    grown: list[TreeResult] = []
    # Thousands of lost messages are what is wanted here, and no news.
    logging.disable(logging.CRITICAL)
    try:
        result = run_tree(plan)
        if with_growth:
            grown = growth(min(requests, GROWTH_REQUESTS_MAX), seed=seed, stale_s=stale_s)
    finally:
        logging.disable(logging.NOTSET)
    breaches = [*result.breaches, *(each for one in grown for each in one.breaches)]
    if as_json:
        sys.stdout.write(json.dumps(_as_json(result, grown), indent=2) + "\n")
    else:
        _show(result, grown)
    for each in breaches[:20]:
        sys.stderr.write(f"broken: {each}\n")
    if breaches:
        raise typer.Exit(1)


def _as_json(result: TreeResult, grown: list[TreeResult]) -> dict[str, Any]:
    return {
        "nodes": result.nodes,
        "booked": result.booked,
        "refused": result.refused,
        "unknown": result.unknown,
        "granted_above": result.from_above,
        "restarts": result.restarts,
        "messages_a_booking": round(result.messages_a_booking, 3),
        "news": result.news,
        "hit_rate": round(result.hit_rate, 4),
        "hit_rate_by_horizon_s": {
            str(horizon_s): {"bookings": each.bookings, "hits": each.hits}
            for horizon_s, each in result.by_horizon.items()
        },
        "breaches": result.breaches,
        "growth": [
            {
                "nodes": each.nodes,
                "booked": each.booked,
                "messages_a_booking": round(each.messages_a_booking, 3),
                "hit_rate": round(each.hit_rate, 4),
                "breaches": each.breaches,
            }
            for each in grown
        ],
    }


def _show(result: TreeResult, grown: list[TreeResult]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(
        f"{result.nodes} nodes: {result.booked} booked ({result.from_above} of them granted above),"
        f" {result.refused} refused, {result.unknown} without an outcome;"
        f" {result.restarts} restarts, {len(result.breaches)} promises broken",
        f"{result.messages_a_booking:.2f} messages a booking, {result.news} news in"
        f" {result.virtual_s:.0f} s of virtual time",
        sep="\n",
        highlight=False,
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("start ahead up to (s)", "bookings", "planned by shadows alone"):
        table.add_column(heading, justify="right")
    for horizon_s, each in result.by_horizon.items():
        rate = f"{each.hits / each.bookings:.1%}" if each.bookings else "-"
        table.add_row(str(horizon_s), str(each.bookings), rate)
    console.print(table)
    if not grown:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("nodes in the tree", "booked", "messages a booking", "by shadows alone"):
        table.add_column(heading, justify="right")
    for one in grown:
        table.add_row(
            str(one.nodes), str(one.booked), f"{one.messages_a_booking:.2f}", f"{one.hit_rate:.1%}"
        )
    console.print(table)
