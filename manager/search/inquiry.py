"""Inquiry: the children are asked before anything is answered.

The shadows say whom to ask (``manager.search.shadow_estimates``), the owners answer, and their
answers are added up start by start (``manager.search.combining``). A child that cannot be reached
contributes nothing, and the answer says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn

from gridtravel.gridcore.booking.reservations import (
    NODES_LIMIT,
    Availability,
    Decline,
    Offer,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.capacity.slot_grid import SlotGrid
from gridtravel.gridcore.capacity.whole_slots import WHOLE_PERMILLE
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.search.combining import Span, joined, offer_of, spans
from gridtravel.manager.search.refusals import Shortage, refuse, refuse_window
from gridtravel.manager.search.shadow_estimates import (
    ShadowEstimate,
    fitting_classes,
    may_have_room,
)
from gridtravel.manager.search.threshold import ResourceThreshold
from gridtravel.manager.shadows.children import Child
from gridtravel.manager.shadows.keeper import ShadowKeeper

log = logging.getLogger(__name__)

PAGES_MAX: Final = 8
"""How often one search asks on behind what an answer was silent about."""
EARLIEST_PAGES_MAX: Final = 4
"""The same when a refused request's earliest start is searched for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildRequest:
    """A request as its children are to hear it."""

    request: ReservationRequest
    """With the account and the beneficiary that this manager vouches for."""
    replaces: Mapping[str, str] = field(default_factory=dict)
    """Child -> its reservation whose room counts as free."""
    without: tuple[str, ...] = ()
    """Children that are not to take part."""

    def for_child(self, child: str, request: ReservationRequest, by: str) -> ReservationRequest:
        """``request`` as ``child`` is to hear it from the manager ``by``. The trip goes with it: a
        child in doubt finds its outcome where the manager would.
        """
        return replace(
            request.through(by),
            budget_millicredits=None,
            replaces=self.replaces.get(child),
            start_is_fixed=True,
        )

    @property
    def may_lapse(self) -> bool:
        """False when the children's holds are ended by the outcome of a trip, and not by time."""
        return self.request.trip is None or not self.request.trip.acceptors


@dataclass(slots=True, kw_only=True)
class InquiryRound:
    """What the children answered to one want."""

    known_until: Instant
    advance: ResourceThreshold | None = None
    """How much of what there is may be promised; ``None``: all."""
    answers: dict[str, Availability] = field(default_factory=dict)
    refusals: dict[str, Decline] = field(default_factory=dict)
    faults: dict[str, GridError] = field(default_factory=dict)
    has_passed_over: bool = False
    """Children were not asked because their shadows show no room."""

    def spans(self) -> list[Span]:
        """The children's room, added up."""
        found = spans(self.answers, self.known_until)
        return list(found if self.advance is None else self.advance.limit(found))


