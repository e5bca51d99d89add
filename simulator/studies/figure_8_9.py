"""``imprecise-figure-8-9``: ten clusters of 336 nodes below one manager (paper, section 3.3).

The paper took ten months of the Cornell SP2 log, which is not at hand. Here each cluster serves the
first eight days of one of the log's first ten whole months, by default of the San Diego SP2. Where
the log is of a smaller machine, the jobs are widened in proportion, so that a cluster is as busy as
the machine was and a third of it is still 112 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import pstdev
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.simulator.imprecise.slotted_tree import PromotionRule
from gridtravel.simulator.replay.slotted_replay import SlottedRun, serve
from gridtravel.simulator.replay.swf import TraceJob, read_trace
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.delays import (
    CLASSES,
    DELAY_COLUMNS,
    Delays,
    delay_cells,
    delays_of,
)
from gridtravel.simulator.studies.logs import SiteTime, with_true_requests
from gridtravel.simulator.studies.slot_ladders import FOOTNOTE_2
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table

LOG: Final = "SDSC-SP2-1998-4.2-cln.swf.gz"
CLUSTERS: Final = 10
NODES: Final = 336
DAYS: Final = 8
RULE: Final = PromotionRule(nodes_max=112, duration_min_s=12 * 3600)
PAPER_PROMOTED: Final = 2_000 / 17_637
""""Only just over 2,000" of 17,637 jobs were eligible."""
REQUESTS: Final = ("user estimate", "true run time")

Homed = Sequence[tuple[str, TraceJob]]
ByCluster = Mapping[str, Delays]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """One way of running the ten clusters."""

    all: Delays
    by_cluster: ByCluster
    """By the cluster of submission."""
    utilisation: Mapping[str, float]
    """By the cluster that ran the job, over the time from the first submission to the last end."""
    served: SlottedRun


def clusters_of(setting: Setting) -> tuple[list[tuple[str, TraceJob]], dict[str, str]]:
    """The jobs with their cluster, by time since the begin of their month; and each cluster's
    month.
    """
    log = read_trace(setting.trace)
    clock = SiteTime.of(setting.trace)
    factor = max(NODES / log.procs, 1.0)
    found: dict[tuple[int, int], list[TraceJob]] = {}
    first = clock.month_of(log.jobs[0]) if log.jobs else (0, 0)
    if log.jobs and clock.day_of(log.jobs[0]) > 1:
        first = (first[0], first[1] + 1)
    for job in log.jobs:
        month = clock.month_of(job)
        if month < first or clock.day_of(job) > DAYS:
            continue
        chosen = found.setdefault(month, [])
        nodes = max(1, round(job.procs * factor))
        if nodes <= NODES and (setting.limit is None or len(chosen) < setting.limit):
            chosen.append(job._replace(submit=job.submit - clock.month_begin(month), procs=nodes))
        if len(found) > CLUSTERS:
            break
    months = [month for month, chosen in sorted(found.items()) if chosen][:CLUSTERS]
    if len(months) < CLUSTERS:
        raise InputError(f"{setting.trace}: {CLUSTERS} months are needed, it has {len(months)}")
    homed = [(str(n), job) for n, month in enumerate(months, start=1) for job in found[month]]
    homed.sort(key=lambda each: (each[1].submit, int(each[0])))
    return homed, {str(n): f"{year}-{m:02}" for n, (year, m) in enumerate(months, start=1)}


def run(setting: Setting) -> list[Claim]:
    """Figures 8 and 9 as tables and figure 8 as a picture, and the text's claims."""
    setting.tell(f"reading {setting.trace.name}")
    homed, months = clusters_of(setting)
    outcomes: dict[tuple[str, str], _Outcome] = {}
    for request in REQUESTS:
        jobs = homed
        if request != REQUESTS[0]:
            true = with_true_requests([job for _, job in homed])
            jobs = [(home, job) for (home, _), job in zip(homed, true, strict=True)]
        for way, rule in (("apart", None), ("two levels", RULE)):
            setting.tell(f"{CLUSTERS} clusters, {request}, {way}")
            members = [(name, NODES) for name in months]
            served = serve(jobs, members, FOOTNOTE_2, rule)
            outcomes[request, way] = _outcome(jobs, served, months)
    _write(setting, homed, months, outcomes)
    apart, both = outcomes[REQUESTS[0], "apart"], outcomes[REQUESTS[0], "two levels"]
    _draw(setting, months, apart, both)
    variant = [outcomes[REQUESTS[1], way] for way in ("apart", "two levels")]
    return [*_claims_of_delay(apart, both, variant), *_claims_of_trade(homed, both, variant[1])]


def _outcome(homed: Homed, served: SlottedRun, months: Mapping[str, str]) -> _Outcome:
    own: dict[str, tuple[list[TraceJob], list[Instant]]] = {name: ([], []) for name in months}
    last = 0
    for (home, job), start in zip(homed, served.starts, strict=True):
        own[home][0].append(job)
        own[home][1].append(start)
        last = max(last, start + job.run_s)
    span_s = last - homed[0][1].submit
    return _Outcome(
        all=delays_of([job for _, job in homed], served.starts),
        by_cluster={name: delays_of(*own[name]) for name in months},
        utilisation={name: served.trade[name].used / (NODES * span_s) for name in months},
        served=served,
    )


