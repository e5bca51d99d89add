"""Jobs that run inside reservations: who is bound to what, and who starts when a reservation is
running.

A reservation's nodes are booked by the calendar. A job bound to it runs on those nodes and books
nothing of its own, so a full reservation never takes nodes from the queue twice. Two bindings, as
Catalina has them:

* job -> reservations: the job runs in one of these and nowhere else;
* reservation -> jobs: only these jobs may use the reservation; without the list, its owner's bound
jobs may.

A job of the open queue that is on a reservation's list may use it as well and keeps its rank in
the queue until then. Unbound jobs of the owner do not flow in by themselves, as Catalina let them:
a trip's leg must find its nodes idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason

START_SLACK_S = 30
"""A job may start this much too late for its limit and is cut at the end of the reservation: a
reservation made for exactly the job's limit must not be lost because a cycle came a second late."""
BOUND_MAX = 10_000
"""Most jobs on one reservation's list, and most reservations of one job."""


class ReservationBook(Protocol):
    """What the scheduler reads of the site's calendar; it never changes it."""

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        """By id, also the finished ones that are still remembered."""
        ...

    @property
    def changes(self) -> int:
        """Grows with every change."""
        ...

    def begun(self, now: Instant) -> list[Reservation]:
        """Committed entries that have begun, by start; some may be over."""
        ...

    def next_start(self, now: Instant) -> Instant | None:
        """The first start of a committed entry after ``now``."""
        ...


class NoReservations:
    """The book of a site that takes none, such as a replayed machine."""

    reservations: Mapping[str, Reservation] = {}
    changes = 0

    def begun(self, now: Instant) -> list[Reservation]:
        """None."""
        return []

    def next_start(self, now: Instant) -> Instant | None:
        """Never."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """Which jobs of the open queue a reservation of the site lets in: a declared rule, never code.

    Empty lists admit nobody by themselves; a job is let in when it is on any list and within the
    limit."""

    owners: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    qualities_of_service: tuple[str, ...] = ()
    limit_max_s: int | None = None
    """Longest wall-clock limit of a job that is let in; with empty lists: of anybody's job."""

    def admits(self, job: Job) -> bool:
        """True when the job may use the reservation without being bound to it."""
        if self.limit_max_s is not None and job.limit_s > self.limit_max_s:
            return False
        if not (self.owners or self.accounts or self.qualities_of_service):
            return self.limit_max_s is not None
        quality = job.spec.quality_of_service if job.spec is not None else ""
        return (
            job.owner in self.owners
            or job.account in self.accounts
            or (bool(quality) and quality in self.qualities_of_service)
        )


@dataclass(frozen=True, slots=True)
class InsideStart:
    """A job that starts inside a reservation now, until ``booked_until`` at the latest."""

    job: Job
    reservation_id: str
    booked_until: Instant


