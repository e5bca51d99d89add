"""QoPS on a recorded workload: what users' tolerance, slack and kills do to both charges (slides,
"Impact of User Tolerance", "Impact of Slack Factor", "Impact of Kill-and-Restart", "Impact of
Non-deadline Jobs").

Load by duplication; deadlines from the turnaround under EASY on that load. Estimates are exact.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean, stdev
from typing import Final, NamedTuple

from gridtravel.local_sched.policies.qops import LONG_ABOVE_S, WIDE_ABOVE, Qops
from gridtravel.simulator.economy.qops_world import Fate, QopsJob, QopsWorld
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.swf import TraceJob
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table
from gridtravel.simulator.studies.trials import log_of

JOBS: Final = 1_200
DOUBLED: Final = 0.6
"""Probability that a job of the log comes twice."""
STRINGENCY: Final = 0.5
RELAXED_S: Final = 24 * 3600
RELAXED_FACTOR: Final = 2
TOLERANCES: Final = (1.0, 2.0, 4.0, 8.0)
SLACKS: Final = (1.0, 1.5, 2.0, 3.0)
TOLERANCE_OF_SLACKS: Final = 4.0
KILL_CANDIDATES: Final = 8
SHARES: Final = (1.0, 0.2)
"""Parts of the jobs that have a deadline."""


class Knobs(NamedTuple):
    """What is varied."""

    share: float
    tolerance: float
    slack: float
    kills: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The jobs of one seed, with what EASY makes of them."""

    jobs: Sequence[QopsJob]
    turnarounds: Sequence[int]


class Charges(NamedTuple):
    """What came out of one run."""

    resource: float
    """Processor time of the accepted jobs, as a part of all that was asked for."""
    qos: float
    """Sum over accepted jobs with deadlines: slowdown of the category / slowdown agreed on."""
    late: int
    accepted: int
    kills: int


def load_of(log: Path, limit: int | None, share: float, seed: int) -> tuple[Load, int]:
    """The load of one seed, and the processors of the machine."""
    trace = log_of(log, None)
    rng = Random(f"qops {seed}")
    doubled: list[TraceJob] = []
    for job in trace.jobs:
        times = 2 if rng.random() < DOUBLED else 1
        submit = job.submit - trace.jobs[0].submit
        doubled += [job._replace(submit=submit, estimate_s=job.run_s)] * times
        if len(doubled) >= (limit or JOBS):
            break
    logged = doubled[: limit or JOBS]
    starts = replay(logged, trace.procs, policy("easy"))
    turnarounds = [
        start + job.run_s - job.submit for job, start in zip(logged, starts, strict=True)
    ]
    drawn = Random(f"qops deadlines {seed}")
    jobs = []
    for job, turnaround in zip(logged, turnarounds, strict=True):
        has_deadline = drawn.random() < share
        span = max(job.run_s, int((1 - STRINGENCY) * turnaround))
        if not has_deadline:
            span = max(RELAXED_S, RELAXED_FACTOR * turnaround)
        jobs.append(QopsJob(job.submit, job.run_s, job.procs, job.submit + span, has_deadline))
    return Load(jobs=jobs, turnarounds=turnarounds), trace.procs


def charges(load: Load, fates: Sequence[Fate]) -> Charges:
    """Both charges of the slides, and what was broken."""
    slowdowns: dict[tuple[bool, bool], list[float]] = {}
    for job, turnaround in zip(load.jobs, load.turnarounds, strict=True):
        slowdowns.setdefault(_category(job), []).append(turnaround / job.run_s)
    usual = {category: fmean(each) for category, each in slowdowns.items()}
    accepted = [
        (job, fate, fate.agreed)
        for job, fate in zip(load.jobs, fates, strict=True)
        if fate.agreed is not None
    ]
    return Charges(
        resource=sum(job.procs * job.run_s for job, _, _ in accepted)
        / sum(job.procs * job.run_s for job in load.jobs),
        qos=sum(
            usual[_category(job)] * job.run_s / (agreed - job.submit)
            for job, _, agreed in accepted
            if job.has_deadline
        ),
        late=sum(fate.end is None or fate.end > agreed for _, fate, agreed in accepted),
        accepted=len(accepted),
        kills=sum(fate.kills for fate in fates),
    )


def _category(job: QopsJob) -> tuple[bool, bool]:
    return job.run_s > LONG_ABOVE_S, job.procs > WIDE_ABOVE


def _trial(asked: tuple[Path, int | None, Knobs, int]) -> Charges:
    log, limit, knobs, seed = asked
    load, procs = load_of(log, limit, knobs.share, seed)
    served = Qops(slack=knobs.slack, kill_candidates=knobs.kills)
    return charges(load, QopsWorld(load.jobs, procs, served, tolerance=knobs.tolerance).run())


