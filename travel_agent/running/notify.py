"""Telling people what became of their trip: mail with the itinerary in it, and the user's hook.

Each event of a trip is told once, whichever command finds it: the trip's log says that it is about
to be told, and then it is. A laptop that dies in between has told nobody, which is the better of
the two mistakes: a second mail about one start would be believed. Whoever cannot be told is no
reason to fail; it is a note on the screen.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from gridtravel.gridio.system.commands import run_site_command
from gridtravel.gridio.system.notify import Attachment, Notice
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.log.events import PeopleTold
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.session import GridSession
from gridtravel.travel_agent.trip_context import TripContext

HOOK_LIMIT_S: Final = 30.0

_WORDS: Final[Mapping[TripEvent, str]] = MappingProxyType(
    {
        TripEvent.BOOKED: "is booked",
        TripEvent.STARTS_SOON: "starts soon",
        TripEvent.FAILED: "has failed",
        TripEvent.HEALED: "was healed",
        TripEvent.DONE: "is done",
    }
)


async def notify_people(
    session: GridSession,
    trip: TripContext,
    event: TripEvent,
    itinerary: Itinerary,
    *,
    why: str = "",
) -> None:
    """Tell whoever the metajob names of ``event``, once for each attempt of the trip."""
    wishes, log = trip.metajob.notifications, trip.log
    occasion = f"{event.value}.{log.story.attempt.number}"
    is_wanted = event in wishes.events and bool(wishes.emails or wishes.hook_command)
    if not is_wanted or occasion in log.story.told:
        return
    await log.write(PeopleTold(occasion=occasion))
    subject = f"{itinerary.name} {_WORDS[event]}"
    text = _text(session, itinerary, why)
    ics = _calendar_of(itinerary, log.story.attempt.number, wishes.before_start_s, session)
    faults = await asyncio.gather(
        *(
            _mail(session, Notice(to=each, subject=subject, text=text, attachments=(ics,)))
            for each in wishes.emails
        ),
        _run_hook(wishes.hook_command, event, itinerary, why),
    )
    for fault in filter(None, faults):
        trip.tell(News(step=Step.NOTE, text=fault))


async def _mail(session: GridSession, notice: Notice) -> str:
    """Send it; what went wrong, in words."""
    try:
        await session.notifier.send(notice)
    except GridError as fault:
        return f"{notice.to} could not be told: {fault}"
    return ""


async def _run_hook(
    command: Sequence[str], event: TripEvent, itinerary: Itinerary, why: str
) -> str:
    """Run the user's own command; what went wrong, in words."""
    if not command:
        return ""
    facts = {"GRID_EVENT": event.value, "GRID_TRIP": itinerary.trip_id, "GRID_WHY": why}
    content = json.dumps(itinerary_json(itinerary)) + "\n"
    try:
        await run_site_command(
            command, facts, limit_s=HOOK_LIMIT_S, base=os.environ, content=content
        )
    except GridError as fault:
        return f"the hook failed: {fault}"
    return ""


def _calendar_of(
    itinerary: Itinerary, attempt: int, before_s: int, session: GridSession
) -> Attachment:
    # iCalendar is slow to import, and most commands tell nobody anything.
    from gridtravel.travel_agent.running.icalendar import itinerary_ics

    ics = itinerary_ics(
        itinerary, now=session.clock.now(), sequence=attempt, alarm_before_s=before_s
    )
    return Attachment(name="trip.ics", media_type="text/calendar", text=ics)


def _text(session: GridSession, itinerary: Itinerary, why: str) -> str:
    """What a mail says: the legs, one a line, by the user's clock."""
    zone = session.config.zone
    lines = [f"Trip {itinerary.trip_id} is {itinerary.state}."]
    if why:
        lines.append(why)
    lines.append("")
    for leg in itinerary.legs:
        lines.append(f"{leg.name}: {leg.nodes} nodes at {leg.machine} ({leg.site})")
        lines.append(f"  {format_in_zone(leg.start, zone)} to {format_in_zone(leg.end, zone)}")
        lines.append(f"  reservation {leg.reservation_id or '-'}, {leg.state}")
    lines += ["", f"gur status {itinerary.trip_id}"]
    return "\n".join(lines) + "\n"
