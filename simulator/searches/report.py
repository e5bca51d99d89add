"""A comparison of searches as a table, as rows of figures, and as JSON."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.searches.study import SEARCHES, SearchResult, Tried
from gridtravel.travel_agent.choices import SearchChoice

if TYPE_CHECKING:
    from rich.table import Table

SEARCH_VERBS: Final = ("Inquire", "Describe", "Reserve", "Release", "ReleaseRequest")
"""What a search says, and the holds of the booking; the rest decides and commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """One search over all requests."""

    search: SearchChoice
    asked: int
    possible: int
    """Requests for which brute force found a start."""
    booked: int
    missed: int
    """Possible, and declined."""
    calls_mean: float
    """Questions a booked trip, over all verbs."""
    calls_most: int
    calls_refused_mean: float
    """Questions a declined trip."""
    verbs: dict[str, float]
    """Mean a booked trip, by verb."""
    seconds_mean: float
    """Virtual seconds a booked trip."""
    seconds_most: float
    cpu_ms_mean: float
    """Milliseconds of CPU a booked trip, travel agent and sites together."""
    exact: int
    """Booked at the earliest start that exists."""
    delay_mean_s: float
    delay_p95_s: int
    delay_most_s: int
    price_over_best: float
    """All booked trips' prices over the least that each could have cost in its window."""

    @property
    def satisfied(self) -> float:
        """Share of the possible requests."""
        return self.booked / max(1, self.possible)


def figures(result: SearchResult, search: SearchChoice) -> SearchFigures:
    """What came of one search."""
    tried = [each for each in result.tried if each.search is search]
    booked = [each for each in tried if each.start is not None]
    refused = [each for each in tried if each.start is None]
    delays = sorted(each.delay_s for each in booked if each.delay_s is not None)
    verbs: Counter[str] = Counter()
    for each in booked:
        verbs.update(each.calls)
    paid = sum(each.price or 0 for each in booked)
    least = sum(each.best_price or 0 for each in booked)
    calls = [each.calls.total() for each in booked]
    return SearchFigures(
        search=search,
        asked=len(tried),
        possible=sum(each.best_start is not None for each in tried),
        booked=len(booked),
        missed=sum(each.best_start is not None for each in refused),
        calls_mean=_mean(calls),
        calls_most=max(calls, default=0),
        calls_refused_mean=_mean([each.calls.total() for each in refused]),
        verbs={verb: count / max(1, len(booked)) for verb, count in sorted(verbs.items())},
        seconds_mean=_mean([each.seconds for each in booked]),
        seconds_most=max((each.seconds for each in booked), default=0.0),
        cpu_ms_mean=1000 * _mean([each.cpu_s for each in booked]),
        exact=sum(delay == 0 for delay in delays),
        delay_mean_s=_mean(delays),
        delay_p95_s=delays[int(0.95 * (len(delays) - 1))] if delays else 0,
        delay_most_s=max(delays, default=0),
        price_over_best=paid / least if least else 1.0,
    )


def as_table(result: SearchResult) -> Table:
    """One line a figure, one column a search."""
    from rich.table import Table

    found = [figures(result, search) for search in SEARCHES]
    plan = result.plan
    waiting = sum(result.waiting) / max(1, len(result.waiting))
    table = Table(
        title=f"{plan.requests} requests at {plan.sites} sites; {result.load_name}: {result.jobs}"
        f" jobs, {waiting:.0f} waiting on average; {plan.objective}, seed {plan.seed}",
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
    )
    table.add_column("")
    for each in found:
        table.add_column(each.search.value, justify="right")
    rows: list[tuple[str, list[str]]] = [
        ("requests that could be booked", [str(e.possible) for e in found]),
        ("booked", [f"{e.booked} ({e.satisfied:.1%})" for e in found]),
        ("calls a booking", [f"{e.calls_mean:.1f}" for e in found]),
        ("  most", [str(e.calls_most) for e in found]),
    ]
    rows += [
        (f"  {verb}", [f"{e.verbs.get(verb, 0.0):.1f}" for e in found]) for verb in SEARCH_VERBS
    ]
    rows += [
        ("calls a refusal", [f"{e.calls_refused_mean:.1f}" for e in found]),
        ("virtual seconds a booking", [f"{e.seconds_mean:.2f}" for e in found]),
        ("  most", [f"{e.seconds_most:.2f}" for e in found]),
        ("CPU milliseconds a booking", [f"{e.cpu_ms_mean:.1f}" for e in found]),
        ("at the earliest start", [f"{e.exact / max(1, e.booked):.1%}" for e in found]),
        ("seconds later than that, mean", [f"{e.delay_mean_s:.0f}" for e in found]),
        ("  95 of 100 below", [str(e.delay_p95_s) for e in found]),
        ("  most", [str(e.delay_most_s) for e in found]),
        ("price over the least possible", [f"{e.price_over_best:.3f}" for e in found]),
    ]
    for name, cells in rows:
        table.add_row(name, *cells)
    return table


def as_json(result: SearchResult) -> dict[str, Any]:
    """The same for scripts."""
    plan = result.plan
    return {
        "requests": plan.requests,
        "sites": plan.sites,
        "seed": plan.seed,
        "load": result.load_name,
        "jobs": result.jobs,
        "objective": plan.objective.value,
        "searches": [_figures_json(figures(result, search)) for search in SEARCHES],
    }


def _figures_json(found: SearchFigures) -> dict[str, Any]:
    return {
        "search": found.search.value,
        "possible": found.possible,
        "booked": found.booked,
        "missed": found.missed,
        "satisfied": round(found.satisfied, 4),
        "calls_mean": round(found.calls_mean, 3),
        "calls_most": found.calls_most,
        "calls_refused_mean": round(found.calls_refused_mean, 3),
        "calls_by_verb": {verb: round(mean, 3) for verb, mean in found.verbs.items()},
        "virtual_s_mean": round(found.seconds_mean, 3),
        "virtual_s_most": round(found.seconds_most, 3),
        "cpu_ms_mean": round(found.cpu_ms_mean, 2),
        "at_the_optimum": found.exact,
        "delay_mean_s": round(found.delay_mean_s, 1),
        "delay_p95_s": found.delay_p95_s,
        "delay_most_s": found.delay_most_s,
        "price_over_best": round(found.price_over_best, 4),
    }


COLUMNS: Final = (
    "request",
    "search",
    "pattern",
    "nodes",
    "best_start",
    "start",
    "delay_s",
    "best_price_millicredits",
    "price_millicredits",
    "calls",
    "virtual_s",
    "cpu_s",
)


def write_rows(path: Path, tried: Sequence[Tried]) -> None:
    """Every request with every search, one row each."""
    try:
        with path.open("w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            rows.writerow(COLUMNS)
            for each in tried:
                rows.writerow(
                    (
                        each.request,
                        each.search.value,
                        each.pattern.value,
                        each.nodes,
                        each.best_start,
                        each.start,
                        each.delay_s,
                        each.best_price,
                        each.price,
                        each.calls.total(),
                        f"{each.seconds:.6f}",
                        f"{each.cpu_s:.6f}",
                    )
                )
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
