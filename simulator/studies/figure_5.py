"""``imprecise-figure-5``: imprecise calendars against EASY backfilling (paper, section 3.1).

The paper compares with "a variation on a traditional backfilling scheduler that used the algorithm
described in" Feitelson and Weil, who describe both EASY and conservative backfilling; EASY, as
the production scheduler does it, is the comparison here and conservative stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gridtravel.gridcore.capacity.ladders import EXACT
from gridtravel.simulator.replay.loop import policy, replay
from gridtravel.simulator.replay.swf import TraceJob
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.delays import (
    CLASSES,
    DELAY_COLUMNS,
    Delays,
    delay_cells,
    delays_of,
)
from gridtravel.simulator.studies.kth import (
    ESTIMATE,
    LEFT_OUT,
    MONTHS,
    NODES,
    REQUESTS,
    serve_slotted,
    spread,
    thinned,
    workloads,
)
from gridtravel.simulator.studies.slot_ladders import BEST, FIGURE_4
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table

Ratios = Mapping[str, list[float]]

IMPRECISE: Final = f"imprecise, {FIGURE_4[BEST]}"
SLOTTED: Final = {
    IMPRECISE: FIGURE_4[BEST],
    f"imprecise, {FIGURE_4[1]}": FIGURE_4[1],
    f"exact, {EXACT}": EXACT,
}
PLANNED: Final = {"EASY backfilling": "easy", "conservative backfilling": "conservative"}
EASY: Final = "EASY backfilling"


def _noise(setting: Setting, chosen: Mapping[tuple[str, str], list[TraceJob]]) -> Ratios:
    """Imprecise over EASY, with a twentieth of the jobs left out in turn."""
    rows = []
    ratios: dict[str, list[float]] = {}
    for month in MONTHS:
        setting.tell(f"{month} 1996, {LEFT_OUT} times without a twentieth of the jobs")
        for turn in range(LEFT_OUT):
            jobs = thinned(chosen[month, ESTIMATE], turn)
            imprecise = delays_of(jobs, serve_slotted(jobs, FIGURE_4[BEST]).starts).mean
            easy = delays_of(jobs, replay(jobs, NODES, policy("easy"))).mean
            ratios.setdefault(month, []).append(imprecise / easy)
            rows.append((month, turn, round(imprecise, 3), round(easy, 3)))
    columns = ("month", "left_out", "imprecise", "easy")
    write_table(setting.out / "figure-5-noise.csv", columns, rows)
    return ratios


def run(setting: Setting) -> list[Claim]:
    """Figure 5 as a table and a picture, and the two sentences about it."""
    results: dict[tuple[str, str, str], Delays] = {}
    chosen = workloads(setting)
    for (month, request), jobs in chosen.items():
        for name, ladder in SLOTTED.items():
            setting.tell(f"{month} 1996, {request}, {name}")
            served = serve_slotted(jobs, ladder)
            results[month, request, name] = delays_of(jobs, served.starts)
        for name, known_as in PLANNED.items():
            setting.tell(f"{month} 1996, {request}, {name}")
            starts = replay(jobs, NODES, policy(known_as))
            results[month, request, name] = delays_of(jobs, starts)
    write_table(
        setting.out / "figure-5.csv",
        ("month", "request", "scheduler", *DELAY_COLUMNS),
        ((*key, *delay_cells(delays)) for key, delays in results.items()),
    )
    panels = []
    for month in MONTHS:
        series: dict[str, list[float | None]] = {}
        for name in (*SLOTTED, *PLANNED):
            found = results[month, ESTIMATE, name]
            series[name] = [found.mean, *found.by_class]
        title = f"{month} 1996, by the users' estimates"
        panels.append(Panel(title=title, labels=["all", *CLASSES], series=series, is_log=True))
    draw_bars(setting.out, "figure-5", panels, "mean normalised delay")

    noise = _noise(setting, chosen)

    def pair(month: str) -> dict[str, list[float]]:
        found = {
            request: [results[month, request, name] for name in (IMPRECISE, EASY)]
            for request in REQUESTS
        }
        return {
            **{request: [round(each.mean, 2) for each in two] for request, two in found.items()},
            "by requested time": [round(each.by_request, 2) for each in found[ESTIMATE]],
            "ratio with 1/20 of the jobs left out": spread(noise[month]),
        }

    def ratio(month: str) -> float:
        return results[month, ESTIMATE, IMPRECISE].mean / results[month, ESTIMATE, EASY].mean

    exact_is_conservative = all(
        results[month, request, f"exact, {EXACT}"]
        == results[month, request, "conservative backfilling"]
        for month in MONTHS
        for request in REQUESTS
    )
    return [
        Claim(
            id="october",
            claim="in October imprecise calendars delay jobs as EASY backfilling does, within 15 %",
            paper="approximately the same",
            ours=pair("October"),
            holds=1 / 1.15 <= ratio("October") <= 1.15,
        ),
        Claim(
            id="november",
            claim="in November imprecise calendars halve the delay of EASY backfilling",
            paper=[5, 10],
            ours=pair("November"),
            holds=ratio("November") <= 0.5,
        ),
        Claim(
            id="roughly-comparable",
            claim="imprecise calendars delay jobs at most a quarter more than EASY backfilling",
            paper="roughly comparable, and in fact better in some cases",
            ours={month: round(ratio(month), 3) for month in MONTHS},
            holds=all(ratio(month) <= 1.25 for month in MONTHS),
        ),
        Claim(
            id="exact-is-conservative",
            claim="on one level of one second, all figures are those of conservative backfilling",
            paper=None,
            ours=exact_is_conservative,
            holds=exact_is_conservative,
        ),
    ]
