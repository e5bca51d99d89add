"""Beside a trip while it runs: its output and states as they come, and word to people in time.

Where the trip stands is always read from its sites' books; ``gur status`` and ``gur watch`` both
come through here, so it does not matter which of them finds that a trip is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import suppress
from dataclasses import replace

from aiostream import stream

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.gridcore.trips.metajobs import Metajob
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.travel_agent.log.events import TripEnded
from gridtravel.travel_agent.log.trip_log import TripLog, TripStory, story_of
from gridtravel.travel_agent.news import Listener, News, Step, deaf
from gridtravel.travel_agent.running.jobs import LegChange, LegOutput, LegWork
from gridtravel.travel_agent.running.notify import notify_people
from gridtravel.travel_agent.running.pipeline_inputs import with_inputs
from gridtravel.travel_agent.running.race_reports import race_report, withdraw_losers
from gridtravel.travel_agent.running.relay import Relay
from gridtravel.travel_agent.running.reports import LegLook, TripReport, look_at, report_on
from gridtravel.travel_agent.session import GridSession
from gridtravel.travel_agent.trip_context import TripContext

_TOLD_AT_THE_END = {TripState.FAILED: TripEvent.FAILED, TripState.COMPLETED: TripEvent.DONE}


async def report(
    session: GridSession, wanted: str, listener: Listener, *, is_brief: bool = False
) -> TripReport:
    """Where a trip stands, by the books of its sites; people are told what is new in it.
    ``is_brief``: of a trip that is over only what this laptop remembers.
    """
    trip_id = session.find(wanted)
    if is_brief:
        remembered = story_of(session.read_log(trip_id))
        if remembered.state.is_over:
            return _last_report(remembered, [])
    log = session.open_log(trip_id)
    try:
        story = log.story
        itinerary = story.itinerary()
        if not itinerary.legs or story.state.is_over:
            return await _after_the_end(session, log, listener)
        trip = await session.met(session.trip_of(log, listener))
        itinerary = with_inputs(trip.metajob, itinerary, trip.destinations)
        looks = await _look_at_legs(trip, itinerary)
        if trip.metajob.is_race:
            found = race_report(itinerary, looks)
            await withdraw_losers(found, trip.destinations)
        else:
            found = report_on(itinerary, looks)
        if story.amendment is not None:
            note = f"a change was interrupted: `gur resume {story.trip_id}` finishes or undoes it"
            found = replace(found, notes=(*found.notes, note))
        state = found.itinerary.state
        if found.is_over:
            await log.write(
                TripEnded(state=state.value, message=found.last_words, legs=found.itinerary.legs)
            )
            if state is TripState.FAILED and found.last_words:
                # Whoever finds the end is told why, as whoever looks later is.
                found = replace(found, notes=(*found.notes, found.last_words))
        event = _TOLD_AT_THE_END.get(state) if found.is_over else None
        if event is None and _starts_soon(found.itinerary, trip.metajob, session.clock.now()):
            event = TripEvent.STARTS_SOON
        if event is not None:
            await notify_people(session, trip, event, found.itinerary, why="; ".join(found.notes))
        return found
    finally:
        log.close()


async def _look_at_legs(trip: TripContext, itinerary: Itinerary) -> list[LegLook]:
    """What the sites' books say of every leg."""
    looks = (
        look_at(
            leg,
            trip.destinations[leg.machine],
            runs=trip.metajob.task_for(leg.machine, leg.name) is not None,
        )
        for leg in itinerary.legs
    )
    return await asyncio.gather(*looks)


async def _after_the_end(session: GridSession, log: TripLog, listener: Listener) -> TripReport:
    """A trip that is over, as it was in the end; its jobs as far as their sites remember them."""
    story = log.story
    looks: list[LegLook] = []
    if story.state in _TOLD_AT_THE_END:
        looks = await _look_at_legs(session.trip_of(log, listener), story.itinerary())
    return _last_report(story, looks)


def _last_report(story: TripStory, looks: Sequence[LegLook]) -> TripReport:
    """What is known of a trip that is over."""
    has_run = story.state in _TOLD_AT_THE_END
    return TripReport(
        itinerary=story.itinerary(),
        jobs={each.leg.name: each.job for each in looks if each.job is not None},
        skews={each.leg.name: each.skew for each in looks if each.skew is not None},
        notes=(story.message,) if has_run and story.message else (),
    )


async def attend(
    session: GridSession, wanted: str, listener: Listener
) -> AsyncIterator[LegOutput | LegChange]:
    """Output and states of a trip's jobs until all are over; then, and shortly before the start,
    people are told. Files that an earlier command could not send are sent, and between stages that
    no site can connect this laptop brings the input.
    """
    trip = await session.met(session.remembered(wanted, listener))
    itinerary = trip.log.story.itinerary()
    # What comes of the jobs is shown; that they are queued is not told as well.
    work = LegWork(replace(trip, tell=deaf))
    relay = Relay(trip=trip, work=work)
    reminder = asyncio.create_task(_remind(session, trip))
    try:
        inputs = _silent(relay.bring_in_time(itinerary))
        rest = _silent(_send_rest(trip, work, itinerary))
        async with stream.merge(work.follow(itinerary), inputs, rest).stream() as merged:
            async for item in merged:
                yield item
        await report(session, wanted, listener)
    finally:
        reminder.cancel()
        with suppress(asyncio.CancelledError):
            await reminder


async def _silent(doing: Coroutine[object, object, None]) -> AsyncIterator[LegOutput | LegChange]:
    """What is done beside the streams of a trip, as a stream of nothing."""
    await doing
    nothing: tuple[LegOutput, ...] = ()
    for each in nothing:
        yield each


async def _send_rest(trip: TripContext, work: LegWork, itinerary: Itinerary) -> None:
    """Send what a job still waits for; what cannot be sent is told, and ends nothing."""
    try:
        await work.send_rest(itinerary, sent=trip.log.story.staged)
    except GridError as fault:
        trip.tell(News(step=Step.NOTE, text=str(fault)))


async def _remind(session: GridSession, trip: TripContext) -> None:
    """Have people told when the notice before the start is due; not after it."""
    start = trip.log.story.itinerary().start
    if start is None or start <= session.clock.now():
        return
    await session.clock.sleep_until(start - trip.metajob.notifications.before_start_s)
    if session.clock.now() < start:
        await report(session, trip.trip_id, trip.tell)


def _starts_soon(itinerary: Itinerary, metajob: Metajob, now: int) -> bool:
    start = itinerary.start
    if itinerary.state is not TripState.BOOKED or start is None:
        return False
    return start - metajob.notifications.before_start_s <= now < start
