"""Figures 2 to 6 of Libra+$: satisfaction and profitability on the end of the SDSC SP2 log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from gridtravel.simulator.economy.made_workloads import Demands
from gridtravel.simulator.studies.charts import Panel, draw_bars
from gridtravel.simulator.studies.study import Claim, Setting
from gridtravel.simulator.studies.tables import write_table
from gridtravel.simulator.studies.trials import (
    EDF,
    FCFS,
    LIBRA,
    SJF,
    Cell,
    Contestant,
    Worth,
    means,
    with_beta,
)

DELAY_FACTORS: Final = (0.1, 0.25, 0.5, 0.75, 1.0)
BETAS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
URGENT_SHARES: Final = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
UNDER_ESTIMATES: Final = (0.0, 0.1, 0.2, 0.3, 0.4)
EVERY_BETA: Final = (0.1, 0.3, 0.5, 1.0)
PAPER_PROFIT: Final = {
    (0.1, 0.25): 0.23,
    (0.1, 1.0): 0.40,
    (0.5, 0.25): 0.32,
    (0.5, 1.0): 0.57,
    (1.0, 0.25): 0.31,
    (1.0, 1.0): 0.44,
}
"""Profitability by beta and delay factor, as the text gives it (figure 4b)."""
WITHIN: Final = 0.05
ALIKE: Final = 0.06


def dollar(beta: float) -> Contestant:
    """Libra+$."""
    return with_beta("libra-dollar", beta)


DOLLARS: Final = tuple(dollar(beta) for beta in EVERY_BETA)
DEFAULT: Final = dollar(0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One quantity that is varied, for some policies."""

    name: str
    title: str
    demands: Mapping[float, Demands]
    contestants: Sequence[Contestant]

    def cells(self) -> Iterable[Cell]:
        """All of its points."""
        return (
            (demands, contestant)
            for contestant in self.contestants
            for demands in self.demands.values()
        )


LOADS: Final = {factor: Demands(delay_factor=factor) for factor in DELAY_FACTORS}
URGENCIES: Final = {share: Demands(urgent_share=share) for share in URGENT_SHARES}
INACCURACIES: Final = {part: Demands(under_estimate=part) for part in UNDER_ESTIMATES}
USUAL: Final = Demands()

FIGURES: Final = (
    Figure(
        name="figure-2",
        title="arrival delay factor",
        demands=LOADS,
        contestants=(FCFS, SJF, EDF, LIBRA, DEFAULT),
    ),
    Figure(
        name="figure-3",
        title="beta, delay factor 0.5",
        demands={0.5: USUAL},
        contestants=tuple(dollar(beta) for beta in BETAS),
    ),
    Figure(
        name="figure-4",
        title="arrival delay factor",
        demands=LOADS,
        contestants=(LIBRA, *DOLLARS),
    ),
    Figure(
        name="figure-5",
        title="part of urgent jobs, delay factor 0.5",
        demands=URGENCIES,
        contestants=(LIBRA, *DOLLARS),
    ),
    Figure(
        name="figure-6",
        title="under-estimation, delay factor 0.5",
        demands=INACCURACIES,
        contestants=(LIBRA, *DOLLARS),
    ),
)


class Found:
    """The means, by what is asked."""

    def __init__(self, cells: Mapping[Cell, Worth]) -> None:
        self.cells = cells

    def satisfaction(self, demands: Demands, contestant: Contestant) -> float:
        """Equation 7."""
        return self.cells[demands, contestant].satisfaction

    def profit(self, demands: Demands, contestant: Contestant) -> float:
        """Equation 8."""
        return self.cells[demands, contestant].profitability

    def rounded(self, kind: str, contestant: Contestant, demands: Iterable[Demands]) -> list[float]:
        """A row of figures for a claim."""
        return [round(getattr(self.cells[each, contestant], kind), 4) for each in demands]


def run(setting: Setting) -> list[Claim]:
    """All figures; points that several of them share are lived once."""
    cells: dict[Cell, Worth] = {}
    for figure in FIGURES:
        setting.tell(f"{figure.name}: {figure.title}")
        cells |= means(setting, (cell for cell in figure.cells() if cell not in cells))
    found = Found(cells)
    for figure in FIGURES:
        _write(setting, figure, found)
    return [
        *_profits(found),
        _less_load(found),
        _libra_satisfies_more(found),
        _dollar_earns_more(found),
        _high_load(found),
        _overtakes(found),
        _edf_like_fcfs(found),
        _peak(found),
        _falls_from_the_start(found),
        _urgent(found),
        _tolerates(found),
    ]


