"""What this laptop remembers of its trips: all of them in a line each, one of them step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.travel_agent.log.events import (
    AmendmentClosed,
    AmendmentDecided,
    AmendmentOpened,
    FilesSent,
    HoldsAsked,
    HoldsLetGo,
    JobSubmitted,
    LegsDropped,
    PeopleTold,
    ProbesAsked,
    RaceOpened,
    TripAmended,
    TripBooked,
    TripDecided,
    TripEnded,
    TripLogEvent,
    TripOpened,
    UndoAsked,
)
from gridtravel.travel_agent.log.trip_log import CODEC, TripStory, never_asked_for
from gridtravel.travel_agent.session import GridSession


@dataclass(frozen=True, slots=True, kw_only=True)
class TripStep:
    """One record of a trip's log."""

    at: Instant
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TripHistory:
    """One trip as its log has it; nobody is asked."""

    itinerary: Itinerary
    opened_at: Instant | None
    """``None``: its command died before it was asked for."""
    message: str
    """Why it was declined or undone, if it was."""
    steps: tuple[TripStep, ...]


def histories(
    session: GridSession,
    *,
    state: TripState | None = None,
    since: Instant = 0,
    on_fault: Callable[[str, GridError], None],
) -> Iterator[TripHistory]:
    """All trips, the oldest first; ``state`` and ``since`` (when it was asked for) leave some out.

    ``on_fault`` is told of each trip whose log cannot be read; the others are not harmed by it.
    """
    for trip_id in session.journals.trip_ids():
        try:
            found = history(session, trip_id)
        except GridError as fault:
            on_fault(trip_id, fault)
            continue
        if (found.opened_at or 0) >= since and state in (None, found.itinerary.state):
            yield found


def history(session: GridSession, trip_id: str) -> TripHistory:
    """One trip as its log has it by now. ``NotFoundError``: there is none."""
    records = session.read_log(trip_id)
    story = TripStory(trip_id=trip_id, name=trip_id) if records else never_asked_for(trip_id)
    steps: list[TripStep] = []
    for record in records:
        event: TripLogEvent = CODEC.decode(record)
        story.tell(event)
        step = TripStep(at=record.at, text=_words(event))
        if not steps or steps[-1].text != step.text:
            steps.append(step)
    return TripHistory(
        itinerary=story.itinerary(),
        opened_at=records[0].at if records else None,
        message=story.message,
        steps=tuple(steps),
    )


def _words(event: TripLogEvent) -> str:
    """One step, for people."""
    match event:
        case TripOpened(name=name):
            return f"asked for {name}"
        case ProbesAsked(legs=legs):
            where = ", ".join(leg.machine for leg in legs)
            return f"test reservations at {where}" if legs else "no test reservations are left"
        case HoldsAsked(attempt=attempt, legs=legs):
            shares = ", ".join(f"{leg.nodes} at {leg.machine}" for leg in legs)
            start = format_utc(min(leg.start for leg in legs))
            return f"attempt {attempt}: holds of {shares}, from {start}"
        case HoldsLetGo(attempt=attempt):
            return f"attempt {attempt}: let go"
        case (
            TripDecided(attempt=attempt, acceptors=acceptors)
            | AmendmentDecided(attempt=attempt, acceptors=acceptors)
        ):
            who = ", ".join(each.site for each in acceptors) or "its only site"
            return f"attempt {attempt}: every leg held; to be decided by {who}"
        case TripBooked(legs=legs):
            return "booked as " + ", ".join(leg.reservation_id or "-" for leg in legs)
        case FilesSent(leg=leg):
            return f"{leg}: files sent"
        case JobSubmitted(leg=leg, job_id=job_id):
            return f"{leg}: job {job_id} queued"
        case AmendmentOpened(reason=reason):
            return f"to be changed: {reason}"
        case TripAmended(legs=legs, dropped=dropped):
            left = f", without {', '.join(leg.machine for leg in dropped)}" if dropped else ""
            return f"changed: {', '.join(f'{leg.nodes} at {leg.machine}' for leg in legs)}{left}"
        case LegsDropped():
            return "what it no longer needs is released"
        case AmendmentClosed(message=message):
            return f"not changed: {message}"
        case RaceOpened(copies=copies):
            return f"race of {', '.join(copies)}"
        case PeopleTold(occasion=occasion):
            return f"told people: {occasion.rpartition('.')[0]}"
        case UndoAsked(reason=reason):
            return f"to be undone: {reason}"
        case TripEnded(state=state, message=message):
            return f"{state}: {message}" if message else state
