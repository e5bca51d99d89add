"""Workloads with deadlines and budgets, and what was decided about them: values and their CSV.

A workload's columns are ``job,submit,run,estimate,procs,deadline,budget``: seconds, with a fraction
where there is one; the deadline is an instant, the budget in credits. ``run`` is the truth and is
shown to no policy. A row of decisions is ``job,accepted,cost,end``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_decimal
from gridtravel.local_sched.policies.policy import PolicyJob
from gridtravel.simulator.replay.swf import SECONDS_MAX

COLUMNS: Final = ("job", "submit", "run", "estimate", "procs", "deadline", "budget")
DECISION_COLUMNS: Final = ("job", "accepted", "cost", "end")
IN_TIME_S: Final = 1e-3
"""An end this much after the deadline is in time: it is a sum of many parts."""
CREDITS_MAX: Final = 10.0**15


class EconomyJob(NamedTuple):
    """One row of a workload."""

    job: str
    submit: float
    run_s: float
    estimate_s: float
    procs: int
    deadline: float
    budget: float

    def as_told(self, sequence: int) -> PolicyJob:
        """What a policy may know of it."""
        return PolicyJob(
            job_id=str(sequence),
            nodes=self.procs,
            limit_s=0,
            estimate_s=self.estimate_s,
            submitted_at=self.submit,
            sequence=sequence,
            deadline=self.deadline,
            budget=self.budget,
        )


@dataclass(slots=True)
class Decision:
    """What became of a job."""

    cost: float | None = None
    """Credits; ``None``: it was not accepted."""
    end: float | None = None

    def is_satisfied(self, job: EconomyJob) -> bool:
        """True when the job ended by its deadline, within its budget."""
        if self.cost is None or self.end is None:
            return False
        return self.end <= job.deadline + IN_TIME_S and self.cost <= job.budget


class Utility(NamedTuple):
    """Equations 7 and 8 of Libra+$, as parts of 1."""

    satisfaction: float
    """Jobs whose deadline and budget were kept, of all."""
    profitability: float
    """What they paid, of all budgets."""


def utility(jobs: Sequence[EconomyJob], decisions: Sequence[Decision]) -> Utility:
    """What decisions are worth to users and to the site."""
    satisfied = [
        each.cost or 0.0
        for job, each in zip(jobs, decisions, strict=True)
        if each.is_satisfied(job)
    ]
    budgets = sum(job.budget for job in jobs)
    return Utility(len(satisfied) / len(jobs), sum(satisfied) / budgets if budgets else 0.0)


def read_workload(path: Path) -> list[EconomyJob]:
    """All rows; ``InputError`` names the line that is none."""
    jobs: list[EconomyJob] = []
    names: set[str] = set()
    for number, row in _rows(path):
        job = _job(f"{path}, line {number}", row)
        if job.job in names:
            raise InputError(f"{path}, line {number}: job {job.job[:40]!r} is there twice")
        if jobs and job.submit < jobs[-1].submit:
            raise InputError(
                f"{path}, line {number}: submitted before the line above",
                hint="put rows in order of submission",
            )
        names.add(job.job)
        jobs.append(job)
    if not jobs:
        raise InputError(f"{path}: no job in it")
    return jobs


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            lines = csv.reader(stream)
            header = tuple(next(lines, ()))
            if sorted(header) != sorted(COLUMNS):
                raise InputError(f"{path}: the columns of a workload are {','.join(COLUMNS)}")
            for line in lines:
                if not line:
                    continue
                if len(line) != len(header):
                    raise InputError(
                        f"{path}, line {lines.line_num}: {len(line)} fields where a job has"
                        f" {len(header)}"
                    )
                yield lines.line_num, dict(zip(header, line, strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as fault:
        what = fault.strerror if isinstance(fault, OSError) and fault.strerror else str(fault)
        raise InputError(f"{path}: cannot be read: {what}") from fault


def _job(place: str, row: dict[str, str]) -> EconomyJob:
    if not row["job"]:
        raise InputError(f"{place}: the job has no name")
    numbers = {}
    for column in COLUMNS[1:]:
        text = row[column].strip()
        if not is_decimal(text):
            raise InputError(f"{place}, {column}: {text[:40]!r} is not a number")
        numbers[column] = float(text)
    procs = int(numbers["procs"]) if numbers["procs"] <= SECONDS_MAX else 0
    if procs < 1 or procs != numbers["procs"]:
        raise InputError(f"{place}, procs: {row['procs'][:40]!r} is not a number of processors")
    for column, least, most in (
        ("submit", 0.0, SECONDS_MAX),
        ("run", 0.0, SECONDS_MAX),
        ("estimate", 1e-3, SECONDS_MAX),
        ("deadline", -inf, SECONDS_MAX),
        ("budget", 0.0, CREDITS_MAX),
    ):
        if not least <= numbers[column] <= most:
            raise InputError(f"{place}, {column}: {row[column][:40]} is not {least:g} to {most:g}")
    return EconomyJob(
        row["job"],
        numbers["submit"],
        numbers["run"],
        numbers["estimate"],
        procs,
        numbers["deadline"],
        numbers["budget"],
    )


def write_decisions(path: Path, jobs: Sequence[EconomyJob], decisions: Sequence[Decision]) -> None:
    """A row for every job, in the order of the workload."""
    try:
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(DECISION_COLUMNS)
            for job, each in zip(jobs, decisions, strict=True):
                cost = "" if each.cost is None else f"{each.cost:.6f}"
                end = "" if each.end is None else f"{each.end:.3f}"
                writer.writerow((job.job, int(each.cost is not None), cost, end))
    except OSError as fault:
        raise InputError(f"{path}: cannot be written: {fault.strerror}") from fault
