"""Many worlds: every seed of a range, or every crash point of one trip, on all processors.

What comes back from a world is a plain value, small enough for thousands: counts, broken promises
and, for a failure, its story.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gridtravel.simulator.grid.exhaustive import Tally, try_crashes
from gridtravel.simulator.grid.random_worlds import random_plan
from gridtravel.simulator.grid.world import PlannedCrash, WorldRecord, live

W = TypeVar("W")
R = TypeVar("R")

STORY_LINES_MAX: Final = 250
BATCH: Final = 8
"""Worlds handed to a worker at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """What came of one seed."""

    seed: int
    sites: int
    travellers: int
    faults: dict[str, int]
    counts: dict[str, int]
    outcomes: dict[str, int]
    messages: int
    doubt_longest_s: float
    lasted_s: float
    callbacks: int
    violations: tuple[str, ...] = ()
    story: tuple[str, ...] = ()


@dataclass(slots=True)
class Summary:
    """All seeds together."""

    worlds: int = 0
    sites: int = 0
    travellers: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    doubt_longest_s: float = 0.0
    lasted_s: float = 0.0
    failures: list[SeedResult] = field(default_factory=list)

    def add(self, result: SeedResult) -> None:
        """Take one seed into account."""
        self.worlds += 1
        self.sites += result.sites
        self.travellers += result.travellers
        self.faults.update(result.faults)
        self.counts.update(result.counts)
        self.outcomes.update(result.outcomes)
        self.messages += result.messages
        self.doubt_longest_s = max(self.doubt_longest_s, result.doubt_longest_s)
        self.lasted_s += result.lasted_s
        if result.violations:
            self.failures.append(result)


def run_seed(seed: int, sites_most: int, loss: float, liars: bool = False) -> SeedResult:
    """Live the world of one seed."""
    plan = random_plan(seed, sites_most=sites_most, loss=loss, liars=liars)
    record = live(plan)
    return SeedResult(
        seed=seed,
        sites=len(plan.sites),
        travellers=len(plan.laptops),
        faults=dict(record.event_log.faults),
        counts=dict(record.event_log.counts),
        outcomes=dict(Counter(record.outcomes.values())),
        messages=record.event_log.messages.total(),
        doubt_longest_s=record.doubt_longest_s,
        lasted_s=record.lasted_s,
        callbacks=record.callbacks,
        violations=tuple(str(each) for each in record.event_log.violations),
        story=tuple(story_of(record)),
    )


def story_of(record: WorldRecord) -> list[str]:
    """How it came to the first broken promise; nothing when none was broken."""
    violations = record.event_log.violations
    if not violations:
        return []
    first = violations[0]
    return record.event_log.story(first.about, lines_max=STORY_LINES_MAX)


def run_seeds(
    seeds: Sequence[int],
    *,
    sites_most: int,
    loss: float,
    liars: bool = False,
    workers: int | None = None,
) -> Iterator[SeedResult]:
    """Live the worlds of all seeds; results in the order of the seeds."""
    yield from _spread(_SeedRun(sites_most, loss, liars), seeds, workers)


def run_crashes(
    plans: Sequence[tuple[PlannedCrash, ...]], *, workers: int | None = None
) -> Iterator[dict[tuple[str, str], Tally]]:
    """Live a world for each of these crashes; tallies of a few worlds at a time."""
    batches = [plans[at : at + BATCH] for at in range(0, len(plans), BATCH)]
    yield from _spread(try_crashes, batches, workers)


class _SeedRun:
    """``run_seed`` with its other arguments, in a form that travels to a worker."""

    def __init__(self, sites_most: int, loss: float, liars: bool) -> None:
        self._sites_most = sites_most
        self._loss = loss
        self._liars = liars

    def __call__(self, seed: int) -> SeedResult:
        return run_seed(seed, self._sites_most, self._loss, self._liars)


def _spread(work: Callable[[W], R], items: Sequence[W], workers: int | None) -> Iterable[R]:
    """``work`` on each item, on ``workers`` processes (default: one a processor)."""
    count = workers or os.cpu_count() or 1
    if count == 1 or len(items) < BATCH:
        quiet()
        yield from map(work, items)
        return
    # Not forked: a fork copies whatever threads and locks the caller has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=quiet) as pool:
        yield from pool.map(work, items, chunksize=BATCH)


def quiet() -> None:
    """The worlds' services log as real ones do; here only the event log is read."""
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("agents", "gridio", "local_sched", "travel_agent"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
