"""``imprecise-figure-6-7``: the partitions of the Los Alamos CM-5 apart and as one grid (section
3.2).

The log names no partition. A job takes as many nodes as one partition has, so it goes to the one of
its size; the two of 32 nodes take turns. Run time is CPU time (field 6): by the wall clock the jobs
of the paper's partitions of 64 nodes would need more than there is in most months, because the
machine was time-shared; by CPU time March 1995, and no other month, has the paper's six
utilisations in their proportions. docs/studies.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.imprecise.slotted_tree import PromotionRule
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.slotted_replay import SlottedRun, serve
from gridtravel.simulator.replay.swf import ReadingRule, RunTime, TraceJob, read_trace
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.delays import DELAY_COLUMNS, Delays, delay_cells, delays_of
from gridtravel.simulator.studies.logs import SiteTime, of_month
from gridtravel.simulator.studies.slot_ladders import FOOTNOTE_2
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table

LOG: Final = "LANL-CM5-1994-4.1-cln.swf.gz"
MONTH: Final = (1995, 3)
QUEUES: Final = {"1": 32, "2": 32, "3": 64, "4": 128, "5": 256, "6": 512}
PATIENCE_S: Final = FOOTNOTE_2.levels[-1].length_s
"""A first slot further off than the longest slot is "too far in the future"."""
PATIENCES_S: Final = (0, 640, PATIENCE_S, 7_200, 14_400, 43_200)
APART: Final = "apart, FCFS and backfilling"
APART_SLOTTED: Final = "apart, imprecise"
GRID: Final = "one grid, imprecise"
POOLED: Final = "one machine, imprecise"
"""No partitions at all: how far a grid could get that spreads a job over several."""
PAPER_APART: Final = (18.0, 21.5, 24.7, 36.4, 38.9, 38.8)
PAPER_BALANCE: Final = (-82.0, -77.0, -226.9, 391.8, -51.6, 45.6)

Homed = Sequence[tuple[str, TraceJob]]


def homes_of(jobs: Sequence[TraceJob]) -> list[tuple[str, TraceJob]]:
    """Each job with its queue: the smallest partition that is large enough, equal ones in turn."""
    sizes = sorted(set(QUEUES.values()))
    turns = dict.fromkeys(sizes, 0)
    homed = []
    for job in jobs:
        size = next((each for each in sizes if each >= job.procs), None)
        if size is None:
            continue
        names = [name for name, nodes in QUEUES.items() if nodes == size]
        homed.append((names[turns[size] % len(names)], job))
        turns[size] += 1
    return homed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """One way of running the six queues."""

    delays: Mapping[str, Delays]
    """By the queue of submission."""
    utilisation: Mapping[str, float]
    """By the queue that ran the job, over the time from the first submission to the last end of
    all.
    """


def run(setting: Setting) -> list[Claim]:
    """Figures 6 and 7 as tables and pictures, a sweep of the patience, and the text's claims."""
    setting.tell(f"reading {setting.trace.name}")
    rule = ReadingRule(run_time=RunTime.CPU, cuts_at_estimate=False)
    log = read_trace(setting.trace, rule=rule)
    clock = SiteTime.of(setting.trace)
    homed = homes_of(of_month(log.jobs, clock, MONTH, setting.limit))
    if not homed:
        raise InputError(f"{setting.trace}: no job fits a partition")
    outcomes = {}
    setting.tell("queues apart")
    starts = _apart(homed, is_slotted=False)
    outcomes[APART] = _outcome(homed, starts, [home for home, _ in homed])
    starts = _apart(homed, is_slotted=True)
    outcomes[APART_SLOTTED] = _outcome(homed, starts, [home for home, _ in homed])
    sweep = {}
    for patience_s in PATIENCES_S:
        setting.tell(f"one grid, patience {patience_s} s")
        members = list(QUEUES.items())
        sweep[patience_s] = serve(homed, members, FOOTNOTE_2, PromotionRule(patience_s=patience_s))
    grid = sweep[PATIENCE_S]
    outcomes[GRID] = _outcome(homed, grid.starts, grid.places)
    setting.tell("one machine")
    whole = [(POOLED, job) for _, job in homed]
    starts = serve(whole, [(POOLED, sum(QUEUES.values()))], FOOTNOTE_2).starts
    outcomes[POOLED] = _outcome(homed, starts, [home for home, _ in homed])
    _write(setting, homed, outcomes, sweep)
    _draw(setting, outcomes)
    return [*_claims_of_delay(outcomes), *_claims_of_trade(homed, grid)]


