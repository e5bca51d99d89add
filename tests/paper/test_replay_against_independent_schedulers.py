"""Start time of every job against programs that nobody in this project wrote; no job may differ."""

from __future__ import annotations

import csv
import gzip
import json
from functools import cache
from typing import Any

import pytest

from gridtravel.simulator.replay.loop import NAMED_PREFIX, TieRule, policy, replay
from gridtravel.simulator.replay.swf import Trace, TraceJob, read_trace
from tests.support.shared_data import shared_path

SLICE_JOBS = 5_000

# file -> policy, tie rule
SLICES = {
    "fcfs.pyss": ("fcfs", TieRule.SEQUENTIAL),
    "easy.pyss": ("easy", TieRule.SEQUENTIAL),
    "easy-sjbf.pyss": ("easy-sjbf", TieRule.SEQUENTIAL),
    "conservative.pyss": ("conservative", TieRule.SEQUENTIAL),
    "easy.cqsim": ("easy", TieRule.ENDS_FIRST),
    "replan.cqsim": ("replan", TieRule.ENDS_FIRST),
    "sjf.accasim": ("sjf", TieRule.BATCH),
    "easy.oracle-batch": ("easy", TieRule.BATCH),
    "conservative.oracle-batch": ("conservative", TieRule.BATCH),
    "replan.oracle-batch": ("replan", TieRule.BATCH),
    "named-easy.batsched": ("named-easy", TieRule.BATCH),
    "named-conservative.batsched": ("named-conservative", TieRule.BATCH),
}

# program and policy in the small cases -> policy, tie rule
SMALL = {
    "pyss fcfs": ("fcfs", TieRule.SEQUENTIAL),
    "pyss easy": ("easy", TieRule.SEQUENTIAL),
    "pyss easy-sjbf": ("easy-sjbf", TieRule.SEQUENTIAL),
    "pyss conservative": ("conservative", TieRule.SEQUENTIAL),
    "cqsim easy": ("easy", TieRule.ENDS_FIRST),
    "cqsim replan": ("replan", TieRule.ENDS_FIRST),
    "accasim fcfs": ("fcfs", TieRule.BATCH),
    "accasim sjf": ("sjf", TieRule.BATCH),
    "batsched named-easy": ("named-easy", TieRule.BATCH),
    "batsched named-conservative": ("named-conservative", TieRule.BATCH),
}


def serve(jobs: list[TraceJob], procs: int, name: str, ties: TieRule) -> list[int]:
    """As the command line does: ``named-`` in front means that jobs keep their processors."""
    return replay(jobs, procs, policy(name), ties, keeps_nodes=name.startswith(NAMED_PREFIX))


@cache
def kth_slice() -> Trace:
    """The first jobs of the KTH log on its 100 processors."""
    return read_trace(shared_path("traces", "KTH-SP2-1996-2.1-cln.swf.gz"), 100, SLICE_JOBS)


@pytest.mark.parametrize("file", SLICES)
def test_kth_slice_agrees_job_by_job(file: str) -> None:
    """Jobs, run times and processors are read alike, and every start is the reference's."""
    name, ties = SLICES[file]
    with gzip.open(shared_path("reference", f"kth-5000.{file}.csv.gz"), "rt") as stream:
        rows = list(csv.DictReader(stream))
    trace = kth_slice()
    read = [(j.job_id, j.submit, j.run_s, j.procs, j.estimate_s) for j in trace.jobs]
    fields = ("job", "submit", "run", "procs", "estimate")
    assert read == [tuple(int(row[field]) for field in fields) for row in rows]
    starts = serve(trace.jobs, trace.procs, name, ties)
    differing = [
        (job.job_id, start, int(row["start"]))
        for job, start, row in zip(trace.jobs, starts, rows, strict=True)
        if start != int(row["start"])
    ]
    assert differing == []


@pytest.mark.parametrize("program", SMALL)
def test_small_cases_agree_job_by_job(program: str) -> None:
    """Thirty cases full of equal times: the tie rule is the program's, to the last job."""
    name, ties = SMALL[program]
    with gzip.open(shared_path("reference", "small-cases.json.gz"), "rt") as stream:
        cases: list[dict[str, Any]] = json.load(stream)
    differing = []
    for number, case in enumerate(cases):
        jobs = [
            TraceJob(i, submit, run, n, estimate, -1, -1)
            for i, submit, run, n, estimate in case["jobs"]
        ]
        if serve(jobs, case["procs"], name, ties) != case["starts"][program]:
            differing.append(number)
    assert differing == []
