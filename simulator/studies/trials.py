"""The trials of the studies of prices: one workload of one seed, decided by one policy.

Trials are independent of each other and may be shared between figures; each is made once, by
several processes at a time. The result depends on the trial alone.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple, TypeVar

from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.made_workloads import Demands, end_of_log, with_demands
from gridtravel.simulator.economy.workload import Decision, EconomyJob, utility
from gridtravel.simulator.replay.swf import Trace
from gridtravel.simulator.studies.study import Setting

R = TypeVar("R")

LOG: Final = "SDSC-SP2-1998-4.2-cln.swf.gz"
"""Of the evaluations of Libra+$ and QoPS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A policy with its settings, under the name it has in tables."""

    label: str
    policy: str
    beta: float | None = None
    """``None``: the policy has none, or its default."""


LIBRA: Final = Contestant(label="libra", policy="libra")
FCFS: Final = Contestant(label="fcfs-bf", policy="fcfs-bf")
SJF: Final = Contestant(label="sjf-bf", policy="sjf-bf")
EDF: Final = Contestant(label="edf-bf", policy="edf-bf")


def with_beta(policy: str, beta: float) -> Contestant:
    """A policy with prices by utilisation."""
    return Contestant(label=f"{policy} {beta:g}", policy=policy, beta=beta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """All that a result depends on."""

    log: Path
    limit: int | None
    contestant: Contestant
    demands: Demands
    seed: int


class Worth(NamedTuple):
    """What came out of a trial, or the mean over seeds."""

    satisfaction: float
    profitability: float
    charge: float
    """Mean cost / run time of the accepted jobs."""


@cache
def log_of(path: Path, limit: int | None) -> Trace:
    """The end of a log, read once a process."""
    return end_of_log(path, limit=limit)


def live(trial: Trial) -> tuple[Sequence[EconomyJob], Sequence[Decision]]:
    """A trial in full: its workload and what was decided."""
    log = log_of(trial.log, trial.limit)
    jobs = with_demands(log.jobs, trial.demands, trial.seed)
    beta = trial.contestant.beta
    policy = policy_named(trial.contestant.policy, {} if beta is None else {"beta": beta})
    return jobs, decide(jobs, policy, log.procs)


def worth_of(trial: Trial) -> Worth:
    """What a trial is worth to users and to the site."""
    jobs, decisions = live(trial)
    charges = [
        each.cost / job.run_s
        for job, each in zip(jobs, decisions, strict=True)
        if each.cost is not None
    ]
    return Worth(*utility(jobs, decisions), fmean(charges) if charges else 0.0)


Cell = tuple[Demands, Contestant]


def means(setting: Setting, cells: Iterable[Cell], log: Path | None = None) -> Mapping[Cell, Worth]:
    """Each cell's means over the seeds of the setting."""
    distinct = list(dict.fromkeys(cells))
    seeds = range(setting.seed, setting.seed + setting.seeds)
    trials = [
        Trial(
            log=log or setting.trace,
            limit=setting.limit,
            contestant=contestant,
            demands=demands,
            seed=seed,
        )
        for demands, contestant in distinct
        for seed in seeds
    ]
    found = list(each_of(setting, worth_of, trials))
    by_cell = {}
    for number, cell in enumerate(distinct):
        of_seeds = found[number * len(seeds) : (number + 1) * len(seeds)]
        by_cell[cell] = Worth(*(fmean(column) for column in zip(*of_seeds, strict=True)))
    return by_cell


def each_of(setting: Setting, work: Callable[[Trial], R], trials: Sequence[Trial]) -> Iterator[R]:
    """``work`` on every trial, in their order."""
    if setting.workers == 1:
        yield from map(work, trials)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(setting.workers, mp_context=context) as pool:
        yield from pool.map(work, trials)
