"""What a schedule is worth: the figures every study of this field reports, in one place.

Wait is start - submit; bounded slowdown max(1, (wait + run) / max(run, 10)); makespan from the
first submission to the last end; utilisation the area used by jobs over makespan x processors. All
jobs count: no warm-up is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.replay.swf import TraceJob

SLOWDOWN_BOUND_S = 10
"""Run times below this count as this, so that one-second jobs do not make the mean (Feitelson)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMetrics:
    """One schedule of one trace; times in seconds."""

    jobs: int
    wait_mean_s: float
    wait_median_s: float
    wait_max_s: int
    bounded_slowdown_mean: float
    utilisation: float
    """Share of the processors that was busy over the makespan, 0 to 1."""
    makespan_s: int
    backfill_rate: float
    """Share of jobs that started before a job submitted earlier, 0 to 1."""


def measure(jobs: Sequence[TraceJob], starts: Sequence[Instant], procs: int) -> ScheduleMetrics:
    """The figures of a schedule; ``jobs`` in submit order with their starts beside them."""
    if not jobs:
        raise InputError("the trace has no job that could run on this machine")
    waits = [start - job.submit for job, start in zip(jobs, starts, strict=True)]
    slowdown = 0.0
    area = 0
    last_end = latest_start = starts[0]
    overtakers = 0
    for job, start, wait_s in zip(jobs, starts, waits, strict=True):
        slowdown += max(1.0, (wait_s + job.run_s) / max(job.run_s, SLOWDOWN_BOUND_S))
        area += job.run_s * job.procs
        last_end = max(last_end, start + job.run_s)
        if start < latest_start:
            overtakers += 1
        else:
            latest_start = start
    makespan_s = last_end - jobs[0].submit
    middle = sorted(waits)
    half = len(middle) // 2
    median = middle[half] if len(middle) % 2 else (middle[half - 1] + middle[half]) / 2
    return ScheduleMetrics(
        jobs=len(jobs),
        wait_mean_s=sum(waits) / len(jobs),
        wait_median_s=float(median),
        wait_max_s=max(waits),
        bounded_slowdown_mean=slowdown / len(jobs),
        utilisation=area / (makespan_s * procs),
        makespan_s=makespan_s,
        backfill_rate=overtakers / len(jobs),
    )
