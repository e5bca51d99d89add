"""A scheduler for a live site: on the calendar's own profiles, with the site's node names; and the
word that the calendar's slots were split.

Calendar and queue share one profile for each resource class. Reservations are seen by themselves
(``ReservationBook.changes``). A split of slots is no event of the book, so the queue has to be told
before its cycle: time that reservations no longer touch may be used (calendar paper, section 2.3:
backfilling when slots are divided).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.slot_keeping import SlotKeeper
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.shortpools import Shortpool
from gridtravel.local_sched.sharing.shared_class import SharedClass


def site_scheduler(
    calendar: Calendar,
    config: SchedulerConfig,
    node_names: Mapping[str, Sequence[str]] | None = None,
    shortpools: Mapping[str, Shortpool] | None = None,
    shared: Iterable[SharedClass] = (),
) -> LocalScheduler:
    """The scheduler of the site whose book ``calendar`` is.

    Both share one profile for each resource class: jobs running and planned, and reservations, are
    booked in the same sums, so neither can promise what the other has. ``node_names``: by class;
    default ``<class>-0``, ``<class>-1`` and so on. ``shared``: the classes of nodes that jobs
    share, of which the calendar knows nothing."""
    pools = {}
    for name, each in calendar.classes.items():
        names = (node_names or {}).get(name) or [f"{name}-{i}" for i in range(each.nodes)]
        rule = config.rule_of(name)
        pools[name] = ResourcePool(
            name,
            calendar.free[name],
            rule.backfill,
            rule.order,
            features=each.features,
            node_names=names,
            shortpool=(shortpools or {}).get(name),
            policy=rule.policy,
        )
    return LocalScheduler(pools, config, calendar, {each.name: each for each in shared})


def put_together_again(calendar: Calendar, scheduler: LocalScheduler, now: Instant) -> None:
    """The site's clock was ahead and has been set right. What was forgotten meanwhile is put
    together again in the order of a restart: reservations, running jobs and failed nodes, the
    places of the queue, whole slots.
    """
    calendar.rebook(now)
    scheduler.set_back(now)
    calendar.take_slots(now)


class SplitWatch:
    """Between one calendar and the queue that shares its nodes."""

    def __init__(self, slots: SlotKeeper, scheduler: LocalScheduler) -> None:
        self._slots = slots
        self._scheduler = scheduler
        self._seen = 0
        """Splits that the queue knows of."""

    def look(self, now: Instant) -> bool:
        """Before a cycle, after the calendar was told the time; True when nodes are free that
        nobody knew of. Where it is does not matter: the queue is planned anew, and nobody gets
        later.
        """
        if self._slots.splits == self._seen:
            return False
        self._seen = self._slots.splits
        self._scheduler.availability_changed(now)
        return True
