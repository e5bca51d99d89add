"""Schedules in which waiting jobs have places, as plainly as they can be written, to hold the
production scheduler against.

From the definitions alone (conventions of the reference schedules, the table in
``local_sched.scheduling.backfill``), and sharing no code with it: a plan is a list of spans, and a
place is found by trying every end in it. Quadratic, and meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.plain_machine import PlainMachine, Rank, first_come, shortest_first


class PlainRule(NamedTuple):
    """Who has a place, what becomes of it once dealt, and in which order jobs are served."""

    depth: int | None = None
    """So many of the first jobs that must wait have a place, and the others fill gaps; ``None``:
    all have one.
    """
    keeps_planned_starts: bool = True
    """With places for all: after an end each waiting job in turn leaves its place and takes the
    earliest, and none gets later. Else all places are dealt again in order whenever anything
    happens.
    """
    rank: Rank = first_come
    filler_rank: Rank | None = None
    """Who is tried first for a gap; ``None``: in the order of the queue."""
    keeps_nodes: bool = False
    """A job keeps particular processors for its whole stay, the lowest that are free for it."""


PLAIN_RULES = {
    "fcfs": PlainRule(depth=0),
    "sjf": PlainRule(depth=0, rank=shortest_first),
    "edf": PlainRule(depth=0),
    "easy": PlainRule(depth=1),
    "easy-sjbf": PlainRule(depth=1, filler_rank=shortest_first),
    "conservative": PlainRule(),
    "replan": PlainRule(keeps_planned_starts=False),
}
"""By the name of the policy; a log knows no deadlines."""


class Span(NamedTuple):
    """The processors of a job from ``start`` until ``end``."""

    job: int
    start: int
    end: int


@dataclass(slots=True, kw_only=True)
class PlainPlans(PlainMachine):
    """Everybody's span stands in one plan."""

    rule: PlainRule
    places: dict[int, int] = field(default_factory=dict)
    """Planned start of each waiting job that has one, in the order of dealing."""
    nodes: dict[int, set[int]] = field(default_factory=dict)
    """The processors of each place and running job, where they are kept."""

    def __post_init__(self) -> None:
        self.rank = self.rule.rank

    def serve(self, *, has_ended: bool, stays_longer: bool) -> None:
        """Deal places, then start who is due."""
        is_roomier = self._make_room(stays_longer=stays_longer) or has_ended
        if self.rule.depth is not None:
            self._serve_first(self.rule.depth)
            return
        if not self.rule.keeps_planned_starts:
            self.places = {}
        for each in self.queue:
            if is_roomier or each not in self.places:
                self._choose_place(each)
        for each in list(self.queue):
            self._start_if_due(each)

    def planned(self) -> list[int]:
        """All places."""
        return list(self.places.values())

    def _serve_first(self, depth: int) -> None:
        """From the head on, until as many wait as may have a place, and again while that moved one;
        then who fits beside those.
        """
        holders = list(self.places)
        if self.queue[: len(holders)] != holders:
            self.places = {}
        before = None
        while self.places != before:
            before = self.places.copy()
            waiting, others = 0, self.queue.copy()
            while others and waiting < max(depth, 1):
                first = others.pop(0)
                self._choose_place(first)
                waiting += not self._start_if_due(first)
        if depth == 0:
            self.places = {}
            return
        for each in self.by_rank(others, self.rule.filler_rank):
            if self._fits(each, self.now, self._plan()) and self.jobs[each].procs <= self.idle():
                self._take(each, self.now)
                self._start_if_due(each)

    def _make_room(self, *, stays_longer: bool) -> bool:
        """Who did not start while his place lasted has none. Where jobs stay longer than they said
        and places are promises, the last in the queue give way first, as far as too much is
        promised; else all give way. They are placed again in turn. True when there was any need.
        """
        if stays_longer and (self.rule.depth is not None or not self.rule.keeps_planned_starts):
            self.places = {}
        given_up: list[int] = []
        for each in reversed([each for each in self.queue if each in self.places]):
            start, end = max(self.places[each], self.now), self._place_end(each)
            is_over = end <= self.now
            if is_over or (stays_longer and self._peak(start, end, self._plan()) > self.procs):
                del self.places[each]
                given_up.insert(0, each)
        if self.rule.depth is None:
            for each in given_up:
                self._choose_place(each)
        return stays_longer or bool(given_up)

    # -- places ------------------------------------------------------------------------------------

    def _choose_place(self, each: int) -> None:
        """The earliest place beside all others, instead of the one it has; a place that was due
        before is kept.
        """
        old = self.places.get(each)
        if old is not None and old < self.now:
            return
        self.places.pop(each, None)
        plan = self._plan()
        moments = sorted({self.now, *(span.end for span in plan)})
        start = next(start for start in moments if self._fits(each, start, plan))
        assert old is None or start <= old, "no place gets later"
        self._take(each, start)

    def _take(self, each: int, start: int) -> None:
        if self.rule.keeps_nodes:
            end = start + self.jobs[each].estimate_s
            free = sorted(self._free_nodes(start, end, self._plan()))
            self.nodes[each] = set(free[: self.jobs[each].procs])
        self.places[each] = start

    def _start_if_due(self, each: int) -> bool:
        """Who starts late runs as long as it said where there is room, or to the end of its
        place.
        """
        place, place_end, job = self.places[each], self._place_end(each), self.jobs[each]
        if place > self.now or job.procs > self.idle():
            return False
        del self.places[each]
        until = self.now + job.estimate_s
        if place < self.now and not self._fits(each, self.now, self._plan()):
            until = place_end
        self.start(each, until)
        return True

    def _fits(self, each: int, start: int, plan: list[Span]) -> bool:
        """Whether it fits beside all others."""
        job, end = self.jobs[each], start + self.jobs[each].estimate_s
        if self.rule.keeps_nodes:
            return len(self._free_nodes(start, end, plan)) >= job.procs
        return self._peak(start, end, plan) + job.procs <= self.procs

    def _peak(self, start: int, end: int, plan: list[Span]) -> int:
        """Most processors that are promised at any moment of ``[start, end)``."""
        inside = [span for span in plan if span.start < end and span.end > start]
        moments = {start, *(span.start for span in inside if span.start > start)}
        return max(
            sum(self.jobs[span.job].procs for span in inside if span.start <= moment < span.end)
            for moment in moments
        )

    def _free_nodes(self, start: int, end: int, plan: list[Span]) -> set[int]:
        """The processors that nobody has during ``[start, end)``."""
        inside = [span for span in plan if span.start < end and span.end > start]
        return set(range(self.procs)).difference(*(self.nodes[span.job] for span in inside))

    def _place_end(self, each: int) -> int:
        return self.places[each] + self.jobs[each].estimate_s

    def _plan(self) -> list[Span]:
        """Everything promised from now on."""
        spans = [Span(each, self.now, self.until[each]) for each in self.running]
        spans += [Span(each, start, self._place_end(each)) for each, start in self.places.items()]
        return [span for span in spans if span.end > self.now]
