"""What a site has promised, by what stands on its disk: the checkers' own book of it.

It is written anew, and simpler than the calendar it watches: no profile and no footprint, only
reservations, jobs, and sums over them. It sees each record when it is stored, and each answer when
it leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gridtravel.agents.journal.events import (
    CODEC,
    InputArrived,
    JobAccepted,
    JobOver,
    JobRunning,
    JobStarting,
    LegRuns,
)
from gridtravel.gridcore.booking.calendar_events import (
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationEvent,
    ReservationState,
    next_state,
)
from gridtravel.gridio.journal.compaction import HISTORY_KIND

if TYPE_CHECKING:
    from gridtravel.gridcore.jobs.races import Race
    from gridtravel.gridio.journal.contract import Record
    from gridtravel.local_sched.resource_managers.base import Launch
    from gridtravel.simulator.kernel.event_log import EventLog, Timekeeper

HELD, COMMITTED = ReservationState.HELD, ReservationState.COMMITTED
OVER_COMMITTED = "no over-commitment"
EARLY = "no start before its time"
TWICE = "nothing runs twice"
ACKNOWLEDGED = "nothing acknowledged is lost"
BURIED = "a released request books nothing"
DONE = (ReservationState.COMMITTED, ReservationState.COMPLETED)


@dataclass(slots=True)
class Promise:
    """A reservation and its history."""

    reservation: Reservation
    state: ReservationState
    history: list[tuple[float, ReservationState]] = field(default_factory=list)
    """(virtual second, state), each state once."""
    released_at: int | None = None
    """When it was released or replaced, on its site's clock."""
    withdrawn_s: float | None = None
    """When its site let it go in doubt."""
    runs: dict[str, float] = field(default_factory=dict)
    """By attempt: when it was stored that the leg runs in it."""
    wants: frozenset[str] = frozenset()
    """Inputs of the job that is bound to it."""
    arrived: dict[str, float] = field(default_factory=dict)
    """By input: when it was stored that all of it had come."""

    def is_of(self, liars: frozenset[str]) -> bool:
        """True for what one of them owns, or has booked as a manager in somebody's name."""
        reservation = self.reservation
        return reservation.owner in liars or not liars.isdisjoint(reservation.request.via)

    def was(self, state: ReservationState) -> bool:
        """True when it ever was in ``state``."""
        return any(each is state for _, each in self.history)

    def since(self, state: ReservationState) -> float | None:
        """When it came into ``state``."""
        return next((at for at, each in self.history if each is state), None)

    @property
    def ended_at(self) -> float | None:
        """When it left HELD."""
        later = [at for at, each in self.history if each is not HELD]
        return later[0] if later else None


@dataclass(slots=True)
class JobEntry:
    """A job as journaled."""

    job_id: str
    request: tuple[str, str]
    nodes: int
    reservation_id: str = ""
    """Inside which it was submitted."""
    race: Race | None = None
    """Of which it is a copy."""
    accepted_s: float = 0.0
    running_s: float | None = None
    """Seconds of the world at which it was stored that it is queued, and that it runs."""
    starting: JobStarting | None = None
    started_s: float | None = None
    over_s: float | None = None
    """Seconds of the world at which its start and its end were stored."""
    over: JobOver | None = None


