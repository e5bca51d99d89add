"""Keeping the journal as long as what is remembered, not as long as the site has lived.

The history is rewritten without the records of what is forgotten: reservations whose tombstone is
gone, jobs that are no longer shown, acceptors' steps that a later one replaced. What is left is
replayed like any other journal; there is no second form of the state that could disagree with the
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gridtravel.agents.journal.events import (
    AgentEvent,
    HandoverDone,
    HeldJobKept,
    InputArrived,
    InputsNamed,
    JobAccepted,
    JobBoosted,
    JobBound,
    JobHeld,
    JobMakesWay,
    JobOnFailedNode,
    JobOver,
    JobRequeued,
    JobResized,
    JobRunning,
    JobSpecChanged,
    JobStarting,
    NumbersGiven,
    ReservationBound,
    TripEvent,
)
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_book import CalendarBook
from gridtravel.gridcore.booking.calendar_events import (
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)


def compacted(
    events: Iterable[AgentEvent],
    calendar: CalendarBook,
    jobs: JobTable,
    keeps: Callable[[TripEvent], bool],
) -> Iterator[AgentEvent]:
    """The history of what is remembered, and at its end how many ids were given in all. Tombstones,
    which entries leave when they make way, are written anew, and what the site remembers of itself
    is, by ``SiteState.history``. ``keeps``:
    whether a record about trips still matters.
    """
    for event in events:
        if _is_remembered(event, calendar, jobs, keeps):
            yield event
    for (owner, request_id), at in calendar.tombstoned.items():
        yield RequestTombstoned(owner=owner, request_id=request_id, at=at)
    yield NumbersGiven(reservations=calendar.ids_given, jobs=jobs.ids_given)


def _is_remembered(
    event: AgentEvent,
    calendar: CalendarBook,
    jobs: JobTable,
    keeps: Callable[[TripEvent], bool],
) -> bool:
    match event:
        case ReservationGranted() | ReservationMoved():
            return event.reservation.reservation_id in calendar.reservations
        case ReservationChanged():
            return event.reservation_id in calendar.reservations
        case (
            JobAccepted()
            | JobStarting()
            | JobRunning()
            | JobOver()
            | JobMakesWay()
            | JobOnFailedNode()
            | JobRequeued()
            | JobHeld()
            | JobBoosted()
            | HandoverDone()
            | JobResized()
            | JobSpecChanged()
            | InputsNamed()
            | JobBound()
        ):
            return event.job_id in jobs.views
        case HeldJobKept():
            return event.reservation_id in jobs.legs.held
        case InputArrived():
            return jobs.legs.has_arrived(event.reservation_id, event.path, event.sha256)
        case ReservationBound():
            return event.reservation_id in calendar.reservations
        case _ if isinstance(event, TripEvent):
            return keeps(event)
        case _:
            return False  # sums and states, which are written anew
