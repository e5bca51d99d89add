"""The studies of prices: their workloads by the rule, their claims by name, and table 1 in full."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean, stdev

import pytest

from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.simulator.cli.main import main
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.made_workloads import (
    TABLE_ONE,
    Demands,
    Estimates,
    batch_of_table_one,
    end_of_log,
    with_demands,
)
from gridtravel.simulator.economy.workload import Decision, EconomyJob, utility
from gridtravel.simulator.studies import libra_table_1
from gridtravel.simulator.studies.registry import study_named
from gridtravel.simulator.studies.study import Setting
from gridtravel.simulator.studies.trials import LIBRA, LOG, SJF, Contestant, with_beta
from tests.support.shared_data import shared_path

IDS = {
    "libra-table-1": {
        *(f"{name}-{jobs}-{nodes}" for name in ("fifo", "libra") for jobs in (100, 200)
          for nodes in (10, 20)),
        "libra-beats-fifo-in-every-cell",
    },
    "libra-dollar": {
        *(f"profit-{beta}-{factor}" for beta in (0.1, 0.5, 1.0) for factor in (0.25, 1.0)),
        "less-load-more-of-both",
        "libra-satisfies-more-than-libra-dollar",
        "libra-dollar-earns-more-than-libra-and-sjf",
        "sjf-and-edf-satisfy-more-at-high-load",
        "libra-overtakes-sjf-as-load-falls",
        "edf-earns-like-fcfs",
        "profit-peaks-below-beta-1",
        "satisfaction-falls-with-beta-from-the-start",
        "beta-1-wins-with-many-urgent-jobs",
        "beta-1-tolerates-under-estimates-best",
    },
    "policies": {
        *(f"{name}-{metric}" for name in ("edf-dollar", "libra", "libra-dollar", "sjf")
          for metric in ("satisfaction", "profit")),
        "edf-dollar-above-libra-dollar",
        "tripled-budgets-raise-the-charge",
        "posted-price-follows-budgets-least",
        *(f"{name}-does-not-reward-understating"
          for name in ("edf-dollar", "libra-dollar", "libra-posted", "libra")),
    },
    "qops": {
        "resource-rises-with-tolerance",
        "resource-falls-with-slack",
        "accepted-deadlines-kept",
        "kills-raise-the-qos-charge",
    },
}  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """``gurlab study`` as the shell would call it; its exit code."""
    monkeypatch.setattr(sys, "argv", ["gurlab", "study", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize("name", IDS)
def test_a_study_writes_its_claims_tables_and_pictures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Through the command line, on few jobs: every claim once, with what it says."""
    if study_named(name).log:
        shared_path("traces", LOG)
    words = ("--limit", 25, "--seeds", 2, "--seed", 3, "--workers", 1)
    assert run(monkeypatch, name, "--out", tmp_path, *words) == 0
    claims = json.loads((tmp_path / "claims.json").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in claims] == list(dict.fromkeys(each["id"] for each in claims))
    assert {claim["id"] for claim in claims} == IDS[name]
    assert all(isinstance(claim["holds"], bool) for claim in claims)
    tables = list(tmp_path.glob("*.csv"))
    assert tables
    for table in tables:
        assert len(table.read_text(encoding="utf-8").splitlines()) > 4
    assert (
        {each.stem for each in tmp_path.glob("*.png")}
        == {each.stem for each in tmp_path.glob("*.svg")}
        != set()
    )