def run(setting: Setting) -> list[Claim]:
    """Every knob with every seed."""
    cells = [
        knobs
        for share in SHARES
        for knobs in (
            *(Knobs(share, each, 1.0, 0) for each in TOLERANCES),
            *(Knobs(share, TOLERANCE_OF_SLACKS, each, 0) for each in SLACKS[1:]),
            Knobs(share, TOLERANCE_OF_SLACKS, 1.0, KILL_CANDIDATES),
        )
    ]
    seeds = range(setting.seed, setting.seed + setting.seeds)
    asked = [(setting.trace, setting.limit, knobs, seed) for knobs in cells for seed in seeds]
    setting.tell(f"{len(asked)} runs")
    found = _all(setting.workers, asked)
    by_cell = {
        knobs: found[number * len(seeds) : (number + 1) * len(seeds)]
        for number, knobs in enumerate(cells)
    }
    _write(setting, by_cell)
    _draw(setting, by_cell)
    return _claims(by_cell)


def _all(workers: int, asked: Sequence[tuple[Path, int | None, Knobs, int]]) -> list[Charges]:
    if workers == 1:
        return [_trial(each) for each in asked]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        return list(pool.map(_trial, asked, chunksize=1))


def _write(setting: Setting, by_cell: Mapping[Knobs, Sequence[Charges]]) -> None:
    columns = ("deadline_share", "tolerance", "slack", "kill_candidates", "seeds", "resource")
    write_table(
        setting.out / "qops.csv",
        (*columns, "qos_mean", "qos_sd", "late", "accepted", "kills"),
        (
            (
                *knobs,
                len(found),
                round(_resource(found), 4),
                round(fmean(each.qos for each in found), 1),
                round(_spread([each.qos for each in found]), 1),
                sum(each.late for each in found),
                round(fmean(each.accepted for each in found), 1),
                round(fmean(each.kills for each in found), 1),
            )
            for knobs, found in by_cell.items()
        ),
    )


def _draw(setting: Setting, by_cell: Mapping[Knobs, Sequence[Charges]]) -> None:
    labels = {
        knobs[1:]: f"TF {knobs.tolerance:g}, SF {knobs.slack:g}" + (", kills" * bool(knobs.kills))
        for knobs in by_cell
    }
    panels = [
        Panel(
            title=title,
            labels=list(labels.values()),
            series={
                f"{share:.0%} with deadlines": [
                    of([*by_cell[Knobs(share, *knobs)]]) for knobs in labels
                ]
                for share in SHARES
            },
        )
        for title, of in (
            ("Resource charge, part of what was asked", _resource),
            ("QoS charge", lambda found: fmean(each.qos for each in found)),
        )
    ]
    draw_bars(setting.out, "qops", panels, "charge")


def _claims(by_cell: Mapping[Knobs, Sequence[Charges]]) -> list[Claim]:
    rising = [_resource(by_cell[Knobs(1.0, each, 1.0, 0)]) for each in TOLERANCES]
    falling = [_resource(by_cell[Knobs(1.0, TOLERANCE_OF_SLACKS, each, 0)]) for each in SLACKS]
    late = sum(each.late for found in by_cell.values() for each in found)
    by_kills = {
        f"{share:.0%}": {
            name: [
                round(fmean(getattr(each, name) for each in by_cell[knobs]), 4) for knobs in pair
            ]
            for name in ("resource", "qos")
        }
        for share in SHARES
        if (
            pair := (
                Knobs(share, TOLERANCE_OF_SLACKS, 1.0, 0),
                Knobs(share, TOLERANCE_OF_SLACKS, 1.0, KILL_CANDIDATES),
            )
        )
    }
    return [
        Claim(
            id="resource-rises-with-tolerance",
            claim="all jobs with deadlines, TF 1, 2, 4, 8: no step of the resource charge falls by"
            " more than half a point, the last is above the first by ten",
            paper="increases",
            ours=[round(each, 4) for each in rising],
            holds=_steps(rising, least=-0.005) and rising[-1] - rising[0] >= 0.10,
        ),
        Claim(
            id="resource-falls-with-slack",
            claim="the same at TF 4 and SF 1, 1.5, 2, 3: no step rises by more than half a point,"
            " the last is below the first by five",
            paper="drops",
            ours=[round(each, 4) for each in falling],
            holds=_steps([-each for each in falling], least=-0.005)
            and falling[0] - falling[-1] >= 0.05,
        ),
        Claim(
            id="accepted-deadlines-kept",
            claim="no accepted job ends late in any run, kills included",
            paper="once admitted, cannot miss the specified deadline",
            ours=late,
            holds=late == 0,
        ),
        Claim(
            id="kills-raise-the-qos-charge",
            claim="TF 4: with kills the QoS charge is higher, with 20 % deadlines too",
            paper="loses on the resource charge, gains on the QoS charge; with 20 % on both",
            ours=by_kills,
            holds=all(each["qos"][1] > each["qos"][0] for each in by_kills.values()),
        ),
    ]


def _steps(figures: Sequence[float], *, least: float) -> bool:
    return all(after - before >= least for before, after in pairwise(figures))


def _resource(found: Sequence[Charges]) -> float:
    return fmean(each.resource for each in found)


def _spread(figures: Sequence[float]) -> float:
    return stdev(figures) if len(figures) > 1 else 0.0
