"""Phase two, and undoing: what must reach a child, however long the child is away.

*Commit* goes on until every child has confirmed, or one has said for certain that it cannot; then
all parts are undone. *Undo* goes on until the child has confirmed, or must have let go by itself.
Both are errands of the manager: they survive the call that began them, and the journal brings them
back after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.errors import GridError, NotFoundError, UnavailableError
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.book.decisions import CompositeCalendar
from gridtravel.manager.book.events import (
    GroupCommitted,
    GroupEnded,
    ManagerEvent,
    Part,
    PartRenewed,
    UndoLanded,
)
from gridtravel.manager.search.inquiry import ChildRequest
from gridtravel.manager.shadows.keeper import ShadowKeeper
from gridtravel.manager.two_phase.holding import Holder

log = logging.getLogger(__name__)

RETRY_MIN_S: Final = 0.2
RETRY_MAX_S: Final = 10.0
"""Pauses between two attempts to reach a child: doubled each time, up to this."""


class Settler:
    """Carries the decisions of one manager's book to its children."""

    def __init__(
        self,
        book: CompositeCalendar,
        keeper: ShadowKeeper,
        clock: Clock,
        background: BackgroundTasks,
        record: Callable[[Sequence[ManagerEvent], bool], Ticket],
    ) -> None:
        self._book = book
        self._keeper = keeper
        self._clock = clock
        self._background = background
        self._record = record

    # -- undo --------------------------------------------------------------------------------------

    async def undo(self, parts: Sequence[Part]) -> None:
        """Tell the children of ``parts`` now; those that cannot be told are told later."""
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(self._tell_undo(part))
        self.chase()

    def chase(self) -> None:
        """See to it that everything owed is being told."""
        for child, _ in self._book.owed:
            if self._keeper.neighbour(child) is not None:
                self._background.start(f"undo {child}", partial(self._chase, child))

    async def _chase(self, child: str) -> None:
        """Tell one child everything that is owed to it, one after the other."""
        pause_s = RETRY_MIN_S
        while True:
            part = next((each for each in self._book.owed.values() if each.child == child), None)
            if part is None:
                return
            if await self._tell_undo(part):
                pause_s = RETRY_MIN_S
            else:
                await self._clock.sleep_until(self._clock.now_precise() + pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def _tell_undo(self, part: Part) -> bool:
        """True when it needs to be told no more."""
        if part.key not in self._book.owed:
            return True
        if part.lapses_at is not None and part.lapses_at <= self._clock.now():
            log.warning("a hold that could not be undone has lapsed", extra={"child": part.child})
        else:
            child = self._keeper.neighbour(part.child)
            try:
                if child is None:
                    raise UnavailableError(f"{part.child} is no child of this manager any more")
                async with asyncio.timeout(child.answer_within_s):
                    if part.reservation_id:
                        await child.calendar.release(part.reservation_id)
                    else:
                        await child.calendar.release_request(part.request_id)
            except NotFoundError:
                log.info("there was nothing to undo", extra={"child": part.child})
            except (TimeoutError, GridError) as fault:
                level = logging.INFO if isinstance(fault, UnavailableError) else logging.ERROR
                log.log(level, "an undo has not landed: %s", fault, extra={"child": part.child})
                return False
        self._record([UndoLanded(child=part.child, request_id=part.request_id)], False)
        return True

    # -- commit ------------------------------------------------------------------------------------

    async def commit(self, group_id: str, holder: Holder) -> Reservation | Decline:
        """Carry out the decision to commit ``group_id``; ends when every child has answered."""
        group = self._book.groups[group_id]
        replaces_any = any(part.replaces for part in group.parts)
        tasks: list[asyncio.Task[str]] = []
        async with asyncio.TaskGroup() as attempts:
            for part in group.parts:
                landing = self._land(group_id, part, holder, may_wait=replaces_any)
                tasks.append(attempts.create_task(landing))
        refusals = [why for task in tasks if (why := task.result())]
        now = self._clock.now()
        if not self._is_decided(group_id):
            return self._undone(group_id, refusals or ["it was released meanwhile"])
        if refusals:
            has_landed = any(
                part.replaces and not task.result()
                for part, task in zip(group.parts, tasks, strict=True)
            )
            await self._abandon(group_id, breaks_old=has_landed)
            return self._undone(group_id, refusals)
        await self._record([GroupCommitted(group_id=group_id, at=now)], True).durable()
        self.chase()
        return self._book.groups[group.amends or group_id].reservation

    async def _land(self, group_id: str, part: Part, holder: Holder, *, may_wait: bool) -> str:
        """Commit one part. Empty when it is committed, else why it never will be.

        ``may_wait``: a refusal does not end the group before all others have answered, because a
        part that takes the place of an older one cannot simply be undone.
        """
        child = self._keeper.neighbour(part.child)
        pause_s, is_renewed = RETRY_MIN_S, False
        while self._is_decided(group_id):
            try:
                if child is None:
                    raise UnavailableError(f"{part.child} is no child of this manager any more")
                async with asyncio.timeout(child.answer_within_s):
                    answer = await child.calendar.commit(part.reservation_id)
            except (TimeoutError, UnavailableError) as fault:
                log.info("a commit has not landed: %s", fault, extra={"child": part.child})
                await self._clock.sleep_until(self._clock.now_precise() + pause_s)
                pause_s = min(2 * pause_s, RETRY_MAX_S)
                continue
            except GridError as fault:
                why = f"{part.child}: {fault}"
            else:
                if isinstance(answer, Reservation) and answer.state in _KEPT:
                    return ""
                told = answer.message if isinstance(answer, Decline) else f"it is {answer.state}"
                why = f"{part.child}: {told}"
            if part.replaces and not is_renewed:
                is_renewed = True
                renewed = await self._renew(group_id, part, holder)
                if renewed is not None:
                    part = renewed
                    continue
            if not may_wait and self._is_decided(group_id):
                await self._abandon(group_id, breaks_old=False)
            return why
        return "it was released meanwhile"

    async def _renew(self, group_id: str, part: Part, holder: Holder) -> Part | None:
        """Hold once more a part that was lost between hold and commit: the others may have given up
        their old parts for it.
        """
        reservation = self._book.groups[group_id].reservation
        want = ChildRequest(request=reservation.request, replaces={part.child: part.replaces})
        ttl_s = self._book.rules.calendar.hold_ttl_max_s
        renewed = await holder.hold_again(part, want, reservation, group_id, ttl_s)
        if renewed is None:
            return None
        if not self._is_decided(group_id):
            await holder.give_up(group_id, [renewed])
            return None
        event = PartRenewed(group_id=group_id, lost=part, part=renewed)
        await self._record([event], True).durable()
        return renewed

    async def _abandon(self, group_id: str, *, breaks_old: bool) -> None:
        """The group cannot be completed: all its parts are undone."""
        now = self._clock.now()
        group = self._book.groups[group_id]
        old_id = group.amends or group.reservation.request.replaces
        release = ReservationEvent.RELEASE
        event = ReservationEvent.WITHDRAW if group.asks_first else release
        events = [GroupEnded(group_id=group_id, event=event, at=now)]
        old = self._book.groups.get(old_id or "")
        if breaks_old and old is not None and old.reservation.state is ReservationState.COMMITTED:
            log.critical("a change could be neither finished nor undone: %s is lost", old_id)
            events.append(GroupEnded(group_id=old.group_id, event=release, at=now))
        await self._record(events, True).durable()
        self.chase()

    def _is_decided(self, group_id: str) -> bool:
        group = self._book.groups.get(group_id)
        return group is not None and group.is_decided

    def _undone(self, group_id: str, reasons: Sequence[str]) -> Decline:
        return Decline(
            rule=DeclineRule.CHANGED,
            message=f"{self._book.site}: {group_id} could not be committed: {reasons[0]}",
            site=self._book.site,
        )


_KEPT: Final = (ReservationState.COMMITTED, ReservationState.COMPLETED)
