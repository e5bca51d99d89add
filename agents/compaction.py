"""Keeping the journal as long as what is remembered, not as long as the site has lived.

The history is rewritten without the records of what is forgotten: reservations whose tombstone is
gone, jobs that are no longer shown, acceptors' steps that a later one replaced. What is left is
replayed like any other journal; there is no second form of the state that could disagree with the
first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from agents.agent_events import (
    AcceptorChanged,
    AgentEvent,
    HandoverDone,
    JobAccepted,
    JobBound,
    JobHeld,
    JobOver,
    JobRequeued,
    JobResized,
    JobRunning,
    JobStarting,
    JobStruck,
    NumbersGiven,
    ReservationBound,
)
from agents.job_table import JobTable
from gridcore.calendar_book import CalendarBook
from gridcore.calendar_events import (
    RequestBuried,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridcore.instants import Instant
from gridcore.trip_consensus import AcceptorState
from gridio.journal import Record

HISTORY_KIND: Final = "history"
"""The one record that replaces all that were there before."""
COMPACT_ABOVE: Final = 20_000
"""Records in the journal from which on a compaction is worth its pause (about 0.1 ms a record)."""


def compacted(
    events: Iterable[AgentEvent],
    calendar: CalendarBook,
    jobs: JobTable,
    acceptors: dict[str, AcceptorState],
) -> Iterator[AgentEvent]:
    """The history of what is remembered, and at its end how many ids were given in all. What the
    site remembers of itself is written anew by ``SiteState.history``.
    """
    for event in events:
        if _is_remembered(event, calendar, jobs, acceptors):
            yield event
    yield NumbersGiven(reservations=calendar.ids_given, jobs=jobs.ids_given)


def _is_remembered(
    event: AgentEvent,
    calendar: CalendarBook,
    jobs: JobTable,
    acceptors: dict[str, AcceptorState],
) -> bool:
    match event:
        case ReservationGranted() | ReservationMoved():
            return event.reservation.reservation_id in calendar.reservations
        case ReservationChanged():
            return event.reservation_id in calendar.reservations
        case RequestBuried():
            return calendar.buried.get((event.owner, event.request_id)) == event.at
        case (
            JobAccepted()
            | JobStarting()
            | JobRunning()
            | JobOver()
            | JobStruck()
            | JobRequeued()
            | JobHeld()
            | HandoverDone()
            | JobResized()
            | JobBound()
        ):
            return event.job_id in jobs.views
        case ReservationBound():
            return event.reservation_id in calendar.reservations
        case AcceptorChanged():
            return acceptors.get(event.state.instance) == event.state
        case _:
            return False  # sums and states, which are written anew


def history_record(records: Iterable[Record], at: Instant) -> Record:
    """Many records as one."""
    packed = [[each.kind, each.at, each.body.decode()] for each in records]
    return Record(kind=HISTORY_KIND, at=at, body=json.dumps(packed, separators=(",", ":")).encode())


def unpacked(record: Record) -> Iterator[Record]:
    """The records behind one of the journal's: itself, or those that a history holds."""
    if record.kind != HISTORY_KIND:
        yield record
        return
    for kind, at, body in json.loads(record.body):
        yield Record(kind=kind, at=at, body=body.encode())
