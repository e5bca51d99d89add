"""Every policy a site or a study can name: one dictionary, nothing is discovered."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gridcore.errors import InputError
from local_sched.backfill import BackfillRule
from local_sched.ordering import EARLIEST_DEADLINE, SHORTEST_FIRST
from local_sched.policies.policy import BackfillPolicy

_ALL: Final = (
    BackfillPolicy(name="fcfs", backfill=BackfillRule(depth=0)),
    BackfillPolicy(name="sjf", order=SHORTEST_FIRST, backfill=BackfillRule(depth=0)),
    BackfillPolicy(name="edf", order=EARLIEST_DEADLINE, backfill=BackfillRule(depth=0)),
    BackfillPolicy(name="easy", backfill=BackfillRule(depth=1)),
    BackfillPolicy(name="easy-sjbf", backfill=BackfillRule(depth=1, fillers=SHORTEST_FIRST)),
    BackfillPolicy(name="conservative", backfill=BackfillRule(compression_jobs_max=None)),
    BackfillPolicy(name="replan", backfill=BackfillRule(keeps_places=False)),
)

POLICIES: Final[Mapping[str, BackfillPolicy]] = MappingProxyType({each.name: each for each in _ALL})


def policy_named(name: str) -> BackfillPolicy:
    """The policy called ``name``; ``InputError`` lists the known ones."""
    try:
        return POLICIES[name]
    except KeyError:
        known = ", ".join(POLICIES)
        raise InputError(f"unknown policy {name[:40]!r}", hint=f"known: {known}") from None
