"""Everything an agent journals: what changes its calendar, and what happens to its jobs.

Replayed in order on an empty agent, these records give back every promise it made. What is not here
can be found out again: plans, priorities, shadow copies at others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridtravel.agents.maintenance_rules import NodeFailureRule
from gridtravel.gridcore.booking.calendar_events import (
    CalendarEvent,
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobTerms
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.registers import TripRegister
from gridtravel.gridcore.trips.trip_consensus import AcceptorState
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.local_sched.reservations.standing import StandingReservation
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccepted:
    """A job is queued; from now on it may not get lost."""

    job_id: str
    owner: str
    spec: JobSpec
    at: Instant
    class_name: str = ""
    """Resource class that it waits for; empty: not said, in journals of earlier releases."""
    came_with_hold: bool = False
    """It is the job of its reservation's leg, bound by the commit."""
    terms: JobTerms | None = None
    """What was agreed; ``None``: nothing, its class has no policy that agrees on price or deadline.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJobKept:
    """What is to run came with a hold; written with that, bound or gone with that."""

    reservation_id: str
    job: HeldJob


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpecChanged:
    """It still waits, for a leg of a trip that has been changed, and is what came with the leg's
    new form.
    """

    job_id: str
    spec: JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsNamed:
    """The traveller has said which files came from the stage before."""

    job_id: str
    inputs: tuple[InputFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputArrived:
    """A file that a job needs is in the area, with this content: it was read when it had come, and
    is not read again.
    """

    reservation_id: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarting:
    """Nodes are taken. Written before the resource manager is told, so that a job never runs that
    nobody remembers.
    """

    job_id: str
    at: Instant
    until: Instant
    """End of the time that is booked for it."""
    reservation_id: str
    """Reservation it runs inside; empty: none."""
    node_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunning:
    """The resource manager started it."""

    job_id: str
    started_precise: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """It will not run any more."""

    job_id: str
    at: Instant
    """When the site learned it: after an outage later than it happened."""
    state: JobState
    exit_code: int | None
    reason: str
    ended_at: Instant | None = None
    """When it happened, by the resource manager's records; ``None``: at ``at``."""
    by_site: bool = False
    """The site ended it for reasons of its own, or lost it: it costs nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOnFailedNode:
    """A node that it runs on failed. What is to become of it is settled now and carried out when
    its tasks are gone, also after a restart.
    """

    job_id: str
    node_name: str
    rule: NodeFailureRule
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMakesWay:
    """It is ended so that another job can keep its deadline, and runs again from the start: settled
    now, and carried out when its tasks are gone, also after a restart.
    """

    job_id: str
    for_job: str
    free_from: Instant
    """When its nodes are promised to others."""
    again_at: Instant
    """The start that is kept for it."""
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequeued:
    """It waits again, and its next execution has an id of its own."""

    job_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResized:
    """It still waits, for a leg of a trip that has been changed, and takes what that has now."""

    job_id: str
    nodes: int
    limit_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverDone:
    """What it takes over from the stage before is in its folder: it may start."""

    job_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHeld:
    """A waiting job is put on hold, or let go."""

    job_id: str
    is_held: bool
    by_admin: bool
    """Then only an administrator lets it go."""
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBoosted:
    """An administrator gives a job points of his own, in place of those it had."""

    job_id: str
    points: int
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationBound:
    """The jobs that alone may use a reservation; none: its owner's jobs may."""

    reservation_id: str
    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBound:
    """The reservations that alone a job may run in; none: the open queue."""

    job_id: str
    reservation_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptorChanged:
    """What this site promised or accepted as an acceptor of a trip's outcome."""

    state: AcceptorState


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptorsForgotten:
    """Outcomes of trips that ended before ``before`` are gone."""

    before: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class TripRegistered:
    """The first hold of an attempt, or the first copy of a race, has named its trip here; written
    with it.
    """

    register: TripRegister


