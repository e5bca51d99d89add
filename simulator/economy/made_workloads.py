"""The workloads of the published evaluations: drawn, or logs with drawn deadlines and budgets.

What the papers leave open is decided here and told in ``docs/studies.md``.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from gridtravel.simulator.economy.workload import EconomyJob
from gridtravel.simulator.replay.swf import ReadingRule, Trace, TraceJob, read_trace

LAST_LINES: Final = 5_000
"""So many lines at the end of a log are the paper's subset."""
LEAST_FACTOR: Final = 1.0
"""A factor of deadline or budget below this is drawn again: nobody could be served."""


class Estimates(enum.StrEnum):
    """What users say of their run times, and what their deadlines and budgets are multiples of."""

    TRUE = "true"
    """They know them, but for ``under_estimate``; multiples of the run time."""
    OF_USERS = "of users"
    """As in the log, raised to the run time where they are below it; multiples of the run time."""
    WITH_WISHES = "of users and wishes"
    """The same; multiples of the estimate, since nobody knows more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """How deadlines and budgets are drawn (table I of Libra+$); each varies one of these."""

    delay_factor: float = 0.5
    """The log's gaps between arrivals are multiplied by this."""
    urgent_share: float = 0.2
    few_times: float = 2.0
    """Mean of D/R of urgent jobs, and of B/R of the others."""
    many_times: float = 8.0
    """Mean of D/R of the others, and of B/R of urgent jobs."""
    deviation: float = 0.25
    """Standard deviation as a part of the mean."""
    under_estimate: float = 0.0
    """Estimates are the run times less this part."""
    estimates: Estimates = Estimates.TRUE
    declared_times: float = 1.0
    """Budgets are declared so many times as high as they are drawn."""
    declaring_share: float = 1.0
    """Part of the jobs that declare theirs so; the others declare what they have."""


def end_of_log(log: Path, procs: int | None = None, limit: int | None = None) -> Trace:
    """The last lines of a log without those that never ran; their gaps stay in the clock. Run times
    are as they were, also past the estimate.
    """
    rule = ReadingRule(cuts_at_estimate=False, last_lines=LAST_LINES)
    return read_trace(log, procs, limit, rule=rule)


def with_demands(logged: Sequence[TraceJob], demands: Demands, seed: int) -> list[EconomyJob]:
    """Those jobs with deadlines and budgets, from instant 0 on. The draws of a seed are the same
    whatever the delay factor, the estimates or the times that budgets are declared.
    """
    rng, liars = Random(f"demands {seed}"), Random(f"declarations {seed}")
    jobs: list[EconomyJob] = []
    for number, job in enumerate(logged):
        submit = (job.submit - logged[0].submit) * demands.delay_factor
        is_urgent = rng.random() < demands.urgent_share
        few, many = (
            _factor(rng, mean, demands) for mean in (demands.few_times, demands.many_times)
        )
        for_deadline, for_budget = (few, many) if is_urgent else (many, few)
        estimate_s = job.run_s * (1 - demands.under_estimate)
        declared = 1.0
        if liars.random() < demands.declaring_share:
            declared = demands.declared_times
        base_s = float(job.run_s)
        if demands.estimates is not Estimates.TRUE:
            estimate_s = job.estimate_s
        if demands.estimates is Estimates.WITH_WISHES:
            base_s = estimate_s
        jobs.append(
            EconomyJob(
                str(number),
                submit,
                job.run_s,
                estimate_s,
                job.procs,
                submit + base_s * for_deadline,
                base_s * for_budget * declared,
            )
        )
    return jobs


def _factor(rng: Random, mean: float, demands: Demands) -> float:
    while True:
        factor = rng.gauss(mean, mean * demands.deviation)
        if factor >= LEAST_FACTOR:
            return factor


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOne:
    """A batch of Libra's table 1; jobs of one node."""

    jobs: int
    nodes: int
    arrivals_until: int
    """Arrivals are drawn from 1 to this."""


TABLE_ONE: Final = (
    TableOne(jobs=100, nodes=10, arrivals_until=102),
    TableOne(jobs=100, nodes=20, arrivals_until=102),
    TableOne(jobs=200, nodes=10, arrivals_until=208),
    TableOne(jobs=200, nodes=20, arrivals_until=208),
)


def batch_of_table_one(batch: TableOne, seed: int) -> list[EconomyJob]:
    """Whole numbers, uniform. 1,000 to 10,900 million instructions at 100 a second are 10 to 109 s;
    80 % of the budgets are 1,000, the others up to 12,000: all of them above any cost.
    """
    rng = Random(f"table 1, {batch.jobs} jobs, {seed}")
    drawn = []
    for _ in range(batch.jobs):
        arrival, run_s = rng.randint(1, batch.arrivals_until), rng.randint(10, 109)
        deadline = arrival + rng.randint(1, 1_200)
        budget = 1_000 if rng.random() < 0.8 else rng.randint(1_000, 12_000)
        drawn.append((arrival, run_s, deadline, budget))
    drawn.sort(key=lambda each: each[0])
    return [
        EconomyJob(str(number), arrival, run_s, run_s, 1, deadline, budget)
        for number, (arrival, run_s, deadline, budget) in enumerate(drawn)
    ]
