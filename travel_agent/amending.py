"""Changing a booked trip as a whole: make before break (docs/protocol.md, section 4).

A change is the next attempt of the same trip. Every leg is held anew beside what is booked, also a
leg that stays as it is; the acceptors decide as they do for a first booking; then every leg takes
its new form at its site, and what the trip no longer needs is released. Until the decision, and
when it is ABORT, the trip is what it was.

The log says each step before it is taken, so ``settle`` finishes or undoes from wherever a command
was interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gridcore.errors import GridError, UnavailableError
from gridcore.itineraries import Leg, LegState, TripState
from gridcore.metajobs import Metajob
from gridcore.planning import Plan
from gridcore.reservations import Decline, DeclineRule, Reservation
from gridcore.trip_consensus import Outcome, majority
from travel_agent.booking import ATTEMPTS_MAX, CANCELLED
from travel_agent.holding import LegHolds
from travel_agent.jitter import jitter_s
from travel_agent.metajob_writer import metajob_to_json
from travel_agent.news import Listener, News, Step
from travel_agent.office import Office
from travel_agent.questions import TripQuestions
from travel_agent.replacing import replacing
from travel_agent.search_choice import check_search, choose_search
from travel_agent.searches import SearchChoice
from travel_agent.searching import Destination, Search, plan_text
from travel_agent.trip_events import (
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    LegsDropped,
    TripAmended,
    TripEnded,
    UndoAsked,
)
from travel_agent.trip_log import Amendment, DroppedLegs, JournaledTripLog
from travel_agent.trip_parts import TripParts


class Amending:
    """One trip that is changed, from its open log."""

    def __init__(self, office: Office, log: JournaledTripLog, listener: Listener) -> None:
        self._office = office
        self._log = log
        self._tell = listener
        self._run_id = office.ids.new_id("run")

    async def amend(
        self,
        wanted: Metajob,
        tries: Sequence[Metajob],
        reason: str,
        *,
        gone: frozenset[str] = frozenset(),
        may_leave_keepers: bool = False,
    ) -> Decline | None:
        """Change the trip into ``wanted``; a refusal leaves it as it was. ``tries``: what is
        searched for, the first that can be had; each is ``wanted`` with a narrower window, and the
        last one usually ``wanted`` itself. ``gone``: legs whose reservations have ended, so that
        nothing replaces them. ``may_leave_keepers``: see ``_leaves_keepers``; only for a trip that
        is lost otherwise.
        """
        story = self._log.story
        old = self._office.metajob_of(self._log)
        refusal = self._refuse(wanted)
        if refusal is not None:
            return refusal
        text = metajob_to_json(wanted)
        await self._log.write(AmendmentOpened(metajob_json=text, reason=reason))
        parts = self._parts(wanted, old)
        kept = [leg for leg in story.legs if leg.name not in gone]
        destinations = replacing(self._office.destinations(wanted), story.trip_id, kept)
        holds = self._holds(replace(parts, destinations={**parts.destinations, **destinations}))
        refusal = None
        for each in tries:
            search = choose_search(
                SearchChoice.SWEEP,
                each,
                destinations,
                story.trip_id,
                self._log,
                self._office.clock,
                listener=self._tell,
            )
            refusal = await self._hold(search, holds, parts, may_leave_keepers)
            if refusal is None:
                return await self._settle_decided(self._amendment(), Outcome.COMMIT)
        assert refusal is not None, "something was tried"
        await self._close(refusal.message)
        return refusal

    async def settle(self, *, is_cancelled: bool = False) -> str:
        """Finish or undo what an interrupted change left, and release what an earlier one dropped;
        what was done, in words, empty when there was nothing to do. ``is_cancelled``: the trip
        itself is to be undone.
        """
        story, done = self._log.story, []
        amendment = story.amendment
        if amendment is not None and is_cancelled and not story.is_undoing:
            await self._log.write(UndoAsked(reason=CANCELLED))
        if amendment is not None and not amendment.attempt:
            await self._release_asked(amendment)
            await self._close("given up before it was decided")
            done.append("released the holds of a change that was not decided")
        elif amendment is not None:
            wish = Outcome.ABORT if is_cancelled or story.is_undoing else Outcome.COMMIT
            refusal = await self._settle_decided(amendment, wish)
            done.append("the change was not made" if refusal else "finished a change of the trip")
        if story.dropped:
            done.append(await self._drop_all())
        return "; ".join(done)

    # -- holding -----------------------------------------------------------------------------------

    async def _hold(
        self, search: Search, holds: LegHolds, parts: TripParts, may_leave_keepers: bool
    ) -> Decline | None:
        """Search and hold until every leg is held, and write that down; or why not."""
        story, clock = self._log.story, self._office.clock
        refusal = Decline(rule=DeclineRule.CHANGED, message="the sites' calendars kept changing")
        for attempt in range(story.attempts + 1, story.attempts + 1 + ATTEMPTS_MAX):
            plan = await search.propose()
            if isinstance(plan, Decline):
                return plan
            if not may_leave_keepers and (kept := self._leaves_keepers(plan, parts)):
                return kept
            self._tell(News(step=Step.PLANNED, text=plan_text(plan), attempt=attempt))
            held, refusals = await holds.hold_all(plan, attempt)
            if not refusals:
                await self._decided(plan, attempt, held, parts)
                return None
            await holds.let_go(plan, held, attempt)
            refusal = next(iter(refusals.values()))
            await search.learn(refusals)
            await clock.sleep_until(clock.now_precise() + jitter_s(story.trip_id, attempt))
        return refusal

    def _leaves_keepers(self, plan: Plan, parts: TripParts) -> Decline | None:
        """Refuse to go on without a majority of the sites that keep the trip's outcome. They learn
        of the change with its commit, and have it settled among themselves that the legs it leaves
        out do not run. Left out themselves, they could come back shortly before the start, hear of
        nothing, and run the old trip beside the new.
        """
        keepers = tuple(each.site for each in self._log.story.acceptors)
        staying = {parts.destinations[leg.machine].site for leg in plan.legs}
        if not keepers or len(staying & set(keepers)) >= majority(keepers):
            return None
        message = (
            f"the change would leave {', '.join(sorted(set(keepers) - staying))}, which keep the"
            " trip's outcome; cancel the trip and book it again"
        )
        return Decline(rule=DeclineRule.STATE, message=message)

    async def _decided(
        self, plan: Plan, attempt: int, held: Mapping[str, Reservation], parts: TripParts
    ) -> None:
        legs = tuple(
            parts.leg(each.name, each.machine, held[each.name], LegState.HELD) for each in plan.legs
        )
        acceptors = parts.acceptors(parts.asked(plan, attempt))
        await self._log.write(AmendmentDecided(attempt=attempt, legs=legs, acceptors=acceptors))
        self._tell(News(step=Step.DECIDED, text="every leg is held", attempt=attempt))

    async def _release_asked(self, amendment: Amendment) -> None:
        """By their requests, so that also a hold whose answer never came is gone."""
        destinations = self._destinations(amendment.metajob_json)
        asked = [leg for legs in self._log.story.asked.values() for leg in legs]
        await asyncio.gather(
            *(
                destinations[leg.machine].connection.calendar.release_request(leg.request_id)
                for leg in asked
            )
        )

    # -- deciding ----------------------------------------------------------------------------------

    async def _settle_decided(self, amendment: Amendment, wish: Outcome) -> Decline | None:
        """From "every leg is held" to the trip's new form at every site, or back to the old one.
        Saying it again leads to the same end. ``wish`` ABORT: the trip is being cancelled, so a
        change that turns out to be decided is cancelled as well.
        """
        parts = self._parts_of(amendment.metajob_json)
        questions = self._questions(parts)
        legs, attempt = amendment.legs, amendment.attempt
        outcome = await questions.outcome(legs, attempt, amendment.acceptors, wish=wish)
        if outcome is Outcome.ABORT:
            await self._release(legs, parts)
            message = "the change was not decided before its holds' lifetime ended"
            await self._close(message)
            return Decline(rule=DeclineRule.CHANGED, message=message)
        if wish is Outcome.ABORT:
            await self._undo(amendment, self._log.story.message or CANCELLED)
            return None
        holds = self._holds(parts)
        answers = await asyncio.gather(*(holds.commit_leg(leg, is_decided=True) for leg in legs))
        refusals = [each for each in answers if isinstance(each, Decline)]
        if not amendment.acceptors and len(refusals) == len(legs):
            await self._close(refusals[0].message)
            return refusals[0]
        if refusals:
            await self._undo(amendment, f"a leg could not be changed: {refusals[0].message}")
            return refusals[0]
        await self._amended(amendment, [each for each in answers if isinstance(each, Reservation)])
        return None

    async def _amended(self, amendment: Amendment, answers: Sequence[Reservation]) -> None:
        """Every leg has its new form; what is left of the old trip is dropped."""
        parts, story = self._parts_of(amendment.metajob_json), self._log.story
        before = {(leg.machine, leg.reservation_id): leg for leg in story.legs}
        legs = []
        for held, kept in zip(amendment.legs, answers, strict=True):
            leg = parts.leg(held.name, held.machine, kept, LegState.BOOKED)
            known = before.pop((leg.machine, leg.reservation_id), None)
            if known is not None:
                leg = replace(leg, job_id=known.job_id, zone=known.zone)
            legs.append(leg)
        await self._log.write(TripAmended(legs=tuple(legs), dropped=tuple(before.values())))

    async def _close(self, message: str) -> None:
        await self._log.write(AmendmentClosed(message=message))

    # -- undoing -----------------------------------------------------------------------------------

    async def _undo(self, amendment: Amendment, reason: str) -> None:
        """Cancel the trip in both its forms: a site that cannot be told now asks before its start,
        whichever form it knows.
        """
        story = self._log.story
        await self._log.write(UndoAsked(reason=reason))
        parts = self._parts_of(amendment.metajob_json)
        legs = (*amendment.legs, *story.legs)
        is_whole = await self._questions(parts).call_off(
            amendment.legs, amendment.attempt, amendment.acceptors
        )
        if not is_whole:
            start = min(leg.start for leg in amendment.legs)
            await self._office.clock.sleep_until(start)
        await self._release(legs, parts)
        await self._log.write(TripEnded(state=TripState.CANCELLED.value, message=reason))

    async def _drop_all(self) -> str:
        """Release the legs that amendments left out, and have the acceptors of their attempts
        remember it. A site that cannot be told now keeps nobody from going on: it asks before its
        start, and is told again next time.
        """
        now = self._office.clock.now()
        try:
            for dropped in self._log.story.dropped:
                waiting = [leg for leg in dropped.legs if now < leg.end]
                if waiting:
                    await self._drop(replace(dropped, legs=tuple(waiting)))
        except UnavailableError as fault:
            return f"a site that is left out could not be told: {fault}"
        await self._log.write(LegsDropped())
        return "released what the trip no longer needs"

    async def _drop(self, dropped: DroppedLegs) -> None:
        parts = self._parts_of(dropped.metajob_json)
        try:
            await self._questions(parts).call_off(dropped.legs, dropped.attempt, dropped.acceptors)
        except UnavailableError as fault:
            self._tell(News(step=Step.NOTE, text=str(fault)))
        await self._release(dropped.legs, parts)

    async def _release(self, legs: Sequence[Leg], parts: TripParts) -> None:
        """Release what stands under these ids, wherever it can be reached."""
        holds = self._holds(parts)
        answers = await asyncio.gather(
            *(holds.release_leg(leg) for leg in legs), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, GridError):
                raise UnavailableError(
                    f"a site could not be told: {answer}",
                    hint=f"run `gur resume {self._log.story.trip_id}` when it is back",
                ) from answer
            if isinstance(answer, BaseException):
                raise answer

    # -- inside ------------------------------------------------------------------------------------

    def _refuse(self, wanted: Metajob) -> Decline | None:
        """What can be said before anybody is asked."""
        story, now = self._log.story, self._office.clock.now()
        start = min(leg.start for leg in story.legs)
        if start <= now:
            message = "the trip has begun: what runs cannot be changed as a whole"
            return Decline(rule=DeclineRule.STATE, message=message)
        destinations = self._office.destinations(wanted)
        check_search(SearchChoice.SWEEP, wanted, destinations)
        known = self._destinations(story.metajob_json)
        for leg in story.legs:
            if known[leg.machine].only_sets or known[leg.machine].is_manager:
                what = "a manager" if known[leg.machine].is_manager else "a batch system alone"
                message = (
                    f"{leg.machine} is {what}, which cannot hold a change beside what is booked;"
                    " cancel the trip and book it again"
                )
                return Decline(rule=DeclineRule.STATE, message=message, site=leg.site)
        return None

    def _amendment(self) -> Amendment:
        amendment = self._log.story.amendment
        assert amendment is not None, "it was opened, and not closed"
        return amendment

    def _destinations(self, metajob_json: str) -> dict[str, Destination]:
        """The machines of the trip as it is, and of that metajob."""
        text = self._log.story.metajob_json
        old, new = (self._office.parsed(each) for each in (text, metajob_json))
        return {**self._office.destinations(old), **self._office.destinations(new)}

    def _parts(self, metajob: Metajob, other: Metajob) -> TripParts:
        destinations = {
            **self._office.destinations(other),
            **self._office.destinations(metajob),
        }
        return TripParts(
            trip_id=self._log.story.trip_id, metajob=metajob, destinations=destinations
        )

    def _parts_of(self, metajob_json: str) -> TripParts:
        return self._parts(self._office.parsed(metajob_json), self._office.metajob_of(self._log))

    def _questions(self, parts: TripParts) -> TripQuestions:
        run_id = f"{self._run_id}.{self._office.ids.new_id('q')}"
        return TripQuestions(parts, self._office.clock, run_id)

    def _holds(self, parts: TripParts) -> LegHolds:
        return LegHolds(parts, self._log, self._office.clock, self._tell)