def _write(setting: Setting, figure: Figure, found: Found) -> None:
    write_table(
        setting.out / f"{figure.name}.csv",
        ("varied", "policy", "seeds", "satisfaction", "profitability", "mean_charge"),
        (
            (varied, contestant.label, setting.seeds, *(round(each, 5) for each in worth))
            for contestant in figure.contestants
            for varied, demands in figure.demands.items()
            for worth in [found.cells[demands, contestant]]
        ),
    )
    panels = []
    for kind, title in (
        ("satisfaction", "Job QoS Satisfaction"),
        ("profitability", "Cluster Profitability"),
    ):
        rows = {
            each.label: [
                100 * getattr(found.cells[demands, each], kind)
                for demands in figure.demands.values()
            ]
            for each in figure.contestants
        }
        labels = [f"{varied:g}" for varied in figure.demands]
        panels.append(Panel(title=f"{title}, by {figure.title}", labels=labels, series=rows))
    draw_bars(setting.out, figure.name, panels, "%")


def _profits(found: Found) -> list[Claim]:
    claims = []
    for (beta, factor), paper in PAPER_PROFIT.items():
        mean = found.profit(LOADS[factor], dollar(beta))
        claims.append(
            Claim(
                id=f"profit-{beta}-{factor}",
                claim=f"profitability of Libra+$ with beta {beta} at delay factor {factor} (within"
                " 5 points of the paper's)",
                paper=paper,
                ours={"mean": round(mean, 4)},
                holds=abs(mean - paper) <= WITHIN,
            )
        )
    return claims


def _less_load(found: Found) -> Claim:
    ours = {}
    holds = True
    for contestant in (LIBRA, DEFAULT, FCFS, SJF, EDF):
        rows = {
            kind: [getattr(found.cells[each, contestant], kind) for each in LOADS.values()]
            for kind in ("satisfaction", "profitability")
        }
        ours[contestant.label] = {
            kind: [round(each, 4) for each in row] for kind, row in rows.items()
        }
        holds = holds and all(
            before < after for row in rows.values() for before, after in pairwise(row)
        )
    return Claim(
        id="less-load-more-of-both",
        claim="both metrics rise with the delay factor, for Libra, Libra+$ (0.1) and the three"
        " backfilling policies",
        paper="figure 2",
        ours=ours,
        holds=holds,
    )


def _libra_satisfies_more(found: Found) -> Claim:
    contestants = (LIBRA, *DOLLARS)
    holds = all(
        found.satisfaction(demands, LIBRA) > found.satisfaction(demands, each)
        for demands in LOADS.values()
        for each in DOLLARS
    )
    return Claim(
        id="libra-satisfies-more-than-libra-dollar",
        claim="Libra satisfies more than Libra+$ at each delay factor, whatever beta",
        paper="figure 4a",
        ours=_rows(found, "satisfaction", contestants, LOADS),
        holds=holds,
    )


def _dollar_earns_more(found: Found) -> Claim:
    holds = all(
        found.profit(demands, DEFAULT) > found.profit(demands, other)
        for demands in LOADS.values()
        for other in (LIBRA, SJF)
    )
    return Claim(
        id="libra-dollar-earns-more-than-libra-and-sjf",
        claim="Libra+$ (0.1) earns more than Libra and SJF-BF at each delay factor",
        paper="figures 2b and 4b",
        ours=_rows(found, "profitability", (DEFAULT, LIBRA, SJF), LOADS),
        holds=holds,
    )


def _high_load(found: Found) -> Claim:
    high = LOADS[0.1]
    holds = min(found.satisfaction(high, each) for each in (SJF, EDF)) > max(
        found.satisfaction(high, each) for each in (LIBRA, DEFAULT)
    )
    return Claim(
        id="sjf-and-edf-satisfy-more-at-high-load",
        claim="SJF-BF and EDF-BF satisfy more than Libra and Libra+$ (0.1) at delay factor 0.1",
        paper="figure 2a",
        ours=_rows(found, "satisfaction", (SJF, EDF, LIBRA, DEFAULT), {0.1: high}),
        holds=holds,
    )