@dataclass(frozen=True, slots=True, kw_only=True)
class LegRuns:
    """It was settled that a leg runs, so it begins whatever is heard of the others then."""

    reservation_id: str
    instance: str
    """The attempt in which it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbersGiven:
    """How many ids had been given when the journal was compacted; none is given again."""

    reservations: int
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """An administrator lets the scheduler run, suspends or stops it."""

    mode: SchedulerMode
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChanged:
    """A node failed, or is back."""

    name: str
    is_down: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingSkipped:
    """One instance of a standing reservation was cancelled and is not made again."""

    request_id: str
    start: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeGiven:
    """The owner of a broken reservation is told. Written before the mail goes out, so that the
    bound holds over crashes.
    """

    reservation_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class HookBegun:
    """A reservation's prologue or epilogue is about to be run, at most once."""

    reservation_id: str
    is_epilogue: bool
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStartsTold:
    """Planned starts of waiting jobs that are new or have changed: (job id, start)."""

    places: tuple[tuple[str, Instant], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesFixed:
    """A reservation of the site, granted in the same breath, is of these nodes and no others."""

    reservation_id: str
    node_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGiven:
    """Jobs of the open queue may use a reservation of the site."""

    reservation_id: str
    access: AccessRule


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingDeclared:
    """An administrator makes a standing reservation; one of the same name is replaced."""

    rule: StandingReservation
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWithdrawn:
    """An administrator takes a standing reservation back."""

    name: str
    at: Instant


JobEvent = (
    JobAccepted
    | HeldJobKept
    | JobSpecChanged
    | InputsNamed
    | InputArrived
    | JobStarting
    | JobRunning
    | JobOver
    | JobOnFailedNode
    | JobMakesWay
    | JobRequeued
    | JobHeld
    | JobBoosted
    | JobResized
    | HandoverDone
    | ReservationBound
    | JobBound
)
SiteEvent = (
    ModeChanged
    | NodeChanged
    | StandingSkipped
    | NoticeGiven
    | HookBegun
    | PlannedStartsTold
    | NodesFixed
    | AccessGiven
    | StandingDeclared
    | StandingWithdrawn
)
TripEvent = AcceptorChanged | AcceptorsForgotten | TripRegistered | LegRuns
AgentEvent = CalendarEvent | JobEvent | TripEvent | SiteEvent | NumbersGiven

AGENT_EVENTS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "granted": ReservationGranted,
        "moved": ReservationMoved,
        "changed": ReservationChanged,
        "buried": RequestTombstoned,
        "forgotten": FinishedForgotten,
        "job-accepted": JobAccepted,
        "held-job-kept": HeldJobKept,
        "job-spec-changed": JobSpecChanged,
        "inputs-named": InputsNamed,
        "input-arrived": InputArrived,
        "job-starting": JobStarting,
        "job-running": JobRunning,
        "job-over": JobOver,
        "job-struck": JobOnFailedNode,
        "job-makes-way": JobMakesWay,
        "job-requeued": JobRequeued,
        "job-held": JobHeld,
        "job-boosted": JobBoosted,
        "job-resized": JobResized,
        "handover-done": HandoverDone,
        "reservation-bound": ReservationBound,
        "job-bound": JobBound,
        "acceptor-changed": AcceptorChanged,
        "acceptors-forgotten": AcceptorsForgotten,
        "trip-registered": TripRegistered,
        "leg-runs": LegRuns,
        "numbers-given": NumbersGiven,
        "mode-changed": ModeChanged,
        "node-changed": NodeChanged,
        "standing-skipped": StandingSkipped,
        "notice-given": NoticeGiven,
        "hook-begun": HookBegun,
        "places-told": PlannedStartsTold,
        "nodes-fixed": NodesFixed,
        "access-given": AccessGiven,
        "standing-declared": StandingDeclared,
        "standing-withdrawn": StandingWithdrawn,
    }
)

CODEC: Final = EventCodec(AGENT_EVENTS)
