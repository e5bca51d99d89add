"""What ``gurlab replay`` tells: schedules as CSV, figures as one table or JSON, charts on request.

The one place of the simulator that turns results into text.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.replay.metrics import ScheduleMetrics
from gridtravel.simulator.replay.reservation_study import ReservationStudy
from gridtravel.simulator.replay.swf import Trace, TraceJob

CHART_POINTS_MAX = 5_000
"""Most jobs drawn one by one in a Gantt chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRun:
    """One policy's schedule of a trace, with the cost of computing it."""

    policy: str
    starts: Sequence[Instant]
    metrics: ScheduleMetrics
    cpu_s: float

    @property
    def jobs_per_cpu_second(self) -> float:
        """Speed of the replay, reading the trace not included."""
        return self.metrics.jobs / self.cpu_s if self.cpu_s > 0 else float("inf")


def starts_path(base: Path, policy: str, policies: int) -> Path:
    """Where a policy's starts go: the path given, or with the policy's name when there are
    several.
    """
    return base if policies == 1 else base.with_name(f"{base.stem}.{policy}{base.suffix}")


def write_starts(path: Path, jobs: Sequence[TraceJob], starts: Sequence[Instant]) -> None:
    """One line a job, in the order of the trace: ``job,submit,start,run,procs,estimate``."""
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(("job", "submit", "start", "run", "procs", "estimate"))
            writer.writerows(
                (job.job_id, job.submit, start, job.run_s, job.procs, job.estimate_s)
                for job, start in zip(jobs, starts, strict=True)
            )
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault


def as_json(trace: Trace, ties: str, runs: Sequence[PolicyRun]) -> dict[str, Any]:
    """Everything the table shows, and what happened to the lines of the trace."""
    return {
        "trace": trace.path.name,
        "procs": trace.procs,
        "ties": ties,
        "lines": asdict(trace.report) | {"kept": len(trace.jobs)},
        "policies": {
            run.policy: asdict(run.metrics)
            | {"cpu_s": round(run.cpu_s, 3), "jobs_per_cpu_second": round(run.jobs_per_cpu_second)}
            for run in runs
        },
    }


def as_table(trace: Trace, ties: str, runs: Sequence[PolicyRun]) -> Table:
    """The policies side by side."""
    table = Table(
        title=f"{trace.path.name}: {len(trace.jobs)} jobs on {trace.procs} processors, ties {ties}"
    )
    table.add_column("")
    for run in runs:
        table.add_column(run.policy, justify="right")
    rows: list[tuple[str, list[str]]] = [
        ("mean wait, s", [f"{run.metrics.wait_mean_s:,.0f}" for run in runs]),
        ("median wait, s", [f"{run.metrics.wait_median_s:,.0f}" for run in runs]),
        ("longest wait, s", [f"{run.metrics.wait_max_s:,}" for run in runs]),
        ("mean bounded slowdown", [f"{run.metrics.bounded_slowdown_mean:,.2f}" for run in runs]),
        ("utilisation", [f"{run.metrics.utilisation:.4f}" for run in runs]),
        ("makespan, s", [f"{run.metrics.makespan_s:,}" for run in runs]),
        ("backfilled", [f"{run.metrics.backfill_rate:.1%}" for run in runs]),
        ("jobs per CPU second", [f"{run.jobs_per_cpu_second:,.0f}" for run in runs]),
    ]
    for name, cells in rows:
        table.add_row(name, *cells)
    return table


def study_as_json(trace: Trace, policy: str, study: ReservationStudy) -> dict[str, Any]:
    """The study of user-settable reservations, all figures."""
    return {"trace": trace.path.name, "procs": trace.procs, "policy": policy} | asdict(study)


