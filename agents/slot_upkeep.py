"""What a site does when there is room again: the queue learns of it, then reservations move up.

The calendar keeps every start where it was told and gives back what reservations no longer touch
when slots are split (``gridcore.slot_keeping``); the jobs of the queue move up into it with the
next cycle (calendar paper, section 2.3). Reservations that may start earlier follow, into what the
queue leaves. Splits are not journaled, for where the slots lie is a matter of the time; moves are.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gridcore.errors import InputError
from gridcore.moving_up import SITE_PAUSE_S, earlier_request, movable
from gridcore.reservations import Reservation
from local_sched.limited_booking import decide_amend_within_limits
from local_sched.slot_splits import SplitWatch

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent
    from gridcore.instants import Instant

log = logging.getLogger(__name__)


class SlotUpkeep:
    """Belongs to one agent and its event loop."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._watch = SplitWatch(agent.calendar.slots, agent.scheduler)
        self._seen: tuple[int, ...] = ()
        """What the room depended on when it was last searched."""
        self._look_at: Instant | None = None
        """When reservations move up next; ``None``: nothing has changed, or nothing may move."""

    def look(self, now: Instant) -> bool:
        """Before each cycle, after the calendar was told the time; True when there is room that
        nobody knew of.
        """
        is_split = self._watch.look(now)
        if is_split:
            self._agent.publisher.changed()
        return is_split

    def move_up(self, now: Instant) -> None:
        """After each cycle: a while after room may have appeared, each reservation that may start
        earlier gets its earliest place, in the order in which they were promised.
        """
        agent = self._agent
        found = movable(agent.calendar.unordered_live(), now)
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
        split = self._agent.calendar.slots.next_split
        return split if self._look_at is None else min(split, self._look_at)

    def _move(self, old: Reservation, now: Instant) -> None:
        agent, request = self._agent, earlier_request(old, now)
        try:
            answer, events = decide_amend_within_limits(
                agent.calendar,
                agent.parts.limits,
                old.reservation_id,
                request,
                None,
                now,
                room=agent.room(now, request.account),
            )
        except InputError as fault:  # its window is too short by now
            log.debug("%s does not move up: %s", old.reservation_id, fault)
            return
        if isinstance(answer, Reservation) and events:
            agent.record(events)
            log.info("%s moves up to %d", old.reservation_id, answer.start)

    def _state(self) -> tuple[int, ...]:
        calendar, scheduler = self._agent.calendar, self._agent.scheduler
        jobs = (len(scheduler.running), len(scheduler.waiting))
        return (calendar.slots.splits, calendar.changes, *jobs)
