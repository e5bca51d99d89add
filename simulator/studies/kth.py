"""The workload of figures 2, 3 and 5: the SP2 of KTH in October and November 1996.

Each month runs by itself on an empty machine. "Request" is what the scheduler is told of a job's
length: the user's estimate, or, as a variant, the true run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.simulator.replay.slotted_replay import SlottedRun, serve
from gridtravel.simulator.replay.swf import TraceJob, read_trace
from gridtravel.simulator.studies.logs import SiteTime, of_month, with_true_requests
from gridtravel.simulator.studies.study import Setting

LOG: Final = "KTH-SP2-1996-2.1-cln.swf.gz"
NODES: Final = 100
MONTHS: Final = {"October": (1996, 10), "November": (1996, 11)}
ESTIMATE: Final = "user estimate"
TRUE: Final = "true run time"
REQUESTS: Final = (ESTIMATE, TRUE)


def workloads(setting: Setting) -> dict[tuple[str, str], list[TraceJob]]:
    """The jobs of each (month, request)."""
    setting.tell(f"reading {setting.trace.name}")
    jobs = read_trace(setting.trace, NODES).jobs
    clock = SiteTime.of(setting.trace)
    found: dict[tuple[str, str], list[TraceJob]] = {}
    for name, month in MONTHS.items():
        chosen = of_month(jobs, clock, month, setting.limit)
        found[name, ESTIMATE] = chosen
        found[name, TRUE] = with_true_requests(chosen)
    return found


def serve_slotted(jobs: Sequence[TraceJob], ladder: SlotLadder, nodes: int = NODES) -> SlottedRun:
    """One cluster by itself on an imprecise calendar."""
    return serve([("all", job) for job in jobs], [("all", nodes)], ladder)


def by_month(values: Mapping[tuple[str, str], float], request: str) -> dict[str, float]:
    """One figure a month, rounded for a claim."""
    return {month: round(values[month, request], 2) for month in MONTHS}


LEFT_OUT: Final = 20
"""So many times the study is repeated, each time without another twentieth of the jobs."""


def thinned(jobs: Sequence[TraceJob], turn: int) -> list[TraceJob]:
    """All but every twentieth job: how far do the figures hang on single jobs?"""
    kept = [job for index, job in enumerate(jobs) if index % LEFT_OUT != turn]
    return kept or list(jobs)


def spread(ratios: Sequence[float]) -> list[float]:
    """Least, median and greatest of some ratios, rounded for a claim."""
    ranked = sorted(ratios)
    return [round(each, 2) for each in (ranked[0], ranked[len(ranked) // 2], ranked[-1])]
