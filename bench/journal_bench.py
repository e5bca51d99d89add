"""How fast the journal is, as a ratio to what the disk can do: `python -m bench.journal_bench`.

The base of every ratio is a bare append and `fdatasync` of the same number of bytes to a plain file
in the same folder, one after the other: what a lone caller without any journal would get. The base
and the variants take turns within one run, because two runs on a shared machine differ by more than
any change does.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure
from gridtravel.gridio.journal.contract import Journal, Record
from gridtravel.gridio.journal.sqlite import SqliteJournal

ROUNDS = 7
ROUND_S = 0.4
BODY = b"x" * 170


@dataclass(slots=True)
class Variant:
    """The rounds of one way to write, and the most time a row may take, in rows of the base."""

    name: str
    must: float
    aim: float
    rows_per_s: list[float] = field(default_factory=list)
    latencies_s: list[float] = field(default_factory=list)
    cpu_us_per_row: list[float] = field(default_factory=list)

    def add(self, rows: int, wall_s: float, cpu_s: float, latencies_s: list[float]) -> None:
        """Add one round."""
        self.rows_per_s.append(rows / wall_s)
        self.cpu_us_per_row.append(cpu_s / rows * 1e6)
        self.latencies_s.extend(latencies_s)


def run_bare(folder: Path, variant: Variant) -> None:
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
    variant.add(len(latencies), now - begin, time.process_time() - cpu, latencies)
    os.close(descriptor)


async def run_journal(journal: Journal, callers: int, variant: Variant, *, sync: bool) -> None:
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
    variant.add(len(latencies), wall, time.process_time() - cpu, latencies)


async def measure_in(folder: Path) -> list[Variant]:
    """All variants, in turns."""
    journal = SqliteJournal(folder / "bench.journal")
    bare = Variant("append + fdatasync", 1.0, 1.0)
    variants: list[tuple[Variant, Callable[[Variant], Awaitable[None]]]] = [
        (Variant("journal, 1 caller", 2.0, 1.2), lambda f: run_journal(journal, 1, f, sync=True)),
        (
            Variant("journal, 64 callers", 0.1, 0.06),
            lambda f: run_journal(journal, 64, f, sync=True),
        ),
        (
            Variant("sync=False, 1 caller", 1.0, 0.5),
            lambda f: run_journal(journal, 1, f, sync=False),
        ),
        (
            Variant("sync=False, 64 callers", 0.1, 0.05),
            lambda f: run_journal(journal, 64, f, sync=False),
        ),
    ]
    for _ in range(ROUNDS):
        run_bare(folder, bare)
        for variant, run in variants:
            await run(variant)
    journal.close()
    return [bare, *(variant for variant, _ in variants)]


def run_all() -> list[Variant]:
    """Measure on the disk that holds this checkout."""
    folder = Path(__file__).resolve().parent.parent / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="journal-bench-") as name:
        return asyncio.run(measure_in(Path(name)))


def measure() -> list[Figure]:
    """Time a row through the journal, against one bare append and `fdatasync`."""
    bare, *variants = run_all()
    base = statistics.median(bare.rows_per_s)
    return [
        Figure(
            name=f"{variant.name}: a row, in bare append + fdatasync",
            value=base / statistics.median(variant.rows_per_s),
            unit="x",
            must=variant.must,
            aim=variant.aim,
        )
        for variant in variants
    ]


def main() -> None:
    """Print the rates themselves, with latencies and processor time."""
    variants = run_all()
    base = statistics.median(variants[0].rows_per_s)
    print(f"{'what':<24}{'rows/s':>9}{'ratio':>8}{'p50 us':>9}{'p99 us':>9}{'CPU us':>8}")
    for variant in variants:
        rate = statistics.median(variant.rows_per_s)
        ordered = sorted(variant.latencies_s)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1e6 for part in (0.5, 0.99))
        cpu = statistics.median(variant.cpu_us_per_row)
        print(
            f"{variant.name:<24}{rate:>9,.0f}{rate / base:>8.2f}{p50:>9,.0f}{p99:>9,.0f}{cpu:>8.1f}"
        )


if __name__ == "__main__":
    main()
