"""Every command of ``gurd`` and ``gurlab`` with ``--json``, and those of ``gur`` that need more
than sites in memory.

Two of them live real processes, and what they find differs from run to run: of ``gur demo`` and
``gurlab kills`` it is shown how a given outcome is printed.
"""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import MagicMock

import pytest
import typer
from typer.testing import CliRunner

from gridtravel.gridcore.booking.reservations import PassingTerms
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gurd.cli import app as gurd_app
from gridtravel.simulator.cli.main import app as gurlab_app
from gridtravel.simulator.grid import exhaustive
from gridtravel.simulator.kernel.event_log import Violation
from gridtravel.simulator.market import report as market_report
from gridtravel.simulator.market import run as market_run
from gridtravel.simulator.market import sites as market_sites
from gridtravel.simulator.market.buyer import Ask, Purchase
from gridtravel.simulator.market.orders import Order
from gridtravel.simulator.processes import kills
from gridtravel.travel_agent.cli.main import app as gur_app
from gridtravel.travel_agent.demo import grid as demo_grid
from gridtravel.travel_agent.demo import run
from gridtravel.travel_agent.demo.coupled.reference import Verdict
from gridtravel.travel_agent.demo.trip import Outcome
from tests.oracles import example_values as some
from tests.oracles.transcripts import Transcript

APPS: Final[dict[str, typer.Typer]] = {"gur": gur_app, "gurd": gurd_app, "gurlab": gurlab_app}
TRACE: Final = "".join(
    f"{number} {submit} -1 {run_s} {procs} -1 -1 -1 {limit} -1 1 {number % 5} 1 -1 -1 -1 -1 -1\n"
    for number, submit, run_s, procs, limit in (
        (each, 40 * each, 100 + 37 * each % 400, 1 + each * 7 % 8, 120 + 53 * each % 500)
        for each in range(1, 61)
    )
)
"""A log of sixty jobs for eight processors."""
WORKLOAD: Final = """\
job,submit,run,estimate,procs,deadline,budget
a,0,10,10,2,100,50
b,1,10,10,1,100,10
c,1,10,100,1,100,500
"""
"""One job that is admitted, one that is too poor, one that is too long."""
POINTS: Final = 40
"""Of the points where a party of a trip can crash, each so-and-so-many-th is tried."""


def said(transcript: Transcript, command: str, *words: str, fails: int = 0) -> Any:
    """One command line, to its end; ``fails``: the exit code it must have."""
    program, *names = command.split()
    result = CliRunner().invoke(APPS[program], [*names, *words, "--json"])
    assert result.exit_code == fails, (command, words, result.output, result.exception)
    return transcript.add(command, words, result.exit_code, result.stdout)


def tell_of_certificates(folder: Path, transcript: Transcript) -> None:
    """``gurd ca``, and a user who logs in there."""
    transcript.heading("a certificate authority")
    ca, grid_map = str(folder / "ca"), str(folder / "grid-mapfile")

    def out(name: str) -> tuple[str, str]:
        return ("--out", str(folder / name))

    said(transcript, "gurd ca init", ca, "--grid", "testgrid")
    said(transcript, "gurd ca site", ca, "alpha", *out("alpha"), "--host", "alpha.example.org")
    said(transcript, "gurd ca manager", ca, "north", *out("north"), "--loopback")
    user = ("--hours", "2", "--grid-map", grid_map, "--account", "physics")
    said(transcript, "gurd ca user", ca, "ada", *out("ada"), *user)
    said(transcript, "gurd ca show", ca)
    transcript.heading("a user of it")
    said(transcript, "gur login", "--ca", ca, "--user", "ada", "--hours", "3")
    said(transcript, "gur login", "--ca", str(folder / "nowhere"), "--user", "ada", fails=2)


