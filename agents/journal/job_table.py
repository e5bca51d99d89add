"""Every job the agent has accepted and not forgotten, as its journal tells it.

This is memory, not planning: where a job stands in the plan is the local scheduler's. Each entry is
the ``JobView`` that its owner is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gridtravel.agents.journal.events import (
    AgentEvent,
    HandoverDone,
    HeldJobKept,
    InputArrived,
    InputsNamed,
    JobAccepted,
    JobBoosted,
    JobBound,
    JobEvent,
    JobHeld,
    JobMakesWay,
    JobOnFailedNode,
    JobOver,
    JobRequeued,
    JobResized,
    JobRunning,
    JobSpecChanged,
    JobStarting,
    ReservationBound,
)
from gridtravel.agents.journal.leg_jobs import LegJobs
from gridtravel.gridcore.booking.calendar_events import ReservationChanged, ReservationMoved
from gridtravel.gridcore.booking.reservations import Reservation, ReservationEvent
from gridtravel.gridcore.booking.tombstones import SharedRoom
from gridtravel.gridcore.errors import NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.jobs import WaitReason

HISTORY_JOBS_MAX: Final = 10_000
"""Jobs that are over and still shown, of all owners together."""

_COMMITS: Final = (ReservationEvent.COMMIT, ReservationEvent.MERGE)


class JobTable:
    """Jobs by id, in order of submission. Changed only by ``apply``."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.views: dict[str, JobView] = {}
        self.booked_until: dict[str, Instant] = {}
        """End of the booked time, of jobs that have started and are not over."""
        self.runs_inside: dict[str, str] = {}
        """Reservation that a started job runs in; only where there is one."""
        self.bound_jobs: dict[str, tuple[str, ...]] = {}
        """Reservation -> the jobs that alone may use it."""
        self.bound_reservations: dict[str, tuple[str, ...]] = {}
        """Job -> the reservations that alone it may run in."""
        self.on_failed_node: dict[str, JobOnFailedNode] = {}
        """Started jobs on failed nodes, with what is to become of them."""
        self.makes_way: dict[str, JobMakesWay] = {}
        """Started jobs that are being ended for others."""
        self.awaiting: dict[str, None] = {}
        """Jobs that take files over from a stage before them and do not have them yet."""
        self.classes: dict[str, str] = {}
        """Resource class that each job was accepted for."""
        self.held: dict[str, bool] = {}
        """Waiting jobs on hold; true where an administrator holds them."""
        self.boosts: dict[str, int] = {}
        """Points that administrators gave to jobs."""
        self.legs = LegJobs()
        """Jobs that came with the holds of legs, and their inputs."""
        self._requeues: dict[str, int] = {}
        """Job -> times it was put back into the queue; only where it was."""
        self._by_request: dict[tuple[str, str], str] = {}
        self._over: SharedRoom[str] = SharedRoom()
        """Jobs that are over, by owner: whose make way when there are too many."""
        self.ids_given = 0
        """Jobs ever accepted, the forgotten ones included."""

    @property
    def next_id(self) -> str:
        """The id of the next job: a number, a dot, and the site, as batch systems name theirs."""
        return self._id(1)

    def hold_reason(self, job_id: str) -> WaitReason | None:
        """Why a waiting job is passed over, whatever room there is; ``None``: it is not."""
        if job_id in self.held:
            return WaitReason.HELD
        if job_id in self.awaiting:
            return WaitReason.HANDOVER
        return WaitReason.INPUTS if self.lacks(job_id) else None

    def get(self, job_id: str, by: str | None) -> JobView:
        """The job; ``by`` must be its owner, ``None`` sees all."""
        view = self.views.get(job_id)
        if view is None:
            raise NotFoundError(
                f"{self.site} has no job {job_id!r}",
                hint="it may be over: see catalina show-q, catalina history",
            )
        if by is not None and view.owner != by:
            raise NotAuthorisedError(
                f"job {job_id} at {self.site} belongs to somebody else",
                hint="only its owner or an administrator may do that",
            )
        return view

    def find_request(self, owner: str, request_id: str) -> JobView | None:
        """What this request submitted."""
        job_id = self._by_request.get((owner, request_id))
        return self.views.get(job_id) if job_id else None

    def execution_id(self, job_id: str) -> str:
        """The name of its present execution for the resource manager, which never runs one twice:
        ``17.lab``, after a requeue ``17.lab.2``.
        """
        requeues = self._requeues.get(job_id, 0)
        return f"{job_id}.{requeues + 1}" if requeues else job_id

    def job_of(self, execution_id: str) -> str | None:
        """The job whose present execution this is; ``None`` for one that was given up."""
        for job_id in (execution_id, execution_id.rpartition(".")[0]):
            if job_id in self.views and self.execution_id(job_id) == execution_id:
                return job_id
        return None

    def active(self) -> list[JobView]:
        """Jobs that are not over, in order of submission."""
        return [view for view in self.views.values() if not view.state.is_over]

    def lacks(self, job_id: str) -> str:
        """Which input a waiting job still needs, in words; empty: none."""
        spec = self.views[job_id].spec
        if spec.relayed_from:
            return f"the traveller has not brought the files of {spec.relayed_from}"
        missing = self.legs.lacking(spec)
        if not missing:
            return ""
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return f"its input {missing[0].path!r}{more} has not arrived"

    def bound_by(
        self,
        events: Sequence[AgentEvent],
        reservations: Mapping[str, Reservation],
        contacts: Mapping[str, str],
        now: Instant,
    ) -> tuple[JobAccepted | JobSpecChanged, ...]:
        """What becomes of the jobs that came with holds when these are committed by ``events``,
        which are about to be carried out: each is bound to its leg. Where the hold becomes the new
        form of a leg, the leg's job becomes that job, under its own id, as long as it waits.
        ``contacts``: of the trip's manifest.
        """
        bound: list[JobAccepted | JobSpecChanged] = []
        for event in events:
            if not isinstance(event, ReservationChanged) or event.event not in _COMMITS:
                continue
            held = self.legs.held.get(event.reservation_id)
            if held is None:
                continue
            hold = reservations[event.reservation_id]
            leg = event.reservation_id
            if event.event is ReservationEvent.MERGE:
                leg = hold.request.replaces or leg
            spec = held.bound(leg, contacts)
            known = self._waiting_in(leg)
            if known is not None:
                bound.append(JobSpecChanged(job_id=known.job_id, spec=spec))
                continue
            accepted = JobAccepted(
                job_id=self._id(1 + sum(isinstance(each, JobAccepted) for each in bound)),
                owner=hold.owner,
                spec=spec,
                at=now,
                class_name=hold.resource_class,
                came_with_hold=True,
            )
            bound.append(accepted)
        return tuple(bound)

    def resized_by(
        self, events: Sequence[AgentEvent], reservations: Mapping[str, Reservation]
    ) -> tuple[JobResized, ...]:
        """Waiting jobs follow their leg of a trip when the trip is changed by ``events``, which are
        about to be carried out.

        A leg's job takes the whole leg. When the leg becomes smaller or shorter such a job could
        never start; when it becomes longer the job would be ended too early. So a queued job that
        had the size of the leg, or exceeds what the leg has now, takes the leg's new size. What the
        job is told of its companions only the traveller can know.
        """
        return tuple(
            resized
            for event in events
            if isinstance(event, ReservationMoved) and event.reservation.request.trip is not None
            for resized in self._resized(
                reservations[event.reservation.reservation_id], event.reservation
            )
        )

    def apply(self, event: JobEvent | ReservationChanged) -> None:
        """Take a journaled fact into account."""
        match event:
            case HeldJobKept() | InputArrived() | ReservationChanged():
                self.legs.apply(event)
            case JobAccepted():
                self.legs.apply(event)
                self._accept(event)
            case JobSpecChanged():
                old = self.views[event.job_id]
                self._by_request.pop((old.owner, old.spec.request_id), None)
                self._by_request[old.owner, event.spec.request_id] = event.job_id
                self._change(event.job_id, spec=event.spec)
                self.legs.apply(event)
                self.awaiting.pop(event.job_id, None)
                if event.spec.handover is not None:
                    self.awaiting[event.job_id] = None
            case InputsNamed():
                spec = self.views[event.job_id].spec
                spec = replace(spec, inputs=(*spec.inputs, *event.inputs), relayed_from="")
                self._change(event.job_id, spec=spec)
            case HandoverDone():
                self.awaiting.pop(event.job_id, None)
            case JobStarting():
                self.held.pop(event.job_id, None)
                self._change(
                    event.job_id,
                    state=JobState.STARTING,
                    started_at=event.at,
                    node_names=event.node_names,
                )
                self.booked_until[event.job_id] = event.until
                if event.reservation_id:
                    self.runs_inside[event.job_id] = event.reservation_id
            case JobRunning():
                self._change(
                    event.job_id, state=JobState.RUNNING, started_precise=event.started_precise
                )
            case JobOver():
                self._end(event)
            case JobOnFailedNode():
                self.on_failed_node[event.job_id] = event
            case JobMakesWay():
                self.makes_way[event.job_id] = event
            case JobRequeued():
                self._change(
                    event.job_id,
                    state=JobState.QUEUED,
                    started_at=None,
                    started_precise=None,
                    node_names=(),
                )
                self._leave_nodes(event.job_id)
                self._requeues[event.job_id] = self._requeues.get(event.job_id, 0) + 1
            case JobResized():
                spec = self.views[event.job_id].spec
                resized = replace(spec, nodes=event.nodes, limit_s=event.limit_s)
                self._change(event.job_id, spec=resized)
            case JobBoosted():
                self.boosts[event.job_id] = event.points
            case JobHeld(is_held=True):
                self.held[event.job_id] = event.by_admin
            case JobHeld():
                self.held.pop(event.job_id, None)
            case ReservationBound():
                self._bind(self.bound_jobs, event.reservation_id, event.job_ids)
            case JobBound():
                self._bind(self.bound_reservations, event.job_id, event.reservation_ids)

    def _accept(self, event: JobAccepted) -> None:
        self.ids_given += 1
        self.views[event.job_id] = JobView(
            job_id=event.job_id,
            site=self.site,
            owner=event.owner,
            spec=event.spec,
            state=JobState.QUEUED,
            submitted_at=event.at,
            terms=event.terms,
        )
        self._by_request[event.owner, event.spec.request_id] = event.job_id
        if event.class_name:
            self.classes[event.job_id] = event.class_name
        if event.spec.reservation_id:
            self.bound_reservations[event.job_id] = (event.spec.reservation_id,)
        if event.spec.handover is not None:
            self.awaiting[event.job_id] = None

    def _end(self, event: JobOver) -> None:
        self._change(
            event.job_id,
            state=event.state,
            ended_at=event.at if event.ended_at is None else event.ended_at,
            exit_code=event.exit_code,
            reason=event.reason,
        )
        self._leave_nodes(event.job_id)
        self.awaiting.pop(event.job_id, None)
        self._over.add(self.views[event.job_id].owner, event.job_id)
        self._forget_oldest()

    def validate(self) -> None:
        """Assert what links the fields."""
        for job_id in self.booked_until:
            assert self.views[job_id].started_at is not None, job_id
            assert not self.views[job_id].state.is_over, job_id
        assert set(self.on_failed_node) <= set(self.booked_until), "only started jobs are struck"
        assert set(self.makes_way) <= set(self.booked_until), "only started jobs make way"
        assert set(self.runs_inside) <= set(self.booked_until), "only started jobs run inside"
        for job_id in self.awaiting:
            assert self.views[job_id].state is JobState.QUEUED, job_id
        over = Counter(each.owner for each in self.views.values() if each.state.is_over)
        assert self._over.counts() == over, "a place for each job that is over"

    def _resized(self, old: Reservation, new: Reservation) -> Iterator[JobResized]:
        for view in self.active():
            bound = self.bound_reservations.get(view.job_id, ())
            if view.state is not JobState.QUEUED or bound != (new.reservation_id,):
                continue
            nodes = _following(view.spec.nodes, old.nodes, new.nodes)
            limit_s = _following(
                view.spec.limit_s, old.interval.duration_s, new.interval.duration_s
            )
            if (nodes, limit_s) != (view.spec.nodes, view.spec.limit_s):
                yield JobResized(job_id=view.job_id, nodes=nodes, limit_s=limit_s)

    def _waiting_in(self, leg: str) -> JobView | None:
        """The waiting job of a leg: that which came with its hold, or was submitted for it."""
        job_ids = [self.legs.bound.get(leg, ""), *self.bound_reservations]
        for view in (self.views.get(job_id) for job_id in job_ids):
            if view is None or view.spec.reservation_id != leg:
                continue
            if view.state is JobState.QUEUED:
                return view
        return None

    def _id(self, ahead: int) -> str:
        return f"{self.ids_given + ahead}.{self.site}"

    def _change(self, job_id: str, **fields: object) -> None:
        self.views[job_id] = replace(self.views[job_id], **fields)  # type: ignore[arg-type]  # by name

    def _leave_nodes(self, job_id: str) -> None:
        self.booked_until.pop(job_id, None)
        self.runs_inside.pop(job_id, None)
        self.on_failed_node.pop(job_id, None)
        self.makes_way.pop(job_id, None)

    @staticmethod
    def _bind(table: dict[str, tuple[str, ...]], key: str, values: tuple[str, ...]) -> None:
        if values:
            table[key] = values
        else:
            table.pop(key, None)

    def _forget_oldest(self) -> None:
        while (job_id := self._over.makes_way(HISTORY_JOBS_MAX)) is not None:
            view = self.views.pop(job_id)
            self._over.drop(view.owner, job_id)
            self._by_request.pop((view.owner, view.spec.request_id), None)
            self.legs.forget_job(job_id, view.spec.reservation_id)
            self.bound_reservations.pop(job_id, None)
            self._requeues.pop(job_id, None)
            self.classes.pop(job_id, None)


def _following(wanted: int, old: int, new: int) -> int:
    return new if wanted == old or wanted > new else wanted
