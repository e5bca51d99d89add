"""Possible starts over a step function of free nodes, as runs; the arithmetic behind ``starts``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from gridcore.instants import Instant


def capped(
    times: Sequence[Instant], free: Sequence[int], nodes_max: int
) -> tuple[list[Instant], list[int]]:
    """The same steps with nothing above ``nodes_max``, neighbours different."""
    kept_times: list[Instant] = []
    kept_free: list[int] = []
    last = -1
    for time, room in zip(times, free, strict=True):
        shown = room if room < nodes_max else nodes_max
        if shown != last or not kept_times:
            kept_times.append(time)
            kept_free.append(shown)
            last = shown
    return kept_times, kept_free


def start_runs(
    times: Sequence[Instant],
    free: Sequence[int],
    duration_s: int,
    start: Instant,
    limit: Instant,
    nodes_min: int,
) -> Iterator[tuple[Instant, Instant, int]]:
    """Runs ``(first, until, nodes)`` of the starts in ``[start, limit)``.

    ``times[i]`` is the first second of step *i*, the first at or before ``start``; the last step
    lasts for ever. A window slides over the steps, and a falling queue of their indices has its
    least free one in front, so that each step is looked at twice at most.
    """
    left = right = 0
    falling: deque[int] = deque()
    pending: tuple[Instant, Instant, int] | None = None
    while start < limit:
        while right < len(times) and times[right] < start + duration_s:
            while falling and free[falling[-1]] >= free[right]:
                falling.pop()
            falling.append(right)
            right += 1
        while falling[0] < left:
            falling.popleft()
        nodes = free[falling[0]]
        until = limit
        if left + 1 < len(times):
            until = min(until, times[left + 1])
        if right < len(times):
            until = min(until, times[right] - duration_s + 1)
        if pending is not None and (pending[2] != nodes or nodes < nodes_min):
            yield pending
            pending = None
        if nodes >= nodes_min:
            pending = (start if pending is None else pending[0], until, nodes)
        start = until
        if left + 1 < len(times) and times[left + 1] == start:
            left += 1
    if pending is not None:
        yield pending
