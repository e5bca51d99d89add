"""How fast the journal is, as a ratio to what the disk can do: `python bench/journal_bench.py`.

The base of every ratio is a bare append and `fdatasync` of the same number of bytes to a plain file
in the same folder, one after the other: what a lone caller without any journal would get. The base
and the variants take turns within one run, because two runs on a shared machine differ by more than
any change does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from gridio.journal import Journal, Record
from gridio.journal_sqlite import SqliteJournal

ROUNDS = 7
ROUND_S = 0.4
BODY = b"x" * 170


@dataclass(slots=True)
class Figure:
    """The rounds of one variant."""

    name: str
    must_ratio: float
    rows_per_s: list[float] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    cpu_us_per_row: list[float] = field(default_factory=list)

    def add(self, rows: int, wall_s: float, cpu_s: float, latencies_s: list[float]) -> None:
        """Add one round."""
        self.rows_per_s.append(rows / wall_s)
        self.cpu_us_per_row.append(cpu_s / rows * 1e6)
        self.latencies_s.extend(latencies_s)


def run_bare(folder: Path, figure: Figure) -> None:
    """One round of append and fdatasync."""
    descriptor = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    latencies: list[float] = []
    cpu, begin = time.process_time(), time.perf_counter()
    now = begin
    while now - begin < ROUND_S:
        os.write(descriptor, BODY)
        os.fdatasync(descriptor)
        after = time.perf_counter()
        latencies.append(after - now)
        now = after
    figure.add(len(latencies), now - begin, time.process_time() - cpu, latencies)
    os.close(descriptor)


async def run_journal(journal: Journal, callers: int, figure: Figure, *, sync: bool) -> None:
    """One round of `callers` tasks that each append one record and wait for it, again and again."""
    latencies: list[float] = []
    cpu, begin = time.process_time(), time.perf_counter()
    end = begin + ROUND_S

    async def call() -> None:
        before = time.perf_counter()
        while before < end:
            await journal.append((Record(kind="HOLD", at=1, body=BODY),), sync=sync).durable()
            after = time.perf_counter()
            latencies.append(after - before)
            before = after

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(call())
    wall = time.perf_counter() - begin
    figure.add(len(latencies), wall, time.process_time() - cpu, latencies)


async def measure(folder: Path) -> list[Figure]:
    """All variants, in turns."""
    journal = SqliteJournal(folder / "bench.journal")
    bare = Figure("append + fdatasync", 1.0)
    variants: list[tuple[Figure, Callable[[Figure], Awaitable[None]]]] = [
        (Figure("journal, 1 caller", 0.5), lambda f: run_journal(journal, 1, f, sync=True)),
        (Figure("journal, 64 callers", 10.0), lambda f: run_journal(journal, 64, f, sync=True)),
        (Figure("sync=False, 1 caller", 2.0), lambda f: run_journal(journal, 1, f, sync=False)),
        (Figure("sync=False, 64 callers", 12.0), lambda f: run_journal(journal, 64, f, sync=False)),
    ]
    for _ in range(ROUNDS):
        run_bare(folder, bare)
        for figure, run in variants:
            await run(figure)
    journal.close()
    return [bare, *(figure for figure, _ in variants)]


def main() -> None:
    """Print the table, and write the same as JSON when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path.cwd(), help="where the disk is")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder, prefix=".journal-bench-") as name:
        figures = asyncio.run(measure(Path(name)))
    base = statistics.median(figures[0].rows_per_s)
    print(
        f"{'what':<24}{'rows/s':>9}{'ratio':>8}{'target':>8}{'p50 us':>9}{'p99 us':>9}{'CPU us':>8}"
    )
    rows: list[dict[str, float | str]] = []
    for figure in figures:
        rate = statistics.median(figure.rows_per_s)
        ordered = sorted(figure.latencies_s)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1e6 for part in (0.5, 0.99))
        cpu = statistics.median(figure.cpu_us_per_row)
        rows.append(
            {
                "what": figure.name,
                "rows_per_s": rate,
                "ratio": rate / base,
                "target_ratio": figure.must_ratio,
                "p50_us": p50,
                "p99_us": p99,
                "cpu_us_per_row": cpu,
            }
        )
        print(
            f"{figure.name:<24}{rate:>9,.0f}{rate / base:>8.2f}{figure.must_ratio:>8.1f}"
            f"{p50:>9,.0f}{p99:>9,.0f}{cpu:>8.1f}"
        )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
