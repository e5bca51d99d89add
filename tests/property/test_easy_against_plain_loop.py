"""EASY backfilling of the production scheduler against the plainest form of it, job by job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.simulator.replay.loop import TieRule, policy, replay
from gridtravel.simulator.replay.swf import TraceJob
from tests.support.plain_easy import PlainEasy
from tests.support.plain_machine import shortest_first
from tests.support.trace_slices import first_jobs

PROCS = 6
SLICE_JOBS = 1_000

LOGS = {
    "SDSC-SP2-1998-4.2-cln.swf.gz": 128,
    "LANL-CM5-1994-4.1-cln.swf.gz": 1_024,
    "DAS2-fs1-2003-1.swf.gz": 64,
    "LLNL-Atlas-2006-2.1-cln.swf.gz": 9_216,
}


@st.composite
def traces(draw: st.DrawFn) -> list[TraceJob]:
    """Up to thirty jobs with many equal times."""
    jobs, submit = [], 0
    for number in range(draw(st.integers(1, 30))):
        submit += draw(st.sampled_from([0, 0, 1, 2, 5, 13]))
        estimate_s = draw(st.sampled_from([1, 2, 5, 10, 10, 20, 40]))
        run_s = draw(st.integers(1, estimate_s))
        procs = draw(st.integers(1, PROCS))
        jobs.append(TraceJob(number, submit, run_s, procs, estimate_s, number % 3, number % 2))
    return jobs


@pytest.mark.parametrize("ties", TieRule)
@pytest.mark.parametrize("name", ["easy", "easy-sjbf"])
@given(jobs=traces())
def test_small_machines(name: str, ties: TieRule, jobs: list[TraceJob]) -> None:
    """Any few jobs, each tie rule, fillers in queue order and shortest first."""
    fillers = shortest_first if name == "easy-sjbf" else None
    plain = PlainEasy(jobs=jobs, procs=PROCS, ties=ties, filler_rank=fillers)
    assert replay(jobs, PROCS, policy(name), ties) == plain.run()


@pytest.mark.parametrize("ties", TieRule)
def test_nobody_passes_a_head_whose_place_begins_without_a_step(ties: TieRule) -> None:
    """The head's place begins where a job of its size is to end, so the profile shows no step
    there. Whoever comes at that second comes after the new head, which waits for the long job:
    sequentially too, where the head starts before that end is told.
    """
    jobs = [
        TraceJob(number, submit, run_s, procs, run_s, 0, 0)
        for number, (submit, run_s, procs) in enumerate(
            [(0, 10, 2), (0, 100, 1), (1, 10, 2), (2, 20, 4), (10, 200, 1)]
        )
    ]
    starts = [0, 0, 10, 100, 120]
    assert PlainEasy(jobs=jobs, procs=4, ties=ties).run() == starts
    assert replay(jobs, 4, policy("easy"), ties) == starts


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("ties", TieRule)
def test_slices_of_real_logs(log: str, ties: TieRule) -> None:
    """Logs that no reference schedule at hand covers."""
    jobs = first_jobs(log, LOGS[log], SLICE_JOBS)
    plain = PlainEasy(jobs=jobs, procs=LOGS[log], ties=ties)
    assert replay(jobs, LOGS[log], policy("easy"), ties) == plain.run()
