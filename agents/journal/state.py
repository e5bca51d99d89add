"""What an agent remembers of the site itself, as its journal tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from gridtravel.agents.journal.events import (
    AccessGiven,
    HookBegun,
    ModeChanged,
    NodeChanged,
    NodesFixed,
    NoticeGiven,
    PlannedStartsTold,
    SiteEvent,
    StandingDeclared,
    StandingSkipped,
    StandingWithdrawn,
)
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.standing import StandingReservation
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule

if TYPE_CHECKING:
    from gridtravel.local_sched.scheduling.jobs import Job


class SiteState:
    """Mode, failed nodes, and what was told and done once. Changed only by ``apply``."""

    def __init__(self) -> None:
        self.mode = SchedulerMode.RUNNING
        self.nodes_down: dict[str, Instant] = {}
        """Failed nodes, and since when."""
        self.skipped: dict[str, Instant] = {}
        """Request ids of standing instances that were cancelled, with their starts."""
        self.notices: dict[str, int] = {}
        """Reservation -> mails about its being broken."""
        self.begun: dict[str, Instant] = {}
        """Reservations whose prologue was run, and whose epilogue is still to come."""
        self.fixed: dict[str, tuple[str, ...]] = {}
        """Reservation of the site -> the nodes it is of; only where they were named."""
        self.access: dict[str, AccessRule] = {}
        """Reservation of the site -> who may use it; those of standing rules have that of the rule.
        """
        self.standing: dict[str, StandingReservation] = {}
        """Standing reservations that administrators made, by name."""
        self.told: dict[str, Instant] = {}
        """Waiting job -> the planned start it was told last."""

    def apply(self, event: SiteEvent) -> None:
        """Take a journaled fact into account."""
        match event:
            case ModeChanged():
                self.mode = event.mode
            case NodeChanged(is_down=True):
                self.nodes_down.setdefault(event.name, event.at)
            case NodeChanged():
                self.nodes_down.pop(event.name, None)
            case StandingSkipped():
                self.skipped[event.request_id] = event.start
            case NoticeGiven():
                self.notices[event.reservation_id] = self.notices.get(event.reservation_id, 0) + 1
            case HookBegun(is_epilogue=False):
                self.begun[event.reservation_id] = event.at
            case HookBegun():
                self.begun.pop(event.reservation_id, None)
            case PlannedStartsTold():
                self.told.update(event.places)
            case NodesFixed():
                self.fixed[event.reservation_id] = event.node_names
            case AccessGiven():
                self.access[event.reservation_id] = event.access
            case StandingDeclared():
                self.standing[event.rule.name] = event.rule
            case StandingWithdrawn():
                self.standing.pop(event.name, None)

    def forget_planned_start(self, job_id: str) -> None:
        """The job waits no more."""
        self.told.pop(job_id, None)

    def new_planned_starts(self, jobs: Iterable[Job]) -> PlannedStartsTold | None:
        """What is to be journaled before anybody may rely on the planned starts of these jobs."""
        told = self.told
        changed = tuple(
            (job.job_id, job.planned_start)
            for job in jobs
            if job.planned_start is not None and told.get(job.job_id) != job.planned_start
        )
        return PlannedStartsTold(places=changed) if changed else None

    def history(self, reservations: Mapping[str, object], now: Instant) -> Iterator[SiteEvent]:
        """The fewest events that give back what is still needed, for a compacted journal."""
        if self.mode is not SchedulerMode.RUNNING:
            yield ModeChanged(mode=self.mode, at=now)
        for name, since in self.nodes_down.items():
            yield NodeChanged(name=name, is_down=True, at=since)
        for request_id, start in self.skipped.items():
            if start > now:
                yield StandingSkipped(request_id=request_id, start=start)
        for reservation_id, count in self.notices.items():
            if reservation_id in reservations:
                for _ in range(count):
                    yield NoticeGiven(reservation_id=reservation_id, at=now)
        for reservation_id, at in self.begun.items():
            yield HookBegun(reservation_id=reservation_id, is_epilogue=False, at=at)
        for reservation_id, names in self.fixed.items():
            if reservation_id in reservations:
                yield NodesFixed(reservation_id=reservation_id, node_names=names)
        for reservation_id, access in self.access.items():
            if reservation_id in reservations:
                yield AccessGiven(reservation_id=reservation_id, access=access)
        for rule in self.standing.values():
            yield StandingDeclared(rule=rule, at=now)
        if self.told:
            yield PlannedStartsTold(places=tuple(self.told.items()))
