"""How fast this machine is now, for tests that live in real time: starts that are far enough away,
and how late may be called punctual.

A test with real daemons books something that begins in a few seconds, and does something before it
begins. On a machine with many times more to do than it has processors everything before the start
takes that many times longer, and so the start has to be that much further away.
"""

from __future__ import annotations

import functools
import math
import os
import time
from typing import Final

SAMPLE_S: Final = 0.03
"""Of work: some slices of a busy machine's processors."""
SLOWNESS_MAX: Final = 8.0
"""Nobody waits longer than that: it is fifteen busy processes on two processors."""


def at_this_speed(seconds: float) -> int:
    """What takes ``seconds`` on an idle machine takes so many whole seconds now; the same answer
    throughout a test, so that its times keep their proportions.
    """
    return math.ceil(seconds * _slowness(os.environ.get("PYTEST_CURRENT_TEST", "")))


@functools.lru_cache(maxsize=1)
def _slowness(_test: str) -> float:
    """How many times longer than alone a process takes for its work; 1.0 when nobody else works."""
    began, work_began = time.monotonic(), time.thread_time()  # noqa: TID251 - it measures real time
    while time.thread_time() - work_began < SAMPLE_S:
        pass
    passed_s = time.monotonic() - began  # noqa: TID251 - as above
    return min(SLOWNESS_MAX, max(1.0, passed_s / SAMPLE_S))
