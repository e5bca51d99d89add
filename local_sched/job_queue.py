"""The jobs of one resource class that wait and may be planned, in the order they are served.

A fixed order keeps the list sorted by itself; a changing one sorts it once a cycle. The queue also
remembers what happened to it since the last cycle, so that the cycle can leave alone what cannot
have changed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gridcore.instants import Instant

if TYPE_CHECKING:
    from local_sched.jobs import Job
    from local_sched.ordering import QueueOrder


class JobQueue:
    """Waiting jobs in order. ``arrivals`` are among ``jobs``; ``settle`` forgets the changes."""

    __slots__ = ("arrivals", "is_reordered", "is_sorted_by_itself", "jobs", "order")

    def __init__(self, order: QueueOrder) -> None:
        self.order = order
        self.is_sorted_by_itself = order.is_fixed
        self.jobs: list[Job] = []
        """All of them, in order (as of the last ``sort`` when the order changes with time)."""
        self.arrivals: list[Job] = []
        """Those added since the last ``settle``, in order of their coming."""
        self.is_reordered = False
        """True when more has happened since the last ``settle`` than jobs joining the tail."""

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, job: Job, now: Instant) -> None:
        """Let a job join where its key puts it."""
        jobs, key = self.jobs, self.order.key
        if jobs and key(job, now) < key(jobs[-1], now):
            insort(jobs, job, key=lambda each: key(each, now))
            self.is_reordered = True
        else:
            jobs.append(job)
        self.arrivals.append(job)

    def sort(self, now: Instant) -> None:
        """Bring a changing order up to date; nothing to do for a fixed one."""
        if self.order.is_fixed:
            return
        key = self.order.key
        keys = {job.sequence: key(job, now) for job in self.jobs}
        before = self.jobs.copy()
        self.jobs.sort(key=lambda job: keys[job.sequence])
        self.is_reordered = self.is_reordered or self.jobs != before

    def remove(self, job: Job) -> None:
        """A job leaves without having started (cancelled, held)."""
        self.jobs.remove(job)
        if job in self.arrivals:
            self.arrivals.remove(job)
        self.is_reordered = True

    def take(self, started: Iterable[Job]) -> None:
        """Jobs leave because they start; the order of the others stays."""
        remove = self.jobs.remove
        for job in started:
            remove(job)

    def settle(self) -> None:
        """The cycle has seen everything."""
        self.arrivals.clear()
        self.is_reordered = False
