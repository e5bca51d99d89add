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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.trips.itineraries import Leg, LegState, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.planning import Plan, PlannedLeg
from gridtravel.gridcore.trips.trip_consensus import Outcome, majority
from gridtravel.travel_agent.booking.holds import LegHolds
from gridtravel.travel_agent.booking.outcome import call_off, commit_or_learn, give_up_or_learn
from gridtravel.travel_agent.booking.replacing import replacing
from gridtravel.travel_agent.booking.two_phase import ATTEMPTS_MAX, CANCELLED
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.local_files import whole_path
from gridtravel.travel_agent.log.events import (
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    LegsDropped,
    TripAmended,
    TripEnded,
    UndoAsked,
)
from gridtravel.travel_agent.log.trip_log import Amendment, Attempt, DroppedLegs, TripLog, TripStory
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from gridtravel.travel_agent.news import Listener, News, Step
from gridtravel.travel_agent.search.choice import check_search, choose_search
from gridtravel.travel_agent.search.jitter import jitter_s
from gridtravel.travel_agent.search.sweep import Search, plan_text
from gridtravel.travel_agent.session import GridSession
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext


class TripAmendment:
    """One trip that is changed, from its open log."""

    def __init__(self, session: GridSession, log: TripLog, listener: Listener) -> None:
        self._session = session
        self._log = log
        self._tell = listener
        self._hopeless: dict[Plan, Decline] = {}
        """Plans that were refused for what does not pass."""

    @property
    def story(self) -> TripStory:
        """What the trip's log says now."""
        return self._log.story

    def trip(self) -> TripContext:
        """The trip as its log has it now."""
        return self._session.trip_of(self._log, self._tell)

    async def amend(
        self,
        wanted: Metajob,
        tries: Sequence[Metajob],
        reason: str,
        base: Path,
        *,
        gone: frozenset[str] = frozenset(),
        may_leave_keepers: bool = False,
    ) -> Decline | None:
        """Change the trip into ``wanted``; a refusal leaves it as it was. ``tries``: what is
        searched for, the first that can be had; each is ``wanted`` with a narrower window, and the
        last one usually ``wanted`` itself. ``base``: where relative paths of its files begin.
        ``gone``: legs whose reservations have ended, so that nothing replaces them.
        ``may_leave_keepers``: see ``_leaves_keepers``; only for a trip that is lost otherwise.
        """
        story = self._log.story
        old = self._session.metajob_of(self._log)
        refusal = self._refuse(wanted)
        if refusal is not None:
            return refusal
        await self._session.meet(wanted)
        text = metajob_to_json(wanted)
        await self._log.write(
            AmendmentOpened(metajob_json=text, reason=reason, base=whole_path(base))
        )
        trip = self._trip_to(wanted, old)
        kept = [leg for leg in story.legs if leg.name not in gone]
        destinations = replacing(self._session.destinations(wanted), story.trip_id, kept)
        holds = LegHolds(replace(trip, destinations={**trip.destinations, **destinations}))
        await holds.work.learn_inputs()
        refusal = None
        for each in tries:
            looked_for = replace(trip, metajob=each, destinations=destinations)
            search = choose_search(SearchChoice.SWEEP, looked_for)
            refusal = await self._hold(search, holds, trip, may_leave_keepers)
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
        if amendment is not None and not amendment.attempt.number:
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
        self, search: Search, holds: LegHolds, trip: TripContext, may_leave_keepers: bool
    ) -> Decline | None:
        """Search and hold until every leg is held, and write that down; or why not. A plan that was
        refused for what does not pass is not tried again.
        """
        story, clock = self._log.story, self._session.clock
        refusal = Decline(rule=DeclineRule.CHANGED, message="the sites' calendars kept changing")
        for number in range(story.attempts + 1, story.attempts + 1 + ATTEMPTS_MAX):
            plan = await search.propose()
            if isinstance(plan, Decline):
                return plan
            if lacking := trip.without_keeper(plan):
                return lacking
            if plan in self._hopeless:
                return self._hopeless[plan]
            if not may_leave_keepers and (kept := self._leaves_keepers(plan, trip)):
                return kept
            self._tell(News(step=Step.PLANNED, text=plan_text(plan), attempt=number))
            attempt = trip.new_attempt(plan, number)
            held, refusals = await holds.hold_all(plan, attempt)
            if not refusals:
                legs = [self._held_leg(each, held[each.name], trip) for each in plan.legs]
                # What a leg that stays has keeps its files until the change is decided.
                is_new = {name for name, each in held.items() if each.request.replaces is None}
                await holds.work.send_small([each for each in legs if each.name in is_new])
                await self._decided(plan, attempt, legs, trip)
                return None
            await holds.let_go(plan, held, attempt)
            lasting = [each for each in refusals.values() if not each.rule.may_pass]
            refusal = next(iter(lasting or refusals.values()))
            if lasting:
                self._hopeless[plan] = refusal
            await search.learn(refusals)
            await clock.sleep_until(clock.now_precise() + jitter_s(story.trip_id, number))
        return refusal

    def _leaves_keepers(self, plan: Plan, trip: TripContext) -> Decline | None:
        """Refuse to go on without a majority of the sites that keep the trip's outcome. They learn
        of the change with its commit, and have it settled among themselves that the legs it leaves
        out do not run. Left out themselves, they could come back shortly before the start, hear of
        nothing, and run the old trip beside the new.
        """
        keepers = tuple(each.site for each in self._log.story.attempt.acceptors)
        staying = {trip.destinations[leg.machine].site for leg in plan.legs}
        if not keepers or len(staying & set(keepers)) >= majority(keepers):
            return None
        message = (
            f"the change would leave {', '.join(sorted(set(keepers) - staying))}, which keep the"
            " trip's outcome; cancel the trip and book it again"
        )
        return Decline(rule=DeclineRule.STATE, message=message)

    def _held_leg(self, planned: PlannedLeg, hold: Reservation, trip: TripContext) -> Leg:
        """A leg as it is to be; one that stays at its site is reached where it was."""
        leg = trip.leg(planned.name, planned.machine, hold, LegState.HELD)
        for old in self._log.story.legs:
            if old.reservation_id == hold.request.replaces and old.machine == leg.machine:
                return replace(leg, contact=old.contact)
        return leg

    async def _decided(
        self, plan: Plan, attempt: Attempt, legs: Sequence[Leg], trip: TripContext
    ) -> None:
        await self._log.write(
            AmendmentDecided(
                attempt=attempt.number,
                legs=tuple(legs),
                acceptors=attempt.acceptors,
                nonce=attempt.nonce,
                asked_at=attempt.asked_at,
            )
        )
        self._tell(News(step=Step.DECIDED, text="every leg is held", attempt=attempt.number))

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
        trip = self._trip_as(amendment.metajob_json)
        legs, attempt = amendment.legs, amendment.attempt
        manifest = trip.manifest(legs)
        if wish is Outcome.COMMIT:
            outcome = await commit_or_learn(trip, attempt, manifest)
        else:
            outcome = await give_up_or_learn(trip, attempt, legs)
        if outcome is Outcome.ABORT:
            await self._release(legs, trip)
            message = "the change was not decided before its holds' lifetime ended"
            await self._close(message)
            return Decline(rule=DeclineRule.CHANGED, message=message)
        if wish is Outcome.ABORT:
            await self._undo(amendment, self._log.story.message or CANCELLED)
            return None
        holds = LegHolds(trip)
        answers = await asyncio.gather(
            *(holds.commit_leg(leg, attempt, is_decided=True, manifest=manifest) for leg in legs)
        )
        refusals = [each for each in answers if isinstance(each, Decline)]
        if not attempt.acceptors and len(refusals) == len(legs):
            await self._close(refusals[0].message)
            return refusals[0]
        if refusals:
            await self._undo(amendment, f"a leg could not be changed: {refusals[0].message}")
            return refusals[0]
        await self._amended(amendment, [each for each in answers if isinstance(each, Reservation)])
        return None

    async def _amended(self, amendment: Amendment, answers: Sequence[Reservation]) -> None:
        """Every leg has its new form; what is left of the old trip is dropped."""
        trip, story = self._trip_as(amendment.metajob_json), self._log.story
        before = {(leg.machine, leg.reservation_id): leg for leg in story.legs}
        legs = []
        for held, kept in zip(amendment.legs, answers, strict=True):
            leg = trip.leg(held.name, held.machine, kept, LegState.BOOKED)
            known = before.pop((leg.machine, leg.reservation_id), None)
            if known is not None:
                leg = replace(leg, job_id=leg.job_id or known.job_id, zone=known.zone)
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
        trip = self._trip_as(amendment.metajob_json)
        legs = (*amendment.legs, *story.legs)
        if not await call_off(trip, amendment.attempt, legs):
            start = min(leg.start for leg in amendment.legs)
            await self._session.clock.sleep_until(start)
        await self._release(legs, trip)
        await self._log.write(TripEnded(state=TripState.CANCELLED.value, message=reason))

    async def _drop_all(self) -> str:
        """Release the legs that amendments left out, and have the acceptors of their attempts
        remember it. A site that cannot be told now keeps nobody from going on: it asks before its
        start, and is told again next time.
        """
        now = self._session.clock.now()
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
        trip = self._trip_as(dropped.metajob_json)
        try:
            await call_off(trip, dropped.attempt, dropped.legs)
        except UnavailableError as fault:
            self._tell(News(step=Step.NOTE, text=str(fault)))
        await self._release(dropped.legs, trip)

    async def _release(self, legs: Sequence[Leg], trip: TripContext) -> None:
        """Release what stands under these ids, wherever it can be reached."""
        holds = LegHolds(trip)
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
        story, now = self._log.story, self._session.clock.now()
        start = min(leg.start for leg in story.legs)
        if start <= now:
            message = "the trip has begun: what runs cannot be changed as a whole"
            return Decline(rule=DeclineRule.STATE, message=message)
        destinations = self._session.destinations(wanted)
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
        old, new = (self._session.parsed(each) for each in (text, metajob_json))
        return {**self._session.destinations(old), **self._session.destinations(new)}

    def _trip_to(self, metajob: Metajob, other: Metajob) -> TripContext:
        """The trip in the form of one metajob, with the machines of another beside its own."""
        story = self._log.story
        base = Path(story.base if story.amendment is None else story.amendment.base)
        trip = self._session.trip(story.trip_id, metajob, self._log, self._tell, base=base)
        both = {**self._session.destinations(other), **trip.destinations}
        return replace(trip, destinations=both)

    def _trip_as(self, metajob_json: str) -> TripContext:
        return self._trip_to(
            self._session.parsed(metajob_json), self._session.metajob_of(self._log)
        )
