"""`make bench`: run every benchmark, print one table, and write the figures as JSON."""

from __future__ import annotations

from pathlib import Path

from bench import (
    booking_bench,
    contention_bench,
    imprecise_bench,
    inquiry_bench,
    journal_bench,
    profile_cost,
    replay_bench,
    rpc_bench,
    sharing_bench,
    staging_bench,
    trips_bench,
)
from bench.figures import show, write

REPORT = Path(__file__).resolve().parent.parent / "build" / "bench.json"
BENCHMARKS = (
    profile_cost.measure,
    replay_bench.measure,
    imprecise_bench.measure,
    journal_bench.measure,
    rpc_bench.measure,
    booking_bench.measure,
    inquiry_bench.measure,
    staging_bench.measure,
    sharing_bench.measure,
    trips_bench.measure,
    contention_bench.measure,
)


def main() -> None:
    """Measure all there is to measure; a missed target is shown and is no failure."""
    figures = [figure for measure in BENCHMARKS for figure in measure()]
    show(figures)
    write(figures, REPORT)


if __name__ == "__main__":
    main()
