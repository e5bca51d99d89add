"""The waiting jobs of one resource class that may be planned, and the orders that can serve them.

An order gives a job a sort key, lowest first, which ends in the submission rank, so that no tie is
left open. The key of a *fixed* order never changes while the job waits, and the queue stays sorted
by itself; a changing one (Catalina's priority grows with waiting, ``priority``) is sorted once a
cycle. The queue also remembers what happened to it since the last cycle, so that the cycle can
leave alone what cannot have changed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.jobs import Job

SortKey = tuple[float, int]
"""A rank, lowest first, then the submission rank."""

NO_DEADLINE: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOrder:
    """A name, the key, and whether keys stay as they are."""

    name: str
    key: Callable[[Job, Instant], SortKey]
    is_fixed: bool = True
    terms: Callable[[Job, Instant], Mapping[str, float]] | None = None
    """What the rank is made of, by name, for people; ``None`` where the name of the order says
    it all.
    """
    needs_deadlines: bool = False
    """Among jobs without a deadline it is first come, first served: whoever offers it to people
    whose jobs have none refuses it.
    """


def _first_come(job: Job, now: Instant) -> SortKey:
    del now
    return 0.0, job.sequence


def _shortest(job: Job, now: Instant) -> SortKey:
    del now
    return job.limit_s, job.sequence


def _earliest_deadline(job: Job, now: Instant) -> SortKey:
    del now
    return (NO_DEADLINE if job.deadline is None else job.deadline), job.sequence


FIRST_COME: Final = QueueOrder(name="fcfs", key=_first_come)
SHORTEST_FIRST: Final = QueueOrder(name="sjf", key=_shortest)
EARLIEST_DEADLINE: Final = QueueOrder(name="edf", key=_earliest_deadline, needs_deadlines=True)


def by_rank(ranks: Mapping[str, int]) -> QueueOrder:
    """The order of a policy that says it anew each time, as ranks by job id; whoever has none yet
    comes last.
    """

    def key(job: Job, now: Instant) -> SortKey:
        del now
        return ranks.get(job.job_id, NO_DEADLINE), job.sequence

    return QueueOrder(name="policy", key=key, is_fixed=False)


FIXED_ORDERS: Final[Mapping[str, QueueOrder]] = MappingProxyType(
    {"fcfs": FIRST_COME, "sjf": SHORTEST_FIRST, "edf": EARLIEST_DEADLINE}
)


def fixed_order(name: str) -> QueueOrder:
    """The fixed order called ``name``; ``InputError`` lists the known ones."""
    try:
        return FIXED_ORDERS[name]
    except KeyError:
        known = ", ".join(FIXED_ORDERS)
        raise InputError(
            f"unknown queue order {name!r}", hint=f"known: {known}, priority"
        ) from None


class JobQueue:
    """Waiting jobs in order. ``arrivals`` are among ``jobs``; each cycle forgets the changes."""

    __slots__ = ("arrivals", "is_reordered", "jobs", "order")

    def __init__(self, order: QueueOrder) -> None:
        self.order = order
        self.jobs: list[Job] = []
        """All of them, in order (as of the last ``sort`` when the order changes with time)."""
        self.arrivals: list[Job] = []
        """Those added since the last cycle, in order of their coming."""
        self.is_reordered = False
        """True when more has happened since the last cycle than jobs joining the tail."""

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
