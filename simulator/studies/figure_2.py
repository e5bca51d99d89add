"""``imprecise-figure-2``: what the six slot configurations of figure 4 cost (section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.swf import TraceJob
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.delays import (
    CLASSES,
    DELAY_COLUMNS,
    Delays,
    class_of,
    delay_cells,
    delays_of,
)
from gridtravel.simulator.studies.kth import (
    ESTIMATE,
    LEFT_OUT,
    MONTHS,
    NODES,
    REQUESTS,
    TRUE,
    by_month,
    serve_slotted,
    spread,
    thinned,
    workloads,
)
from gridtravel.simulator.studies.slot_ladders import BEST, COMPARED_S, FIGURE_4, slots_for
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table

COMPARED: Final = (1, 2, BEST)
"""The configurations that the text compares by figures."""
LARGER: Final = (150, 200, 250, 300)
"""Machines on which the paper's absolute figures might have come about."""

Workloads = Mapping[tuple[str, str], Sequence[TraceJob]]
Results = Mapping[tuple[str, str, int], Delays]

FIGURE_3: Final = {"October": (156, 1005, 496, 747), "November": (194, 580, 376, 832)}
"""The paper's numbers of jobs in the four classes."""

ALMOST: Final = 1.1
"""Two means are "almost identical" within ten percent."""


def run(setting: Setting) -> list[Claim]:
    """Figures 2 to 4 as tables, figure 2 as a picture, and what the text says about them."""
    jobs = workloads(setting)
    results: dict[tuple[str, str, int], Delays] = {}
    sizes: dict[int, list[int]] = {number: [0, 0] for number in FIGURE_4}
    for (month, request), chosen in jobs.items():
        for number, ladder in FIGURE_4.items():
            setting.tell(f"{month} 1996, {request}, configuration {number} of {len(FIGURE_4)}")
            served = serve_slotted(chosen, ladder)
            results[month, request, number] = delays_of(chosen, served.starts)
            most = sizes[number]
            most[:] = [max(most[0], served.slots_max), max(most[1], served.steps_max)]
    write_table(
        setting.out / "figure-2.csv",
        ("month", "request", "configuration", "slots", *DELAY_COLUMNS),
        (
            (month, request, number, str(FIGURE_4[number]), *delay_cells(delays))
            for (month, request, number), delays in results.items()
        ),
    )
    counts = {month: _classes(jobs[month, ESTIMATE]) for month in MONTHS}
    write_table(
        setting.out / "figure-3.csv",
        ("month", "class", "jobs", "jobs_in_paper"),
        (
            (month, name, ours, papers)
            for month in MONTHS
            for name, ours, papers in zip(CLASSES, counts[month], FIGURE_3[month], strict=True)
        ),
    )
    write_table(
        setting.out / "figure-4.csv",
        ("configuration", "slots", f"slots_for_{COMPARED_S}_s", "slots_most", "steps_most"),
        (
            (number, str(ladder), slots_for(ladder), *sizes[number])
            for number, ladder in FIGURE_4.items()
        ),
    )
    _write_causes(setting, jobs)
    _draw(setting, results)
    noise = _noise(setting, jobs)
    return [_distribution(counts), _size(), *_delays(results), *_ratios(results, noise)]


def _classes(jobs: Sequence[TraceJob]) -> tuple[int, ...]:
    found = [class_of(job) for job in jobs]
    return tuple(found.count(number) for number in range(len(CLASSES)))


def _write_causes(setting: Setting, jobs: Workloads) -> None:
    """Schedules that show why no reading of the paper's metric gives its absolute figures here."""
    variants = [
        ("EASY", "easy", ESTIMATE, NODES),
        ("shortest first, run times known", "sjf", TRUE, NODES),
        ("EASY, shortest fill gaps, run times known", "easy-sjbf", TRUE, NODES),
        *((f"EASY on {nodes} nodes", "easy", ESTIMATE, nodes) for nodes in LARGER),
    ]
    rows = []
    for month in MONTHS:
        setting.tell(f"{month} 1996, other schedules and machines")
        for name, chosen, request, nodes in variants:
            served = jobs[month, request]
            starts = replay(served, nodes, policy(chosen))
            rows.append((month, name, *delay_cells(delays_of(served, starts))))
        served = jobs[month, ESTIMATE]
        for number, nodes in ((number, nodes) for number in COMPARED for nodes in LARGER):
            starts = serve_slotted(served, FIGURE_4[number], nodes).starts
            name = f"imprecise, {FIGURE_4[number]}, on {nodes} nodes"
            rows.append((month, name, *delay_cells(delays_of(served, starts))))
    write_table(setting.out / "figure-2-causes.csv", ("month", "schedule", *DELAY_COLUMNS), rows)


def _noise(setting: Setting, jobs: Workloads) -> dict[tuple[str, int], list[float]]:
    """Configurations over the first one, with a twentieth of the jobs left out in turn."""
    ratios: dict[tuple[str, int], list[float]] = {}
    rows = []
    for month in MONTHS:
        setting.tell(f"{month} 1996, {LEFT_OUT} times without a twentieth of the jobs")
        for turn in range(LEFT_OUT):
            left = thinned(jobs[month, ESTIMATE], turn)
            means = [
                delays_of(left, serve_slotted(left, FIGURE_4[number]).starts).mean
                for number in COMPARED
            ]
            for number, mean in zip(COMPARED, means, strict=True):
                ratios.setdefault((month, number), []).append(mean / means[0])
            rows.append((month, turn, *(round(mean, 3) for mean in means)))
    columns = ("month", "left_out", *(f"configuration_{number}" for number in COMPARED))
    write_table(setting.out / "figure-2-noise.csv", columns, rows)
    return ratios


