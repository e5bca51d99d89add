"""Going to the parent with what the own subtree cannot place, or not soon enough.

The manager asks its parent as any client does, and writes the parent's share of a group down as it
does a child's: hold, commit, undo, restart and change are the same. The parent plans over all its
children, among them the one that asks, so the answer may well lie in the manager's own subtree.

A request goes up when

* it asks for more nodes than there are below, or for features that nobody below has,
* it finds no room within its window, or none for its budget, or
* the first start found is later than the first second allowed by more than the *patience*, and the
  parent knows an earlier one.

It never goes up twice by the same manager, nor back to a manager it came from: the names of all
managers travel with it (``ReservationRequest.via``), and there are at most ``HOPS_MAX`` of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import (
    HOPS_MAX,
    Availability,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.search.combining import Span
from gridtravel.manager.search.inquiry import ChildRequest
from gridtravel.manager.shadows.children import Child
from gridtravel.manager.shadows.keeper import ShadowKeeper

log = logging.getLogger(__name__)

CURED_ABOVE: Final = (
    DeclineRule.NO_ROOM,
    DeclineRule.TOO_LARGE,
    DeclineRule.FEATURES,
    DeclineRule.BUDGET,
)
"""Refusals that more nodes, or others, could turn into a grant."""


class Escalator:
    """The way up from one manager. Has no state."""

    def __init__(self, keeper: ShadowKeeper, parent: Child, patience_s: int) -> None:
        self._keeper = keeper
        self._parent = parent
        self._patience_s = patience_s

    def is_beyond(self, want: ChildRequest) -> bool:
        """True for a request that may go up and is certainly larger than all there is below."""
        return self._may_go_up(want) and self._capacity(want.request) < want.request.nodes_min

    def is_due(self, want: ChildRequest, found: Instant | Decline) -> bool:
        """True for a request that may go up, and whose first start ``found`` below is not there or
        further off than the patience.
        """
        if isinstance(found, Decline):
            return self._may_go_up(want) and found.rule in CURED_ABOVE
        return found - want.request.earliest_start > self._patience_s and self._may_go_up(want)

    @property
    def parent(self) -> str:
        """Its name."""
        return self._parent.name

    def request(self, want: ChildRequest, found: Span | Decline | None) -> ReservationRequest:
        """What to ask the parent to hold: anything within the window that begins before what was
        ``found`` below. The parent searches by itself, so no inquiry goes before.
        """
        request = want.request
        if isinstance(found, Span):
            latest_end = found.start - 1 + request.duration_s
            request = replace(request, latest_end=min(request.latest_end, latest_end))
        told = want.for_child(self._parent.name, request, self._keeper.site)
        return replace(told, budget_millicredits=request.budget_millicredits)

    async def better(
        self,
        wants: Sequence[ChildRequest],
        answers: Sequence[Availability | Decline],
        version: CalendarVersion,
    ) -> list[Availability | Decline]:
        """``answers`` to an inquiry, where the parent has none that is better."""
        best = list(answers)
        due = [
            position
            for position, (want, answer) in enumerate(zip(wants, answers, strict=True))
            if self._is_answer_due(want, answer)
        ]
        if not due:
            return best
        above = await self._ask([wants[position] for position in due])
        for position, answer in zip(due, above, strict=True):
            own = best[position]
            if isinstance(answer, Availability) and answer.offers:
                if isinstance(own, Decline) or answer.offers[0].start < own.offers[0].start:
                    best[position] = replace(answer, version=version)
            elif isinstance(answer, Decline) and isinstance(own, Decline):
                best[position] = answer
        return best

    def _is_answer_due(self, want: ChildRequest, answer: Availability | Decline) -> bool:
        if isinstance(answer, Decline):
            return self.is_due(want, answer)
        return bool(answer.offers) and self.is_due(want, answer.offers[0].start)

    def _may_go_up(self, want: ChildRequest) -> bool:
        via = want.request.via
        names = (self._keeper.site, self._parent.name)
        is_new = not any(name in via for name in names)
        return is_new and self._parent.name not in want.without and len(via) < HOPS_MAX

    def _capacity(self, request: ReservationRequest) -> int:
        """Nodes below with the features asked for, whether free and in reach or not."""
        described = [each.description for each in self._keeper.children.values()]
        if any(each is None for each in described):
            return request.nodes_max
        return sum(
            one.nodes
            for each in described
            if each is not None
            for one in each.classes
            if set(request.features) <= set(one.features)
        )

    async def _ask(self, wants: Sequence[ChildRequest]) -> Sequence[Availability | Decline | None]:
        """The parent's answers; all ``None`` when it does not answer."""
        parent = self._parent
        requests = [
            replace(
                want.for_child(parent.name, want.request, self._keeper.site),
                budget_millicredits=want.request.budget_millicredits,
            )
            for want in wants
        ]
        try:
            async with asyncio.timeout(parent.answer_within_s):
                return await parent.calendar.inquire(requests)
        except TimeoutError:
            fault: GridError = UnavailableError(f"no answer within {parent.answer_within_s:g} s")
        except GridError as error:
            fault = error
        log.warning("the parent does not help: %s", fault, extra={"parent": parent.name})
        return [None] * len(wants)
