"""From a metajob to a trip that is booked and whose jobs are queued, or to nothing at all.

Whatever goes wrong on the way, and Ctrl-C, undoes what was begun; what cannot be reached for that
expires by itself, and the log knows it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.travel_agent.booking.outcome import OutcomeOpenError, say_ready
from gridtravel.travel_agent.booking.race import start_race
from gridtravel.travel_agent.booking.resume import resume
from gridtravel.travel_agent.booking.two_phase import Booking
from gridtravel.travel_agent.local_files import whole_path
from gridtravel.travel_agent.log.events import TripOpened
from gridtravel.travel_agent.log.trip_log import ForgetfulLog, open_new_log
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from gridtravel.travel_agent.news import Listener
from gridtravel.travel_agent.running.jobs import InputsUnsentError, check_files
from gridtravel.travel_agent.running.notify import notify_people
from gridtravel.travel_agent.running.pipeline_inputs import with_inputs
from gridtravel.travel_agent.search.choice import check_search
from gridtravel.travel_agent.session import GridSession

CLEAN_UP_S: Final = 3.0
"""How long a cancelled booking (Ctrl-C) may take to release its holds before they are left to
expire.
"""


async def set_out(
    session: GridSession, metajob: Metajob, base: Path, listener: Listener
) -> Itinerary:
    """Book a trip under a new id and queue its jobs; the answer is BOOKED or DECLINED."""
    metajob.check_still_possible(session.clock.now())
    if metajob.is_race:
        return await start_race(session, metajob, listener)
    trip_id = session.ids.new_id("trip")
    destinations = session.destinations(metajob)
    check_search(session.config.search, metajob, destinations)
    check_files(metajob, destinations, base)
    session.check_sites(destinations)
    session.check_keepers(metajob)
    await session.check_logins(destinations)
    await session.meet(metajob)
    opened = TripOpened(
        trip_id=trip_id,
        name=metajob.name,
        metajob_json=metajob_to_json(metajob),
        base=whole_path(base),
    )
    log = await open_new_log(session.journals, session.clock, opened)
    try:
        trip = session.trip(trip_id, metajob, log, listener, base=base)
        booking = Booking(trip, search=session.config.search)
        try:
            itinerary = await booking.book()
            if itinerary.state is TripState.BOOKED:
                itinerary = await booking.work.finish(itinerary)
                await say_ready(trip, log.story.attempt, itinerary.legs)
                await notify_people(session, trip, TripEvent.BOOKED, itinerary)
        except (OutcomeOpenError, InputsUnsentError):
            raise
        except (Exception, asyncio.CancelledError) as fault:
            # An undo that could not reach every site is not said again at once.
            if not log.story.is_undoing or isinstance(fault, asyncio.CancelledError):
                await _clean_up(booking)
            raise
        return itinerary
    finally:
        log.close()


async def ask_only(session: GridSession, metajob: Metajob, listener: Listener) -> Itinerary:
    """What ``set_out`` would book now. A search that sets test reservations cancels them, also when
    it is interrupted; what dies suddenly leaves them to expire.
    """
    metajob.check_still_possible(session.clock.now())
    if metajob.is_race:
        raise InputError(
            "nobody can say beforehand which copy of a race will run",
            hint="`gur book` queues them; leave race out for the earliest reservation",
        )
    check_search(session.config.search, metajob, session.destinations(metajob))
    session.check_keepers(metajob)
    await session.meet(metajob)
    trip_id = session.ids.new_id("quote")
    trip = session.trip(trip_id, metajob, ForgetfulLog(), listener, base=Path())
    booking = Booking(trip, search=session.config.search)
    try:
        return with_inputs(metajob, await booking.quote(), trip.destinations)
    except (Exception, asyncio.CancelledError):
        await _clean_up(booking)
        raise


async def _clean_up(booking: Booking) -> None:
    """Undo a booking that was interrupted, within ``CLEAN_UP_S``; holds expire otherwise."""

    async def undo() -> None:
        story = booking.trip.log.story
        async with asyncio.timeout(CLEAN_UP_S):
            if story.is_undoing:
                await resume(booking)
            elif story.state is TripState.HELD:
                await booking.abandon(story.itinerary(), story.attempt)
            elif story.state is TripState.BOOKED:
                await booking.cancel(story.itinerary(), story.attempt)
            elif not story.state.is_over:
                await resume(booking)

    task = asyncio.ensure_future(undo())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
    except (GridError, TimeoutError):
        # The log knows what may be left; `gur resume` goes on from there.
        return
