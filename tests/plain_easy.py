"""EASY backfilling as plainly as it can be written, to hold the production scheduler against.

No calendar, no events of ours: lists, sorted again at every pass. Quadratic, and meant to be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator.replay import TieRule
from simulator.swf import TraceJob


@dataclass(slots=True)
class PlainEasy:
    """One machine of ``procs`` processors and everything that happens on it."""

    jobs: list[TraceJob]
    procs: int
    ties: TieRule
    is_shortest_first: bool = False
    starts: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    """In order of decision."""

    def run(self) -> list[int]:
        """The start of every job, in the order of ``jobs``."""
        self.starts = [-1] * len(self.jobs)
        coming = list(range(len(self.jobs)))
        while coming or self.running:
            now = min(
                [self.jobs[each].submit for each in coming[:1]]
                + [self._end(each) for each in self.running]
            )
            arrived = [each for each in coming if self.jobs[each].submit == now]
            coming = coming[len(arrived) :]
            ended = sorted(
                (each for each in self.running if self._end(each) == now),
                key=lambda each: self.starts[each],
            )
            self._happen(now, arrived, ended)
        return self.starts

    def _happen(self, now: int, arrived: list[int], ended: list[int]) -> None:
        if self.ties is TieRule.BATCH:
            self.running = [each for each in self.running if each not in ended]
            self.queue += arrived
            self._serve(now)
            return
        order = [("end", each) for each in ended]
        arrivals = [("arrival", each) for each in arrived]
        is_sequential = self.ties is TieRule.SEQUENTIAL
        for what, each in arrivals + order if is_sequential else order + arrivals:
            if what == "end":
                self.running.remove(each)
            else:
                self.queue.append(each)
            self._serve(now)

    def _serve(self, now: int) -> None:
        """One pass: from the head on, then who harms the head's place in no way."""
        free = self.procs - sum(self.jobs[each].procs for each in self._there(now))
        while self.queue and self.jobs[self.queue[0]].procs <= free:
            free -= self.jobs[self.queue[0]].procs
            self._start(self.queue.pop(0), now)
        if not self.queue:
            return
        shadow, spare = self._place_of_head(now, free)
        others = self.queue[1:]
        if self.is_shortest_first:
            others.sort(key=lambda each: self.jobs[each].estimate_s)
        for each in others:
            job = self.jobs[each]
            ends_in_time = now + job.estimate_s <= shadow
            if job.procs > free or not (ends_in_time or job.procs <= spare):
                continue
            free -= job.procs
            spare -= 0 if ends_in_time else job.procs
            self.queue.remove(each)
            self._start(each, now)

    def _place_of_head(self, now: int, free: int) -> tuple[int, int]:
        """When the head can start by what the scheduler knows, and what is left beside it then."""
        needed = self.jobs[self.queue[0]].procs
        ends = sorted((max(self._known_end(each), now), each) for each in self._there(now))
        shadow = now
        for end, each in ends:
            if free >= needed and end > shadow:
                break
            free += self.jobs[each].procs
            shadow = end
        return shadow, free - needed

    def _there(self, now: int) -> list[int]:
        """Running jobs; sequentially, one whose estimate runs out now already counts as gone."""
        if self.ties is not TieRule.SEQUENTIAL:
            return self.running
        return [each for each in self.running if self._known_end(each) > now]

    def _start(self, each: int, now: int) -> None:
        self.starts[each] = now
        self.running.append(each)

    def _end(self, each: int) -> int:
        return self.starts[each] + self.jobs[each].run_s

    def _known_end(self, each: int) -> int:
        return self.starts[each] + self.jobs[each].estimate_s