def _write(
    setting: Setting,
    homed: Homed,
    months: Mapping[str, str],
    outcomes: Mapping[tuple[str, str], _Outcome],
) -> None:
    rows = []
    for (request, way), outcome in outcomes.items():
        rows.append((request, way, "all", "", *delay_cells(outcome.all)))
        for name, delays in outcome.by_cluster.items():
            rows.append((request, way, name, months[name], *delay_cells(delays)))
    write_table(
        setting.out / "figure-8.csv",
        ("request", "scheduling", "cluster", "month", *DELAY_COLUMNS),
        rows,
    )
    apart, both = (outcomes[REQUESTS[0], way] for way in ("apart", "two levels"))
    table = []
    for name, month in months.items():
        own = [job for home, job in homed if home == name]
        account = both.served.trade[name]
        hours = (account.lent, account.borrowed, -account.balance, account.local)
        table.append(
            (
                name,
                month,
                len(own),
                round(apart.utilisation[name], 4),
                round(sum(job.procs for job in own) / len(own), 2),
                *(round(each / 3600, 1) for each in hours),
                round(both.utilisation[name], 4),
            )
        )
    write_table(
        setting.out / "figure-9.csv",
        (
            "cluster", "month", "jobs", "utilisation_apart", "nodes_per_job", "supply_node_hours",
            "consume_node_hours", "balance_node_hours", "local_node_hours", "utilisation",
        ),
        table,
    )  # fmt: skip


def _draw(setting: Setting, months: Mapping[str, str], apart: _Outcome, both: _Outcome) -> None:
    setting.tell("drawing")
    labels = ["all", *months]
    panels = []
    for position, name in enumerate(("all jobs", *CLASSES)):
        series: dict[str, list[float | None]] = {}
        for way, outcome in (("apart", apart), ("two levels", both)):
            found = [outcome.all, *outcome.by_cluster.values()]
            series[way] = [each.by_class[position - 1] if position else each.mean for each in found]
        panels.append(Panel(title=name, labels=labels, series=series, is_log=True))
    draw_bars(setting.out, "figure-8", panels, "mean normalised delay")


def _claims_of_delay(apart: _Outcome, both: _Outcome, variant: Sequence[_Outcome]) -> list[Claim]:
    names = list(apart.by_cluster)
    pairs = {
        name: [round(each.by_cluster[name].mean, 2) for each in (apart, both)] for name in names
    }
    better = [name for name in names if pairs[name][1] < pairs[name][0]]
    worse = [name for name in names if pairs[name][1] > pairs[name][0]]
    idle = sorted(names, key=lambda name: apart.utilisation[name])[:2]
    spread = []
    for position in (1, 2, 3):
        means = [both.by_cluster[name].by_class[position] or 0.0 for name in names]
        middle = sum(means) / len(means)
        spread.append(round(pstdev(means) / middle, 3) if middle else 0.0)
    return [
        Claim(
            id="mean-delay",
            claim="two levels reduce the mean delay of all jobs by a quarter or more",
            paper=[10.6, 7.8],
            ours={
                REQUESTS[0]: [round(each.all.mean, 2) for each in (apart, both)],
                REQUESTS[1]: [round(each.all.mean, 2) for each in variant],
            },
            holds=both.all.mean <= 0.75 * apart.all.mean,
        ),
        Claim(
            id="most-clusters-gain",
            claim="at least seven of the ten clusters have a shorter mean delay",
            paper=7,
            ours={"shorter": len(better), "delays": pairs},
            holds=len(better) >= 7,
        ),
        Claim(
            id="losers-were-idle",
            claim="the two clusters that were least used apart are among those that lose",
            paper=["1", "5"],
            ours={"least used": idle, "lose": worse},
            holds=all(name in worse for name in idle),
        ),
        Claim(
            id="short-jobs-vary",
            claim="jobs of 10 to 100 s differ more between clusters than longer ones (standard"
            " deviation over mean)",
            paper="a fairly high variation for the 10-100 second jobs",
            ours=dict(zip(CLASSES[1:], spread, strict=True)),
            holds=spread[0] > max(spread[1:]),
        ),
    ]


def _claims_of_trade(homed: Homed, both: _Outcome, variant: _Outcome) -> list[Claim]:
    trade = both.served.trade
    total = sum(each.balance for each in trade.values())
    foreign = [name for name, each in trade.items() if each.lent > each.local]
    shares = [each.served.promoted / len(homed) for each in (both, variant)]
    return [
        Claim(
            id="promoted",
            claim="the share of promoted jobs is the paper's, within five points",
            paper=round(PAPER_PROMOTED, 3),
            ours={name: round(each, 3) for name, each in zip(REQUESTS, shares, strict=True)},
            holds=abs(shares[0] - PAPER_PROMOTED) <= 0.05,
        ),
        Claim(
            id="conserved",
            claim="what is supplied is consumed: the balances sum to zero node-seconds",
            paper=0,
            ours=total,
            holds=total == 0,
        ),
        Claim(
            id="foreign-work",
            claim="four to six clusters spend most of their time on foreign jobs",
            paper=5,
            ours={"clusters": foreign},
            holds=4 <= len(foreign) <= 6,
        ),
    ]