def tell_of_the_laboratory(
    folder: Path, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``gurlab``, on as little as will do."""
    transcript.heading("the laboratory")
    trace = folder / "sixty.swf"
    trace.write_text(f"; MaxProcs: 8\n{TRACE}", encoding="utf-8")
    policies = ("--policy", "fcfs,easy,conservative", "--ties", "sequential")
    said(transcript, "gurlab replay", str(trace), *policies)
    said(transcript, "gurlab reservations", str(trace), "--accounts", "5", "--interval-s", "200")
    workload, decisions = folder / "workload.csv", str(folder / "decisions.csv")
    workload.write_text(WORKLOAD, encoding="utf-8")
    policy = ("--policy", "libra-dollar", "--set", "beta=0.3", "--procs", "2")
    said(transcript, "gurlab decide", str(workload), *policy, "--decisions", decisions)
    said(transcript, "gurlab torture", "--seeds", "1..4", "--sites", "4", "--workers", "1")
    tree = ("--agents", "4", "--nodes", "20", "--requests", "12", "--no-growth")
    said(transcript, "gurlab tree", *tree)
    said(transcript, "gurlab compare-search", "--requests", "3", "--made-up")
    all_points = exhaustive.points_of
    monkeypatch.setattr(exhaustive, "points_of", lambda *asked: all_points(*asked)[::POINTS])
    said(transcript, "gurlab crashes", "--workers", "1", "--pairs", "--every", "5")


def tell_of_real_processes(transcript: Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    """How an outcome is printed that others have lived through."""
    transcript.heading("what real processes came to, as it is told")
    row = kills.Row(rounds=2, reached=1, points={"a", "b"}, doubt_longest_s=12.5)
    row.outcomes.update({"BOOKED": 1, "ABSENT": 1})
    report = kills.Report(
        rows={"kill a site": row, "full disk": kills.Row()},
        broken=[],
        excused=1,
        cuts=Counter({"went on with all": 2}),
        counts={"resumed": 3},
        disk_kind="tmpfs",
    )
    broken = Violation(rule="a trip is whole or absent", text="t is torn", at_s=1.0)
    for each, fails in ((report, 0), (replace(report, broken=[broken]), 1)):
        monkeypatch.setattr(kills, "_play", _always(each))
        said(transcript, "gurlab kills", "--rounds", "2", fails=fails)
    trip = Itinerary(trip_id=some.TRIP_ID, name="demo", state=TripState.COMPLETED, legs=(some.LEG,))
    jobs = {some.LEG.name: replace(some.JOB, state=JobState.COMPLETED, exit_code=0)}
    right = Outcome(
        itinerary=trip,
        jobs=jobs,
        results={"ocean": {"mean_temperature": 4.5}},
        verdict=Verdict(faults=(), budget_error=1e-12),
        alone={"ocean": 4.25},
    )
    monkeypatch.setattr(run, "demo_grid", lambda *_, **__: nullcontext(None))
    for outcome, fails in ((right, 0), (Outcome(), 1)):
        monkeypatch.setattr(run, "_show", _always(outcome))
        said(transcript, "gur demo", fails=fails)
    monkeypatch.setattr(market_sites, "lay_out", lambda *_: None)
    monkeypatch.setattr(market_report, "write_files", lambda *_: None)
    monkeypatch.setattr(demo_grid, "kept_grid", lambda _: nullcontext(MagicMock()))
    for faults, fails in (([], 0), (["late paid more than its budget"], 1)):
        monkeypatch.setattr(market_run, "hold_market", _always(_market(faults)))
        said(transcript, "gurlab economy", "--out", ".", fails=fails)


def _market(faults: list[str]) -> market_run.Market:
    """Of one job that the first site refuses and the second runs on the terms it offered."""
    order = Order(
        name="late", user="ada", at_s=1.0, estimate_s=5, runs_s=4.0, within_s=6, budget=10,
        latest_s=60, budget_max=20,
    )  # fmt: skip
    passing = PassingTerms(deadline=some.NOW + 20, budget_millicredits=9_000)
    asks = [
        Ask(site="quay", deadline=some.NOW + 7, budget_millicredits=10_000, refusal="too late",
            rule="deadline", passing=(passing,)),
        Ask(site="quay", deadline=some.NOW + 21, budget_millicredits=10_000, is_offer=True,
            job_id="1.quay", price_millicredits=5_000),
    ]  # fmt: skip
    done = replace(some.JOB, state=JobState.COMPLETED, exit_code=0, ended_at=some.NOW + 18)
    return market_run.Market(
        opened_at=float(some.NOW),
        budgets={"ada": 90_000},
        purchases=[Purchase(order=order, asks=asks, view=done, paid_millicredits=5_000)],
        accounts={"quay": {":earned": 5_000, ":granted": -90_000, ":held": 0, "ada": 85_000}},
        granted={"quay": {"ada": 90_000}},
        faults=faults,
    )


def _always(value: Any) -> Any:
    """A coroutine function with this one answer."""

    async def answer(*_: object, **__: object) -> Any:
        return value

    return answer
