"""Normalised queuing delay of the calendar paper, section 3.1, overall and by length of job.

The paper's words: "the time a job spent from when it was submitted into the system until it
completed execution, divided by its execution time"; 1 is a job that never waited. The mean over
jobs is what the studies report. The other figures here answer "what else could the paper have
meant", and are in the tables for that reason only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.replay.swf import TraceJob

CLASSES: Final = ("< 10 s", "10 to 100 s", "100 to 1,000 s", "> 1,000 s")
CLASS_BOUNDS_S: Final = (10, 100, 1_001)
"""A job is of the first class whose bound is above its run time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays of one schedule, in units of run time."""

    jobs: int
    mean: float
    by_class: tuple[float | None, ...]
    """Means of the four classes of figure 3; ``None`` for a class without jobs."""
    geometric_mean: float
    by_request: float
    """Mean when divided by the time requested instead."""
    of_sums: float
    """All delays over all run times."""
    top_share: float
    """Share of the mean that the one percent of jobs with the greatest delays carries."""


def class_of(job: TraceJob) -> int:
    """Position of a job's length in ``CLASSES``."""
    return sum(job.run_s >= bound for bound in CLASS_BOUNDS_S)


def normalised(job: TraceJob, start: Instant) -> float:
    """Submission to end over run time."""
    return (start + job.run_s - job.submit) / job.run_s


def delays_of(jobs: Sequence[TraceJob], starts: Sequence[Instant]) -> Delays:
    """The figures of a schedule; ``starts`` beside ``jobs``."""
    if not jobs:
        raise InputError("there is no job to measure")
    each = [normalised(job, start) for job, start in zip(jobs, starts, strict=True)]
    spent = [start + job.run_s - job.submit for job, start in zip(jobs, starts, strict=True)]
    classes: list[list[float]] = [[] for _ in CLASSES]
    for job, delay in zip(jobs, each, strict=True):
        classes[class_of(job)].append(delay)
    greatest = sorted(each, reverse=True)[: max(1, len(each) // 100)]
    return Delays(
        jobs=len(jobs),
        mean=sum(each) / len(each),
        by_class=tuple(sum(found) / len(found) if found else None for found in classes),
        geometric_mean=math.exp(sum(map(math.log, each)) / len(each)),
        by_request=sum(s / job.estimate_s for s, job in zip(spent, jobs, strict=True)) / len(jobs),
        of_sums=sum(spent) / sum(job.run_s for job in jobs),
        top_share=sum(greatest) / sum(each),
    )


DELAY_COLUMNS: Final = (
    "jobs",
    "mean_delay",
    "delay_under_10_s",
    "delay_10_to_100_s",
    "delay_100_to_1000_s",
    "delay_over_1000_s",
    "geometric_mean",
    "mean_by_request",
    "ratio_of_sums",
    "share_of_top_1_percent",
)


def delay_cells(delays: Delays) -> tuple[object, ...]:
    """The cells of ``DELAY_COLUMNS``."""
    return (
        delays.jobs,
        round(delays.mean, 3),
        *("" if mean is None else round(mean, 3) for mean in delays.by_class),
        round(delays.geometric_mean, 3),
        round(delays.by_request, 3),
        round(delays.of_sums, 3),
        round(delays.top_share, 3),
    )