class SiteLedger:
    """One site's. ``broken`` promises go to the event log."""

    def __init__(self, site: str, nodes: int, event_log: EventLog, loop: Timekeeper) -> None:
        self.site = site
        self.nodes = nodes
        self.promises: dict[str, Promise] = {}
        self.jobs: dict[str, JobEntry] = {}
        self.released: dict[str, None] = {}
        """Request ids whose release was acknowledged."""
        self.jobs_moved_at_s = 0.0
        """When a job was last accepted, started or ended."""
        self._event_log = event_log
        self._loop = loop

    # -- what is stored ----------------------------------------------------------------------------

    def written(self, records: Sequence[Record]) -> None:
        """These records are on the disk now."""
        for record in records:
            if record.kind == HISTORY_KIND:
                self._event_log.tell(self.site, "compacts its journal")
                continue
            event = CODEC.decode(record)
            self._event_log.tell(self.site, "stores {}", event)
            if isinstance(event, JobAccepted | JobStarting | JobOver):
                self.jobs_moved_at_s = self._loop.time()
            match event:
                case ReservationGranted(reservation=reservation):
                    self._granted(reservation)
                case ReservationMoved(reservation=reservation):
                    self.promises[reservation.reservation_id].reservation = reservation
                    self._check_room(reservation)
                case ReservationChanged():
                    promise = self.promises[event.reservation_id]
                    promise.state = next_state(promise.state, event.event)
                    promise.history.append((self._loop.time(), promise.state))
                    promise.released_at = event.at
                    if event.event is ReservationEvent.WITHDRAW:
                        promise.withdrawn_s = self._loop.time()
                case LegRuns():
                    runs = self.promises[event.reservation_id].runs
                    runs.setdefault(event.instance, self._loop.time())
                case InputArrived():
                    arrived = self.promises[event.reservation_id].arrived
                    arrived.setdefault(event.path, self._loop.time())
                case JobAccepted():
                    self._accepted(event)
                case JobStarting():
                    self.jobs[event.job_id].starting = event
                    self.jobs[event.job_id].started_s = self._loop.time()
                    self._check_job_room(event)
                case JobRunning():
                    self.jobs[event.job_id].running_s = self._loop.time()
                case JobOver():
                    self.jobs[event.job_id].over = event
                    self.jobs[event.job_id].over_s = self._loop.time()
                case _:
                    continue

    def _granted(self, reservation: Reservation) -> None:
        key = reservation.owner, reservation.request.request_id
        for other in self.promises.values():
            if (other.reservation.owner, other.reservation.request.request_id) == key:
                self._broken(TWICE, f"request {key[1]} booked twice", reservation)
        if key[1] in self.released:
            self._broken(BURIED, f"request {key[1]} was released before it booked", reservation)
        promise = Promise(reservation, reservation.state)
        promise.history.append((self._loop.time(), reservation.state))
        self.promises[reservation.reservation_id] = promise
        self._check_room(reservation)

    def _accepted(self, event: JobAccepted) -> None:
        key = event.owner, event.spec.request_id
        if any(each.request == key for each in self.jobs.values()):
            self._event_log.broken(TWICE, f"{self.site}: job {key[1]} is queued twice", self.site)
        self.jobs[event.job_id] = JobEntry(
            event.job_id,
            key,
            event.spec.nodes,
            reservation_id=event.spec.reservation_id,
            race=event.spec.race,
            accepted_s=self._loop.time(),
        )
        promise = self.promises.get(event.spec.reservation_id)
        if promise is not None and event.came_with_hold:
            promise.wants = frozenset(each.path for each in event.spec.inputs)

    # -- sums --------------------------------------------------------------------------------------

    def _check_room(self, new: Reservation) -> None:
        """Every second of ``new``: what is promised then, and what runs outside reservations."""
        self._check_seconds(new.start, new.end, new.reservation_id)

    def _check_job_room(self, event: JobStarting) -> None:
        if not event.reservation_id:
            self._check_seconds(event.at, event.until, event.job_id)

    def _check_seconds(self, start: int, end: int, what: str) -> None:
        taken = self._groups()
        for job in self.jobs.values():
            begun = job.starting
            if begun is not None and job.over is None and not begun.reservation_id:
                taken.append([(begun.at, begun.until, job.nodes)])
        edges = {start, *(at for forms in taken for at, _, _ in forms if start <= at < end)}
        for second in sorted(edges):
            used = sum(
                max((nodes for at, until, nodes in forms if at <= second < until), default=0)
                for forms in taken
            )
            if used > self.nodes:
                self._event_log.broken(
                    OVER_COMMITTED,
                    f"{self.site}: {used} of {self.nodes} nodes promised at {second} with {what}",
                    self.site,
                    what,
                )

    def _groups(self) -> list[list[tuple[int, int, int]]]:
        """(start, end, nodes) of all that is promised. A leg and the hold that is to change it are
        one group: one of the two will be used, and nobody knows yet which.
        """
        groups: dict[str, list[tuple[int, int, int]]] = {}
        for key, each in self.promises.items():
            if each.state.is_live:
                old = self.promises.get(each.reservation.request.replaces or "")
                is_change = each.state is HELD and old is not None and old.state.is_live
                name = each.reservation.request.replaces if is_change else key
                form = (each.reservation.start, each.reservation.end, each.reservation.nodes)
                groups.setdefault(name or key, []).append(form)
        return list(groups.values())

    # -- what is said and done ---------------------------------------------------------------------

    def acknowledged(self, method: str, question: Any, answer: Any) -> None:
        """An answer leaves: what it says must be stored."""
        if method == "Release" and question.request_id:
            self.released[question.request_id] = None
        told = getattr(answer, "reservation", None)
        if told is not None and answer.WhichOneof("answer") == "reservation":
            promise = self.promises.get(told.reservation_id)
            names = told.DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number
            says = names[told.state].name.removeprefix("RESERVATION_STATE_")
            if promise is None or not promise.was(ReservationState(says)):
                self._event_log.broken(
                    ACKNOWLEDGED,
                    f"{self.site} tells {told.reservation_id} is {says}, its disk does not",
                    self.site,
                    told.reservation_id,
                )
        job = getattr(answer, "job", None)
        if (
            job is not None
            and method == "Submit"
            and answer.WhichOneof("answer") == "job"
            and job.job_id not in self.jobs
        ):
            self._event_log.broken(
                ACKNOWLEDGED,
                f"{self.site} tells job {job.job_id} is queued, its disk does not",
                self.site,
            )

    def launched(self, launch: Launch) -> None:
        """The machine is told to run a job: it must be remembered, and its time must have come."""
        self._event_log.tell(self.site, "launches {} on {}", launch.job_id, launch.node_names)
        entry = self.jobs.get(launch.job_id)
        if entry is None or entry.starting is None:
            self._event_log.broken(
                ACKNOWLEDGED, f"{self.site} runs {launch.job_id}, its disk does not know", self.site
            )
            return
        twins = [
            each.job_id
            for each in self.jobs.values()
            if each.request == entry.request and each.job_id != entry.job_id and each.starting
        ]
        if twins:
            self._event_log.broken(
                TWICE, f"{self.site}: {entry.request[1]} runs as {launch.job_id}, {twins[0]}"
            )
        inside = self.promises.get(entry.starting.reservation_id)
        if inside is None:
            return
        trip = inside.reservation.request.trip
        if trip is not None and trip.acceptors and trip.instance not in inside.runs:
            self._broken(
                EARLY, f"{launch.job_id} begins, nobody knows if its trip runs", inside.reservation
            )
        begin = max(entry.starting.at, launch.start_not_before or 0.0)
        # A release that came while the start was being written stops the task before it begins;
        # whether it did is seen at the machine (``checkers``).
        if begin < inside.reservation.start or not inside.was(COMMITTED):
            self._event_log.broken(
                EARLY,
                f"{self.site}: {launch.job_id} starts at {begin:.3f} inside a reservation that is"
                f" {inside.state} from {inside.reservation.start}",
                self.site,
                inside.reservation.reservation_id,
            )

    def of_trips(self) -> Iterable[tuple[str, Promise]]:
        """All legs of trips ever promised here, with the trip's id."""
        for promise in self.promises.values():
            trip = promise.reservation.request.trip
            if trip is not None:
                yield trip.trip_id, promise

    def _broken(self, rule: str, text: str, reservation: Reservation) -> None:
        trip = reservation.request.trip
        about = [self.site, reservation.reservation_id, *([trip.trip_id] if trip else [])]
        self._event_log.broken(rule, f"{self.site}: {text}", *about)