def test_several_processes_find_the_same(tmp_path: Path) -> None:
    """A result depends on the trial alone: tables and claims are the same bytes."""
    log = shared_path("traces", LOG)
    for workers in (1, 2):
        out = tmp_path / str(workers)
        out.mkdir()
        setting = Setting(
            trace=log, out=out, tell=lambda _: None, limit=8, seeds=1, workers=workers
        )
        study_named("libra-dollar").run(setting)
    for name in ("figure-2.csv", "figure-6.csv"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_what_is_drawn_needs_a_log_or_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Table 1 has no log; the imprecise figures have no seeds."""
    assert run(monkeypatch, "libra-table-1", "--out", tmp_path, "--trace", "x") == 2
    assert "takes no log" in capsys.readouterr().err
    assert run(monkeypatch, "imprecise-figure-5", "--out", tmp_path, "--seeds", 3) == 2
    assert "nothing in imprecise-figure-5 is drawn" in capsys.readouterr().err


def test_table_one_comes_out_as_read(tmp_path: Path) -> None:
    """Against the figures of an independent program over 200 seeds (FIFO 77.0, 89.0, 113.1, 162.0,
    Libra 83.0, 93.5, 112.4, 175.0): within 1.5 jobs, 200 on 10 nodes within 2.3.
    """
    setting = Setting(trace=Path(), out=tmp_path, tell=lambda _: None, seeds=200)
    claims = {each.id: each for each in libra_table_1.run(setting)}
    expected = {
        "100-10": (77.0, 83.0),
        "100-20": (89.0, 93.5),
        "200-10": (113.1, 112.4),
        "200-20": (162.0, 175.0),
    }
    for cell, (fifo, libra) in expected.items():
        within = 2.3 if cell == "200-10" else 1.5
        assert claims[f"fifo-{cell}"].ours["mean"] == pytest.approx(fifo, abs=within)
        assert claims[f"libra-{cell}"].ours["mean"] == pytest.approx(libra, abs=within)
    assert not claims["libra-beats-fifo-in-every-cell"].holds
    assert not claims["fifo-200-10"].holds


def test_first_in_first_out_waits_for_the_node_that_is_free_first() -> None:
    """Whoever is late runs all the same."""
    jobs = [
        EconomyJob("a", 0, 10, 10, 1, 10, 1),
        EconomyJob("b", 1, 5, 5, 1, 6, 1),
        EconomyJob("c", 2, 5, 5, 1, 10, 1),
        EconomyJob("d", 3, 5, 5, 1, 15, 1),
    ]
    assert libra_table_1.in_time_by_fifo(jobs, 2) == 3


def test_batches_are_those_of_the_paper() -> None:
    """Arrivals, lengths and deadlines within their bounds, in order, whole; the same each time."""
    for batch in TABLE_ONE:
        jobs = batch_of_table_one(batch, 7)
        assert jobs == batch_of_table_one(batch, 7) != batch_of_table_one(batch, 8)
        assert len(jobs) == batch.jobs
        assert [job.submit for job in jobs] == sorted(job.submit for job in jobs)
        for job in jobs:
            assert 1 <= job.submit <= batch.arrivals_until
            assert 10 <= job.run_s == job.estimate_s <= 109
            assert 1 <= job.deadline - job.submit <= 1200
            assert job.budget >= 1000 > job.run_s


def test_the_subset_of_the_log_is_the_papers() -> None:
    """The last 5,000 lines without the 469 that never ran, whose gaps stay; run times uncut."""
    trace = end_of_log(shared_path("traces", LOG))
    assert (len(trace.jobs), trace.procs, trace.report.lines) == (4531, 128, 5000)
    assert all(job.estimate_s >= job.run_s > 0 for job in trace.jobs)
    span_s = trace.jobs[-1].submit - trace.jobs[0].submit
    assert span_s / 4999 == pytest.approx(1969, rel=0.01)


def test_deadlines_and_budgets_are_drawn_as_table_one_has_them() -> None:
    """D/R and B/R around 2 and 8, deviation a quarter of the mean, none below 1; the same draws
    whatever the load.
    """
    logged = end_of_log(shared_path("traces", LOG)).jobs
    jobs = with_demands(logged, Demands(), 1)
    faster = with_demands(logged, Demands(delay_factor=0.1), 1)
    factors = [((job.deadline - job.submit) / job.run_s, job.budget / job.run_s) for job in jobs]
    urgent = [each for each in factors if each[0] < each[1]]
    assert len(urgent) / len(jobs) == pytest.approx(0.2, abs=0.02)
    for number, mean in ((0, 2.0), (1, 8.0)):
        drawn = [each[number] for each in urgent]
        assert fmean(drawn) == pytest.approx(mean, rel=0.03)
        assert stdev(drawn) == pytest.approx(mean / 4, rel=0.1)
    assert min(min(each) for each in factors) >= 1 - 1e-9
    assert [job.budget for job in faster] == [job.budget for job in jobs]
    assert faster[-1].submit == pytest.approx(jobs[-1].submit / 5)


def test_estimates_of_users_and_declared_budgets() -> None:
    """Under-estimates change nothing else; users' estimates cover the run; some declare less."""
    logged = end_of_log(shared_path("traces", LOG), limit=300).jobs
    usual = with_demands(logged, Demands(), 1)
    under = with_demands(logged, Demands(under_estimate=0.2), 1)
    for job, told in zip(usual, under, strict=True):
        assert told == job._replace(estimate_s=job.run_s * (1 - 0.2))
    users = with_demands(logged, Demands(estimates=Estimates.OF_USERS), 1)
    wishes = with_demands(logged, Demands(estimates=Estimates.WITH_WISHES), 1)
    for job, told, wished in zip(usual, users, wishes, strict=True):
        assert told.estimate_s == wished.estimate_s >= job.run_s
        assert told == job._replace(estimate_s=told.estimate_s)
        assert wished.budget == pytest.approx(job.budget * told.estimate_s / job.run_s)
    few = with_demands(logged, Demands(declared_times=0.5, declaring_share=0.05), 1)
    lower = [1 for job, told in zip(usual, few, strict=True) if told.budget < job.budget]
    assert 2 <= len(lower) <= 30
    assert [job._replace(budget=0) for job in few] == [job._replace(budget=0) for job in usual]


def test_utility_counts_what_was_kept() -> None:
    """Equations 7 and 8: late jobs, dear jobs and refused ones count in the denominators alone."""
    jobs = [EconomyJob(name, 0, 1, 1, 1, 10, 20) for name in "abcd"]
    decisions = [
        Decision(5.0, 10.0005),
        Decision(5.0, 10.002),
        Decision(21.0, 9.0),
        Decision(None, None),
    ]
    assert utility(jobs, decisions) == (0.25, 5 / 80)


@pytest.mark.parametrize(
    ("contestant", "satisfaction", "profit"),
    [
        (LIBRA, 0.66, 0.21),
        (with_beta("libra-dollar", 0.3), 0.55, 0.43),
        (SJF, 0.70, 0.22),
        (with_beta("edf-dollar", 0.3), 0.86, 0.63),
    ],
    ids=lambda value: getattr(value, "label", ""),
)
def test_a_seed_of_the_log_comes_out_as_read(
    contestant: Contestant, satisfaction: float, profit: float
) -> None:
    """Against an independent program's means over five seeds at delay factor 0.5, within 3
    points.
    """
    log = end_of_log(shared_path("traces", LOG))
    settings = {} if contestant.beta is None else {"beta": contestant.beta}
    jobs = with_demands(log.jobs, Demands(), 1)
    worth = utility(jobs, decide(jobs, policy_named(contestant.policy, settings), log.procs))
    assert worth.satisfaction == pytest.approx(satisfaction, abs=0.03)
    assert worth.profitability == pytest.approx(profit, abs=0.03)
