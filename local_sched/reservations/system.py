"""Reservations of the site itself, such as maintenance: running jobs drain around them, waiting
ones make way.

A running job was promised its limit and keeps it, so a system reservation starts when the jobs on
its nodes are over by their limits at the latest. The planned start of a waiting job is the site's
own: where the administrator's wish overlaps it, the job is planned anew, and only then can a start
told get later. Jobs that end before the reservation starts are planned in front of it by
themselves, because it is booked in the profile like anything else."""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler


@dataclass(frozen=True, slots=True)
class SystemDecision:
    """The answer to an administrator, the events to journal and apply, and who loses a planned
    start by it.
    """

    answer: Reservation | Decline
    events: tuple[CalendarEvent, ...] = ()
    displaced: tuple[Job, ...] = ()
    """Waiting jobs whose planned starts are given up already, in the order of the queue; to be
    told."""


def decide_system_reservation(
    calendar: Calendar,
    scheduler: LocalScheduler,
    request: ReservationRequest,
    now: Instant,
    *,
    displaces: bool = True,
) -> SystemDecision:
    """Earliest start in the request's window that running jobs and reservations leave free.

    ``displaces`` false: waiting jobs keep their planned starts, as they do against users. Limits do
    not apply. The events must be applied before anything else is asked of the scheduler, since the
    planned starts are given up here."""
    if displaces:
        availability = {
            name: pool.availability_without_queue(now) for name, pool in scheduler.pools.items()
        }
    else:
        availability = {name: scheduler.free_after_queue(name, now) for name in scheduler.pools}
    answer, events = calendar.decide_reserve(
        request, SYSTEM_OWNER, None, now, availability=availability
    )
    displaced: list[Job] = []
    if isinstance(answer, Reservation) and events:
        held = calendar.slots.rule.held(answer.interval, now)
        displaced = scheduler.displace(answer.resource_class, answer.nodes, held.start, held.end)
    return SystemDecision(answer, events, tuple(displaced))
