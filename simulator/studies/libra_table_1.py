"""Table 1 of Libra: jobs completed in time by Libra and by first in, first out.

A job of FIFO goes to the node that is free first, in order of arrival; it runs alone, and late or
not. Libra divides nodes strictly by need, at a price of E alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace
from math import sqrt
from statistics import fmean, stdev
from typing import Final, NamedTuple

from gridtravel.local_sched.admission.registry import SitePolicy
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.policies.proportional_share import Control
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.made_workloads import TABLE_ONE, TableOne, batch_of_table_one
from gridtravel.simulator.economy.workload import EconomyJob
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table

PAPER: Final = {
    (100, 10): (77, 86),
    (100, 20): (86, 90),
    (200, 10): (95, 102),
    (200, 20): (165, 177),
}
"""Completed in time of (jobs, nodes): FIFO, Libra."""
LIBRA: Final = SitePolicy(sharing=Libra(control=Control.STRICT, urgency_price=0.0))


class Counted(NamedTuple):
    """Jobs in time over the seeds."""

    mean: float
    sd: float
    least: int
    most: int


def in_time_by_fifo(jobs: Sequence[EconomyJob], nodes: int) -> int:
    """Jobs that end by their deadline where each waits for the node that is free first."""
    free_at = [0.0] * nodes
    heapify(free_at)
    in_time = 0
    for job in jobs:
        end = max(free_at[0], job.submit) + job.run_s
        heapreplace(free_at, end)
        in_time += end <= job.deadline
    return in_time


def in_time_by_libra(jobs: Sequence[EconomyJob], nodes: int) -> int:
    """Jobs that are accepted and end by their deadline."""
    decisions = decide(jobs, LIBRA, nodes)
    return sum(each.is_satisfied(job) for job, each in zip(jobs, decisions, strict=True))


def run(setting: Setting) -> list[Claim]:
    """All four cells, each with the same batches for both."""
    counted: dict[tuple[TableOne, str], Counted] = {}
    for batch in TABLE_ONE:
        setting.tell(f"{batch.jobs} jobs on {batch.nodes} nodes")
        of_fifo, of_libra = [], []
        for seed in range(setting.seed, setting.seed + setting.seeds):
            jobs = batch_of_table_one(batch, seed)[: setting.limit]
            of_fifo.append(in_time_by_fifo(jobs, batch.nodes))
            of_libra.append(in_time_by_libra(jobs, batch.nodes))
        counted[batch, "fifo"], counted[batch, "libra"] = _count(of_fifo), _count(of_libra)
    write_table(
        setting.out / "table-1.csv",
        ("jobs", "nodes", "policy", "seeds", "mean", "sd", "least", "most", "paper"),
        (
            (batch.jobs, batch.nodes, name, setting.seeds, *_rounded(each), _paper(batch, name))
            for (batch, name), each in counted.items()
        ),
    )
    _draw(setting, counted)
    claims = [
        _claim(batch, name, each) for (batch, name), each in sorted(counted.items(), key=_place)
    ]
    return [*claims, _libra_beats_fifo(counted, setting.seeds)]


def _count(numbers: Sequence[int]) -> Counted:
    sd = stdev(numbers) if len(numbers) > 1 else 0.0
    return Counted(fmean(numbers), sd, min(numbers), max(numbers))


def _rounded(each: Counted) -> tuple[float | int, ...]:
    return tuple(round(figure, 3) for figure in each)


def _paper(batch: TableOne, name: str) -> int:
    return PAPER[batch.jobs, batch.nodes][name == "libra"]


def _place(entry: tuple[tuple[TableOne, str], Counted]) -> tuple[str, int, int]:
    (batch, name), _ = entry
    return name, batch.jobs, batch.nodes


def _claim(batch: TableOne, name: str, each: Counted) -> Claim:
    paper = _paper(batch, name)
    return Claim(
        id=f"{name}-{batch.jobs}-{batch.nodes}",
        claim=f"{name} completes {paper} of {batch.jobs} jobs on {batch.nodes} nodes in time"
        f" (the paper's one batch lies within two standard deviations of our mean)",
        paper=paper,
        ours={"mean": round(each.mean, 3), "sd": round(each.sd, 3)},
        holds=abs(each.mean - paper) <= 2 * each.sd,
    )


def _libra_beats_fifo(counted: dict[tuple[TableOne, str], Counted], seeds: int) -> Claim:
    ours = {}
    holds = True
    for batch in TABLE_ONE:
        fifo, libra = counted[batch, "fifo"], counted[batch, "libra"]
        error = sqrt((fifo.sd**2 + libra.sd**2) / seeds)
        ours[f"{batch.jobs} on {batch.nodes}"] = {
            "difference": round(libra.mean - fifo.mean, 3),
            "standard_error": round(error, 3),
        }
        holds = holds and libra.mean - fifo.mean > 2 * error
    return Claim(
        id="libra-beats-fifo-in-every-cell",
        claim="Libra completes more in all four cells (by two standard errors of the difference)",
        paper="in all four cases",
        ours=ours,
        holds=holds,
    )


def _draw(setting: Setting, counted: dict[tuple[TableOne, str], Counted]) -> None:
    series = {
        "FIFO, paper": [float(_paper(batch, "fifo")) for batch in TABLE_ONE],
        "FIFO, mean": [counted[batch, "fifo"].mean for batch in TABLE_ONE],
        "Libra, paper": [float(_paper(batch, "libra")) for batch in TABLE_ONE],
        "Libra, mean": [counted[batch, "libra"].mean for batch in TABLE_ONE],
    }
    labels = [f"{batch.jobs} jobs, {batch.nodes} nodes" for batch in TABLE_ONE]
    panel = Panel(title="Jobs completed in time (table 1)", labels=labels, series=series)
    draw_bars(setting.out, "table-1", [panel], "jobs")
