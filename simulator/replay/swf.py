"""Reading workload logs in the Standard Workload Format, plain or gzipped.

A line has 18 fields; lines that start with ``;`` are the header. What is read from them, what is
dropped and what is an error follows one convention, the same for every trace:

* submit is field 2, run time field 4 cut to the estimate, processors field 5 if above 0 else field
8, estimate field 9
  if above 0 else the run time; user and group are fields 12 and 13;
* dropped and counted: no run time, no processors, more processors than the machine has;
* jobs are served by submit time, in file order on ties; lines out of order are sorted and counted;
* everything else that is not a job is one ``InputError`` that names file and line.

The true run time of a ``TraceJob`` is for the simulated world only: no scheduler ever receives one.
"""

from __future__ import annotations

import enum
import gzip
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_count, read_decimal

SWF_FIELDS = 18
LINE_LENGTH_MAX = 4096
"""Longest line accepted, in characters; a real line has about 120."""

SECONDS_MAX = 10**11
"""Longest time accepted, three thousand years: more is a slip, and no sum of two may be taken for
``FAR``.
"""

PROGRESS_LINES = 20_000


class RunTime(enum.StrEnum):
    """Which field tells how long a job ran."""

    WALL_CLOCK = "wall-clock"
    """Field 4."""
    CPU = "cpu"
    """Field 6, CPU seconds a processor: what a job would have taken on a machine of its own where
    the log is of one that was time-shared (LANL CM-5). A job of less than a second counts as one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRule:
    """How the lines of a log are understood; the default is the convention of this file."""

    run_time: RunTime = RunTime.WALL_CLOCK
    cuts_at_estimate: bool = True
    """False: a job that ran past its estimate keeps its run time, and its estimate is raised to
    that.
    """
    last_lines: int | None = None
    """Only so many job lines at the end of the log, counted before any is dropped; ``None``: all.
    """


class TraceJob(NamedTuple):
    """One job of a log with its true run time (a tuple: half a million of them are made per
    replay).
    """

    job_id: int
    submit: int
    """Seconds since the start of the log."""
    run_s: int
    """True run time, at least 1 and at most the estimate: what happens, not what anybody knows."""
    procs: int
    estimate_s: int
    """What the user said; the scheduler plans with this."""
    user: int
    """Numbered by the log; -1 unknown."""
    group: int


@dataclass(slots=True, kw_only=True)
class TraceReport:
    """What happened to the lines of a log while it was read; every count in jobs."""

    lines: int = 0
    """Job lines, without header and empty lines."""
    dropped_no_run_time: int = 0
    dropped_no_processors: int = 0
    dropped_too_large: int = 0
    """Jobs larger than the machine."""
    capped_at_estimate: int = 0
    """Kept jobs that ran past their estimate in the log, cut or not."""
    without_estimate: int = 0
    out_of_order: int = 0
    """Kept jobs submitted before a job of an earlier line; they were sorted in."""

    @property
    def dropped(self) -> int:
        """All lines that did not become jobs."""
        return self.dropped_no_run_time + self.dropped_no_processors + self.dropped_too_large


@dataclass(slots=True, kw_only=True)
class Trace:
    """The jobs of a log in submit order, with the machine they are meant for."""

    path: Path
    procs: int
    """Processors of the machine."""
    jobs: list[TraceJob]
    report: TraceReport = field(default_factory=TraceReport)


def read_trace(
    path: Path,
    procs: int | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    rule: ReadingRule | None = None,
) -> Trace:
    """Read a log for a machine of ``procs`` processors (default: the header's ``MaxProcs``).

    ``limit`` keeps the first jobs in submit order. ``progress`` is called with the number of lines
    read so far. Raises ``InputError`` for a file that cannot be read as a log, naming the line.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit must be at least 1, not {limit}")
    machine = procs if procs is not None else _processors_of(path)
    if machine < 1:
        raise InputError(f"a machine has at least 1 processor, not {machine}")
    report = TraceReport()
    jobs = list(_kept(path, machine, report, progress, rule or ReadingRule()))
    if report.out_of_order:
        jobs.sort(key=lambda job: job.submit)
    return Trace(path=path, procs=machine, jobs=jobs[:limit], report=report)


def read_header(path: Path) -> dict[str, str]:
    """The header's ``; Key: value`` lines, first value of each key, up to the first job."""
    header: dict[str, str] = {}
    for _, line in _lines(path):
        if not line.startswith(";"):
            break
        key, colon, value = line[1:].partition(":")
        if colon:
            header.setdefault(key.strip(), value.strip())
    return header


def _processors_of(path: Path) -> int:
    header = read_header(path)
    for key in ("MaxProcs", "MaxNodes"):
        words = header.get(key, "").split()
        if words and is_count(words[0]):
            return int(words[0])
    raise InputError(f"{path}: the header does not say how many processors", hint="give --procs")


def _open(path: Path) -> TextIO:
    with path.open("rb") as probe:
        zipped = probe.read(2) == b"\x1f\x8b"
    if zipped:
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of every line that is not empty; faults of the file become ``InputError``."""
    number = 0
    try:
        with _open(path) as stream:
            while line := stream.readline(LINE_LENGTH_MAX):
                number += 1
                if len(line) == LINE_LENGTH_MAX:
                    raise InputError(
                        f"{path}, line {number}: longer than {LINE_LENGTH_MAX} characters"
                    )
                stripped = line.strip()
                if stripped:
                    yield number, stripped
    except (OSError, EOFError) as fault:
        what = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise InputError(f"{path}, after line {number}: cannot be read: {what}") from fault


def _kept(
    path: Path,
    procs_max: int,
    report: TraceReport,
    progress: Callable[[int], None] | None,
    rule: ReadingRule,
) -> Iterator[TraceJob]:
    latest = 0
    lines = ((number, line) for number, line in _lines(path) if line[0] != ";")
    for number, line in lines if rule.last_lines is None else deque(lines, rule.last_lines):
        report.lines += 1
        if progress is not None and report.lines % PROGRESS_LINES == 0:
            progress(report.lines)
        job = _job(path, number, line, procs_max, report, rule)
        if job is None:
            continue
        if job.submit < latest:
            report.out_of_order += 1
        else:
            latest = job.submit
        yield job


def _job(
    path: Path, number: int, line: str, procs_max: int, report: TraceReport, rule: ReadingRule
) -> TraceJob | None:
    words = line.split()
    if len(words) != SWF_FIELDS:
        raise InputError(f"{path}, line {number}: {len(words)} fields where a job has {SWF_FIELDS}")
    try:
        # What int() takes beyond plain digits has one of these signs; half a million lines are
        # too many to look at each word.
        values = list(map(int, words)) if line.isascii() and "_" not in line else None
    except ValueError:
        values = None
    if values is None:
        values = _decimals(path, number, words)
    job_id, submit, run_s = values[0], values[1], values[3]
    if max(submit, run_s, values[8]) > SECONDS_MAX:
        raise InputError(f"{path}, line {number}: job {job_id} has a time above {SECONDS_MAX} s")
    if rule.run_time is RunTime.CPU and run_s > 0:
        run_s = max(values[5], 1) if values[5] >= 0 else -1
    if run_s <= 0:
        report.dropped_no_run_time += 1
        return None
    procs = values[4] if values[4] > 0 else values[7]
    if procs <= 0:
        report.dropped_no_processors += 1
        return None
    if procs > procs_max:
        report.dropped_too_large += 1
        return None
    if submit < 0:
        raise InputError(
            f"{path}, line {number}: job {job_id} is submitted at {submit} s, before the log"
        )
    estimate_s = values[8]
    if estimate_s <= 0:
        report.without_estimate += 1
        estimate_s = run_s
    elif run_s > estimate_s:
        report.capped_at_estimate += 1
        if rule.cuts_at_estimate:
            run_s = estimate_s
        else:
            estimate_s = run_s
    return TraceJob(job_id, submit, run_s, procs, estimate_s, values[11], values[12])


def _decimals(path: Path, number: int, words: list[str]) -> list[int]:
    """Some logs carry decimals in the time fields; whole seconds are kept, anything else is
    named.
    """
    values = []
    for position, word in enumerate(words, start=1):
        try:
            values.append(int(read_decimal(word)))
        except ValueError:
            raise InputError(
                f"{path}, line {number}, field {position}: {word[:40]!r} is not a number"
            ) from None
    return values
