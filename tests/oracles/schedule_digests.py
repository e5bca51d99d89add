"""The start of every job under every policy and tie rule, on slices of recorded workloads.

A slice is the first jobs of a log on a machine that is small enough for a queue to form: on the
whole machine most logs wait for nothing, and all policies agree.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from gridtravel.local_sched.admission.registry import BACKFILLING
from gridtravel.simulator.replay.loop import NAMED_PREFIX, TieRule, policy, replay
from gridtravel.simulator.replay.swf import TraceJob, read_trace
from tests.oracles.frozen_files import columns, digest
from tests.support.shared_data import shared_path

JOBS: Final = 2_000
PROCS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "CEA-Curie-2011-2.1-cln": 5_832,
        "DAS2-fs1-2003-1": 32,
        "KTH-SP2-1996-2.1-cln": 100,
        "LANL-CM5-1994-4.1-cln": 512,
        "LCG-2005-1": 192,
        "LLNL-Atlas-2006-2.1-cln": 2_304,
        "LLNL-Thunder-2007-1.1-cln": 2_004,
        "NASA-iPSC-1993-3.1-cln": 32,
        "OSC-Clust-2000-3.1-cln": 11,
        "RICC-2010-2": 4_096,
        "SDSC-BLUE-2000-4.2-cln": 576,
        "SDSC-Par-1996-3.1-cln": 400,
        "SDSC-SP2-1998-4.2-cln": 128,
        "Sandia-Ross-2001-1.1-cln": 762,
        "UniLu-Gaia-2014-1": 1_336,
        "lublin_256": 256,
    }
)
"""Processors of each slice; jobs that need more are left out."""
SMALL_CASES: Final = "small-cases"
"""Thirty cases of at most a hundred jobs, full of equal times."""
NAMED: Final = (f"{NAMED_PREFIX}easy", f"{NAMED_PREFIX}conservative")
"""Jobs keep particular processors; on machines of at most ``NAMED_PROCS_MAX``."""
NAMED_PROCS_MAX: Final = 128
WIDTHS: Final = (18, *(10 for _ in TieRule))

Workload = Sequence[tuple[Sequence[TraceJob], int]]
"""Jobs, and the processors that they run on."""


def heading() -> str:
    """What stands over the lines."""
    return f"trace  {columns(('policy', *TieRule), WIDTHS)}"


def lines_of(name: str) -> dict[str, str]:
    """By policy: a digest of (job, start) for each tie rule. First the jobs themselves."""
    workload = _small_cases() if name == SMALL_CASES else _slice(name)
    read = [[list(_fields(job)) for job in jobs] for jobs, _ in workload]
    lines = {"(jobs)": [digest(read), *("" for _ in range(len(TieRule) - 1))]}
    is_small = all(procs <= NAMED_PROCS_MAX for _, procs in workload)
    for policy_name in (*BACKFILLING, *(NAMED if is_small else ())):
        lines[policy_name] = [_starts(workload, policy_name, ties) for ties in TieRule]
    return {
        f"{name}/{policy_name}": columns((policy_name, *row), WIDTHS)
        for policy_name, row in lines.items()
    }


def _starts(workload: Workload, name: str, ties: TieRule) -> str:
    serve: Callable[..., Sequence[int]] = partial(
        replay, config=policy(name), ties=ties, keeps_nodes=name.startswith(NAMED_PREFIX)
    )
    return digest(
        [
            [[job.job_id, start] for job, start in zip(jobs, serve(jobs, procs), strict=True)]
            for jobs, procs in workload
        ]
    )


def _slice(name: str) -> Workload:
    procs = PROCS[name]
    trace = read_trace(shared_path("traces", f"{name}.swf.gz"), procs, JOBS)
    return [(trace.jobs, procs)]


def _small_cases() -> Workload:
    with gzip.open(shared_path("reference", "small-cases.json.gz"), "rt") as stream:
        cases: list[dict[str, Any]] = json.load(stream)
    return [
        (
            [
                TraceJob(i, submit, run, n, limit, -1, -1)
                for i, submit, run, n, limit in case["jobs"]
            ],
            case["procs"],
        )
        for case in cases
    ]


def _fields(job: TraceJob) -> tuple[int, ...]:
    return (job.job_id, job.submit, job.run_s, job.procs, job.estimate_s)
