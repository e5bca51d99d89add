"""EASY backfilling of the production scheduler against the plainest form of it, job by job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.replay import TieRule, policy, replay
from simulator.swf import TraceJob, read_trace
from tests.plain_easy import PlainEasy
from tests.shared_data import shared_path

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
    plain = PlainEasy(jobs, PROCS, ties, is_shortest_first=name == "easy-sjbf")
    assert replay(jobs, PROCS, policy(name), ties) == plain.run()


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("ties", TieRule)
def test_slices_of_real_logs(log: str, ties: TieRule) -> None:
    """Logs that no reference schedule at hand covers."""
    jobs = read_trace(shared_path("traces", log), LOGS[log], SLICE_JOBS).jobs
    assert replay(jobs, LOGS[log], policy("easy"), ties) == PlainEasy(jobs, LOGS[log], ties).run()
