"""When slots of the site's calendar are split, the queue learns that there is room (calendar paper,
section 2.3: backfilling when slots are divided).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_sched.compression import FAR

if TYPE_CHECKING:
    from gridcore.instants import Instant
    from gridcore.slot_keeping import SlotKeeper
    from local_sched.scheduler import LocalScheduler


class SplitWatch:
    """Between one calendar and the queue that shares its room."""

    def __init__(self, slots: SlotKeeper, scheduler: LocalScheduler) -> None:
        self._slots = slots
        self._scheduler = scheduler
        self._seen = 0
        """Splits that the queue knows of."""

    def look(self, now: Instant) -> bool:
        """Before a cycle, after the calendar was told the time; True when there is room that nobody
        knew of. Where it is does not matter: the queue is planned anew, and nobody gets later.
        """
        if self._slots.splits == self._seen:
            return False
        self._seen = self._slots.splits
        for pool in self._scheduler.pools.values():
            pool.backfill.room_appeared(now, FAR)
            pool.queue.is_reordered = True
        return True
