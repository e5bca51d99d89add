"""After a crash of the laptop: what the log says may exist at the sites, and how it is finished or
undone.

Three cases, by the last step in the log (``two_phase`` has the steps):

- nothing decided: every hold that was announced is released, by its request, so that also one whose
  answer never came is gone; the trip is ABSENT;
- decided, not booked: the commits are said again; verbs are idempotent, so it does not matter which
  of them had arrived;
- to be undone: the releases are said again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.travel_agent.booking.two_phase import CANCELLED, Booking
from gridtravel.travel_agent.log.events import AskedLeg, TripEnded
from gridtravel.travel_agent.log.trip_log import TripStory
from gridtravel.travel_agent.trip_context import TripContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What was found and what was done about it, one line each, and where the trip stands now."""

    found: str
    done: str
    itinerary: Itinerary


async def resume(booking: Booking) -> Resumed:
    """Bring a trip to rest. ``UnavailableError``: a site that matters is out of reach; say it
    again."""
    story = booking.trip.log.story
    if story.state.is_over:
        return over(story)
    if story.is_undoing:
        found = f"it was to be undone ({story.message})"
        legs, attempt = story.itinerary(), story.attempt
        if story.state is TripState.BOOKED:
            itinerary = await booking.cancel(legs, attempt)
        else:
            itinerary = await booking.abandon(legs, attempt, _why_undone(story))
        return Resumed(
            found=found,
            done="released every leg",
            itinerary=itinerary,
        )
    if story.state is TripState.HELD:
        itinerary = await booking.commit(story.itinerary(), story.attempt)
        outcome = "committed every leg" if itinerary.state is TripState.BOOKED else "released all"
        return Resumed(
            found="it was decided, and not known to be booked",
            done=outcome,
            itinerary=itinerary,
        )
    if story.state is TripState.PLANNED:
        count = len(_asked(story))
        await _release_asked(booking.trip)
        await booking.trip.log.write(
            TripEnded(state=TripState.ABSENT.value, message="given up before decided")
        )
        return Resumed(
            found=f"nothing was decided; {count} holds may have existed",
            done=f"released {count} holds",
            itinerary=Itinerary(trip_id=story.trip_id, name=story.name, state=TripState.ABSENT),
        )
    return Resumed(
        found=f"the trip is {story.state}", done="nothing to do", itinerary=story.itinerary()
    )


def over(story: TripStory) -> Resumed:
    """The answer for a trip to which nothing more will happen."""
    return Resumed(
        found=f"the trip is over: {story.state}",
        done="nothing to do",
        itinerary=story.itinerary(),
    )


def _why_undone(story: TripStory) -> Decline | None:
    """The refusal that an undo goes back to; ``None``: its user cancelled."""
    if story.message == CANCELLED:
        return None
    return Decline(rule=DeclineRule.CHANGED, message=story.message)


def _asked(story: TripStory) -> list[AskedLeg]:
    return [*story.probes, *(leg for legs in story.asked.values() for leg in legs)]


async def _release_asked(trip: TripContext) -> None:
    """Release every hold and test reservation that was announced and not let go."""
    asked = _asked(trip.log.story)

    async def release(machine: str, request_id: str) -> None:
        destination = trip.destinations.get(machine)
        if destination is None:
            raise UnavailableError(
                f"machine {machine} is no longer in the list of machines",
                hint="put it back, or wait until its holds expire",
            )
        await destination.connection.calendar.release_request(request_id)

    answers = await asyncio.gather(
        *(release(leg.machine, leg.request_id) for leg in asked), return_exceptions=True
    )
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
