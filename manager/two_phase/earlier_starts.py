"""Groups that may start earlier move up when the shadows show room (calendar paper, section 2.3).

The manager asks its children only where their shadows show the nodes before the start that is
promised, and changes a group as its owner would: new holds in the room of the old ones, then the
same two phases. So a group is moved whole or stays. The top manager looks first, those below it
later (``gridcore.booking.earlier_starts``).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.earlier_starts import (
    MANAGER_PAUSE_S,
    TOP_PAUSE_S,
    earlier_request,
    movable,
)
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.booking.summaries import CalendarSummary, ClassSummary, SummarySlot
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.instants import Instant, Interval
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.book.decisions import CompositeCalendar
from gridtravel.manager.search.inquiry import ChildRequest, Inquirer
from gridtravel.manager.search.shadow_estimates import sure_rooms
from gridtravel.manager.shadows.keeper import ShadowKeeper

log = logging.getLogger(__name__)

STARTS_MAX: Final = 64
"""Slot edges at which one search looks."""


class EarlierStarts:
    """Belongs to one manager."""

    def __init__(
        self,
        book: CompositeCalendar,
        keeper: ShadowKeeper,
        inquirer: Inquirer,
        clock: Clock,
        amend: Callable[[str, ChildRequest, str | None], Awaitable[Reservation | Decline]],
    ) -> None:
        self._book = book
        self._keeper = keeper
        self._inquirer = inquirer
        self._clock = clock
        self._amend = amend
        self._seen = -1
        """Changes of the shadows that were looked at."""
        self._looked_at: Instant = 0
        self._pause_s = TOP_PAUSE_S if keeper.parent is None else MANAGER_PAUSE_S

    def pass_time(self, start: Callable[[], None]) -> Instant | None:
        """Have ``look`` started when the shadows have changed since the last one and it was long
        enough ago; when to ask again, ``None`` while nothing may move.
        """
        now = self._clock.now()
        if not self._found(now):
            return None
        due = self._looked_at + self._pause_s
        if now < due:
            return due
        if self._keeper.changes != self._seen:
            start()
        return now + self._pause_s

    async def look(self) -> None:
        """Move up whatever can move, in the order in which it was promised."""
        self._seen, self._looked_at = self._keeper.changes, self._clock.now()
        for each in self._found(self._clock.now()):
            group = self._book.groups.get(each.reservation_id)
            if group is None or not self._has_room(each):
                continue
            replaces = {part.child: part.reservation_id for part in group.parts}
            now = self._clock.now()
            want = ChildRequest(request=earlier_request(each, now), replaces=replaces)
            try:
                answer = await self._amend(each.reservation_id, want, None)
            except GridError as fault:
                log.info("%s does not move up now: %s", each.reservation_id, fault)
                continue
            if isinstance(answer, Reservation):
                log.info("%s moves up to %d", each.reservation_id, answer.start)

    def _found(self, now: Instant) -> list[Reservation]:
        """Groups that may move: below this manager only, for the parent moves its own."""
        groups = [
            each
            for each in self._book.live()
            if self._book.successor_of(each.group_id) is None
            and all(part.child in self._keeper.children for part in each.parts)
        ]
        return movable((each.reservation for each in groups), now)

    def _has_room(self, reservation: Reservation) -> bool:
        """True when the shadows have the nodes at some earlier start, counting those of the group
        itself as free.
        """
        request = earlier_request(reservation, self._clock.now())
        window = self._inquirer.window(request)
        if isinstance(window, Decline):
            return False
        shadow_estimates = self._inquirer.shadow_estimates(ChildRequest(request=request))
        for part in self._book.groups[reservation.reservation_id].parts:
            if part.child in shadow_estimates:
                summary = _credited(
                    shadow_estimates[part.child].summary, part.nodes, reservation.interval
                )
                shadow_estimates[part.child] = replace(
                    shadow_estimates[part.child], summary=summary
                )
        for start in self._starts(window, reservation.start):
            told = replace(window, earliest_start=start, latest_end=start + window.duration_s)
            rooms = sure_rooms(shadow_estimates, told, start)
            if sum(room.nodes for room in rooms) >= reservation.nodes:
                return True
        return False

    def _starts(self, window: ReservationRequest, before: Instant) -> list[Instant]:
        """The first second allowed, and the edges of the children's slots up to ``before``."""
        edges = {window.earliest_start}
        for child in self._keeper.usable():
            if child.summary is not None:
                edges.update(slot.start for one in child.summary.classes for slot in one.slots)
        found = [each for each in edges if window.earliest_start <= each < before]
        return sorted(found)[:STARTS_MAX]


def _credited(summary: CalendarSummary, nodes: int, interval: Interval) -> CalendarSummary:
    """``summary`` as if ``nodes`` that are taken during ``interval`` were free in all slots that it
    touches. It may show too much, which costs a question.
    """

    def freed(one: ClassSummary, slot: SummarySlot) -> SummarySlot:
        if slot.end <= interval.start or interval.end <= slot.start:
            return slot
        free = min(one.capacity, slot.free_min + nodes)
        node_s = max(slot.free_node_s, free * (slot.end - slot.start))
        return SummarySlot(slot.start, slot.end, free, node_s)

    classes = tuple(
        replace(one, slots=tuple(freed(one, slot) for slot in one.slots)) for one in summary.classes
    )
    return replace(summary, classes=classes)
