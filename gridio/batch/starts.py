"""Which starts a batch system is asked about, when it can only say yes or no to one at a time.

Every start costs a command. So they lie close together where the window begins and ever farther
apart behind, all on round moments: two such sites that are asked the same question try the same
moments, and can have a start in common. Moments at which something known ends come on top, because
that is when room appears.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from gridcore.instants import Instant

ROUND_S: Final = (15, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400, 604_800)
"""Distances between starts, in seconds: whole parts of a day, or whole days."""
LADDER_MAX: Final = 32
"""Starts of a ladder: 12 span an hour, 23 two weeks; who looks a quarter ahead asks again."""
ENDS_MAX: Final = 24
"""Known ends that are tried on top, the earliest first."""


def ladder(first: Instant, last: Instant) -> list[Instant]:
    """Starts from ``first`` to ``last``, at most ``LADDER_MAX``; both are among them unless it is
    longer.
    """
    if last < first:
        return []
    starts, at = [first], first
    while len(starts) < LADDER_MAX:
        step_s = next((each for each in ROUND_S if 2 * each >= at - first), ROUND_S[-1])
        at = (at // step_s + 1) * step_s
        if at >= last:
            break
        starts.append(at)
    if last != first and len(starts) < LADDER_MAX:
        starts.append(last)
    return starts


def candidates(first: Instant, last: Instant, ends: Iterable[Instant]) -> list[Instant]:
    """The ladder, and those of ``ends`` that lie within, in order."""
    inside = islice(sorted({each for each in ends if first < each <= last}), ENDS_MAX)
    return sorted({*ladder(first, last), *inside})
