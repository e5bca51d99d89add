"""Booking a trip: holds on all legs, then commits on all legs, or nothing at all.

The order of the steps is the whole of the safety (design, section 3):

1. the search proposes a start and a distribution;
2. the log says which holds may come to exist;
3. all legs are held at the same time, each with what is to run there; one refusal lets all go, and
   the search learns. Small input files are sent to the legs that are held;
4. the log says that every leg is held, and the acceptors decide: COMMIT is a fact from here on
   (``outcome``); with one site its own commit is the decision;
5. all legs are committed.

At whatever point the laptop dies, ``resume`` finds in the log which of these steps was the last
and finishes or undoes; what nobody resumes lets itself go when the holds expire.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.trips.itineraries import Itinerary, LegState, TripState
from gridtravel.gridcore.trips.trip_consensus import Outcome
from gridtravel.travel_agent.booking.holds import LegHolds
from gridtravel.travel_agent.booking.outcome import call_off, commit_or_learn, give_up_or_learn
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.log.events import TripBooked, TripDecided, TripEnded, UndoAsked
from gridtravel.travel_agent.log.trip_log import Attempt
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.search.choice import choose_search
from gridtravel.travel_agent.search.jitter import jitter_s
from gridtravel.travel_agent.search.sweep import plan_text
from gridtravel.travel_agent.trip_context import TripContext

ATTEMPTS_MAX: Final = 8
"""Proposals that are tried before the booking gives up on moving targets."""
CANCELLED: Final = "cancelled"
"""The reason of an undo that the user asked for."""


class Booking:
    """One trip on its way from a metajob to an itinerary."""

    def __init__(self, trip: TripContext, *, search: SearchChoice = SearchChoice.AUTO) -> None:
        """A trip that is new, or gone on with; ``search`` matters only to a new one."""
        self.trip = trip
        self._holds = LegHolds(trip)
        self.work = self._holds.work
        self._search = choose_search(search, trip)

    async def quote(self) -> Itinerary:
        """What would be booked now; asks, holds nothing (the same path, without the last steps)."""
        plan = await self._search.propose()
        empty = Itinerary(
            trip_id=self.trip.trip_id, name=self.trip.metajob.name, state=TripState.PLANNED
        )
        if isinstance(plan, Decline):
            return empty.declined(plan)
        if refusal := self.trip.without_keeper(plan):
            return empty.declined(refusal)
        return replace(
            empty,
            legs=tuple(self.trip.planned_leg(each) for each in plan.legs),
            kept_by=tuple(each.site for each in self.trip.keepers_of(plan)),
        )

    async def book(self) -> Itinerary:
        """Book the trip, or say why not. A fault while asking leaves nothing behind but holds that
        expire by themselves, and the log that says which.
        """
        itinerary = Itinerary(
            trip_id=self.trip.trip_id, name=self.trip.metajob.name, state=TripState.PLANNED
        )
        refusal = Decline(rule=DeclineRule.CHANGED, message="the sites' calendars kept changing")
        await self.work.learn_inputs()
        for number in range(1, ATTEMPTS_MAX + 1):
            plan = await self._search.propose()
            if isinstance(plan, Decline):
                return await self._give_up(itinerary, plan)
            if lacking := self.trip.without_keeper(plan):
                return await self._give_up(itinerary, lacking)
            self.trip.tell(News(step=Step.PLANNED, text=plan_text(plan), attempt=number))
            attempt = self.trip.new_attempt(plan, number)
            held, refusals = await self._holds.hold_all(plan, attempt)
            if not refusals:
                legs = tuple(
                    self.trip.leg(each.name, each.machine, held[each.name], LegState.HELD)
                    for each in plan.legs
                )
                await self.work.send_small(legs)
                await self.trip.log.write(
                    TripDecided(
                        attempt=number,
                        legs=legs,
                        acceptors=attempt.acceptors,
                        nonce=attempt.nonce,
                        asked_at=attempt.asked_at,
                    )
                )
                self.trip.tell(News(step=Step.DECIDED, text="every leg is held", attempt=number))
                return await self.commit(
                    replace(itinerary, legs=legs).moved_to(TripState.HELD), attempt
                )
            await self._holds.let_go(plan, held, attempt)
            refusal = next(iter(refusals.values()))
            await self._search.learn(refusals)
            await self.trip.clock.sleep_until(
                self.trip.clock.now_precise() + jitter_s(self.trip.trip_id, number)
            )
        return await self._give_up(itinerary, refusal)

    async def commit(self, itinerary: Itinerary, attempt: Attempt) -> Itinerary:
        """Decide a trip whose legs are all held, and commit every leg; or undo all when it was
        decided otherwise. Saying it again, after a crash as well, leads to the same end.
        """
        manifest = self.trip.manifest(itinerary.legs)
        outcome = await commit_or_learn(self.trip, attempt, manifest)
        if outcome is Outcome.ABORT:
            message = "the holds' lifetime ended before the trip was decided"
            return await self.undo(itinerary, Decline(rule=DeclineRule.CHANGED, message=message))
        outcomes = await asyncio.gather(
            *(
                self._holds.commit_leg(
                    leg, attempt, is_decided=bool(attempt.acceptors), manifest=manifest
                )
                for leg in itinerary.legs
            )
        )
        refusals = [each for each in outcomes if isinstance(each, Decline)]
        if refusals:
            reason = f"a hold was lost before its commit: {refusals[0].message}"
            lost = Decline(rule=DeclineRule.CHANGED, message=reason)
            await self.trip.log.write(UndoAsked(reason=reason))
            await self._call_off(itinerary, attempt)
            return await self.undo(itinerary, lost)
        booked = tuple(
            self.trip.leg(leg.name, leg.machine, each, LegState.BOOKED)
            for leg, each in zip(itinerary.legs, outcomes, strict=True)
            if isinstance(each, Reservation)
        )
        await self.trip.log.write(TripBooked(legs=booked))
        kept_by = tuple(each.site for each in attempt.acceptors)
        return replace(itinerary, legs=booked, kept_by=kept_by).moved_to(TripState.BOOKED)

    async def abandon(
        self, itinerary: Itinerary, attempt: Attempt, why: Decline | None = None
    ) -> Itinerary:
        """Give up a trip that was about to be decided; ``why`` as for ``undo``. The acceptors are
        asked first: what can never become a COMMIT any more may be released, and what is one
        already is called off as a whole.
        """
        await self.trip.log.write(UndoAsked(reason=why.message if why else CANCELLED))
        outcome = await give_up_or_learn(self.trip, attempt, itinerary.legs)
        if outcome is Outcome.COMMIT:
            await self._call_off(itinerary, attempt)
        return await self.undo(itinerary, why)

    async def cancel(self, itinerary: Itinerary, attempt: Attempt) -> Itinerary:
        """Cancel a booked trip as a whole: the acceptors learn it first, so that a site that cannot
        be told now finds it out before its leg starts.
        """
        await self.trip.log.write(UndoAsked(reason=CANCELLED))
        await self._call_off(itinerary, attempt)
        return await self.undo(itinerary, None)

    async def undo(self, itinerary: Itinerary, why: Decline | None) -> Itinerary:
        """Release every leg that may exist. ``why``: the refusal that caused it; ``None``: the user
        cancels. ``UnavailableError`` names a site that could not be told; ``gur resume`` goes on.
        """
        await self.trip.log.write(UndoAsked(reason=why.message if why else CANCELLED))
        results = await asyncio.gather(
            *(self._holds.release_leg(leg) for leg in itinerary.legs), return_exceptions=True
        )
        faults = [each for each in results if isinstance(each, BaseException)]
        if faults:
            raise UnavailableError(
                f"trip {self.trip.trip_id} could not be undone everywhere: {faults[0]}",
                hint=f"run `gur resume {self.trip.trip_id}` when the site is back",
            ) from faults[0]
        state = TripState.DECLINED if why else TripState.CANCELLED
        await self.trip.log.write(TripEnded(state=state.value, message=why.message if why else ""))
        if why is None:
            released = tuple(replace(leg, state=LegState.RELEASED) for leg in itinerary.legs)
            return replace(itinerary, legs=released).moved_to(TripState.CANCELLED)
        return itinerary.declined(why)

    async def _call_off(self, itinerary: Itinerary, attempt: Attempt) -> None:
        """Have the acceptors remember that a decided trip is cancelled. When they have settled that
        it was not, the legs begin, and are ended one by one like any that run.
        """
        if not await call_off(self.trip, attempt, itinerary.legs):
            await self.trip.clock.sleep_until(min(leg.start for leg in itinerary.legs))

    async def _give_up(self, itinerary: Itinerary, refusal: Decline) -> Itinerary:
        await self.trip.log.write(
            TripEnded(state=TripState.DECLINED.value, message=refusal.message)
        )
        return itinerary.declined(refusal)
