"""First fit and backfill in whole slots as plainly as they can be written (calendar paper, sections
2.2 and 2.3), to hold ``simulator.imprecise.slotted_scheduler`` against.

Second by second, from the list of the ladder's edges: no grid, no profile, no memory of where room
has appeared.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.simulator.replay.swf import TraceJob

FAR_S = 600
"""No plan of a test reaches further."""


@dataclass(slots=True, kw_only=True)
class PlainSlots:
    """One cluster and its users. In one second all ends come first, then all arrivals."""

    jobs: list[TraceJob]
    nodes: int
    ladder: SlotLadder
    now: int = -1
    edges: list[int] = field(default_factory=list)
    """The slots' edges as they lie now."""
    starts: dict[int, int] = field(default_factory=dict)
    """Planned or real start of each job that has come, in the order of coming."""
    held_until: dict[int, int] = field(default_factory=dict)
    """End of the last slot that each job takes, of those that are not over."""
    blocked: list[tuple[int, int]] = field(default_factory=list)
    """Nodes of jobs that are over, and the end of the slot in which they ended: it was given away
    whole.
    """

    def run(self) -> list[int]:
        """The start of every job."""
        while len(self.starts) < len(self.jobs) or self.held_until:
            self.now += 1
            self.edges = self.ladder.edges(self.now, self.now + FAR_S)
            has_new_room = self._end() | self._split()
            for each in self.starts:
                if has_new_room and self.starts[each] > self.now and each in self.held_until:
                    del self.held_until[each]
                    self._place(each)
            for each, job in enumerate(self.jobs):
                if job.submit == self.now:
                    self._place(each)
        return [self.starts[each] for each in range(len(self.jobs))]

    def _end(self) -> bool:
        """Jobs that are over leave; True when there are any."""
        ended = [
            each
            for each in self.held_until
            if self.starts[each] + self.jobs[each].run_s == self.now
        ]
        for each in ended:
            del self.held_until[each]
            self.blocked.append((self.jobs[each].procs, self._ceil(self.now)))
        return bool(ended)

    def _split(self) -> bool:
        """Jobs keep the finer slots that they touch; True when that gives back a slot to come."""
        has_new_room = False
        for each, until in self.held_until.items():
            self.held_until[each] = self._ceil(self.starts[each] + self.jobs[each].estimate_s)
            has_new_room |= max(self.held_until[each], self._ceil(self.now)) < until
        return has_new_room

    def _place(self, each: int) -> None:
        """The first slot from which on it fits."""
        job = self.jobs[each]
        self.starts[each], self.held_until[each] = next(
            (edge, self._ceil(edge + job.estimate_s))
            for edge in self.edges
            if edge >= self.now and self._fits(job.procs, edge, self._ceil(edge + job.estimate_s))
        )

    def _fits(self, nodes: int, start: int, end: int) -> bool:
        spans = [(0, until, taken) for taken, until in self.blocked]
        for other, until in self.held_until.items():
            spans.append((self.starts[other], until, self.jobs[other].procs))
        moments = {start, *(first for first, _, _ in spans if start < first < end)}
        return all(
            nodes + sum(taken for first, until, taken in spans if first <= moment < until)
            <= self.nodes
            for moment in moments
        )

    def _ceil(self, instant: int) -> int:
        return next(edge for edge in self.edges if edge >= instant)
