"""Schedules in which every waiting job has a place, as plainly as they can be written, to hold the
production scheduler against.

From the definitions alone (conventions of the reference schedules), and sharing no code with it: a
plan is a list of (start, end, processors), and a place is found by trying every end in it.
Quadratic, and meant to be.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from simulator.replay import TieRule
from simulator.swf import TraceJob

Span = tuple[int, int, int]
"""Start, end, processors."""


class PlainRule(enum.Enum):
    """What becomes of places once dealt, and in which order jobs are served."""

    CONSERVATIVE = "conservative"
    """After an end each waiting job in turn leaves its place and takes the earliest; none gets
    later.
    """
    REPLAN = "replan"
    """All places are dealt again in order whenever anything happens."""
    FIRST_COME = "fcfs"
    """No places: the head of the queue starts when it fits, and blocks the others until then."""
    SHORTEST_FIRST = "sjf"
    """The same with the queue in order of the estimates."""


@dataclass(slots=True)
class PlainPlans:
    """One machine of ``procs`` processors and everything that happens on it."""

    jobs: list[TraceJob]
    procs: int
    ties: TieRule
    rule: PlainRule
    starts: list[int] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    """Planned start of each waiting job; only where there are places."""
    queue: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    """In order of decision."""

    def run(self) -> list[int]:
        """The start of every job, in the order of ``jobs``."""
        self.starts = [-1] * len(self.jobs)
        coming = list(range(len(self.jobs)))
        while coming or self.running or self.queue:
            happening = [self.jobs[each].submit for each in coming[:1]]
            happening += [self._end(each) for each in self.running]
            now = min(happening + list(self.places.values()))
            arrived = [each for each in coming if self.jobs[each].submit == now]
            coming = coming[len(arrived) :]
            ended = [each for each in self.running if self._end(each) == now]
            ended.sort(key=lambda each: self.starts[each])
            self._happen(now, arrived, ended)
        return self.starts

    def _happen(self, now: int, arrived: list[int], ended: list[int]) -> None:
        """Everything of one second by the tie rule, with a pass after each step; jobs that start
        now and take no time at all do not exist, so nothing more can happen in it.
        """
        if not arrived and not ended:
            self._pass(now, [], is_after_end=False)
        elif self.ties is TieRule.BATCH:
            self.running = [each for each in self.running if each not in ended]
            self._pass(now, arrived, is_after_end=bool(ended))
        elif self.ties is TieRule.SEQUENTIAL:
            for each in arrived:
                self._pass(now, [each], is_after_end=False)
            for each in ended:
                self.running.remove(each)
                self._pass(now, [], is_after_end=True)
        else:
            for each in ended:
                self.running.remove(each)
                self._pass(now, [], is_after_end=True)
            for each in arrived:
                self._pass(now, [each], is_after_end=False)

    def _pass(self, now: int, arrived: list[int], *, is_after_end: bool) -> None:
        self.queue += arrived
        if self.rule is PlainRule.SHORTEST_FIRST:
            self.queue.sort(key=lambda each: self.jobs[each].estimate_s)
        if self.rule in (PlainRule.FIRST_COME, PlainRule.SHORTEST_FIRST):
            while self.queue and self.jobs[self.queue[0]].procs <= self._idle(now):
                self._start(self.queue[0], now)
            return
        if self.rule is PlainRule.REPLAN:
            self.places = {}
        for each in self.queue:
            if is_after_end or each not in self.places:
                self.places.pop(each, None)
                self.places[each] = self._earliest(each, now)
        for each in list(self.queue):
            if self.places[each] <= now and self.jobs[each].procs <= self._idle(now):
                self._start(each, now)

    def _start(self, each: int, now: int) -> None:
        self.starts[each] = now
        self.queue.remove(each)
        self.places.pop(each, None)
        self.running.append(each)

    def _idle(self, now: int) -> int:
        """Processors that nothing runs on; sequentially, a job whose estimate runs out now
        already counts as gone.
        """
        is_trusting = self.ties is TieRule.SEQUENTIAL
        there = [each for each in self.running if not is_trusting or self._known_end(each) > now]
        return self.procs - sum(self.jobs[each].procs for each in there)

    def _earliest(self, each: int, now: int) -> int:
        """The first moment from which on it fits beside all that runs and all other places."""
        wanted = self.jobs[each]
        plan = [(now, self._known_end(other), self.jobs[other].procs) for other in self.running]
        for other, start in self.places.items():
            job = self.jobs[other]
            plan.append((start, start + job.estimate_s, job.procs))
        for start in sorted({now, *(end for _, end, _ in plan if end > now)}):
            if _peak(plan, start, start + wanted.estimate_s) + wanted.procs <= self.procs:
                return start
        raise AssertionError("it fits behind everything else")

    def _end(self, each: int) -> int:
        return self.starts[each] + self.jobs[each].run_s

    def _known_end(self, each: int) -> int:
        return self.starts[each] + self.jobs[each].estimate_s


def _peak(plan: list[Span], start: int, end: int) -> int:
    """Most processors in use at any moment of ``[start, end)``."""
    inside = [span for span in plan if span[0] < end and span[1] > start]
    moments = {start, *(span[0] for span in inside if span[0] > start)}
    return max(
        sum(procs for first, last, procs in inside if first <= moment < last) for moment in moments
    )
