"""Conservative backfilling, replanning and the plain orders of the production scheduler against the
plainest form of each, job by job.
"""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.simulator.replay.loop import TieRule, policy, replay
from gridtravel.simulator.replay.swf import TraceJob, read_trace
from tests.support.plain_easy import PlainEasy
from tests.support.plain_machine import shortest_first
from tests.support.plain_plans import PLAIN_RULES, PlainPlans
from tests.support.trace_slices import first_jobs

PROCS = 6
SLICE_JOBS = 400
PLANS = ("conservative", "replan", "fcfs", "sjf")

LOGS = {
    "SDSC-SP2-1998-4.2-cln.swf.gz": 128,
    "LANL-CM5-1994-4.1-cln.swf.gz": 1_024,
    "LLNL-Thunder-2007-1.1-cln.swf.gz": 4_008,
    "NASA-iPSC-1993-3.1-cln.swf.gz": 128,
}


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """Up to thirty jobs with many equal times; most run shorter than they said."""
    jobs, submit = [], 0
    for number in range(draw(st.integers(1, 30))):
        submit += draw(st.sampled_from([0, 0, 0, 1, 2, 5, 13]))
        estimate_s = draw(st.sampled_from([1, 2, 5, 10, 10, 20, 40]))
        run_s = draw(st.one_of(st.just(estimate_s), st.integers(1, estimate_s)))
        procs = draw(st.integers(1, PROCS))
        jobs.append(TraceJob(number, submit, run_s, procs, estimate_s, number % 3, number % 2))
    return jobs


@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("name", PLANS)
@given(jobs=traces())
def test_small_machines_with_plans(name: str, ties: TieRule, jobs: list[TraceJob]) -> None:
    """Any few jobs, each tie rule."""
    plain = PlainPlans(jobs=jobs, procs=PROCS, ties=ties, rule=PLAIN_RULES[name])
    assert replay(jobs, PROCS, policy(name), ties) == plain.run()


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("name", PLANS)
def test_slices_of_real_logs_with_plans(name: str, ties: TieRule, log: str) -> None:
    """Logs that no reference schedule at hand covers."""
    jobs = first_jobs(log, LOGS[log], SLICE_JOBS)
    plain = PlainPlans(jobs=jobs, procs=LOGS[log], ties=ties, rule=PLAIN_RULES[name]).run()
    assert replay(jobs, LOGS[log], policy(name), ties) == plain


def odd_log(seed: int) -> str:
    """Lines as logs have them at their worst: no run time, a run past the estimate, no estimate,
    no processors, jobs too large for the machine, many at once, some out of order.
    """
    rng, submit, lines = random.Random(seed), 0, ["; MaxProcs: 8"]
    for number in range(1, 121):
        submit += rng.choice([0, 0, 0, 1, 3, 10])
        run = rng.choice([-1, 0, 1, 2, 5, 10, 20, 30])
        allocated, requested = rng.choice([-1, 0, 1, 2, 4, 8, 9]), rng.choice([-1, 1, 3, 8])
        estimate = rng.choice([-1, 0, 1, 5, 10, 10, 30])
        fields = [number, max(0, submit - rng.choice([0, 0, 0, 4])), -1, run, allocated, -1, -1]
        fields += [requested, estimate, -1, 1, number % 4, number % 2, -1, -1, -1, -1, -1]
        lines.append(" ".join(map(str, fields)))
    return "\n".join(lines) + "\n"


def plainly_read(text: str, procs_max: int) -> list[TraceJob]:
    """The input conventions of the reference schedules, word for word."""
    jobs = []
    for line in text.splitlines():
        if line.startswith(";"):
            continue
        fields = [0, *map(int, line.split())]
        procs = fields[5] if fields[5] > 0 else fields[8]
        estimate_s = fields[9] if fields[9] > 0 else fields[4]
        if fields[4] <= 0 or procs <= 0 or procs > procs_max:
            continue
        run_s = min(fields[4], estimate_s)
        jobs.append(
            TraceJob(fields[1], fields[2], run_s, procs, estimate_s, fields[12], fields[13])
        )
    return sorted(jobs, key=lambda job: job.submit)


@pytest.mark.parametrize("seed", range(12))
def test_odd_logs_are_read_and_served_as_the_conventions_say(tmp_path: Path, seed: int) -> None:
    """What is read, and every start under every policy and tie rule."""
    text = odd_log(seed)
    path = tmp_path / "odd.swf.gz"
    path.write_bytes(gzip.compress(text.encode()))
    jobs = plainly_read(text, 8)
    assert read_trace(path).jobs == jobs
    for ties in TieRule:
        for name in PLANS:
            plain = PlainPlans(jobs=jobs, procs=8, ties=ties, rule=PLAIN_RULES[name]).run()
            assert replay(jobs, 8, policy(name), ties) == plain, (ties, name)
        for name, fillers in (("easy", None), ("easy-sjbf", shortest_first)):
            easy = PlainEasy(jobs=jobs, procs=8, ties=ties, filler_rank=fillers).run()
            assert replay(jobs, 8, policy(name), ties) == easy, (ties, name)