def _draw(setting: Setting, results: Results) -> None:
    setting.tell("drawing")
    panels = []
    for month in MONTHS:
        found = [results[month, ESTIMATE, number] for number in FIGURE_4]
        series: dict[str, list[float | None]] = {"all": [delays.mean for delays in found]}
        for position, name in enumerate(CLASSES):
            series[name] = [delays.by_class[position] for delays in found]
        labels = [f"{number}: {ladder}" for number, ladder in FIGURE_4.items()]
        title = f"{month} 1996, by the users' estimates"
        panels.append(Panel(title=title, labels=labels, series=series, is_log=True))
    draw_bars(setting.out, "figure-2", panels, "mean normalised delay")


def _distribution(counts: Mapping[str, tuple[int, ...]]) -> Claim:
    return Claim(
        id="figure-3",
        claim="the workload is that of figure 3: every class within 2 % of the paper's count",
        paper={month: list(FIGURE_3[month]) for month in MONTHS},
        ours={month: list(counts[month]) for month in MONTHS},
        holds=all(
            abs(ours - papers) <= 0.02 * papers
            for month in MONTHS
            for ours, papers in zip(counts[month], FIGURE_3[month], strict=True)
        ),
    )


def _size() -> Claim:
    fine, best = slots_for(FIGURE_4[1]), slots_for(FIGURE_4[BEST])
    return Claim(
        id="memory",
        claim=f"32x10, 8x320, *x2560 covers what {fine} slots of 40 s cover with a sixtieth of"
        " the slots",
        paper={"slots": 1511, "times_fewer": 60},
        ours={"slots": best, "times_fewer": round(fine / best, 1)},
        holds=fine / best >= 60,
    )


def _delays(results: Results) -> list[Claim]:
    mean = {
        number: {
            (month, request): results[month, request, number].mean
            for month in MONTHS
            for request in REQUESTS
        }
        for number in FIGURE_4
    }
    base, coarse, medium, best = mean[1], mean[2], mean[3], mean[BEST]

    def told(number: int) -> dict[str, dict[str, float]]:
        return {request: by_month(mean[number], request) for request in REQUESTS}

    primary = [(month, ESTIMATE) for month in MONTHS]
    november = "November", ESTIMATE
    small = [results["November", ESTIMATE, number].by_class[1] or 0 for number in (2, 3)]
    ranks = {
        month: 1
        + sum(mean[number][month, ESTIMATE] < best[month, ESTIMATE] for number in (2, 3, 4, 5))
        for month in MONTHS
    }
    return [
        Claim(
            id="absolute",
            claim="configuration 1 delays jobs as much as in the paper, within a quarter",
            paper={"October": 5.6, "November": 4.8},
            ours=told(1),
            holds=all(
                abs(base[month, ESTIMATE] / papers - 1) <= 0.25
                for month, papers in (("October", 5.6), ("November", 4.8))
            ),
        ),
        Claim(
            id="few-fine-slots",
            claim="64 fine slots before coarse ones (2) delay jobs more than fine slots only (1)",
            paper={"October": [5.6, 7.7], "November": [4.8, 5.5]},
            ours={"1": told(1), "2": told(2)},
            holds=all(coarse[each] > base[each] for each in primary),
        ),
        Claim(
            id="medium-resolution",
            claim="a medium resolution (3) makes November worse than (2), by jobs of 10 to 100 s",
            paper="decreases the performance for the November workload",
            ours={
                "mean": [round(coarse[november], 2), round(medium[november], 2)],
                "10 to 100 s": [round(each, 2) for each in small],
            },
            holds=medium[november] > coarse[november] and small[1] > small[0],
        ),
        Claim(
            id="best-configuration",
            claim="32x10, 8x320, *x2560 is the best of the multi-resolution configurations",
            paper="best overall performance for the multi-resolution options",
            ours={"rank": ranks},
            holds=all(rank == 1 for rank in ranks.values()),
        ),
    ]


def _ratios(results: Results, noise: Mapping[tuple[str, int], Sequence[float]]) -> list[Claim]:
    """The best configuration against 100,000 fine slots."""
    ratio = {
        month: results[month, ESTIMATE, BEST].mean / results[month, ESTIMATE, 1].mean
        for month in MONTHS
    }
    ours = {
        month: {
            "ratio": round(ratio[month], 3),
            "ratio with 1/20 of the jobs left out": spread(noise[month, BEST]),
        }
        for month in MONTHS
    }
    return [
        Claim(
            id="almost-identical",
            claim="32x10, 8x320, *x2560 is within 10 % of 100,000 fine slots",
            paper="almost identical",
            ours=ours,
            holds=all(1 / ALMOST <= each <= ALMOST for each in ratio.values()),
        ),
        Claim(
            id="no-price",
            claim="32x10, 8x320, *x2560 delays jobs at most 10 % more than 100,000 fine slots",
            paper="almost identical",
            ours=ours,
            holds=all(each <= ALMOST for each in ratio.values()),
        ),
    ]