def _apart(homed: Homed, *, is_slotted: bool) -> list[Instant]:
    starts = [0] * len(homed)
    for name, nodes in QUEUES.items():
        indices = [index for index, (home, _) in enumerate(homed) if home == name]
        if is_slotted:
            own = serve([homed[index] for index in indices], [(name, nodes)], FOOTNOTE_2).starts
        else:
            own = replay([homed[index][1] for index in indices], nodes, policy("easy"))
        for index, start in zip(indices, own, strict=True):
            starts[index] = start
    return starts


def _outcome(homed: Homed, starts: Sequence[Instant], places: Sequence[str]) -> _Outcome:
    by_home: dict[str, tuple[list[TraceJob], list[Instant]]] = {}
    used = dict.fromkeys(QUEUES, 0)
    last = 0
    for (home, job), start, place in zip(homed, starts, places, strict=True):
        jobs, begun = by_home.setdefault(home, ([], []))
        jobs.append(job)
        begun.append(start)
        used[place] += job.procs * job.run_s
        last = max(last, start + job.run_s)
    span_s = last - homed[0][1].submit
    return _Outcome(
        delays={name: delays_of(*by_home[name]) for name in QUEUES if name in by_home},
        utilisation={name: used[name] / (nodes * span_s) for name, nodes in QUEUES.items()},
    )


def _write(
    setting: Setting,
    homed: Homed,
    outcomes: Mapping[str, _Outcome],
    sweep: Mapping[int, SlottedRun],
) -> None:
    write_table(
        setting.out / "figure-6.csv",
        ("queue", "nodes", "scheduling", *DELAY_COLUMNS),
        (
            (name, QUEUES[name], way, *delay_cells(delays))
            for way, outcome in outcomes.items()
            for name, delays in outcome.delays.items()
        ),
    )
    trade = sweep[PATIENCE_S].trade
    write_table(
        setting.out / "figure-7.csv",
        (
            "queue", "nodes", "utilisation_apart", "utilisation_grid",
            "supply_node_hours", "consume_node_hours", "balance_node_hours", "jobs_run_elsewhere",
        ),
        (
            (
                name,
                nodes,
                round(outcomes[APART].utilisation[name], 4),
                round(outcomes[GRID].utilisation[name], 4),
                round(trade[name].lent / 3600, 1),
                round(trade[name].borrowed / 3600, 1),
                round(-trade[name].balance / 3600, 1),
                round(_share_elsewhere(homed, sweep[PATIENCE_S], name), 4),
            )
            for name, nodes in QUEUES.items()
        ),
    )  # fmt: skip
    rows = []
    for patience_s, served in sweep.items():
        outcome = _outcome(homed, served.starts, served.places)
        for name, delays in outcome.delays.items():
            lent = round(served.trade[name].lent / 3600, 1)
            use = round(outcome.utilisation[name], 4)
            rows.append((patience_s, name, round(delays.mean, 3), use, lent, served.promoted))
    write_table(
        setting.out / "figure-6-patience.csv",
        ("patience_s", "queue", "mean_delay", "utilisation", "supply_node_hours", "promoted_jobs"),
        rows,
    )


def _share_elsewhere(homed: Homed, grid: SlottedRun, name: str) -> float:
    away = [
        place != home for (home, _), place in zip(homed, grid.places, strict=True) if home == name
    ]
    return sum(away) / len(away) if away else 0.0