class Inquirer:
    """Asks the children of one manager. Has no state and no effect."""

    def __init__(self, keeper: ShadowKeeper, clock: Clock, rules: ManagerRules) -> None:
        self._keeper = keeper
        self._clock = clock
        self._rules = rules

    @property
    def lead_s(self) -> int:
        """Nothing can start sooner: the children's lead, and time to commit within ours."""
        below = (each.description for each in self._keeper.children.values())
        lead_s = max((each.lead_s for each in below if each is not None), default=0)
        return lead_s + self._rules.calendar.hold_ttl_min_s + self._rules.commit_margin_s

    async def answer(
        self, wants: Sequence[ChildRequest], version: CalendarVersion
    ) -> list[Availability | Decline]:
        """One answer a want, in order; one message a child for all of them."""
        await self._keeper.first_look()
        windows = [self.window(each.request) for each in wants]
        asked = [
            (want, window)
            for want, window in zip(wants, windows, strict=True)
            if isinstance(window, ReservationRequest)
        ]
        looks = iter(await self._look(asked))
        answers: list[Availability | Decline] = []
        for want, window in zip(wants, windows, strict=True):
            if isinstance(window, Decline):
                answers.append(await self._with_earliest(want, window))
            else:
                answers.append(await self._conclude(want, window, next(looks), version))
        return answers

    async def find_span(self, want: ChildRequest) -> Span | Decline:
        """The first span of starts with room for the least that is wanted, as the owners say."""
        await self._keeper.first_look()
        window = self.window(want.request)
        if isinstance(window, Decline):
            return await self._with_earliest(want, window)
        (look,) = await self._look([(want, window)])
        look, found = await self._search_on(want, window, look, PAGES_MAX)
        if found:
            return found[0][0]
        return await self._refuse(want, window, look)

    def window(self, request: ReservationRequest) -> ReservationRequest | Decline:
        """The request with the part of its window that is left, asking each child for any share."""
        now = self._clock.now()
        soonest = max(request.earliest_start, now + self.lead_s)
        if soonest + request.duration_s > request.latest_end:
            return refuse_window(self._keeper.site, request, now, self.lead_s)
        return replace(self._for_any_share(request), earliest_start=soonest)

    def _for_any_share(self, request: ReservationRequest) -> ReservationRequest:
        """The request as a child can answer it alone, also where more must be free than wanted."""
        advance = self.advance(request)
        extra = 0 if advance is None else advance.withheld
        return replace(request, nodes_min=1, nodes_max=min(request.nodes_max + extra, NODES_LIMIT))

    def advance(self, request: ReservationRequest) -> ResourceThreshold | None:
        """How much of the nodes below may be promised to ``request``; ``None``: all."""
        rule = self._rules.slot_rule
        if not rule.withheld(WHOLE_PERMILLE):
            return None
        capacity = sum(
            one.capacity
            for each in self._keeper.usable()
            if each.summary is not None
            for one in fitting_classes(each.summary, request.features)
        )
        now = self._clock.now()
        return ResourceThreshold(
            since=SlotGrid.at(rule.ladder, now).at_hand_until(now),
            withheld=rule.withheld(capacity),
            capacity=capacity,
        )

    def shadow_estimates(self, want: ChildRequest) -> dict[str, ShadowEstimate]:
        """The usable children as their shadows show them."""
        return {
            each.name: ShadowEstimate(
                child=each.name, is_manager=each.is_manager, summary=each.summary
            )
            for each in self._usable(want)
            if each.summary is not None
        }

    def _usable(self, want: ChildRequest) -> list[Child]:
        return [each for each in self._keeper.usable() if each.name not in want.without]

    async def _conclude(
        self,
        want: ChildRequest,
        window: ReservationRequest,
        look: InquiryRound,
        version: CalendarVersion,
    ) -> Availability | Decline:
        look, found = await self._search_on(want, window, look, PAGES_MAX)
        offers = joined(offer for _, offer in found)
        bound = self._rules.calendar.offers_max
        known_until = look.known_until
        if len(offers) > bound:
            known_until = offers[bound].start
            offers = offers[:bound]
        if offers or known_until < _last_start(window) + 1:
            return Availability(offers=tuple(offers), version=version, known_until=known_until)
        return await self._refuse(want, window, look)

    async def _search_on(
        self, want: ChildRequest, window: ReservationRequest, look: InquiryRound, pages_max: int
    ) -> tuple[InquiryRound, list[tuple[Span, Offer]]]:
        """Ask on behind what the answers are silent about, until there is an offer. Before there is
        none at all, the children that were passed over are asked as well: a shadow may be stale,
        not least of what this manager has just let go, and only an owner can say no.
        """
        for _ in range(pages_max):
            found = _offers(want.request, look)
            if found:
                return look, found
            if look.known_until <= _last_start(window):
                rest = replace(window, earliest_start=look.known_until)
                (look,) = await self._look([(want, rest)], everybody=not look.has_passed_over)
            elif look.has_passed_over:
                (look,) = await self._look([(want, window)], everybody=True)
            else:
                return look, found
        return look, _offers(want.request, look)

    async def _refuse(
        self, want: ChildRequest, window: ReservationRequest, look: InquiryRound
    ) -> Decline:
        """A refusal that teaches: for whoever reads it, one more round finds the earliest start
        behind the window.
        """
        request = want.request
        classes = [
            (each, fitting_classes(each.summary, request.features))
            for each in self.shadow_estimates(want).values()
        ]
        shortage = Shortage(
            site=self._keeper.site,
            request=request,
            capacity=sum(
                sum(one.capacity for one in fitting)
                if each.is_manager
                else max((one.capacity for one in fitting), default=0)
                for each, fitting in classes
            ),
            spans=look.spans(),
            refusals=look.refusals,
            missing=[
                each.name
                for each in self._keeper.children.values()
                if not each.is_usable or each.name in look.faults or each.name in want.without
            ],
        )
        earliest = None
        if shortage.capacity >= request.nodes_min and not self._is_from_above(request):
            earliest = await self._earliest(want, window)
        return refuse(shortage, earliest)

    def _is_from_above(self, request: ReservationRequest) -> bool:
        """True when another manager has passed it down. It plans over all its children, and has no
        use for the earliest start at one of them.
        """
        return bool(request.via) and request.via[-1] not in self._keeper.children

    async def _with_earliest(self, want: ChildRequest, refusal: Decline) -> Decline:
        """A window that is too near, with the first start that is not."""
        soonest = max(want.request.earliest_start, self._clock.now() + self.lead_s)
        window = replace(
            self._for_any_share(want.request),
            earliest_start=soonest,
            latest_end=soonest + want.request.duration_s,
        )
        return replace(refusal, earliest=await self._earliest(want, window))

    async def _earliest(self, want: ChildRequest, window: ReservationRequest) -> Instant | None:
        """The first start at which the request would fit if its window had no end."""
        below = (each.description for each in self._keeper.usable())
        horizon_s = max((each.horizon_s for each in below if each is not None), default=0)
        end = min(self._clock.now() + horizon_s, self._clock.now() + self._horizon_s)
        if end - window.earliest_start < window.duration_s:
            return None
        endless = replace(window, latest_end=end)
        try:
            (look,) = await self._look([(want, endless)])
            look, found = await self._search_on(want, endless, look, EARLIEST_PAGES_MAX)
        except UnavailableError as fault:
            log.info("no earliest start is known: %s", fault)
            return None
        return found[0][0].start if found else None

    @property
    def _horizon_s(self) -> int:
        return self._rules.calendar.horizon_s

    async def _look(
        self, asked: Sequence[tuple[ChildRequest, ReservationRequest]], *, everybody: bool = False
    ) -> list[InquiryRound]:
        """Ask, each child once for all windows; unless ``everybody`` is asked, those whose shadows
        rule them out are passed over.
        """
        looks = [
            InquiryRound(known_until=_last_start(window) + 1, advance=self.advance(window))
            for _, window in asked
        ]
        if not asked:
            return looks
        chosen: dict[str, list[int]] = {}
        for position, (want, window) in enumerate(asked):
            names = self._worth_asking(want, window, everybody=everybody)
            looks[position].has_passed_over = len(names) < len(self._fitting(want))
            for name in names:
                chosen.setdefault(name, []).append(position)
        if not chosen:
            raise UnavailableError(
                f"none of the children of {self._keeper.site} can be reached",
                hint="ask again later, or see `gur sites`",
            )

        async def ask(name: str, positions: list[int]) -> None:
            site = self._keeper.site
            requests = [asked[each][0].for_child(name, asked[each][1], site) for each in positions]
            child = self._keeper.children[name]
            try:
                answers = await self._ask(child, requests)
            except GridError as fault:
                log.warning("no answer to an inquiry: %s", fault, extra={"child": name})
                for position in positions:
                    looks[position].faults[name] = fault
                return
            for position, answer in zip(positions, answers, strict=True):
                self._note(looks[position], name, answer)

        async with asyncio.TaskGroup() as group:
            for name, positions in chosen.items():
                group.create_task(ask(name, positions))
        for look in looks:
            if not look.answers and not look.refusals:
                self._raise_faults(look.faults)
            # The answers came in any order; what follows must not depend on it.
            look.answers = {k: look.answers[k] for k in chosen if k in look.answers}
            look.refusals = {k: look.refusals[k] for k in chosen if k in look.refusals}
        return looks

    def _raise_faults(self, faults: Mapping[str, GridError]) -> NoReturn:
        """Nobody answered. What asking again would not cure is raised as it is."""
        for fault in faults.values():
            if not fault.may_retry:
                raise fault
        told = "; ".join(str(fault) for fault in faults.values())
        raise UnavailableError(
            f"no child of {self._keeper.site} answered: {told}", hint="ask again later"
        )

    async def _ask(
        self, child: Child, requests: list[ReservationRequest]
    ) -> list[Availability | Decline]:
        try:
            async with asyncio.timeout(child.answer_within_s):
                return await child.calendar.inquire(requests)
        except TimeoutError:
            raise UnavailableError(
                f"{child.name} did not answer within {child.answer_within_s:g} s"
            ) from None

    def _note(self, look: InquiryRound, name: str, answer: Availability | Decline) -> None:
        if isinstance(answer, Decline):
            look.refusals[name] = answer
            self._keeper.learn(name, answer.summary)
            return
        look.answers[name] = answer
        look.known_until = min(look.known_until, answer.known_until)

    def _worth_asking(
        self, want: ChildRequest, window: ReservationRequest, *, everybody: bool
    ) -> list[str]:
        """The children whose shadows do not rule them out, or all when that leaves nobody."""
        fitting = self._fitting(want)
        open_ones = [
            each.name
            for each in fitting
            if everybody
            or each.name in want.replaces
            or each.summary is None
            or may_have_room(each.summary, window, window.earliest_start)
        ]
        return open_ones or [each.name for each in fitting]

    def _fitting(self, want: ChildRequest) -> list[Child]:
        """The usable children that have such nodes; all of them when none has."""
        usable = self._usable(want)
        fitting = [
            each
            for each in usable
            if each.summary is None or fitting_classes(each.summary, want.request.features)
        ]
        return fitting or usable


def _last_start(window: ReservationRequest) -> Instant:
    return window.latest_end - window.duration_s


def _offers(request: ReservationRequest, look: InquiryRound) -> list[tuple[Span, Offer]]:
    found = (
        (
            span,
            offer_of(span, request.nodes_min, request.nodes_max, request.budget_millicredits),
        )
        for span in look.spans()
    )
    return [(span, offer) for span, offer in found if offer is not None]
