"""Small workloads with deadlines and budgets, full of ties, and how decisions are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from gridtravel.simulator.economy.workload import Decision, EconomyJob
from tests.support import plain_economy
from tests.support.plain_economy import Row

KINDS: Final = ("exact", "over", "under")
"""What users' estimates are."""


def some_rows(rng: Random, jobs: int, procs: int, kind: str) -> list[Row]:
    """Whole numbers mostly, several arrivals at once, deadlines and budgets around the possible."""
    rows = []
    now = 0.0
    for number in range(jobs):
        now += rng.choice([0, 0, 1, 5, 20, rng.randint(0, 60)])
        estimate = rng.choice([10, 20, 30, rng.randint(1, 200)])
        part = {
            "exact": 1.0,
            "over": rng.choice([1, 0.5, rng.random()]),
            "under": rng.choice([1, 1.2, 1.5, rng.uniform(1, 3)]),
        }[kind]
        run: float = max(1, round(estimate * part))
        if kind != "exact" and rng.random() < 0.2:
            run = max(0.01, estimate * part)
        patience = max(1, round(estimate * rng.choice([1, 1.2, 2, 3, rng.uniform(0.8, 8)])))
        budget = round(estimate * rng.choice([1, 1.1, 1.5, 2, 4, rng.uniform(0.8, 8)]), 2)
        width = rng.randint(1, procs)
        rows.append(Row(str(number), now, run, estimate, width, now + patience, budget))
    return rows


def as_jobs(rows: Sequence[Row]) -> list[EconomyJob]:
    """The same for the product."""
    return [EconomyJob(*row) for row in rows]


def differing(
    rows: Sequence[Row],
    plain: Mapping[str, plain_economy.Decision],
    ours: Sequence[Decision],
    within_s: float = 2.0,
) -> list[tuple[Row, plain_economy.Decision, Decision]]:
    """The jobs that the exchange would call different: accepted or not, the cost by 0.1 % and a
    hundredth, the end by two seconds.
    """
    found = []
    for row, our in zip(rows, ours, strict=True):
        their = plain[row.job]
        if their.cost is None or our.cost is None:
            agrees = their.cost is our.cost
        else:
            assert their.end is not None
            assert our.end is not None
            agrees = abs(their.cost - our.cost) <= 0.001 * their.cost + 0.01
            agrees = agrees and abs(their.end - our.end) <= within_s
        if not agrees:
            found.append((row, their, our))
    return found
