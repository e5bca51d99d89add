"""What an imprecise calendar saves and costs against 100,000 slots of 40 s (calendar paper, 3.1).

Two ladders: the paper's best, and a coarser one that reaches for a hundredth of the slots. Memory
is that of one count a slot, in a list, for the same 4,000,000 s. What this code really holds is one
step wherever the free count changes, which is far less on every ladder; that is the last figure.
Delay is the mean normalised delay of the jobs of October and November 1996 on KTH's 100 nodes, over
that on fine slots; the worse of the two months counts. Without the log only memory is measured.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.figures import Figure
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.simulator.studies import kth
from gridtravel.simulator.studies.delays import delays_of
from gridtravel.simulator.studies.slot_ladders import BEST, FIGURE_4, slots_for
from gridtravel.simulator.studies.study import Setting

FINE = FIGURE_4[1]
LADDERS = (FIGURE_4[BEST], SlotLadder.parse("32x10, 16x320, *x5120"))
DELAY_MOST = 1.1
"""The paper says "almost identical"; the mean hangs on single jobs by more than a tenth."""


def slot_bytes(ladder: SlotLadder) -> int:
    """Bytes of a list with one count for each slot of the time compared."""
    return sys.getsizeof([0] * slots_for(ladder))


def memory_figures() -> list[Figure]:
    """Row 13, memory: slots and bytes as shares of those of the fine slots."""
    figures = []
    for ladder in LADDERS:
        slots = slots_for(ladder) / slots_for(FINE)
        share = slot_bytes(ladder) / slot_bytes(FINE)
        figures += [
            Figure(name=f"{ladder}: slots", value=slots, unit="of fine", must=1 / 60, aim=1 / 100),
            Figure(name=f"{ladder}: bytes", value=share, unit="of fine", must=1 / 60, aim=1 / 100),
        ]
    return figures


def delay_figures() -> list[Figure]:
    """Row 13, delay, and the steps that the profiles really held meanwhile."""
    shared = Path(os.environ.get("GRID_SHARED") or Path(__file__).resolve().parents[2] / "shared")
    log = shared / "traces" / kth.LOG
    if not log.exists():
        return []
    jobs = kth.workloads(Setting(trace=log, out=log.parent, tell=lambda _: None))
    means: dict[str, list[float]] = {}
    steps = 0
    for ladder in (FINE, *LADDERS):
        for month in kth.MONTHS:
            chosen = jobs[month, kth.ESTIMATE]
            served = kth.serve_slotted(chosen, ladder)
            means.setdefault(str(ladder), []).append(delays_of(chosen, served.starts).mean)
            steps = max(steps, served.steps_max)
    figures = []
    for ladder in LADDERS:
        ratios = zip(means[str(ladder)], means[str(FINE)], strict=True)
        worse = max(ours / fine for ours, fine in ratios)
        figures.append(
            Figure(name=f"{ladder}: delay", value=worse, unit="of fine", must=DELAY_MOST, aim=1)
        )
    return [*figures, Figure(name="imprecise: profile steps held", value=steps, unit="steps")]


def measure() -> list[Figure]:
    """Everything in this file."""
    return [*memory_figures(), *delay_figures()]
