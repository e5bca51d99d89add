"""Phase one over several children: one start, a distribution, and a hold at each of them, or none.

One round after the other::

    plan ──> write down what is asked ──> hold everywhere at once ──> all granted: the group is held
     ^                                              │
     └── refused shadows are refreshed <── undo what was granted

A refusal makes the manager plan again (the owner re-checks, a refusal tells what to refresh). It
gives up after ``ATTEMPTS_MAX`` rounds without progress, and after ``ROUNDS_MAX`` in any case;
progress is a hold that was granted, or a plan that starts later than all before it.

From the second round on the children are asked one after the other, in the order of their names: of
two groups that want the same children, one then gets the first of them and so the rest, whereas
groups that each grab half and let go again could do so for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.book.events import HoldsAsked, HoldsGivenUp, ManagerEvent, Part, UndoLanded
from gridtravel.manager.search.combining import Share, Span, distribute
from gridtravel.manager.search.escalation import Escalator
from gridtravel.manager.search.inquiry import ChildRequest, Inquirer
from gridtravel.manager.search.shadow_estimates import sure_rooms, unit_price
from gridtravel.manager.shadows.keeper import ShadowKeeper
from gridtravel.manager.two_phase.plans import HeldParts, PlacementPlan, broken, is_as_planned

log = logging.getLogger(__name__)

ATTEMPTS_MAX: Final = 5
"""Rounds without progress."""
ROUNDS_MAX: Final = 16
"""Rounds in all."""
GUESSES_MAX: Final = 3
"""Rounds that are planned from shadows alone. A wrong guess costs the messages of one round; to
ask costs one to every owner that may have room.
"""
LAPSE_GRACE_S: Final = 60
"""A hold whose answer was lost is certainly over this long after the lifetime asked for."""


class Holder:
    """Takes holds at the children of one manager."""

    def __init__(
        self,
        keeper: ShadowKeeper,
        inquirer: Inquirer,
        clock: Clock,
        ids: IdSource,
        rules: ManagerRules,
        record: Callable[[Sequence[ManagerEvent]], object],
        undo: Callable[[Sequence[Part]], Coroutine[Any, Any, None]],
        escalator: Escalator | None = None,
    ) -> None:
        self._keeper = keeper
        self._inquirer = inquirer
        self._clock = clock
        self._ids = ids
        self._rules = rules
        self._record = record
        self._undo = undo
        self._escalator = escalator

    async def hold(self, want: ChildRequest, group_id: str, ttl_s: int) -> HeldParts | Decline:
        """Holds for all of ``want`` at one start, or a refusal; then nothing is left behind."""
        refusal = Decline(
            rule=DeclineRule.CHANGED,
            message=f"{self._keeper.site}: the children's calendars kept changing",
            site=self._keeper.site,
        )
        tries, latest = 0, -1
        refused: dict[tuple[str, Instant], int] = {}
        shunned: tuple[str, ...] | None = ()
        next_plan: PlacementPlan | None = None
        for number in range(ROUNDS_MAX):
            plan = next_plan or await self._plan(want, shunned)
            if isinstance(plan, Decline):
                return plan
            next_plan = None
            has_moved, latest = plan.start > latest, max(latest, plan.start)
            granted, refusals = await self._round(
                want, plan, group_id, ttl_s, one_by_one=number > 0
            )
            if not refusals:
                return granted
            await self.give_up(group_id, granted.parts)
            refusal = replace(refusal, message=f"{refusal.site}: {refusals[0].message}")
            want = self._leaving_out(want, plan, refusals, refused)
            if plan.above is not None:
                after = self._after_parent(want, plan, refusals[0])
                if isinstance(after, Decline):
                    return after
                next_plan = after
            if plan.is_guess:
                untaught = [each.site for each in refusals if each.summary is None]
                shunned = (*(shunned or ()), *untaught) if number + 1 < GUESSES_MAX else None
                continue
            tries = 1 if has_moved or granted.holds else tries + 1
            if tries >= ATTEMPTS_MAX:
                break
        return refusal

    async def hold_again(
        self, lost: Part, want: ChildRequest, reservation: Reservation, group_id: str, ttl_s: int
    ) -> Part | None:
        """One part once more, at the same start, with the same size; ``None``: it is gone."""
        request = want.request.at(reservation.start, lost.nodes)
        part = self._part(want, lost.child, lost.nodes, ttl_s)
        self._record([HoldsAsked(group_id=group_id, parts=(part,))])
        answer = await self._ask(
            part, want.for_child(lost.child, request, self._keeper.site), ttl_s
        )
        if isinstance(answer, Reservation) and is_as_planned(answer, request):
            return replace(part, reservation_id=answer.reservation_id)
        await self.give_up(group_id, [part])
        return None

    async def give_up(self, group_id: str, parts: Sequence[Part]) -> None:
        """Undo these holds; what cannot be reached now is told later."""
        if parts:
            self._record([HoldsGivenUp(group_id=group_id, parts=tuple(parts))])
            await self._undo(parts)

    def _leaving_out(
        self,
        want: ChildRequest,
        plan: PlacementPlan,
        refusals: Sequence[Decline],
        refused: dict[tuple[str, Instant], int],
    ) -> ChildRequest:
        """A neighbour that does not answer, or that refuses twice what it has offered, is left out
        of the plans that follow: its refusal would not teach anything new. Neither would the
        parent's, which has searched.
        """
        out: list[str] = []
        for each in refusals:
            key = (each.site, plan.start)
            weight = 2 if each.rule is DeclineRule.CHANGED or plan.above is not None else 1
            refused[key] = refused.get(key, 0) + (0 if plan.is_guess and weight == 1 else weight)
            if refused[key] > 1:
                out.append(each.site)
        return replace(want, without=(*want.without, *out))

    async def _plan(
        self, want: ChildRequest, shunned: Sequence[str] | None
    ) -> PlacementPlan | Decline:
        """First fit: where and when to try. ``shunned``: children whose shadows have just misled;
        ``None``: no shadow is trusted any more.
        """
        if shunned is not None:
            await self._keeper.first_look()
            guess = replace(want, without=(*want.without, *shunned))
            plan = self._plan_from_shadows(guess)
            if plan is not None:
                return plan
        up = self._escalator
        if up is not None and up.is_beyond(want):
            return self._go_up(want, up, None)
        span = await self._inquirer.find_span(want)
        if up is not None and up.is_due(want, span if isinstance(span, Decline) else span.start):
            return self._go_up(want, up, span)
        return span if isinstance(span, Decline) else self._plan_at(want, span)

    def _go_up(
        self, want: ChildRequest, up: Escalator, below: Span | Decline | None
    ) -> PlacementPlan:
        request = up.request(want, below)
        share = Share(
            child=up.parent, nodes=request.nodes_max, price_millicredits=0, resource_class=""
        )
        return PlacementPlan(
            start=request.earliest_start, shares=(share,), above=request, below=below
        )

    def _after_parent(
        self, want: ChildRequest, plan: PlacementPlan, refusal: Decline
    ) -> PlacementPlan | Decline | None:
        """The parent holds nothing better: what was found below counts, else its refusal. ``None``:
        it was not heard, and nobody below has been asked yet.
        """
        if isinstance(plan.below, Span):
            return self._plan_at(want, plan.below)
        return plan.below if refusal.rule is DeclineRule.CHANGED else refusal

    def _plan_at(self, want: ChildRequest, span: Span) -> PlacementPlan:
        request = want.request
        most = span.most(request.nodes_max)
        shares = distribute(span.rooms, most, request.budget_millicredits)
        return PlacementPlan(start=span.start, shares=shares)

    def _plan_from_shadows(self, want: ChildRequest) -> PlacementPlan | None:
        """A plan that no answer of a child could better: all the nodes that are wanted, at the
        first second that is allowed, nowhere for more than the cheapest child takes. ``None``: ask.

        A manager's summary adds up what is free in each slot. Over several slots its children may
        have less, for each of them must give the same nodes all the time. So of managers the one
        with most room is tried.
        """
        request = want.request
        window = self._inquirer.window(request)
        has_bounds = want.replaces or request.budget_millicredits is not None
        if has_bounds or isinstance(window, Decline):
            return None
        shadow_estimates = self._inquirer.shadow_estimates(want)
        start = window.earliest_start
        rooms, advance = (
            sure_rooms(shadow_estimates, window, start),
            self._inquirer.advance(request),
        )
        free = sum(room.nodes for room in rooms)
        if advance is not None and advance.usable(free, start) < request.nodes_max:
            return None
        shares = distribute(
            rooms,
            request.nodes_max,
            from_roomiest=any(each.is_manager for each in shadow_estimates.values()),
        )
        if sum(share.nodes for share in shares) < request.nodes_max:
            return None
        cheapest = min(unit_price(each, request.duration_s) for each in shadow_estimates.values())
        if any(share.price_millicredits > cheapest * share.nodes for share in shares):
            return None
        return PlacementPlan(start=start, shares=shares, is_guess=True)

    async def _round(
        self,
        want: ChildRequest,
        plan: PlacementPlan,
        group_id: str,
        ttl_s: int,
        *,
        one_by_one: bool,
    ) -> tuple[HeldParts, list[Decline]]:
        """One hold a share; the parts that may exist, and the refusals."""
        asked_ttl_s = ttl_s + self._rules.commit_margin_s
        parts = [self._part(want, share.child, share.nodes, asked_ttl_s) for share in plan.shares]
        self._record([HoldsAsked(group_id=group_id, parts=tuple(parts))])
        answers: dict[str, Reservation | Decline | None] = {}

        async def ask(part: Part, share: Share) -> None:
            request = plan.above or want.request.at(plan.start, part.nodes)
            told = plan.above or want.for_child(part.child, request, self._keeper.site)
            if plan.above is None and want.request.budget_millicredits is not None:
                told = replace(told, budget_millicredits=share.price_millicredits)
            answers[part.child] = await self._ask(part, told, asked_ttl_s)

        pairs = list(zip(parts, plan.shares, strict=True))
        if one_by_one:
            for part, share in sorted(pairs, key=lambda pair: pair[0].child):
                await ask(part, share)
                if not isinstance(answers[part.child], Reservation):
                    break
        else:
            async with asyncio.TaskGroup() as group:
                for part, share in pairs:
                    group.create_task(ask(part, share))
        return self._sort_out(want, plan, group_id, parts, answers)

    def _sort_out(
        self,
        want: ChildRequest,
        plan: PlacementPlan,
        group_id: str,
        parts: Sequence[Part],
        answers: dict[str, Reservation | Decline | None],
    ) -> tuple[HeldParts, list[Decline]]:
        """Which parts exist or may exist, and why the group does not."""
        existing: list[Part] = []
        holds: list[Reservation] = []
        refusals: list[Decline] = []
        nothing: list[Part] = []
        for part in parts:
            if part.child not in answers:
                nothing.append(part)
                continue
            answer = answers[part.child]
            if isinstance(answer, Decline):
                nothing.append(part)
                refusals.append(replace(answer, site=part.child))
                if part.child in self._keeper.children:
                    self._keeper.learn(part.child, answer.summary)
                continue
            planned = plan.above or want.request.at(plan.start, part.nodes)
            if answer is not None:
                part = replace(part, reservation_id=answer.reservation_id, nodes=answer.nodes)
            existing.append(part)
            if answer is None:
                refusals.append(broken(part, "did not answer"))
            elif is_as_planned(answer, planned):
                holds.append(answer)
            else:
                log.error("a hold is not what was asked for", extra={"child": part.child})
                refusals.append(broken(part, "held something else"))
        if nothing:
            landed = [UndoLanded(child=each.child, request_id=each.request_id) for each in nothing]
            self._record([HoldsGivenUp(group_id=group_id, parts=tuple(nothing)), *landed])
        return HeldParts(parts=tuple(existing), holds=tuple(holds)), refusals

    async def _ask(
        self, part: Part, request: ReservationRequest, ttl_s: int
    ) -> Reservation | Decline | None:
        """The child's answer; ``None`` when it is not known whether there is a hold."""
        child = self._keeper.neighbour(part.child)
        if child is None:
            return broken(part, "is no neighbour of this manager any more")
        told = replace(request, request_id=part.request_id)
        try:
            async with asyncio.timeout(child.answer_within_s):
                return await child.calendar.reserve(told, ttl_s=ttl_s)
        except (TimeoutError, UnavailableError) as fault:
            log.warning("no answer to a hold: %s", fault, extra={"child": part.child})
            return None
        except GridError as fault:
            log.warning("a hold was refused: %s", fault, extra={"child": part.child})
            return broken(part, str(fault))

    def _part(self, want: ChildRequest, child: str, nodes: int, ttl_s: int) -> Part:
        lapses_at = self._clock.now() + ttl_s + LAPSE_GRACE_S
        return Part(
            child=child,
            request_id=self._ids.new_id("part"),
            nodes=nodes,
            replaces=want.replaces.get(child, ""),
            lapses_at=lapses_at if want.may_lapse else None,
        )
