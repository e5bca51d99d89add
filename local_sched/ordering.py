"""The orders a queue can be served in. Each ends in the submission rank, so no tie is left open.

An order gives a job a sort key, lowest first. A *fixed* order's key never changes while the job
waits, so the queue stays sorted by itself; a changing one (Catalina's priority grows with waiting)
is sorted again in each cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridcore.errors import InputError
from gridcore.instants import Instant
from local_sched.jobs import Job

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
EARLIEST_DEADLINE: Final = QueueOrder(name="edf", key=_earliest_deadline)

FIXED_ORDERS: Final[Mapping[str, QueueOrder]] = MappingProxyType(
    {order.name: order for order in (FIRST_COME, SHORTEST_FIRST, EARLIEST_DEADLINE)}
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
