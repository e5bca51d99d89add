"""The verbs of a calendar manager over its children: decide, journal, apply, tell, answer.

What happens to a group at which moment, and what a crash then leaves behind:

1. *Asked.* The journal knows which holds may come to exist (not forced to disk: they let go by
   themselves). A restart undoes them.
2. *Held.* The group is in the journal before its owner hears of it. Its lifetime ends before that
   of any child's hold, so whoever commits in time finds all of them.
3. *Decided.* The decision to commit is on disk before the first child is told. From here on there
   are two ends: every child confirms, or one certainly cannot and all are undone. A restart goes on
   where it was; nothing is answered before the end is known and on disk.
4. *Ended.* What children must be told to undo is kept until they have confirmed it.

Not here: who may ask (``manager.port``), the search (``search.inquiry``), the holds (``holding``),
the way to the children (``settling``), what goes to the parent (``search.escalation``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.sites.background import BackgroundTasks
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.manager.book.decisions import CompositeCalendar
from gridtravel.manager.book.events import GroupDecided, GroupEnded, HoldsGivenUp, ManagerEvent
from gridtravel.manager.search.escalation import Escalator
from gridtravel.manager.search.inquiry import ChildRequest, Inquirer
from gridtravel.manager.shadows.keeper import ShadowKeeper
from gridtravel.manager.two_phase.holding import Holder
from gridtravel.manager.two_phase.plans import HeldParts
from gridtravel.manager.two_phase.settling import Settler

log = logging.getLogger(__name__)

ANSWER_WITHIN_S: Final = 12.0
"""A caller hears something within this, which is less than clients wait for a promise; the work
goes on, and asking again joins it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorParts:
    """What a coordinator works with; the manager chooses."""

    book: CompositeCalendar
    keeper: ShadowKeeper
    inquirer: Inquirer
    escalator: Escalator | None
    clock: Clock
    ids: IdSource
    background: BackgroundTasks
    record: Callable[[Sequence[ManagerEvent], bool], Ticket]
    """Journal and apply; with False the record need not be forced to disk."""


