"""A scheduler for a live site: on the calendar's own profiles, with the site's node names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from local_sched.resource_pools import ResourcePool
from local_sched.scheduler import LocalScheduler
from local_sched.scheduler_config import SchedulerConfig
from local_sched.shortpools import Shortpool

if TYPE_CHECKING:
    from gridcore.calendars import Calendar


def site_scheduler(
    calendar: Calendar,
    config: SchedulerConfig,
    node_names: Mapping[str, Sequence[str]] | None = None,
    shortpools: Mapping[str, Shortpool] | None = None,
) -> LocalScheduler:
    """The scheduler of the site whose book ``calendar`` is.

    Both share one profile for each resource class: jobs running and planned, and reservations, are
    booked in the same sums, so neither can promise what the other has. ``node_names``: by class;
    default ``<class>-0``, ``<class>-1`` and so on."""
    pools = {}
    for name, each in calendar.classes.items():
        names = (node_names or {}).get(name) or [f"{name}-{i}" for i in range(each.nodes)]
        pools[name] = ResourcePool(
            name,
            calendar.free[name],
            config.backfill,
            config.order,
            features=each.features,
            node_names=names,
            shortpool=(shortpools or {}).get(name),
        )
    return LocalScheduler(pools, config, calendar)
