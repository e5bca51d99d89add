"""The legs of a trip at their sites: held all at once, let go, committed, released.

One site's answer at a time means nothing here; what they mean together is ``two_phase``'s affair,
and ``amendment``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation, TripRef
from gridtravel.gridcore.errors import GridError, NotAuthorisedError, UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.planning import Plan, PlannedLeg
from gridtravel.travel_agent.booking.outcome import OutcomeOpenError, say_ready
from gridtravel.travel_agent.log.events import AskedLeg, HoldsAsked, HoldsLetGo
from gridtravel.travel_agent.log.trip_log import Attempt
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.running.jobs import LegWork
from gridtravel.travel_agent.search.sweep import hold_request
from gridtravel.travel_agent.trip_context import TripContext

HOLD_TTL_S: Final = 30
"""Lifetime asked for each hold: long enough for a slow network, short enough to harm nobody."""
COMMIT_RETRY_S: Final = 0.2
UNDO_ATTEMPTS: Final = 2
"""How often a release is said when a site cannot be reached; the connection insists by itself each
time, so that this is several seconds.
"""


class LegHolds:
    """The way to all sites of one trip."""

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self.work = LegWork(trip)
        """What goes with the holds, and into them."""

    async def hold_all(
        self, plan: Plan, attempt: Attempt
    ) -> tuple[dict[str, Reservation], dict[str, Decline]]:
        """Ask for every leg at once; what was granted and what was refused, by leg."""
        names = [leg.name for leg in plan.legs]
        asked = self._trip.asked(plan, attempt)
        jobs = [await self.work.held_job(leg, asked) for leg in asked]
        await self._trip.log.write(HoldsAsked(attempt=attempt.number, legs=asked))
        answers = await asyncio.gather(
            *(
                self._hold(leg, self._trip.trip_ref(leg.name, attempt, asked), job, planned.quote)
                for leg, job, planned in zip(asked, jobs, plan.legs, strict=True)
            ),
            return_exceptions=True,
        )
        held = {n: a for n, a in zip(names, answers, strict=True) if isinstance(a, Reservation)}
        faults = [each for each in answers if isinstance(each, BaseException)]
        if faults:
            await self.let_go(plan, held, attempt)
            raise faults[0]
        refusals = {n: a for n, a in zip(names, answers, strict=True) if isinstance(a, Decline)}
        for name, refusal in refusals.items():
            self._trip.tell(
                News(step=Step.DECLINED, place=name, text=refusal.message, attempt=attempt.number)
            )
        return held, refusals

    async def _hold(
        self, leg: AskedLeg, trip: TripRef, job: HeldJob | None, quote: str
    ) -> Reservation | Decline:
        destination = self._trip.destinations[leg.machine]
        request = hold_request(self._trip.metajob, destination, leg)
        request = replace(request, trip=trip, quote=quote)
        calendar = destination.connection.calendar
        try:
            answer = await calendar.reserve(request, ttl_s=HOLD_TTL_S, job=job)
        except UnavailableError:
            # The answer is lost, the hold perhaps not: see to it that the request books nothing.
            await self._forget_request(leg)
            raise
        if isinstance(answer, Reservation):
            self._trip.tell(
                News(
                    step=Step.HELD,
                    place=leg.name,
                    text=f"{answer.nodes} nodes as {answer.reservation_id}",
                )
            )
        return answer

    async def _forget_request(self, leg: AskedLeg) -> None:
        """Tell a site whose answer was lost to let the request go; it expires there otherwise."""
        try:
            await self._trip.destinations[leg.machine].connection.calendar.release_request(
                leg.request_id
            )
        except GridError as fault:
            self._trip.tell(
                News(step=Step.NOTE, place=leg.name, text=f"the hold will expire: {fault}")
            )

    async def let_go(self, plan: Plan, held: Mapping[str, Reservation], attempt: Attempt) -> None:
        """Release the holds of an attempt that failed. A site out of reach lets go by itself."""

        async def release(leg: PlannedLeg, reservation: Reservation) -> None:
            try:
                calendar = self._trip.destinations[leg.machine].connection.calendar
                await calendar.release(reservation.reservation_id)
                self._trip.tell(
                    News(step=Step.LET_GO, place=leg.name, text=reservation.reservation_id)
                )
            except UnavailableError as fault:
                text = f"the hold will expire: {fault}"
                self._trip.tell(News(step=Step.NOTE, place=leg.name, text=text))

        await asyncio.gather(
            *(release(each, held[each.name]) for each in plan.legs if each.name in held)
        )
        await self._trip.log.write(HoldsLetGo(attempt=attempt.number))

    async def commit_leg(
        self, leg: Leg, attempt: Attempt, *, is_decided: bool, manifest: Manifest
    ) -> Reservation | Decline:
        """Commit one leg, trying again until the site answers or the hold must have expired. Where
        acceptors have decided nothing is lost by then: the site asks them itself, until the start.
        Right after its commit a leg that nobody at its site can speak for is called ready, when
        it has its files: what happens to this laptop between the two is what can go wrong there.
        """
        calendar = self._trip.destinations[leg.machine].connection.calendar
        give_up_at = min(self._trip.clock.now() + HOLD_TTL_S, leg.start)
        while True:
            try:
                answer = await calendar.commit(leg.reservation_id or "", manifest=manifest)
            except UnavailableError as fault:
                now = self._trip.clock.now()
                if now >= give_up_at:
                    if is_decided and now < leg.start:
                        trip_id = self._trip.trip_id
                        raise OutcomeOpenError(
                            f"the trip is decided, but {leg.site} could not be told: {fault}",
                            hint=f"it asks the others by itself; see `gur resume {trip_id}`",
                        ) from fault
                    return Decline(rule=DeclineRule.CHANGED, message=str(fault), site=leg.site)
                await self._trip.clock.sleep_until(self._trip.clock.now_precise() + COMMIT_RETRY_S)
                continue
            if isinstance(answer, Reservation):
                if answer.job_id and self.work.has_all(leg):
                    await say_ready(self._trip, attempt, [leg])
                self._trip.tell(
                    News(step=Step.COMMITTED, place=leg.name, text=answer.reservation_id)
                )
                if answer.job_id:
                    self._trip.tell(News(step=Step.SUBMITTED, place=leg.name, text=answer.job_id))
            return answer

    async def release_leg(self, leg: Leg) -> None:
        """Release one leg; ``UnavailableError`` when its site cannot be reached, also when asked
        again.
        """
        calendar = self._trip.destinations[leg.machine].connection.calendar
        for attempt in range(1, UNDO_ATTEMPTS + 1):
            try:
                await calendar.release(leg.reservation_id or "")
            except NotAuthorisedError:
                raise
            except UnavailableError:
                if attempt == UNDO_ATTEMPTS:
                    raise
                await self._trip.clock.sleep_until(self._trip.clock.now_precise() + COMMIT_RETRY_S)
                continue
            self._trip.tell(News(step=Step.LET_GO, place=leg.name, text=leg.reservation_id or ""))
            return