def _draw(setting: Setting, outcomes: Mapping[str, _Outcome]) -> None:
    setting.tell("drawing")
    labels = [f"queue {name}: {nodes}" for name, nodes in QUEUES.items()]
    delays: dict[str, list[float | None]] = {}
    used: dict[str, list[float | None]] = {}
    for way, outcome in outcomes.items():
        found = outcome.delays
        delays[way] = [found[name].mean if name in found else None for name in QUEUES]
        used[way] = [100 * outcome.utilisation[name] for name in QUEUES]
    title = "CM-5, March 1995: delay by the queue of submission"
    draw_bars(
        setting.out,
        "figure-6",
        [Panel(title=title, labels=labels, series=delays, is_log=True)],
        "mean normalised delay",
    )
    title = "CM-5, March 1995: utilisation"
    panel = Panel(title=title, labels=labels, series={way: used[way] for way in (APART, GRID)})
    draw_bars(setting.out, "figure-7", [panel], "percent")


def _claims_of_delay(outcomes: Mapping[str, _Outcome]) -> list[Claim]:
    apart, grid = outcomes[APART], outcomes[GRID]
    names = [name for name in QUEUES if name in apart.delays]
    both = {
        name: [round(apart.delays[name].mean, 2), round(grid.delays[name].mean, 2)]
        for name in names
    }
    ours = [round(100 * apart.utilisation[name], 1) for name in QUEUES]
    factors = [each / papers for each, papers in zip(ours, PAPER_APART, strict=True)]
    middle = sorted(factors)[len(factors) // 2]
    use = {
        name: [round(100 * each.utilisation[name], 1) for each in (apart, grid)] for name in QUEUES
    }
    return [
        Claim(
            id="same-workload",
            claim="the six utilisations apart are in the paper's proportions, each within 10 %",
            paper=list(PAPER_APART),
            ours=ours,
            holds=all(abs(each - middle) <= 0.1 * middle for each in factors) and middle > 0,
        ),
        Claim(
            id="small-queues",
            claim="as one grid, both queues of 32 nodes wait less than a third as long",
            paper="reduced by over a factor of three",
            ours={name: both[name] for name in ("1", "2") if name in both},
            holds=all(both[name][0] > 3 * both[name][1] for name in ("1", "2") if name in both),
        ),
        Claim(
            id="large-queues",
            claim="the queues of 256 and 512 nodes are not delayed by more than a tenth",
            paper="without causing any significant delay in the larger jobs",
            ours={name: both[name] for name in ("5", "6") if name in both},
            holds=all(both[name][1] <= 1.1 * both[name][0] for name in ("5", "6") if name in both),
        ),
        Claim(
            id="utilisation",
            claim="the utilisation of each queue changes by at most one point",
            paper="almost unchanged",
            ours=use,
            holds=all(abs(after - before) <= 1 for before, after in use.values()),
        ),
    ]


def _claims_of_trade(homed: Homed, grid: SlottedRun) -> list[Claim]:
    balance = {name: round(-grid.trade[name].balance / 3600, 1) for name in QUEUES}
    away = {name: round(_share_elsewhere(homed, grid, name), 4) for name in QUEUES}
    total = sum(each.balance for each in grid.trade.values())
    debtors = [name for name in QUEUES if balance[name] > 0]
    return [
        Claim(
            id="conserved",
            claim="what is supplied is consumed: the balances sum to zero node-seconds",
            paper=0.1,
            ours=total,
            holds=total == 0,
        ),
        Claim(
            id="signs",
            claim="queues 4 and 6 consume more than they supply, the other four less",
            paper=dict(zip(QUEUES, PAPER_BALANCE, strict=True)),
            ours=balance,
            holds=debtors == ["4", "6"],
        ),
        Claim(
            id="small-queues-travel",
            claim="the two queues of 32 nodes have the largest shares of jobs run elsewhere",
            paper="a larger percentage of their jobs run remotely than all other queues",
            ours=away,
            holds=min(away["1"], away["2"]) > max(away[name] for name in ("3", "4", "5", "6")),
        ),
    ]
