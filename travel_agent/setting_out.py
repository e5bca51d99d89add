"""From a metajob to a trip that is booked and whose jobs are queued, or to nothing at all.

Whatever goes wrong on the way, and Ctrl-C, undoes what was begun; what cannot be reached for that
expires by itself, and the log knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from gridcore.errors import ConflictError, GridError, InputError
from gridcore.itineraries import Itinerary, Leg, TripState
from gridcore.metajobs import Metajob
from gridcore.trip_wishes import TripEvent
from travel_agent.booking import Booking
from travel_agent.deciding import OutcomeOpenError
from travel_agent.legs import LegWork
from travel_agent.metajob_writer import metajob_to_json
from travel_agent.news import Listener
from travel_agent.office import Office
from travel_agent.racing import start_race
from travel_agent.resuming import resume
from travel_agent.search_choice import check_search
from travel_agent.searching import Destination
from travel_agent.stages import with_inputs
from travel_agent.telling import tell_people
from travel_agent.trip_events import FilesSent, JobSubmitted, TripOpened
from travel_agent.trip_log import ForgetfulLog, JournaledTripLog, TripLog

CLEAN_UP_S: Final = 3.0
"""How long a cancelled booking (Ctrl-C) may take to release its holds before they are left to
expire.
"""


async def set_out(office: Office, metajob: Metajob, base: Path, listener: Listener) -> Itinerary:
    """Book a trip under a new id and queue its jobs; the answer is BOOKED or DECLINED."""
    metajob.check_still_possible(office.clock.now())
    if metajob.is_race:
        return await start_race(office, metajob, listener)
    trip_id = office.ids.new_id("trip")
    destinations = office.destinations(metajob)
    check_search(office.config.search, metajob, destinations)
    work = LegWork(metajob, destinations, listener=listener)
    work.check_files(base)
    await office.check_logins(destinations)
    log = JournaledTripLog(office.journals.create(trip_id), office.clock)
    try:
        await log.write(
            TripOpened(trip_id=trip_id, name=metajob.name, metajob_json=metajob_to_json(metajob))
        )
        booking = office.booking(metajob, trip_id, log, listener, search=office.config.search)
        try:
            itinerary = await booking.book()
            if itinerary.state is TripState.BOOKED:
                itinerary = await queue_jobs(itinerary, work, base, log)
                await tell_people(
                    office, log, metajob, TripEvent.BOOKED, itinerary, listener=listener
                )
        except OutcomeOpenError:
            raise
        except (Exception, asyncio.CancelledError) as fault:
            # An undo that could not reach every site is not said again at once.
            if not log.story.is_undoing or isinstance(fault, asyncio.CancelledError):
                await _clean_up(log, booking, destinations)
            raise
        return itinerary
    finally:
        log.close()


async def ask_only(office: Office, metajob: Metajob, listener: Listener) -> Itinerary:
    """What ``set_out`` would book now. A search that sets test reservations cancels them, also when
    it is interrupted; what dies suddenly leaves them to expire.
    """
    metajob.check_still_possible(office.clock.now())
    if metajob.is_race:
        raise InputError(
            "nobody can say beforehand which copy of a race will run",
            hint="`gur book` queues them; leave race out for the earliest reservation",
        )
    destinations = office.destinations(metajob)
    check_search(office.config.search, metajob, destinations)
    trip_id, log = office.ids.new_id("quote"), ForgetfulLog()
    booking = office.booking(metajob, trip_id, log, listener, search=office.config.search)
    try:
        return with_inputs(metajob, await booking.quote(), destinations)
    except (Exception, asyncio.CancelledError):
        await _clean_up(log, booking, destinations)
        raise


async def queue_jobs(
    itinerary: Itinerary,
    work: LegWork,
    base: Path,
    log: TripLog,
    *,
    sent: Collection[str] = (),
) -> Itinerary:
    """Files in and jobs queued, at all sites at the same time; what is queued already stays. The
    job of a stage whose input the laptop brings is queued with that (``relaying``); ``sent``: the
    reservations of such stages whose own files are there already. The legs come back with their
    sites' time zones.
    """

    async def prepare(leg: Leg) -> Leg:
        leg = await work.in_its_zone(leg)
        if work.task_of(leg) is None or leg.job_id is not None:
            return leg
        if leg.reservation_id not in sent:
            await work.stage_in(leg, base)
        if work.is_relayed(leg, itinerary):
            if leg.reservation_id not in sent:
                await log.write(FilesSent(leg=leg.name, reservation_id=leg.reservation_id or ""))
            return leg
        try:
            view = await work.submit(leg, itinerary)
        except ConflictError:
            # A stage of a pipeline, or a whole trip, may be over before the laptop comes back.
            if not await work.is_over(leg):
                raise
            return leg
        await log.write(JobSubmitted(leg=leg.name, job_id=view.job_id))
        return replace(leg, job_id=view.job_id)

    legs = await asyncio.gather(*(prepare(leg) for leg in itinerary.legs))
    return work.with_inputs(replace(itinerary, legs=tuple(legs)))


async def _clean_up(
    log: JournaledTripLog | ForgetfulLog, booking: Booking, destinations: dict[str, Destination]
) -> None:
    """Undo a booking that was interrupted, within ``CLEAN_UP_S``; holds expire otherwise."""

    async def undo() -> None:
        story = log.story
        async with asyncio.timeout(CLEAN_UP_S):
            if story.is_undoing:
                await resume(story, booking, destinations, log)
            elif story.state is TripState.HELD:
                await booking.abandon(story.itinerary(), story.attempt, story.acceptors)
            elif story.state is TripState.BOOKED:
                await booking.cancel(story.itinerary(), story.attempt, story.acceptors)
            elif not story.state.is_over:
                await resume(story, booking, destinations, log)

    task = asyncio.ensure_future(undo())
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
    except (GridError, TimeoutError):
        # The log knows what may be left; `gur resume` goes on from there.
        return
