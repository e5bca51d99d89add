"""The trips that are lived again for each crash, as metajob files.

Each leg's program writes down when it began, and ends with ``NO_INPUT`` when what it needs is not
there: what began may not have begun without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.simulator.processes.crash_points import TripKind
from gridtravel.simulator.processes.live_batch import CLUSTER
from gridtravel.simulator.processes.live_grid import CHILDREN, MANAGER, SITES

NO_INPUT: Final = 66
"""Exit code of a program whose input is missing or is not all there."""
LARGE_FILE: Final = "large.dat"
MADE_FILE: Final = "made.dat"
DURATION_S: Final = {
    TripKind.CO_START: 12,
    TripKind.PIPELINE: 8,
    TripKind.RACE: 12,
    TripKind.GROUP: 3,
    TripKind.NO_AGENT: 12,
}
"""Of each leg: a site that dies when it begins is back before that is over."""
TRANSFER_S: Final = 3
WINDOW_S: Final = {
    TripKind.CO_START: 600,
    TripKind.PIPELINE: 600,
    TripKind.RACE: 60,
    TripKind.GROUP: 60,
    TripKind.NO_AGENT: 600,
}
"""From the earliest start to the latest end; of a race, as long as its copies wait."""
LEGS: Final = {
    TripKind.CO_START: {"alpha": 1, "beta": 1},
    TripKind.PIPELINE: {"alpha": 1, "beta": 1, "gamma": 1},
    TripKind.RACE: {"alpha": 1, "beta": 1, "gamma": 1},
    TripKind.GROUP: {MANAGER: 6, "gamma": 1},
    TripKind.NO_AGENT: {"alpha": 1, CLUSTER: 1},
}
"""Nodes at each machine. The manager's are of both its sites: neither has so many."""
SITES_OF: Final = {
    kind: [name for name in SITES if name in legs or (name in CHILDREN and MANAGER in legs)]
    for kind, legs in LEGS.items()
}
"""Sites with an agent that a trip needs."""
STAGED: Final = (TripKind.CO_START,)
"""Kinds that bring a large file along."""


def metajob_text(kind: TripKind, *, earliest: Instant, evidence: str, staged: Path) -> str:
    """A trip of this kind. ``evidence``: where programs write that they began, up to the site's
    name. ``staged``: the file that the laptop brings along.
    """
    legs = LEGS[kind]
    pattern, total, extra = "multiple", sum(legs.values()), ""
    match kind:
        case TripKind.PIPELINE:
            pattern, total = "pipeline", 0
            extra = f'transfer = "{TRANSFER_S}s"\n'
        case TripKind.RACE:
            pattern, total = "single", 1
            extra = "race = true\n"
    nodes = f"nodes_total = {total}\n" if total else ""
    latest = earliest + WINDOW_S[kind]
    head = (
        f'name = "{kind}"\nusage_pattern = "{pattern}"\n{nodes}'
        f'duration = "{DURATION_S[kind]}s"\n{extra}'
        f'earliest_start = "{format_utc(earliest)}"\nlatest_end = "{format_utc(latest)}"\n'
    )
    machines = "".join(
        f'[[machines]]\nname = "{name}"\nnodes_min = {count}\nnodes_max = {count}\n'
        for name, count in legs.items()
    )
    if kind is TripKind.PIPELINE:
        return head + machines + _stages(legs, evidence)
    return head + _task(kind, evidence, staged) + machines


def _task(kind: TripKind, evidence: str, staged: Path) -> str:
    """What runs at each leg; nothing runs at a manager."""
    if kind is TripKind.GROUP:
        return ""
    line, files = _begins(evidence), ""
    if kind in STAGED:
        files = f'stage_in = ["{staged.name}"]\n'
        line += f"; test $(wc -c < {staged.name}) = {staged.stat().st_size} || exit {NO_INPUT}"
    return f'[task]\ncommand = ["/bin/sh", "-c", """{line}; sleep 0.5"""]\n{files}'


def _stages(legs: dict[str, int], evidence: str) -> str:
    """Each stage hands one file on to the next."""
    tables = ""
    for number, site in enumerate(legs):
        line = f"{_begins(evidence)}; echo {site} >> {MADE_FILE}; sleep 0.5"
        receives = ""
        if number:
            line = f"test -s {MADE_FILE} || exit {NO_INPUT}; {line}"
            receives = f'receive = ["{MADE_FILE}"]\n'
        tables += (
            f'[[stages]]\nname = "stage-{site}"\nmachine = "{site}"\nnodes = {legs[site]}\n'
            f'{receives}[stages.task]\ncommand = ["/bin/sh", "-c", """{line}"""]\n'
        )
    return tables


def _begins(evidence: str) -> str:
    return f"date +%s.%N >> '{evidence}'$GRID_SITE"