def _overtakes(found: Found) -> Claim:
    low = {factor: LOADS[factor] for factor in (0.75, 1.0)}
    holds = all(
        found.satisfaction(demands, LIBRA) > found.satisfaction(demands, other)
        for demands in low.values()
        for other in (SJF, EDF)
    )
    return Claim(
        id="libra-overtakes-sjf-as-load-falls",
        claim="Libra satisfies more than SJF-BF and EDF-BF at delay factors 0.75 and 1.0",
        paper="figure 2a",
        ours=_rows(found, "satisfaction", (LIBRA, SJF, EDF), low),
        holds=holds,
    )


def _edf_like_fcfs(found: Found) -> Claim:
    holds = all(
        abs(found.profit(demands, EDF) - found.profit(demands, FCFS)) <= ALIKE
        for demands in LOADS.values()
    )
    return Claim(
        id="edf-earns-like-fcfs",
        claim="the profitability of EDF-BF is within 6 points of FCFS-BF's at each delay factor",
        paper="similar (figure 2b)",
        ours=_rows(found, "profitability", (EDF, FCFS), LOADS),
        holds=holds,
    )


def _peak(found: Found) -> Claim:
    by_beta = {beta: found.profit(USUAL, dollar(beta)) for beta in BETAS}
    return Claim(
        id="profit-peaks-below-beta-1",
        claim="at delay factor 0.5 the best profitability over beta is above that at 1.0",
        paper="figure 3b",
        ours={f"{beta:g}": round(each, 4) for beta, each in by_beta.items()},
        holds=max(by_beta.values()) > by_beta[1.0],
    )


def _falls_from_the_start(found: Found) -> Claim:
    betas = (0.1, 0.2, 0.3, 0.4, 0.5)
    row = [found.satisfaction(USUAL, dollar(beta)) for beta in betas]
    return Claim(
        id="satisfaction-falls-with-beta-from-the-start",
        claim="at delay factor 0.5 satisfaction falls strictly over beta 0.1, 0.2, ..., 0.5",
        paper="figure 3a",
        ours={f"{beta:g}": round(each, 4) for beta, each in zip(betas, row, strict=True)},
        holds=all(before > after for before, after in pairwise(row)),
    )


def _urgent(found: Found) -> Claim:
    def profit(share: float, beta: float) -> float:
        return found.profit(URGENCIES[share], dollar(beta))

    many = all(
        profit(share, 1.0) > profit(share, beta)
        for share in (0.4, 0.6, 0.8, 1.0)
        for beta in (0.1, 0.3, 0.5)
    )
    few = all(
        profit(share, 1.0) < profit(share, beta) for share in (0.0, 0.2) for beta in (0.3, 0.5)
    )
    return Claim(
        id="beta-1-wins-with-many-urgent-jobs",
        claim="at delay factor 0.5 beta 1.0 earns more than 0.1, 0.3 and 0.5 with 40 to 100 %"
        " urgent jobs, and less than 0.3 and 0.5 with 0 and 20 %",
        paper="figure 5b",
        ours=_rows(found, "profitability", DOLLARS, URGENCIES),
        holds=many and few,
    )


def _tolerates(found: Found) -> Claim:
    under = INACCURACIES[0.2]
    best, others = dollar(1.0), [dollar(beta) for beta in EVERY_BETA if beta < 1]
    holds = all(
        metric(under, best) > metric(under, each) and metric(under, LIBRA) < metric(under, each)
        for metric in (found.satisfaction, found.profit)
        for each in others
    )
    return Claim(
        id="beta-1-tolerates-under-estimates-best",
        claim="with 20 % under-estimation beta 1.0 has the most satisfaction and profit of every"
        " beta, and Libra less than all of them",
        paper="figure 6",
        ours={
            kind: _rows(found, kind, (LIBRA, *DOLLARS), {0.2: under})
            for kind in ("satisfaction", "profitability")
        },
        holds=holds,
    )


def _rows(
    found: Found, kind: str, contestants: Iterable[Contestant], varied: Mapping[float, Demands]
) -> dict[str, Any]:
    return {
        each.label: dict(
            zip(
                (f"{key:g}" for key in varied),
                found.rounded(kind, each, varied.values()),
                strict=True,
            )
        )
        for each in contestants
    }