class ReservationJobs:
    """Bindings, and the use of running reservations. Owned by the scheduler."""

    def __init__(self, book: ReservationBook) -> None:
        self.book = book
        self.jobs_of: dict[str, tuple[str, ...]] = {}
        """Reservation -> the jobs that alone may use it; only where somebody said so."""
        self.access: dict[str, AccessRule] = {}
        """Reservation of the site -> who may use it without being bound."""
        self.waiting: dict[str, Job] = {}
        """Jobs bound to reservations that have not started, in order of submission."""
        self.inside: dict[str, dict[str, Job]] = {}
        """Reservation -> the jobs running in it, by id."""
        self._as_of = -1

    def bind(self, reservation_id: str, job_ids: Iterable[str]) -> None:
        """Only these jobs may use the reservation; none gives it back to its owner."""
        jobs = tuple(dict.fromkeys(job_ids))
        if len(jobs) > BOUND_MAX:
            raise InputError(f"more than {BOUND_MAX} jobs for one reservation")
        if jobs:
            self.jobs_of[reservation_id] = jobs
        else:
            self.jobs_of.pop(reservation_id, None)

    def open_to(self, reservation_id: str, rule: AccessRule) -> None:
        """Let jobs of the open queue into a reservation of the site."""
        self.access[reservation_id] = rule

    def forget_finished(self) -> None:
        """Drop the bindings of reservations that the book no longer remembers."""
        if self._as_of == self.book.changes:
            return
        self._as_of = self.book.changes
        for gone in [each for each in self.jobs_of if each not in self.book.reservations]:
            del self.jobs_of[gone]
        for gone in [each for each in self.access if each not in self.book.reservations]:
            del self.access[gone]

    def running_now(self, now: Instant) -> list[Reservation]:
        """Committed reservations whose time it is."""
        return [each for each in self.book.begun(now) if now < each.end]

    def next_boundary(self, now: Instant) -> Instant | None:
        """The next start or end of a committed reservation after ``now``."""
        edges = [each.end for each in self.running_now(now)]
        start = self.book.next_start(now)
        if start is not None:
            edges.append(start)
        return min(edges, default=None)

    def unused_nodes(self, reservation: Reservation) -> int:
        """Nodes of a running reservation that none of its jobs uses."""
        return reservation.nodes - sum(
            job.nodes for job in self.inside.get(reservation.reservation_id, {}).values()
        )

    def refuses(self, job: Job, reservation: Reservation) -> bool:
        """True when the reservation is not for this job."""
        listed = self.jobs_of.get(reservation.reservation_id)
        if listed is not None:
            return job.job_id not in listed
        rule = self.access.get(reservation.reservation_id)
        if rule is not None and rule.admits(job):
            return False
        return job.owner != reservation.owner

    def due(self, now: Instant, open_jobs: Mapping[str, Job]) -> list[InsideStart]:
        """Who starts now, reservation by reservation and in order of submission.

        Bound jobs that cannot start get their reason. ``open_jobs``: waiting jobs by id, for those
        that a reservation lists without their being bound."""
        starts: list[InsideStart] = []
        self.forget_finished()
        if not self.waiting and not self.jobs_of and not self.access:
            return starts
        taken: set[str] = set()
        running = self.running_now(now)
        for job in self.waiting.values():
            job.reason = self._reason_outside(job, now)
        for reservation in running:
            availability = self.unused_nodes(reservation)
            for job in self._candidates(reservation, open_jobs):
                if job.job_id in taken or job.hold_reason is not None:
                    continue
                left_s = reservation.end - now
                wanted_s = min(job.limit_s, reservation.interval.duration_s)
                if wanted_s > left_s + START_SLACK_S or job.nodes > reservation.nodes:
                    reason = WaitReason.RESERVATION_SHORT
                elif job.nodes > availability:
                    reason = WaitReason.RESERVATION_FULL
                else:
                    reason = job.reason
                    availability -= job.nodes
                    taken.add(job.job_id)
                    until = min(now + job.limit_s, reservation.end)
                    starts.append(InsideStart(job, reservation.reservation_id, until))
                if job.bound_to:
                    job.reason = reason
        return starts

    def job_started(self, job: Job) -> None:
        """It uses its reservation from now on."""
        self.waiting.pop(job.job_id, None)
        self.inside.setdefault(job.reservation_id, {})[job.job_id] = job

    def job_ended(self, job: Job) -> None:
        """Its nodes are the reservation's again."""
        inside = self.inside.get(job.reservation_id)
        if inside is not None:
            inside.pop(job.job_id, None)
            if not inside:
                del self.inside[job.reservation_id]

    def outlived(self) -> list[Job]:
        """Jobs that run in a reservation which is over or cancelled."""
        if not self.inside:
            return []
        return [
            job
            for key, jobs in self.inside.items()
            if not self.is_committed(key)
            for job in jobs.values()
        ]

    def is_committed(self, reservation_id: str) -> bool:
        """True while the reservation stands."""
        entry = self.book.reservations.get(reservation_id)
        return entry is not None and entry.state is ReservationState.COMMITTED

    def _candidates(self, reservation: Reservation, open_jobs: Mapping[str, Job]) -> list[Job]:
        key = reservation.reservation_id
        found = [
            job
            for job in self.waiting.values()
            if key in job.bound_to and not self.refuses(job, reservation)
        ]
        for job_id in self.jobs_of.get(key, ()):
            job = open_jobs.get(job_id)
            if (
                job is not None
                and not job.bound_to
                and job.class_name == reservation.resource_class
            ):
                found.append(job)
        rule = self.access.get(key)
        if rule is not None and key not in self.jobs_of:
            found += [
                job
                for job in open_jobs.values()
                if not job.bound_to
                and job.class_name == reservation.resource_class
                and job.limit_s <= reservation.interval.duration_s
                and rule.admits(job)
            ]
        return sorted(found, key=lambda job: job.sequence)

    def _reason_outside(self, job: Job, now: Instant) -> WaitReason:
        """Why a bound job waits, before the running reservations are looked at."""
        if job.hold_reason is not None:
            return job.hold_reason
        known = [self.book.reservations.get(each) for each in job.bound_to]
        alive = [
            each for each in known if each is not None and each.state.is_live and each.end > now
        ]
        if not alive:
            return WaitReason.RESERVATION_OVER
        if all(self.refuses(job, each) for each in alive):
            return WaitReason.RESERVATION_CLOSED
        return WaitReason.RESERVATION_AHEAD
