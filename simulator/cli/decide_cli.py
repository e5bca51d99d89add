"""``gurlab decide``: who of a workload is accepted by a policy, at what price, and when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, say


def decide(
    workload: Annotated[
        Path, typer.Argument(help="CSV: job,submit,run,estimate,procs,deadline,budget.")
    ],
    policy: Annotated[
        str,
        typer.Option(
            help="libra, libra-dollar, libra-posted, edf-dollar, fcfs-bf, sjf-bf or edf-bf."
        ),
    ],
    procs: Annotated[int, typer.Option(min=1, max=1_000_000, help="Processors of the machine.")],
    decisions: Annotated[Path, typer.Option(help="CSV to write: job,accepted,cost,end.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the policy, KEY=VALUE; several allowed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Let a site's policy decide a workload with deadlines and budgets (docs/policies.md)."""
    from gridtravel.local_sched.admission.registry import read_settings
    from gridtravel.simulator.economy.decide import decide as decide_all
    from gridtravel.simulator.economy.decide import policy_with_prices
    from gridtravel.simulator.economy.workload import read_workload, utility, write_decisions

    chosen = policy_with_prices(policy, read_settings(settings or []))
    jobs = read_workload(workload)
    found = decide_all(jobs, chosen, procs)
    write_decisions(decisions, jobs, found)
    worth = utility(jobs, found)
    accepted = sum(each.cost is not None for each in found)
    if as_json:
        print_json(
            {
                "policy": policy,
                "jobs": len(jobs),
                "accepted": accepted,
                "satisfaction": worth.satisfaction,
                "profitability": worth.profitability,
            }
        )
        return
    say(
        f"{accepted} of {len(jobs)} jobs accepted; {worth.satisfaction:.1%} ended in time within"
        f" their budget and paid {worth.profitability:.1%} of all budgets"
    )
    say(f"written to {decisions}")