class Coordinator:
    """Two-phase booking over the children of one manager."""

    def __init__(self, parts: CoordinatorParts) -> None:
        self._book = parts.book
        self._keeper = parts.keeper
        self._clock = parts.clock
        self._background = parts.background
        self._record = parts.record
        self._about: dict[str, ReservationRequest | None] = {}
        """Errands that somebody waits for -> the request that they are about."""
        self._settler = Settler(
            parts.book, parts.keeper, parts.clock, parts.background, parts.record
        )
        self._holder = Holder(
            parts.keeper,
            parts.inquirer,
            parts.clock,
            parts.ids,
            parts.book.rules,
            lambda events: self._record(events, False),
            self._settler.undo,
            parts.escalator,
        )

    def resume(self) -> None:
        """After a restart: undo what was only asked for, and carry on. Needs the errands to be
        open.
        """
        left = list(self._book.asked.items())
        if left:
            self._record([HoldsGivenUp(group_id=each, parts=parts) for each, parts in left], False)
        self.carry_on()

    def carry_on(self) -> None:
        """See to it that everything decided is being finished, and everything owed told."""
        for group in self._book.decided():
            self._background.start(f"commit {group.group_id}", partial(self._land, group.group_id))
        self._settler.chase()

    def sweep(self) -> None:
        """Whatever is due by now."""
        events = self._book.decide_sweep(self._clock.now())
        if events:
            self._record(events, False)
            self._settler.chase()

    async def reserve(self, want: ChildRequest, owner: str, ttl_s: int) -> Reservation | Decline:
        """Phase one; the same request again finds the same group, also while it is being held."""
        known = self._book.known_request(want.request, owner)
        if known is not None:
            await self._barrier()
            return known
        return await self._heard(
            f"reserve {owner} {want.request.request_id}",
            want.request,
            lambda: self._hold(want, owner, ttl_s, None),
            "the children have not all answered yet",
        )

    async def commit(self, group_id: str, by: str | None) -> Reservation | Decline:
        """Phase two. ``UnavailableError`` while the outcome is not known; asking again is safe."""
        answer, events = self._book.decide_commit(group_id, by, self._clock.now())
        await self._record(events, True).durable()
        if answer is not None:
            self._settler.chase()
            return answer
        return await self._heard(
            f"commit {group_id}",
            None,
            lambda: self._land(group_id),
            f"not every child has confirmed {group_id} yet",
        )

    async def release(self, group_id: str, by: str | None) -> None:
        """Undo a group; what a child cannot be told now it is told later."""
        await self._end(self._book.decide_release(group_id, by, self._clock.now()))

    async def release_request(self, request_id: str, by: str) -> None:
        """Undo whatever ``by``'s request booked or may yet book."""
        await self._end(self._book.decide_release_request(request_id, by, self._clock.now()))

    async def amend(
        self, group_id: str, want: ChildRequest, by: str | None
    ) -> Reservation | Decline:
        """A new window or size for a committed group: new holds that replace the old parts, then
        the same two phases. The old stays unless the new is granted.
        """
        group = self._book.get(group_id, by)
        owner = group.reservation.owner
        request = want.request
        known = self._book.known_request(request, owner, group_id)
        if known is not None:
            await self._barrier()
            return known
        name = f"amend {owner} {request.request_id}"
        is_new = self._book.find_request(owner, request.request_id) is None
        if is_new and name not in self._background.names:
            refusal = self._book.refuse_replacing(group_id, owner, "amend")
            if refusal is None and group.reservation.start <= self._clock.now():
                refusal = self._refuse(
                    DeclineRule.STATE,
                    f"{group_id} is running: its start cannot be held once more",
                )
            if refusal is not None:
                return refusal
        return await self._heard(
            name,
            request,
            lambda: self._amend(group_id, want, owner),
            f"not every child has confirmed the change of {group_id} yet",
        )

    # -- inside ------------------------------------------------------------------------------------

    async def _hold(
        self, want: ChildRequest, owner: str, ttl_s: int, amends: str | None
    ) -> Reservation | Decline:
        """Holds at the children, then the group; an amendment is decided with it."""
        rules = self._book.rules
        lifetimes = rules.calendar
        granted_s = max(lifetimes.hold_ttl_min_s, min(ttl_s, lifetimes.hold_ttl_max_s))
        group_id = self._book.take_group_id()
        try:
            held = await self._holder.hold(want, group_id, granted_s)
            if isinstance(held, Decline):
                return held
            now = self._clock.now()
            reservation = held.reservation(
                want,
                group_id=group_id,
                site=self._book.site,
                owner=owner,
                now=now,
                expires_at=min(now + granted_s, held.expiry() - rules.commit_margin_s),
                endpoints=self._endpoints(held),
                granted_by=self._granted_by(held),
            )
            answer, events = self._book.decide_held(reservation, held.parts, amends, now)
            if isinstance(answer, Decline):
                await self._holder.give_up(group_id, held.parts)
                return answer
        except Exception:
            await self._holder.give_up(group_id, self._book.asked.get(group_id, ()))
            raise
        if amends is not None:
            events = (*events, GroupDecided(group_id=group_id, at=now))
        await self._record(events, True).durable()
        return answer

    async def _amend(self, group_id: str, want: ChildRequest, owner: str) -> Reservation | Decline:
        under_way = self._book.find_request(owner, want.request.request_id)
        if under_way is None:
            ttl_s = self._book.rules.calendar.hold_ttl_max_s
            held = await self._hold(want, owner, ttl_s, group_id)
            if isinstance(held, Decline):
                return held
            inner_id = held.reservation_id
        else:
            inner_id = under_way.group_id
        answer: Reservation | Decline = await self._background.single_flight(
            f"commit {inner_id}", lambda: self._land(inner_id)
        )
        return answer

    async def _land(self, group_id: str) -> Reservation | Decline:
        return await self._settler.commit(group_id, self._holder)

    async def _end(self, events: Sequence[ManagerEvent]) -> None:
        """Journal an end; then it stands, and the children are told, those in reach at once."""
        ended = [each.group_id for each in events if isinstance(each, GroupEnded)]
        ticket = self._record(events, True)
        keys = [part.key for each in ended for part in self._book.groups[each].parts]
        await ticket.durable()
        owed = [self._book.owed[key] for key in keys if key in self._book.owed]
        if not owed:
            return
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                await self._background.single_flight(
                    f"release {ended[-1]}", lambda: self._settler.undo(owed)
                )
        except TimeoutError:
            log.info("not every child has been told yet", extra={"group": ended[-1]})

    async def _heard(
        self,
        name: str,
        request: ReservationRequest | None,
        work: Callable[[], Coroutine[Any, Any, Any]],
        doubt: str,
    ) -> Reservation | Decline:
        """The outcome of an errand, if it comes while the caller still listens. ``request``: what
        it is about; another one of the same id must not join it.
        """
        if name not in self._background.names:
            self._about[name] = request
        elif self._about.get(name) != request:
            raise InputError(
                f"{name.split()[0]}: this request id is in use for another request",
                hint="use a new id for each request",
            )
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer: Reservation | Decline = await self._background.single_flight(name, work)
        except TimeoutError:
            raise UnavailableError(doubt, hint="ask again: it goes on meanwhile") from None
        finally:
            if name not in self._background.names:
                self._about.pop(name, None)
        return answer

    async def _barrier(self) -> None:
        await self._record((), True).durable()

    def _endpoints(self, held: HeldParts) -> list[str]:
        neighbours = [self._keeper.neighbour(part.child) for part in held.parts]
        return [each.connection.endpoint if each is not None else "" for each in neighbours]

    def _granted_by(self, held: HeldParts) -> str:
        """Who granted what the children could not; empty: the children did."""
        for part, hold in zip(held.parts, held.holds, strict=True):
            if part.child not in self._keeper.children:
                return hold.granted_by or hold.site
        return ""

    def _refuse(self, rule: DeclineRule, message: str) -> Decline:
        return Decline(rule=rule, message=f"{self._book.site}: {message}", site=self._book.site)
