"""What runs in the legs of trips: jobs that came with holds, the jobs that commits left bound, and
which of their inputs are there.

This is memory, as ``JobTable`` is, and a part of it: what the journal says, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from gridtravel.agents.journal.events import (
    HeldJobKept,
    InputArrived,
    JobAccepted,
    JobSpecChanged,
)
from gridtravel.gridcore.booking.calendar_events import ReservationChanged
from gridtravel.gridcore.booking.reservations import ReservationEvent
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec


class LegJobs:
    """Jobs by the reservation of their leg. Changed only by ``apply`` and ``forget_job``."""

    def __init__(self) -> None:
        self.held: dict[str, HeldJob] = {}
        """By hold: what is to run if it is committed."""
        self.bound: dict[str, str] = {}
        """By committed leg: the job that came with its hold."""
        self._arrived: dict[str, dict[str, str]] = {}
        """By leg: checksums of the inputs that have been found whole, by path."""

    def apply(
        self,
        event: HeldJobKept | JobAccepted | JobSpecChanged | InputArrived | ReservationChanged,
    ) -> None:
        """Take a journaled fact into account."""
        match event:
            case HeldJobKept():
                self.held[event.reservation_id] = event.job
            case JobAccepted(came_with_hold=True) | JobSpecChanged():
                self.bound[event.spec.reservation_id] = event.job_id
            case InputArrived():
                self._arrived.setdefault(event.reservation_id, {})[event.path] = event.sha256
            case ReservationChanged():
                self.held.pop(event.reservation_id, None)
                if event.event is not ReservationEvent.COMMIT:
                    self._arrived.pop(event.reservation_id, None)

    def forget_job(self, job_id: str, reservation_id: str) -> None:
        """The job is not shown any more."""
        if self.bound.get(reservation_id) == job_id:
            del self.bound[reservation_id]

    def has_arrived(self, reservation_id: str, path: str, sha256: str) -> bool:
        """True when this is what was last found at the path."""
        return self._arrived.get(reservation_id, {}).get(path) == sha256

    def is_remembered(self, reservation_id: str, path: str) -> bool:
        """True when an input has been found at the path, whatever its content."""
        return path in self._arrived.get(reservation_id, {})

    def lacking(self, spec: JobSpec) -> list[InputFile]:
        """Inputs of a job that are not there, or not as they should be."""
        arrived: Mapping[str, str] = self._arrived.get(spec.reservation_id, {})
        return [each for each in spec.inputs if arrived.get(each.path) != each.sha256]
