"""EASY backfilling as plainly as it can be written, to hold the production scheduler against: no
plan, only the moment at which the head can start and what is left beside it then.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.plain_machine import PlainMachine, Rank


@dataclass(slots=True, kw_only=True)
class PlainEasy(PlainMachine):
    """The head of the queue has a place; others start when they do it no harm."""

    filler_rank: Rank | None = None
    """Who is tried first for a gap; ``None``: in the order of the queue."""

    def serve(self, *, has_ended: bool, stays_longer: bool) -> None:
        """From the head on, then who harms the head's place in no way."""
        del has_ended, stays_longer
        free = self.idle()
        while self.queue and self.jobs[self.queue[0]].procs <= free:
            head = self.queue[0]
            free -= self.jobs[head].procs
            self.start(head, self.now + self.jobs[head].estimate_s)
        if not self.queue:
            return
        shadow, spare = self._place_of_head(free)
        for each in self.by_rank(self.queue[1:], self.filler_rank):
            job = self.jobs[each]
            ends_in_time = self.now + job.estimate_s <= shadow
            if job.procs > free or not (ends_in_time or job.procs <= spare):
                continue
            free -= job.procs
            spare -= 0 if ends_in_time else job.procs
            self.start(each, self.now + job.estimate_s)

    def _place_of_head(self, free: int) -> tuple[int, int]:
        """When the head can start by what the scheduler knows, and what is left beside it then."""
        needed = self.jobs[self.queue[0]].procs
        ends = sorted((max(self.until[each], self.now), each) for each in self.there())
        shadow = self.now
        for end, each in ends:
            if free >= needed and end > shadow:
                break
            free += self.jobs[each].procs
            shadow = end
        return shadow, free - needed
