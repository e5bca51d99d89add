"""The first jobs of a recorded log, read once for all tests of a process.

To find them takes nearly a second, for the whole log is read and put in order.
"""

from __future__ import annotations

import functools

from gridtravel.simulator.replay.swf import TraceJob, read_trace
from tests.support.shared_data import shared_path


def first_jobs(log: str, procs: int, count: int) -> list[TraceJob]:
    """The first ``count`` jobs of a log for a machine of ``procs``; a list of the caller's own. The
    test is skipped, loudly, where the log is missing.
    """
    return list(_first_jobs(log, procs, count))


@functools.cache
def _first_jobs(log: str, procs: int, count: int) -> tuple[TraceJob, ...]:
    return tuple(read_trace(shared_path("traces", log), procs, count).jobs)
