"""Beside a trip while it runs: its output and states as they come, and word to people in time.

Where the trip stands is always read from its sites' books; ``gur status`` and ``gur watch`` both
come through here, so it does not matter which of them finds that a trip is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

from aiostream import stream

from gridcore.itineraries import Itinerary, TripState
from gridcore.metajobs import Metajob
from gridcore.trip_wishes import TripEvent
from travel_agent.legs import LegChange, LegOutput, LegWork
from travel_agent.news import Listener
from travel_agent.office import Office
from travel_agent.racing import race_report, withdraw_losers
from travel_agent.relaying import Relay, bring_in_time
from travel_agent.reports import LegLook, TripReport, look_at, report_on
from travel_agent.stages import with_inputs
from travel_agent.telling import tell_people
from travel_agent.trip_events import TripEnded
from travel_agent.trip_log import JournaledTripLog

_TOLD_AT_THE_END = {TripState.FAILED: TripEvent.FAILED, TripState.COMPLETED: TripEvent.DONE}


async def report(
    office: Office, wanted: str, listener: Listener, *, is_brief: bool = False
) -> TripReport:
    """Where a trip stands, by the books of its sites; people are told what is new in it.
    ``is_brief``: of a trip that is over only what this laptop remembers.
    """
    log = office.open_log(wanted)
    try:
        story = log.story
        itinerary = story.itinerary()
        if not itinerary.legs or story.state.is_over:
            return await _after_the_end(office, log, is_brief=is_brief)
        metajob = office.metajob_of(log)
        destinations = office.destinations(metajob)
        itinerary = with_inputs(metajob, itinerary, destinations)
        looks = await asyncio.gather(
            *(look_at(leg, destinations[leg.machine]) for leg in itinerary.legs)
        )
        if metajob.is_race:
            found = race_report(itinerary, looks)
            await withdraw_losers(found, destinations)
        else:
            found = report_on(itinerary, looks)
        if story.amendment is not None:
            note = f"a change was interrupted: `gur resume {story.trip_id}` finishes or undoes it"
            found = replace(found, notes=(*found.notes, note))
        state = found.itinerary.state
        if found.is_over and not story.state.is_over:
            await log.write(
                TripEnded(state=state.value, message=found.last_words, legs=found.itinerary.legs)
            )
        event = _TOLD_AT_THE_END.get(state) if found.is_over else None
        if event is None and _starts_soon(found.itinerary, metajob, office.clock.now()):
            event = TripEvent.STARTS_SOON
        if event is not None:
            why = "; ".join(found.notes)
            await tell_people(
                office, log, metajob, event, found.itinerary, listener=listener, why=why
            )
        return found
    finally:
        log.close()


async def _after_the_end(office: Office, log: JournaledTripLog, *, is_brief: bool) -> TripReport:
    """A trip that is over, as it was in the end; its jobs as far as their sites remember them."""
    story = log.story
    itinerary = story.itinerary()
    has_run = story.state in _TOLD_AT_THE_END
    looks: list[LegLook] = []
    if has_run and not is_brief:
        destinations = office.destinations(office.metajob_of(log))
        looks = await asyncio.gather(
            *(look_at(leg, destinations[leg.machine]) for leg in itinerary.legs)
        )
    return TripReport(
        itinerary=itinerary,
        jobs={each.leg.name: each.job for each in looks if each.job is not None},
        skews={each.leg.name: each.skew for each in looks if each.skew is not None},
        notes=(story.message,) if has_run and story.message else (),
    )


async def attend(
    office: Office, wanted: str, listener: Listener
) -> AsyncIterator[LegOutput | LegChange]:
    """Output and states of a trip's jobs until all are over; then, and shortly before the start,
    people are told. Between stages that no site can connect this laptop brings the input.
    """
    metajob, itinerary = office.remembered(wanted)
    destinations = office.destinations(metajob)
    work = LegWork(metajob, destinations)
    relay = Relay(metajob=metajob, destinations=destinations, work=work, tell=listener)
    reminder = asyncio.create_task(_remind(office, metajob, itinerary, listener))
    try:
        inputs = bring_in_time(relay, office, itinerary)
        async with stream.merge(work.follow(itinerary), inputs).stream() as merged:
            async for item in merged:
                yield item
        await report(office, wanted, listener)
    finally:
        reminder.cancel()
        with suppress(asyncio.CancelledError):
            await reminder


async def _remind(
    office: Office, metajob: Metajob, itinerary: Itinerary, listener: Listener
) -> None:
    """Have people told when the notice before the start is due; not after it."""
    start = itinerary.start
    if start is None or start <= office.clock.now():
        return
    await office.clock.sleep_until(start - metajob.notifications.before_start_s)
    if office.clock.now() < start:
        await report(office, itinerary.trip_id, listener)


def _starts_soon(itinerary: Itinerary, metajob: Metajob, now: int) -> bool:
    start = itinerary.start
    if itinerary.state is not TripState.BOOKED or start is None:
        return False
    return start - metajob.notifications.before_start_s <= now < start
