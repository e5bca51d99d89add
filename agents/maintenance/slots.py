"""What a site does when nodes come free: the queue learns of it, then reservations move up.

The calendar keeps every start where it was told and gives back what reservations no longer touch
when slots are split (``gridcore.booking.slot_keeping``); the jobs of the queue move up into it with
the next cycle (calendar paper, section 2.3). Reservations that may start earlier follow, into what
the queue leaves. Splits are not journaled, for where the slots lie is a matter of the time; moves
are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.earlier_starts import SITE_PAUSE_S, earlier_request, movable
from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.reservations.user_reservations import decide_amend_within_limits
from gridtravel.local_sched.scheduling.site_scheduler import SplitWatch

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore
    from gridtravel.gridcore.timing.instants import Instant

log = logging.getLogger(__name__)


class SlotMaintenance:
    """Belongs to one agent and its event loop."""

    def __init__(self, core: AgentCore) -> None:
        self._core = core
        self._watch = SplitWatch(core.calendar.slots, core.scheduler)
        self._seen: tuple[int, ...] = ()
        """What the answer depended on when it was last searched."""
        self._look_at: Instant | None = None
        """When reservations move up next; ``None``: nothing has changed, or nothing may move."""

    def look(self, now: Instant) -> bool:
        """Before each cycle, after the calendar was told the time; True when more is free that
        nobody knew of.
        """
        return self._watch.look(now)

    def move_up(self, now: Instant) -> None:
        """After each cycle: a while after nodes may have come free, each reservation that may start
        earlier gets its earliest start, in the order in which they were promised.
        """
        core = self._core
        found = movable(core.calendar.unordered_live(), now)
        if not found:
            self._look_at = None
            return
        state = self._state()
        if state != self._seen and self._look_at is None:
            self._look_at = now + SITE_PAUSE_S
        if self._look_at is None or now < self._look_at:
            return
        for each in found:
            self._move(each, now)
        self._seen, self._look_at = self._state(), None

    def next_due(self) -> Instant:
        """When slots are split next, or reservations move up."""
        split = self._core.calendar.slots.next_split
        return split if self._look_at is None else min(split, self._look_at)

    def _move(self, old: Reservation, now: Instant) -> None:
        core, request = self._core, earlier_request(old, now)
        try:
            answer, events = decide_amend_within_limits(
                core.calendar,
                core.parts.limits,
                old.reservation_id,
                request,
                None,
                now,
                availability=core.availability(now, request.account),
            )
        except InputError as fault:  # its window is too short by now
            log.debug("%s does not move up: %s", old.reservation_id, fault)
            return
        if isinstance(answer, Reservation) and events:
            core.record(events)
            log.info("%s moves up to %d", old.reservation_id, answer.start)

    def _state(self) -> tuple[int, ...]:
        calendar, scheduler = self._core.calendar, self._core.scheduler
        jobs = (len(scheduler.running), len(scheduler.waiting))
        return (calendar.slots.splits, calendar.changes, *jobs)
