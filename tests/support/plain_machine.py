"""One machine and everything that happens on it, as plainly as it can be written: what the plain
schedulers beside this file have in common.

No calendar, no events of ours: lists, looked through at every pass. Quadratic, and meant to be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from gridtravel.simulator.replay.loop import TieRule
from gridtravel.simulator.replay.swf import TraceJob

Rank = Callable[[TraceJob, int], float]
"""Of a job, at a moment; the lower the earlier, and of equal ones the first come."""

STEP_S = 3
"""A job that is there past its estimate is expected to stay so much longer, again and again."""


def first_come(job: TraceJob, now: int) -> float:
    """The order of the log."""
    del job, now
    return 0


def shortest_first(job: TraceJob, now: int) -> float:
    """By estimate."""
    del now
    return job.estimate_s


@dataclass(slots=True, kw_only=True)
class PlainMachine(ABC):
    """``procs`` processors and their users; whom they are given to is for ``serve``."""

    jobs: list[TraceJob]
    procs: int
    ties: TieRule
    rank: Rank = first_come
    is_every_second: bool = False
    """A pass every second, also where nothing happens; else only where something does."""
    now: int = -1
    starts: list[int] = field(default_factory=list)
    queue: list[int] = field(default_factory=list)
    """In the order in which they are served."""
    running: list[int] = field(default_factory=list)
    """In order of decision."""
    until: dict[int, int] = field(default_factory=dict)
    """When each running job ends by what the scheduler knows."""

    def run(self) -> list[int]:
        """The start of every job, in the order of ``jobs``."""
        self.starts = [-1] * len(self.jobs)
        coming = list(range(len(self.jobs)))
        while coming or self.running or self.queue:
            happening = [self.jobs[each].submit for each in coming[:1]]
            happening += [self._end(each) for each in self.running]
            self.now = self.now + 1 if self.is_every_second else min(happening + self.planned())
            arrived = [each for each in coming if self.jobs[each].submit == self.now]
            coming = coming[len(arrived) :]
            ended = [each for each in self.running if self._end(each) == self.now]
            ended.sort(key=lambda each: self.starts[each])
            self._happen(arrived, ended)
        return self.starts

    def _happen(self, arrived: list[int], ended: list[int]) -> None:
        """Everything of one second by the tie rule, with a pass after each step; jobs that start
        now and take no time at all do not exist, so nothing more can happen in it.
        """
        none: list[int] = []
        arrivals, ends = [([each], none) for each in arrived], [(none, [each]) for each in ended]
        steps = {
            TieRule.SEQUENTIAL: arrivals + ends,
            TieRule.ENDS_FIRST: ends + arrivals,
            TieRule.BATCH: [(arrived, ended)],
        }[self.ties]
        for came, gone in steps or [(none, none)]:
            self.running = [each for each in self.running if each not in gone]
            self.queue += came
            self.queue.sort(key=lambda each: (self.rank(self.jobs[each], self.now), each))
            self.serve(has_ended=bool(gone), stays_longer=self._expect_longer())

    def _expect_longer(self) -> bool:
        """Jobs past their estimate stay on for a while; sequentially they are taken for gone. True
        when there are any.
        """
        late = [each for each in self.running if self.until[each] < self.now]
        if self.ties is TieRule.SEQUENTIAL or not late:
            return False
        self.until.update(dict.fromkeys(late, self.now + STEP_S))
        return True

    @abstractmethod
    def serve(self, *, has_ended: bool, stays_longer: bool) -> None:
        """One pass, after a job has ended or was found to stay longer, or none of that."""

    def planned(self) -> list[int]:
        """When jobs that wait are to start, where they are told."""
        return []

    def start(self, each: int, until: int) -> None:
        """It runs from now on, as far as is known ``until`` then."""
        self.starts[each] = self.now
        self.until[each] = until
        self.queue.remove(each)
        self.running.append(each)

    def idle(self) -> int:
        """Processors that nothing runs on."""
        return self.procs - sum(self.jobs[each].procs for each in self.there())

    def there(self) -> list[int]:
        """Running jobs; sequentially, one whose estimate runs out now already counts as gone."""
        if self.ties is not TieRule.SEQUENTIAL:
            return self.running
        return [each for each in self.running if self.until[each] > self.now]

    def by_rank(self, waiting: list[int], rank: Rank | None) -> list[int]:
        """Some of the queue in another order; ``None``: its own."""
        if rank is None:
            return waiting
        return sorted(waiting, key=lambda each: (rank(self.jobs[each], self.now), each))

    def _end(self, each: int) -> int:
        return self.starts[each] + self.jobs[each].run_s
