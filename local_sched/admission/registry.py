"""The policies that a site, a replay or a study can name; nothing is discovered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.policies.shared_nodes import SharingPolicy
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.job_queue import (
    EARLIEST_DEADLINE,
    FIRST_COME,
    SHORTEST_FIRST,
    QueueOrder,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SitePolicy:
    """How one class of nodes is served: shared, where ``sharing`` is set, else in turn."""

    order: QueueOrder = FIRST_COME
    backfill: BackfillRule = field(default_factory=BackfillRule)
    queue: QueuePolicy | None = None
    """``None``: everybody who fits is admitted, nothing is promised beyond the planned start."""
    sharing: SharingPolicy | None = None


BACKFILLING: Final[Mapping[str, SitePolicy]] = MappingProxyType(
    {
        "fcfs": SitePolicy(backfill=BackfillRule(depth=0)),
        "sjf": SitePolicy(order=SHORTEST_FIRST, backfill=BackfillRule(depth=0)),
        "edf": SitePolicy(order=EARLIEST_DEADLINE, backfill=BackfillRule(depth=0)),
        "easy": SitePolicy(backfill=BackfillRule(depth=1)),
        "easy-sjbf": SitePolicy(backfill=BackfillRule(depth=1, fillers=SHORTEST_FIRST)),
        "conservative": SitePolicy(backfill=BackfillRule(compression_jobs_max=None)),
        "replan": SitePolicy(backfill=BackfillRule(keeps_planned_starts=False)),
    }
)
"""An order serves and the loop places; no deadlines, no prices."""


def policy_named(name: str) -> SitePolicy:
    """The policy called ``name``; ``InputError`` lists the known ones."""
    try:
        return BACKFILLING[name]
    except KeyError:
        known = ", ".join(BACKFILLING)
        raise InputError(f"unknown policy {name[:40]!r}", hint=f"known: {known}") from None
