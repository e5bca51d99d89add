"""Exact free capacity over future time: how many interchangeable nodes are free at each second.

This is the calendar's arithmetic and nothing else. It does not know who booked what, why, or until
when a promise holds; the owner's book (``gridcore.booking.calendars``) and the local scheduler
remember that and call in here.

Two sorted lists carry the whole state: ``times[i]`` is the first second of step *i* and ``free[i]``
the number of nodes free from then until ``times[i + 1]`` (the last step lasts for ever).
Neighbouring steps always differ.

::

    capacity 4      book(3, 10, 20)        book(1, 15, 25)

    4 ┤────────     4 ┤──┐       ┌──       4 ┤──┐           ┌──
      │               │  │       │         3 ┤  │        ┌──┘
    1 ┤             1 ┤  └───────┘         1 ┤  └────┐   │
      │               │                    0 ┤       └───┘
      0  10  20       0  10      20          0  10   15  20  25

Why lists and not a tree: a search must look at neighbouring steps in order, and in Python a slice
of a list is cheaper than one descent of a balanced tree. Measured, trees lose by 12 to 27 times on
a packed profile; ``list.insert`` starts to show beyond 100,000 steps only.

Every search is *right to left*: to test a window, walk its steps from the right end; at the first
one with too little room every start up to that step is dead, so restart right behind it and never
look at a step twice. A job that covers w steps looks at about M/w of M steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import ClassVar

from gridtravel.gridcore.errors import REPORT_IT, ConflictError, InputError
from gridtravel.gridcore.timing.instants import Instant


class AvailabilityProfile:
    """Free nodes over ``[origin, for ever)``; counted, never named.

    ``capacity`` is the number of nodes owned, at least 0. All bookings are half-open, in whole
    seconds, and ``end`` ``None`` means without end. The past is forgotten by ``advance``; bookings
    that reach into it are cut to what is left, so a book restored after a restart may be replayed
    into a fresh profile.
    """

    __slots__ = ("capacity", "free", "times")

    names_nodes: ClassVar[bool] = False
    """True where a booking keeps particular nodes (``gridcore.capacity.node_sets``)."""

    capacity: int
    """Nodes owned; no step may ever show more free than this."""

    times: list[Instant]
    """First second of each step; strictly rising, never empty. Read only outside this class."""

    free: list[int]
    """Free nodes of each step; below zero only after ``withdraw`` took nodes that were already
    promised.
    """

    def __init__(self, capacity: int, origin: Instant = 0) -> None:
        if capacity < 0:
            raise InputError(f"a capacity cannot be negative: {capacity}")
        self.capacity = capacity
        self.times = [origin]
        self.free = [capacity]

    @classmethod
    def from_steps(cls, capacity: int, steps: Sequence[tuple[Instant, int]]) -> AvailabilityProfile:
        """The profile that ``steps`` would list; ``InputError`` when none would."""
        profile = cls(capacity)
        profile.times = [start for start, _ in steps]
        profile.free = [free for _, free in steps]
        try:
            profile.validate()
        except (AssertionError, ValueError) as fault:
            raise InputError(f"not the steps of a profile: {fault}") from None
        return profile

    # -- questions ---------------------------------------------------------------------------------

    @property
    def origin(self) -> Instant:
        """The first second this profile still knows."""
        return self.times[0]

    def free_at(self, instant: Instant) -> int:
        """Free nodes at one second (for an instant before the origin: at the origin)."""
        return self.free[max(bisect_right(self.times, instant) - 1, 0)]

    def min_free(self, start: Instant, end: Instant | None) -> int:
        """The largest number of nodes that is free during the whole of ``[start, end)``."""
        first, behind = self._covered(start, end)
        return min(self.free[first:behind])

    def max_free(self, start: Instant, end: Instant | None) -> int:
        """The largest number of nodes that is free at any second of ``[start, end)``."""
        first, behind = self._covered(start, end)
        return max(self.free[first:behind])

    def fits(self, nodes: int, start: Instant, end: Instant | None) -> bool:
        """True when ``nodes`` are free during the whole of ``[start, end)``."""
        times = self.times
        first = 0 if start <= times[0] else bisect_right(times, start) - 1
        behind = len(times) if end is None else bisect_left(times, end, first)
        return nodes <= min(self.free[first : behind if behind > first else first + 1])

    def earliest_fit(
        self, nodes: int, duration_s: int, earliest: Instant, latest_end: Instant | None = None
    ) -> Instant | None:
        """The first start at or after ``earliest`` with ``nodes`` free for ``duration_s``, or
        ``None``.

        ``None`` means: not before ``latest_end``, or (without it) never. O(steps) at worst, usually
        far less.
        """
        if nodes < 0 or duration_s <= 0:
            self._check_demand(nodes, duration_s)
        times, free = self.times, self.free
        if earliest <= times[0]:
            start, unseen = times[0], 0
        else:
            start, unseen = earliest, bisect_right(times, earliest) - 1
        while True:
            end = start + duration_s
            if latest_end is not None and end > latest_end:
                return None
            behind = bisect_left(times, end, unseen)
            step = behind - 1
            while step >= unseen and free[step] >= nodes:
                step -= 1
            if step < unseen:
                return start
            if step + 1 == len(times):
                return None
            start = times[step + 1]
            unseen = behind

    def earlier(
        self,
        nodes: int,
        duration_s: int,
        earliest: Instant,
        planned_start: Instant,
        until: Instant | None = None,
    ) -> Instant:
        """The first start in ``[earliest, planned_start]`` for a booking that already holds its
        planned place.

        The booking's own room ``[planned_start, planned_start + duration_s)`` counts as free for
        it, so the answer is what unbook, ``earliest_fit``, book would find, without touching the
        profile (compression, performance.md 2). ``until``: no start from then on is of interest.
        """
        times, free = self.times, self.free
        limit = planned_start if until is None or until > planned_start else until
        if earliest <= times[0]:
            start, unseen = times[0], 0
        else:
            start, unseen = earliest, bisect_right(times, earliest) - 1
        if start >= limit:
            return planned_start
        while True:
            end = start + duration_s
            if end > planned_start:
                end = planned_start
            behind = bisect_left(times, end, unseen)
            step = behind - 1
            while step >= unseen and free[step] >= nodes:
                step -= 1
            if step < unseen:
                return start
            if step + 1 == len(times):
                return planned_start
            start = times[step + 1]
            if start >= limit:
                return planned_start
            unseen = behind

    def starts(
        self,
        duration_s: int,
        earliest: Instant,
        latest_end: Instant,
        nodes_min: int = 1,
        nodes_max: int | None = None,
    ) -> Iterator[tuple[Instant, Instant, int]]:
        """All possible starts of a booking of ``duration_s`` within ``[earliest, latest_end)``, as
        runs.

        Yields ``(first, until, nodes)``: every start in ``[first, until)`` finds at most ``nodes``
        free for the whole duration. Runs rise in time, do not overlap, differ from a touching
        neighbour, and have ``nodes >= nodes_min``. One pass with a sliding minimum, O(steps).
        ``nodes_max``: more than that is of no interest and is told as ``nodes_max``, which makes
        one run of many.
        """
        self._check_demand(nodes_min, duration_s)
        start = max(earliest, self.times[0])
        first, behind = self._covered(start, max(latest_end, start + 1))
        times, free = self.times[first:behind], self.free[first:behind]
        if nodes_max is not None:
            times, free = _capped(times, free, nodes_max)
        return _start_runs(times, free, duration_s, start, latest_end - duration_s + 1, nodes_min)

    def free_node_seconds(self, start: Instant, end: Instant) -> int:
        """The area free in ``[start, end)``, in node-seconds; with the minimum it sums up a slot
        (paper, 2.3).
        """
        first, behind = self._covered(start, end)
        total = 0
        for step in range(first, behind):
            until = end if step + 1 == behind else self.times[step + 1]
            total += self.free[step] * (until - max(start, self.times[step]))
        return total

    def steps(self) -> list[tuple[Instant, int]]:
        """``(first second, free nodes)`` of every step, in order; the last one lasts for ever."""
        return list(zip(self.times, self.free, strict=True))

    def shortages(self) -> list[tuple[Instant, Instant | None, int]]:
        """``(start, end, missing nodes)`` wherever more is promised than there is, after
        ``withdraw``.
        """
        ends: list[Instant | None] = [*self.times[1:], None]
        found = zip(self.times, ends, self.free, strict=True)
        return [(start, end, -free) for start, end, free in found if free < 0]

    # -- changes -----------------------------------------------------------------------------------

    def book(self, nodes: int, start: Instant, end: Instant | None) -> None:
        """Take ``nodes`` out of ``[start, end)``; ``ConflictError`` and no change where there is
        less free.
        """
        if nodes < 0 or (end is not None and end <= start):
            self._check_demand(nodes, 1 if end is None else end - start)
        self._shift(-nodes, start, end, least=0, most=self.capacity)

    def unbook(self, nodes: int, start: Instant, end: Instant | None) -> None:
        """Give back what was booked; ``ConflictError`` and no change if that was never booked."""
        if nodes < 0 or (end is not None and end <= start):
            self._check_demand(nodes, 1 if end is None else end - start)
        self._shift(nodes, start, end, least=None, most=self.capacity)

    def move(self, nodes: int, duration_s: int, start: Instant, new_start: Instant) -> int:
        """Let a booking start earlier, in one step; returns the most nodes free at any second it
        left.

        ``new_start`` must come from ``earlier`` (or the room be known otherwise): nothing is
        checked again. Where the old and the new place overlap nothing changes, which is most of a
        small move::

            old           |########|
            new       |########|
            booked    |---|
            given back         |---|
        """
        end, new_end = start + duration_s, new_start + duration_s
        taken_until = new_end if new_end < start else start
        left_from = start if new_end < start else new_end
        self._shift(-nodes, new_start, taken_until, least=None, most=self.capacity)
        return self._shift(nodes, left_from, end, least=None, most=self.capacity)

    def withdraw(self, nodes: int, start: Instant, end: Instant | None) -> None:
        """Take ``nodes`` away even where they are promised (a node failed); undone by ``unbook``.

        Steps may fall below zero; ``shortages`` lists them, and the owner of the promises must
        break some.
        """
        if nodes < 0 or (end is not None and end <= start):
            self._check_demand(nodes, 1 if end is None else end - start)
        self._shift(-nodes, start, end, least=None, most=self.capacity)

    def cap(self, nodes: int, start: Instant, end: Instant) -> None:
        """Let no second of ``[start, end)`` show more than ``nodes`` free, on a copy that is
        searched under a rule (closed windows). Cannot be undone."""
        if nodes < 0:
            self._check_demand(nodes, 1)
        at = max(start, self.times[0])
        while at < end:
            step = bisect_right(self.times, at) - 1
            until = self.times[step + 1] if step + 1 < len(self.times) else end
            until = min(until, end)
            self._shift(min(nodes - self.free[step], 0), at, until, least=None, most=self.capacity)
            at = until

    def advance(self, now: Instant) -> None:
        """Forget everything before ``now``; never goes back."""
        times = self.times
        if now <= times[0]:
            return
        if len(times) > 1 and times[1] <= now:
            step = bisect_right(times, now) - 1
            del times[:step]
            del self.free[:step]
        times[0] = now

    def clear(self, now: Instant) -> None:
        """Forget everything: all is free from ``now`` on, which may lie before the origin. Whoever
        booked here books again (a clock that was ahead has been set right).
        """
        self.times[:] = [now]
        self.free[:] = [self.capacity]

    def copy(self) -> AvailabilityProfile:
        """An independent profile with the same content, to plan on."""
        twin = AvailabilityProfile.__new__(AvailabilityProfile)
        twin.capacity = self.capacity
        twin.times = self.times.copy()
        twin.free = self.free.copy()
        return twin

    def validate(self) -> None:
        """Assert what links the fields: rising times, differing neighbours, never more free than
        owned.
        """
        times, free = self.times, self.free
        assert len(times) == len(free) >= 1, "one count for each step, and at least one step"
        assert all(a < b for a, b in pairwise(times)), "times must rise"
        assert all(a != b for a, b in pairwise(free)), "equal neighbours merge"
        assert max(free) <= self.capacity, "more free than owned"

    def __repr__(self) -> str:
        """Short form for failing tests: capacity and steps."""
        return f"AvailabilityProfile(capacity={self.capacity}, steps={self.steps()})"

    def __eq__(self, other: object) -> bool:
        """Same capacity and the same free count at every second from the same origin on."""
        if not isinstance(other, AvailabilityProfile):
            return NotImplemented
        return (self.capacity, self.times, self.free) == (other.capacity, other.times, other.free)

    __hash__ = None  # type: ignore[assignment]  # mutable

    # -- inside ------------------------------------------------------------------------------------

    @staticmethod
    def _check_demand(nodes: int, duration_s: int) -> None:
        if nodes < 0:
            raise InputError(f"a number of nodes cannot be negative: {nodes}")
        if duration_s <= 0:
            raise InputError(f"a duration must be positive: {duration_s} s")

    def _covered(self, start: Instant, end: Instant | None) -> tuple[int, int]:
        """Indices ``[first, behind)`` of the steps that ``[start, end)`` touches."""
        times = self.times
        if end is not None and end <= start:
            raise InputError(f"an interval must end after it starts: [{start}, {end})")
        first = max(bisect_right(times, start) - 1, 0)
        if end is None:
            return first, len(times)
        return first, max(bisect_left(times, end, first), first + 1)

    def _shift(
        self, change: int, start: Instant, end: Instant | None, *, least: int | None, most: int
    ) -> int:
        """Add ``change`` to every step of ``[start, end)``, keeping within bounds and neighbours
        different. Returns the most nodes free in it afterwards, 0 after a booking (not needed).
        """
        times, free = self.times, self.free
        if change == 0:
            return 0
        if start <= times[0]:
            first, start = 0, times[0]
            if end is not None and end <= start:
                return 0
        else:
            first = bisect_right(times, start) - 1
        behind = len(times) if end is None else bisect_left(times, end, first)
        peak = 0
        if change < 0:
            if least is not None and min(free[first:behind]) + change < least:
                raise ConflictError(
                    f"fewer than {-change} nodes are free in [{start}, {end})", hint=REPORT_IT
                )
        else:
            peak = max(free[first:behind]) + change
            if peak > most:
                raise ConflictError(
                    f"{change} nodes were never booked in the whole of [{start}, {end})",
                    hint=REPORT_IT,
                )
        if end is not None and (behind == len(times) or times[behind] != end):
            times.insert(behind, end)
            free.insert(behind, free[behind - 1])
        if times[first] != start:
            first += 1
            behind += 1
            times.insert(first, start)
            free.insert(first, free[first - 1])
        if behind - first == 1:
            free[first] += change
        else:
            free[first:behind] = [availability + change for availability in free[first:behind]]
        if end is not None and free[behind] == free[behind - 1]:
            del times[behind]
            del free[behind]
        if first and free[first] == free[first - 1]:
            del times[first]
            del free[first]
        return peak


def _capped(
    times: Sequence[Instant], free: Sequence[int], nodes_max: int
) -> tuple[list[Instant], list[int]]:
    """The same steps with nothing above ``nodes_max``, neighbours different."""
    kept_times: list[Instant] = []
    kept_free: list[int] = []
    last = -1
    for time, availability in zip(times, free, strict=True):
        shown = availability if availability < nodes_max else nodes_max
        if shown != last or not kept_times:
            kept_times.append(time)
            kept_free.append(shown)
            last = shown
    return kept_times, kept_free


def _start_runs(
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