def study_as_table(trace: Trace, policy: str, study: ReservationStudy) -> Table:
    """The queue without and with reservations, side by side, and what was reserved."""
    table = Table(
        title=f"{trace.path.name}, {policy}: {len(trace.jobs)} jobs on {trace.procs} processors",
        caption=(
            f"{study.granted} of {study.asked} requests granted,"
            f" {study.reserved_node_seconds:,} node-seconds left idle;"
            f" {study.starts_delayed} planned starts later in {study.plans_compared} comparisons"
        ),
    )
    for heading in ("", "without", "with reservations"):
        table.add_column(heading, justify="right" if heading else "left")
    both = (study.without, study.with_reservations)
    table.add_row("mean wait, s", *(f"{each.wait_mean_s:,.0f}" for each in both))
    table.add_row("longest wait, s", *(f"{each.wait_max_s:,}" for each in both))
    table.add_row("mean bounded slowdown", *(f"{each.bounded_slowdown_mean:,.2f}" for each in both))
    table.add_row("utilisation by jobs", *(f"{each.utilisation:.4f}" for each in both))
    return table


def lines_note(trace: Trace) -> str:
    """One line about what was dropped, cut and sorted; empty when nothing was."""
    report = trace.report
    parts = [
        (report.dropped_no_run_time, "without run time dropped"),
        (report.dropped_no_processors, "without processors dropped"),
        (report.dropped_too_large, "larger than the machine dropped"),
        (report.capped_at_estimate, "cut to their estimate"),
        (report.without_estimate, "without estimate (run time taken)"),
        (report.out_of_order, "out of submit order sorted in"),
    ]
    told = [f"{count} {what}" for count, what in parts if count]
    return f"{report.lines} lines: {', '.join(told)}" if told else ""


def draw_gantt(path: Path, trace: Trace, run: PolicyRun, first: int, last: int) -> None:
    """A picture of jobs ``first`` to ``last`` (positions in the trace): processors over time.

    Needs the optional extra ``lab``; ``InputError`` says so when it is missing.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as fault:
        raise InputError("charts need matplotlib", hint="install the extra 'lab'") from fault
    chosen = [
        (start, job) for start, job in list(zip(run.starts, trace.jobs, strict=True))[first:last]
    ]
    if not 0 < len(chosen) <= CHART_POINTS_MAX:
        raise InputError(f"a chart shows 1 to {CHART_POINTS_MAX} jobs, not {len(chosen)}")
    figure = Figure(figsize=(12, 6))
    axes = figure.subplots()
    origin = min(start for start, _ in chosen)
    for number, (start, job, rows) in enumerate(_rows(chosen, trace.procs)):
        for low, high in rows:
            axes.barh(
                low,
                job.run_s / 3600,
                left=(start - origin) / 3600,
                height=high - low,
                align="edge",
                color=f"C{number % 10}",
                edgecolor="white",
                linewidth=0.3,
            )
    axes.set_xlabel("hours")
    axes.set_ylabel("processors")
    axes.set_ylim(0, trace.procs)
    axes.set_title(f"{trace.path.name}, {run.policy}: jobs {first + 1} to {first + len(chosen)}")
    try:
        figure.savefig(path, dpi=120, bbox_inches="tight")
    except (OSError, ValueError) as fault:
        raise InputError(f"{path}: cannot be drawn: {fault}") from fault


def _rows(
    chosen: Sequence[tuple[Instant, TraceJob]], procs: int
) -> list[tuple[Instant, TraceJob, list[tuple[int, int]]]]:
    """Processors for each job, lowest free first, as runs; jobs before the stretch are not
    drawn.
    """
    busy_until = [-1] * procs
    drawn = []
    for start, job in sorted(chosen, key=lambda pair: (pair[0], pair[1].job_id)):
        taken = [row for row in range(procs) if busy_until[row] <= start][: job.procs]
        runs: list[tuple[int, int]] = []
        for row in taken:
            busy_until[row] = start + job.run_s
            if runs and runs[-1][1] == row:
                runs[-1] = (runs[-1][0], row + 1)
            else:
                runs.append((row, row + 1))
        drawn.append((start, job, runs))
    return drawn
