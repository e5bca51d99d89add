"""An itinerary as iCalendar (RFC 5545), for the calendar of whoever travels.

Legs of the same time are one event, so a co-scheduled trip is one entry and a pipeline one a stage.
An event keeps its identity when the trip is amended; its sequence number rises, so that a calendar
takes the new time in place of the old.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from icalendar import Alarm, Calendar, Event

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, TripState
from gridtravel.gridio.terminal.text import as_text

ALARM_BEFORE_S: Final = 900

_STATUS: Final = {
    TripState.PLANNED: "TENTATIVE",
    TripState.HELD: "TENTATIVE",
    TripState.CANCELLED: "CANCELLED",
    TripState.FAILED: "CANCELLED",
    TripState.ABSENT: "CANCELLED",
}


def itinerary_ics(
    itinerary: Itinerary,
    *,
    now: Instant,
    sequence: int = 0,
    alarm_before_s: int = ALARM_BEFORE_S,
) -> str:
    """The text of an ``.ics`` file. ``sequence``: how often the trip has changed. A trip without
    legs is a calendar without events.
    """
    calendar = Calendar()
    calendar.add("prodid", "-//gridtravel//gur//EN")
    calendar.add("version", "2.0")
    calendar.add("method", "PUBLISH")
    for legs in _together(itinerary):
        calendar.add_component(_event(itinerary, legs, now, sequence, alarm_before_s))
    content: bytes = calendar.to_ical()
    return content.decode()


def _together(itinerary: Itinerary) -> list[list[Leg]]:
    """The legs, those of the same time in one list, in the order of their starts."""
    found: dict[tuple[Instant, Instant], list[Leg]] = {}
    for leg in sorted(itinerary.legs, key=lambda each: each.start):
        found.setdefault((leg.start, leg.end), []).append(leg)
    return list(found.values())


def _event(
    itinerary: Itinerary, legs: list[Leg], now: Instant, sequence: int, alarm_before_s: int
) -> Event:
    is_whole = len(legs) == len(itinerary.legs)
    event = Event()
    event.add("uid", itinerary.trip_id if is_whole else f"{itinerary.trip_id}.{legs[0].name}")
    event.add("dtstamp", _moment(now))
    event.add("dtstart", _moment(legs[0].start))
    event.add("dtend", _moment(legs[0].end))
    event.add("sequence", sequence)
    event.add("status", _STATUS.get(itinerary.state, "CONFIRMED"))
    title = itinerary.name if is_whole else f"{itinerary.name}: {legs[0].name}"
    event.add("summary", as_text(title))
    event.add("location", as_text(", ".join(dict.fromkeys(leg.site for leg in legs))))
    lines = [*map(_leg_line, legs), f"trip {itinerary.trip_id}"]
    event.add("description", "\n".join(map(as_text, lines)))
    if alarm_before_s:
        alarm = Alarm()
        alarm.add("action", "DISPLAY")
        alarm.add("description", as_text(f"{title} starts soon"))
        alarm.add("trigger", timedelta(seconds=-alarm_before_s))
        event.add_component(alarm)
    return event


def _leg_line(leg: Leg) -> str:
    nodes = "1 node" if leg.nodes == 1 else f"{leg.nodes} nodes"
    return f"{leg.name}: {nodes} at {leg.machine}, reservation {leg.reservation_id or '-'}"


def _moment(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant, UTC)
