"""Plain programs and the production policies decide a recorded workload alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.made_workloads import (
    Demands,
    Estimates,
    end_of_log,
    with_demands,
)
from gridtravel.simulator.studies.trials import LOG
from tests.support.economy_workloads import differing
from tests.support.plain_economy import (
    Decision,
    PlainEdfDollar,
    PlainLibra,
    PlainLibraDollar,
    Row,
    plain_backfilling,
)
from tests.support.shared_data import shared_path

JOBS = 250
PROCS = 128
DEMANDS = {
    "exact": Demands(delay_factor=0.25),
    "under": Demands(under_estimate=0.2),
    "over": Demands(estimates=Estimates.WITH_WISHES),
}
PLAIN: dict[str, Callable[[list[Row]], dict[str, Decision]]] = {
    "libra": lambda rows: PlainLibra(PROCS).decide(rows),
    "libra-dollar": lambda rows: PlainLibraDollar(PROCS).decide(rows),
    "edf-dollar": lambda rows: PlainEdfDollar(PROCS).decide(rows),
    "fcfs-bf": lambda rows: plain_backfilling(rows, PROCS, "submit"),
    "sjf-bf": lambda rows: plain_backfilling(rows, PROCS, "estimate"),
    "edf-bf": lambda rows: plain_backfilling(rows, PROCS, "deadline"),
}


@pytest.mark.parametrize("kind", DEMANDS)
@pytest.mark.parametrize("name", PLAIN)
def test_no_job_of_a_log_differs(name: str, kind: str) -> None:
    """128 processors, jobs of up to all of them: accepted or not, cost, end."""
    logged = end_of_log(shared_path("traces", LOG), limit=JOBS).jobs
    jobs = with_demands(logged, DEMANDS[kind], 3)
    rows = [Row(*job) for job in jobs]
    assert differing(rows, PLAIN[name](rows), decide(jobs, policy_named(name), PROCS)) == []
