"""What becomes of jobs: from the scheduler's decision to the resource manager, and back again.

The order of steps makes a job run at most once, and never unremembered: its start is journaled
before it is launched, the resource manager never runs the same id twice, and its end is journaled
before the resource manager may forget it. A job on a failed node that is to run again waits in the
queue only when its old tasks are gone, and gets a new id for its next execution.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from gridtravel.agents.jobs.environment import leg_environment
from gridtravel.agents.jobs.restart import NO_CLASS, restore_jobs, scheduler_job
from gridtravel.agents.journal.events import (
    AgentEvent,
    JobOver,
    JobRequeued,
    JobRunning,
    JobStarting,
)
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.agents.journal.state import SiteState
from gridtravel.agents.maintenance_rules import NodeFailureRule
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.shared_nodes import NEVER
from gridtravel.local_sched.resource_managers.base import (
    EndReason,
    Launch,
    ResourceManager,
    TaskEvent,
    TaskEventKind,
)
from gridtravel.local_sched.resource_managers.task_limits import TaskLimitRules, TaskLimits
from gridtravel.local_sched.scheduling.jobs import WaitReason
from gridtravel.local_sched.scheduling.policy_views import policy_job
from gridtravel.local_sched.scheduling.shared_jobs import DRIFT_S

if TYPE_CHECKING:
    from gridtravel.agents.jobs.work_dirs import WorkDirs
    from gridtravel.gridcore.booking.calendars import Calendar
    from gridtravel.gridcore.jobs.races import Race
    from gridtravel.gridio.journal.contract import Ticket
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.local_sched.scheduling.jobs import Job
    from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

log = logging.getLogger(__name__)

CO_START_LEAD_S: Final = 0.25
"""Legs of a trip are let go this long after their common start: launching takes some 50 ms."""
MEASURE_EVERY_S: Final = 10.0
"""How often the processor time of jobs on shared nodes is asked for, beside admissions."""
MEASURE_APART_S: Final = 0.05
"""However many ask to be admitted, nobody is measured more often."""

LEG_DOES_NOT_RUN: Final = "its reservation was released before it could start"
KEPT_SHORT: Final = "its deadline passed before it had the processor time that it was promised"
STRUCK_DOWN: Final = (EndReason.STOPPED, EndReason.LOST, EndReason.NEVER_RAN)
RACE_TOO_LATE: Final = "it could no longer end inside the window of its race"


class Trips(Protocol):
    """Whether what belongs to a trip may start."""

    async def claim(self, race: Race, is_wanted: Callable[[], bool]) -> bool:
        """True when this copy of a race runs, and no other; asks until it is known."""

    def may_begin(self, reservation_id: str) -> bool | None:
        """Whether what is in a reservation may start; ``None``: its trip has not settled it yet."""

    async def begins(self, reservation_id: str) -> bool:
        """The same, when it is known."""


"""True: the copy has won. The second argument says whether the answer is still wanted."""
RACE_LOST: Final = "another copy of it runs"


class JobRunner:
    """Carries out what the scheduler decides. ``record`` journals and applies (``NodeAgent``);
    ``wake``: something has changed that the next cycle must look at, and is not journaled.
    """

    def __init__(
        self,
        *,
        calendar: Calendar,
        scheduler: LocalScheduler,
        jobs: JobTable,
        state: SiteState,
        resource_manager: ResourceManager,
        work_dirs: WorkDirs,
        clock: Clock,
        kill_grace_s: float,
        task_limits: TaskLimitRules,
        record: Callable[[Sequence[AgentEvent]], Ticket],
        wake: Callable[[], None],
        trips: Trips,
    ) -> None:
        self.calendar = calendar
        self.scheduler = scheduler
        self.jobs = jobs
        self._state = state
        self.resource_manager = resource_manager
        self._work_dirs = work_dirs
        self._clock = clock
        self._kill_grace_s = kill_grace_s
        self._task_limits = task_limits
        self._record = record
        self._wake = wake
        self._trips = trips
        self._measured_at = 0.0
        """When jobs on shared nodes were measured last."""
        self._beside: set[asyncio.Task[None]] = set()
        """What goes on beside the calls and the cycle: starts that wait for the word that they may,
        and orders to end a job, also when whoever gave them has hung up.
        """
        self._cancelled: set[str] = set()
        """Jobs that were told to end because somebody cancelled them."""
        self._launching: dict[str, asyncio.Event] = {}
        """Jobs whose launch is under way; set when it is settled."""

    async def recover(self) -> None:
        """After a restart: what the tasks did while nobody looked, and the queue as it was.

        A start that was journaled and never launched is launched now; whatever the resource manager
        knows of is never launched again.
        """
        events = await self.resource_manager.recover()
        now = self._clock.now()
        self.calendar.rebook(now)
        without_class = restore_jobs(
            self.scheduler, self.jobs, self._state, now, self._clock.now_precise()
        )
        self.calendar.take_slots(now)
        for job_id in without_class:
            with contextlib.suppress(NotFoundError):
                execution_id = self.jobs.execution_id(job_id)
                await self.resource_manager.stop(execution_id, self._kill_grace_s)
            await self.over(job_id, JobState.FAILED, None, NO_CLASS, by_site=True)
        await self.measure()
        for event in events:
            await self.task_event(event)
        known = {event.job_id for event in events}
        for view in self.jobs.active():
            execution_id = self.jobs.execution_id(view.job_id)
            if view.state is JobState.STARTING and execution_id not in known:
                await self._launch_all([self._start_of(view)])
        for job_id in list(self.jobs.on_failed_node):
            self.stop_on_failed_node(job_id)
        self.end_for_others(self.jobs.makes_way)

    async def follow_tasks(self) -> None:
        """Take in what the resource manager reports, until cancelled."""
        async for event in self.resource_manager.events():
            await self.task_event(event)

    def queue(self, job_id: str, accepted: Job | None = None) -> None:
        """Tell the scheduler a job that was just accepted, or one that waits in another form.
        ``accepted``: as admission made it, with the plan that its promise rests on.
        """
        job = scheduler_job(self.scheduler, self.jobs, self.jobs.views[job_id])
        assert job is not None, "admission found a class for it"
        if accepted is not None:
            job.plan, job.kills = accepted.plan, accepted.kills
        if job_id in self.scheduler.waiting:
            self.scheduler.exchange(job, self._clock.now())
        else:
            self.scheduler.submit(job, self._clock.now(), self._clock.now_precise())

    async def start(self, starts: Sequence[Job], now: Instant) -> None:
        """Journal all starts, then launch them: a job that nobody remembers must never run."""
        events = [
            JobStarting(
                job_id=job.job_id,
                at=now,
                until=job.booked_until,
                reservation_id=job.reservation_id,
                node_names=self.scheduler.node_names(job),
            )
            for job in starts
        ]
        if not events:
            return
        await self._record(events).durable()
        await self._launch_all(events)

    async def set_shares(self, shares: Mapping[str, tuple[float, ...]]) -> None:
        """Divide shared nodes as the scheduler says. Jobs that are being launched have their shares
        with the order, and are told again.
        """
        if shares:
            wanted = {self.jobs.execution_id(job_id): each for job_id, each in shares.items()}
            await self.resource_manager.set_shares(wanted)

    @property
    def next_measure(self) -> float:
        """When the jobs on shared nodes are measured again; infinity: there are none."""
        if not any(each.jobs for each in self.scheduler.shared.classes.values()):
            return NEVER
        # A clock that was ahead and has been set right must not put it off.
        return min(self._measured_at, self._clock.now_precise()) + MEASURE_EVERY_S

    def measure_soon(self) -> None:
        """What is known of processor times may be wrong."""
        self._measured_at = -NEVER

    async def measure(self) -> None:
        """Tell the scheduler what processor time the jobs on shared nodes have really had. One that
        is only being launched has had none.
        """
        shared = self.scheduler.shared
        now = self._clock.now_precise()
        if 0 <= now - self._measured_at < MEASURE_APART_S:
            return
        self._measured_at = now
        names = {
            job_id: self.jobs.execution_id(job_id)
            for job_id, job in self.scheduler.running.items()
            if job.class_name in shared
        }
        if not names:
            return
        times = await self.resource_manager.processor_time(list(names.values()))
        moment = self._clock.now_precise()
        for job_id, execution_id in names.items():
            job = self.scheduler.running.get(job_id)
            if job is not None:
                nothing = (0.0,) * job.nodes
                self.scheduler.measured(job_id, times.get(execution_id, nothing), moment)

    async def _was_kept_short(self, job_id: str) -> bool:
        """True for a job of a shared class that has not had the processor time of its estimate."""
        job = self.scheduler.running.get(job_id)
        if job is None or job.class_name not in self.scheduler.shared:
            return False
        execution_id = self.jobs.execution_id(job_id)
        times = await self.resource_manager.processor_time([execution_id])
        promised_s = policy_job(job).work_s - DRIFT_S
        return any(each < promised_s for each in times.get(execution_id, (0.0,)))

    async def _launch_all(self, events: Sequence[JobStarting]) -> None:
        """Launch what may run; a copy in a race when it has won, and a leg when it is settled that
        its trip runs. Nobody waits here for either.
        """
        ready = []
        for event in events:
            wait = self._wait_for(event)
            if wait is None:
                ready.append(event)
                continue
            self._begin_beside(wait, f"start of {event.job_id}")
        await asyncio.gather(*(self._launch(event) for event in ready))

    def _wait_for(self, event: JobStarting) -> Coroutine[object, object, None] | None:
        """What launches a job later; ``None``: it may be launched now."""
        if self.jobs.views[event.job_id].spec.race is not None:
            return self._race(event)
        if event.reservation_id and not self._trips.may_begin(event.reservation_id):
            return self._begin(event)
        return None

    async def _begin(self, event: JobStarting) -> None:
        """Launch a job of a trip's leg, once it is settled that the leg runs."""
        if await self._trips.begins(event.reservation_id):
            await self._launch(event)
        elif self._is_starting(event.job_id):
            await self.over(event.job_id, JobState.CANCELLED, None, LEG_DOES_NOT_RUN)

    async def _race(self, event: JobStarting) -> None:
        """Launch a copy if no other one runs; it is over otherwise."""
        job_id = event.job_id
        spec = self.jobs.views[job_id].spec
        assert spec.race is not None, "the caller looked"
        if self._clock.now() + spec.limit_s > spec.race.ends_at:
            await self.over(job_id, JobState.CANCELLED, None, RACE_TOO_LATE)
        elif await self._trips.claim(spec.race, lambda: self._is_starting(job_id)):
            await self._launch(event)
        elif self._is_starting(job_id):
            await self.over(job_id, JobState.CANCELLED, None, RACE_LOST)

    def _is_starting(self, job_id: str) -> bool:
        return self.jobs.views[job_id].state is JobState.STARTING

    async def _launch(self, event: JobStarting) -> None:
        view = self.jobs.views[event.job_id]
        if view.state is not JobState.STARTING:
            return
        settled = self._launching[event.job_id] = asyncio.Event()
        try:
            self._work_dirs.check_room()
            await self.resource_manager.launch(self._order(view, event))
        except GridError as fault:
            log.warning("job %s cannot be launched: %s", event.job_id, fault)
            await self.over(event.job_id, JobState.FAILED, None, str(fault))
        finally:
            del self._launching[event.job_id]
            settled.set()

    def _order(self, view: JobView, event: JobStarting) -> Launch:
        """The order to the resource manager. A trip's leg is let go a moment after its start, so
        that every site has had the time to prepare, and all let go together.
        """
        reservation = None
        not_before: float | None = None
        if event.reservation_id:
            reservation = self.calendar.get(event.reservation_id)
            if reservation.request.trip is not None:
                not_before = reservation.start + CO_START_LEAD_S
        own = leg_environment(view, event.until, reservation)
        execution_id = self.jobs.execution_id(view.job_id)
        return Launch(
            job_id=execution_id,
            login=view.owner,
            argv=view.spec.argv,
            script=view.spec.script or None,
            environment={**dict(view.spec.environment), **own},
            workdir=self._work_dirs.folder(_area_of(view, reservation), view.owner),
            node_names=event.node_names,
            end=event.until,
            start_not_before=not_before,
            stdout_name=f"{execution_id}.stdout",
            stderr_name=f"{execution_id}.stderr",
            kill_grace_s=self._kill_grace_s,
            limits=self.limits_of(view),
            shares=self._shares_of(view.job_id),
        )

    def _shares_of(self, job_id: str) -> tuple[float, ...]:
        job = self.scheduler.running.get(job_id)
        if job is None or job.class_name not in self.scheduler.shared:
            return ()
        return self.scheduler.shared.shares_of(job)

    def limits_of(self, view: JobView) -> TaskLimits:
        """The most that a job's task may use."""
        class_name = self.jobs.classes.get(view.job_id, "")
        return self._task_limits.of(class_name, view.owner)

    async def stop(self, job_id: str, why: str) -> None:
        """Tell a started job to end: TERM now, KILL after the site's grace."""
        log.info("stopping job %s: %s", job_id, why)
        launching = self._launching.get(job_id)
        if launching is not None:
            # Half launched it could not be stopped, and would run although it was told to end.
            await launching.wait()
        state = self.jobs.views[job_id].state
        if state.is_over or state is JobState.QUEUED:
            return  # over, or in the queue again, while this waited
        try:
            await self.resource_manager.stop(self.jobs.execution_id(job_id), self._kill_grace_s)
        except NotFoundError:
            if self._is_to_run_again(job_id):
                await self._requeue(job_id)
                return
            is_cancelled = job_id in self._cancelled or job_id in self.jobs.on_failed_node
            state = JobState.CANCELLED if is_cancelled else JobState.FAILED
            await self.over(job_id, state, None, f"{why} before it was launched")

    async def cancel(self, job_id: str) -> None:
        """End a job, whatever it is doing. A running one is over when its processes are. Carried
        through also when the caller hangs up meanwhile.
        """
        view = self.jobs.get(job_id, None)
        if view.state is JobState.QUEUED:
            self.scheduler.cancel(job_id, self._clock.now(), self._clock.now_precise())
            await self.over(job_id, JobState.CANCELLED, None, "cancelled before its start")
        elif not view.state.is_over:
            self._cancelled.add(job_id)
            await asyncio.shield(self._stop_soon(job_id, "cancelled"))

    async def give_up(self, job_id: str, reason: str) -> None:
        """A job that waits for files and can never start fails. Its leg's time is of no use to
        anybody any more, and others may want it.
        """
        if job_id in self.scheduler.waiting:
            log.warning("job %s cannot start: %s", job_id, reason)
            self.scheduler.cancel(job_id, self._clock.now(), self._clock.now_precise())
            await self.over(job_id, JobState.FAILED, None, reason)
        await self.release_leg(self.jobs.views[job_id].spec.reservation_id)

    async def release_leg(self, reservation_id: str) -> None:
        """Give the rest of a leg's time back."""
        events = self.calendar.decide_release(reservation_id, None, self._clock.now())
        await self._record(events).durable()
        if events:
            await self.reservation_ended(reservation_id)

    def end_for_others(self, job_ids: Iterable[str]) -> None:
        """End started jobs that make way for others; they run again later."""
        for job_id in list(job_ids):
            self._stop_soon(job_id, f"it makes way for job {self.jobs.makes_way[job_id].for_job}")

    def stop_on_failed_node(self, job_id: str) -> None:
        """A job on a failed node is stopped, unless the site lets such jobs go on."""
        on_failed_node = self.jobs.on_failed_node[job_id]
        if on_failed_node.rule is NodeFailureRule.NOTIFY:
            return
        self._stop_soon(job_id, f"node {on_failed_node.node_name} failed")

    def _stop_soon(self, job_id: str, why: str) -> asyncio.Task[None]:
        return self._begin_beside(self.stop(job_id, why), f"end of {job_id}")

    def _begin_beside(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._beside.add(task)
        task.add_done_callback(self._has_ended)
        return task

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        """Nobody may be waiting, so a fault is told here. After one of the journal the daemon ends
        as soon as it looks.
        """
        self._beside.discard(task)
        fault = None if task.cancelled() else task.exception()
        if isinstance(fault, UnavailableError):
            log.error("%s: %s", task.get_name(), fault)
            self._wake()
        elif fault is not None:
            task.get_loop().call_exception_handler(
                {"message": f"{task.get_name()} failed", "exception": fault, "task": task}
            )

    def _is_to_run_again(self, job_id: str) -> bool:
        on_failed_node = self.jobs.on_failed_node.get(job_id)
        is_requeued = on_failed_node is not None and on_failed_node.rule is NodeFailureRule.REQUEUE
        is_requeued = is_requeued or job_id in self.jobs.makes_way
        return is_requeued and job_id not in self._cancelled

    def _may_run_still(self, event: TaskEvent) -> bool:
        """True for a job that is certain not to have run, since this daemon died when it gave the
        order. Once: a machine that takes up no order is not asked for ever.
        """
        job_id = self.jobs.job_of(event.job_id)
        return (
            event.reason is EndReason.NEVER_RAN
            and job_id == event.job_id  # as it was first launched
            and job_id not in self._cancelled
        )

    async def _requeue(self, job_id: str) -> None:
        """Back into the queue, with the rank it had; a started job whose tasks are gone."""
        now = self._clock.now()
        if job_id in self.scheduler.running:
            self.scheduler.requeue(job_id, now, self._clock.now_precise())
        await self._record([JobRequeued(job_id=job_id, at=now)]).durable()

    async def task_event(self, event: TaskEvent) -> None:
        """What became of a task; said twice it changes nothing."""
        job_id = self.jobs.job_of(event.job_id)
        if job_id is None or self.jobs.views[job_id].state.is_over:
            await self._forget_task(event)
            return
        view = self.jobs.views[job_id]
        if event.actual_start is not None and view.started_precise is None:
            ticket = self._record([JobRunning(job_id=job_id, started_precise=event.actual_start)])
            await ticket.durable()
        if event.kind is TaskEventKind.NODE_ENDED and job_id in self.scheduler.running:
            self.scheduler.part_ended(job_id, event.node_name, self._clock.now_precise())
            self._wake()
        if event.kind.is_final:
            was_struck_down = event.reason in STRUCK_DOWN
            if (self._is_to_run_again(job_id) and was_struck_down) or self._may_run_still(event):
                await self._requeue(job_id)
                await self._forget_task(event)
                return
            state, reason = self._outcome(event, job_id)
            code = event.exit_code
            if code is None and event.signal_number is not None:
                code = -event.signal_number
            is_lost = event.kind is TaskEventKind.LOST
            if event.reason is EndReason.LIMIT and await self._was_kept_short(job_id):
                is_lost, reason = True, KEPT_SHORT
            await self.over(
                job_id,
                state,
                code,
                reason,
                ended_at=self._end_of(event, job_id),
                by_site=is_lost or (was_struck_down and job_id in self.jobs.on_failed_node),
            )
            await self._forget_task(event)

    async def over(
        self,
        job_id: str,
        state: JobState,
        exit_code: int | None,
        reason: str,
        *,
        ended_at: Instant | None = None,
        by_site: bool = False,
    ) -> None:
        """The end of a job, for the scheduler, the journal and whoever watches. ``ended_at``: when
        it happened, where that is not now. ``by_site``: see ``JobOver``.
        """
        now = self._clock.now()
        if job_id in self.scheduler.running:
            moment = self._clock.now_precise()
            self.scheduler.job_ended(job_id, now, exit_code, moment=moment)
        self._cancelled.discard(job_id)
        ended = JobOver(
            job_id=job_id,
            at=now,
            state=state,
            exit_code=exit_code,
            reason=reason,
            ended_at=ended_at,
            by_site=by_site,
        )
        await self._record([ended]).durable()

    def _end_of(self, event: TaskEvent, job_id: str) -> Instant:
        """When a task ended, which nobody may have looked at for days. What is lost may have ended
        at any time: not later than its time was over.
        """
        latest = now = self._clock.now()
        if event.kind is TaskEventKind.LOST:
            latest = min(now, self.jobs.booked_until.get(job_id, now))
        started_at = self.jobs.views[job_id].started_at or 0
        return max(started_at, min(int(event.at), latest))

    def _outcome(self, event: TaskEvent, job_id: str) -> tuple[JobState, str]:
        on_failed_node = self.jobs.on_failed_node.get(job_id)
        was_struck_down = event.reason in STRUCK_DOWN
        if (
            on_failed_node is not None
            and on_failed_node.rule is NodeFailureRule.CANCEL
            and was_struck_down
        ):
            return JobState.CANCELLED, f"cancelled: node {on_failed_node.node_name} failed"
        if event.kind is TaskEventKind.LOST:
            return JobState.FAILED, event.message or "its processes are gone, nobody knows how"
        if job_id in self._cancelled:
            return JobState.CANCELLED, "cancelled"
        if event.reason is EndReason.EXCEEDED:
            return JobState.FAILED, event.message
        if event.reason is EndReason.LIMIT or event.reason is EndReason.STOPPED:
            return JobState.TIMED_OUT, event.message or "stopped at the end of its time"
        if event.exit_code == 0:
            return JobState.COMPLETED, ""
        return JobState.FAILED, event.message or "it ended with an error"

    async def _forget_task(self, event: TaskEvent) -> None:
        if not event.kind.is_final:
            return
        try:
            await self.resource_manager.forget(event.job_id)
        except (NotFoundError, ConflictError, OSError) as fault:
            # What is not forgotten is told once more after a restart, and changes nothing then.
            log.info("task %s is not forgotten: %s", event.job_id, fault)

    def _start_of(self, view: JobView) -> JobStarting:
        return JobStarting(
            job_id=view.job_id,
            at=view.started_at or view.submitted_at,
            until=self.jobs.booked_until[view.job_id],
            reservation_id=self.jobs.runs_inside.get(view.job_id, ""),
            node_names=view.node_names,
        )

    async def reservation_ended(self, reservation_id: str, reason: str = "") -> None:
        """A reservation was released: its running jobs are stopped, its waiting ones cancelled.
        ``reason``: shown with those that had not run.
        """
        kept = self.calendar.reservations.get(reservation_id)
        if kept is not None and kept.state is ReservationState.COMMITTED:
            return
        for view in self.jobs.active():
            inside = self.jobs.runs_inside.get(view.job_id, view.spec.reservation_id)
            if inside == reservation_id:
                if reason and view.state is not JobState.RUNNING:
                    await self._drop(view, reason)
                else:
                    await self.cancel(view.job_id)

    async def _drop(self, view: JobView, reason: str) -> None:
        """A job that was not launched, and never will be."""
        if view.state is JobState.QUEUED:
            self.scheduler.cancel(view.job_id, self._clock.now(), self._clock.now_precise())
        await self.over(view.job_id, JobState.CANCELLED, None, reason)

    async def drop_waiting(self, job_ids: Sequence[str], reason: str) -> None:
        """Jobs that the site does not run after all; none of them starts meanwhile."""
        now = self._clock.now()
        for job_id in job_ids:
            self.scheduler.cancel(job_id, now, self._clock.now_precise())
        for job_id in job_ids:
            await self.over(job_id, JobState.CANCELLED, None, reason, by_site=True)

    async def settle_reservations(self) -> None:
        """End what reservations left behind: jobs still running in one that was released (its
        release was interrupted, by a crash as well), and jobs that were submitted into one that
        was over before they could start, which would wait for ever.
        """
        now, entries = self._clock.now(), self.calendar.reservations
        for job_id, reservation_id in list(self.jobs.runs_inside.items()):
            kept = entries.get(reservation_id)
            # What is not remembered any more has made way for others of its owner's.
            was_released = kept is None or kept.state is ReservationState.RELEASED
            if was_released and job_id not in self._cancelled:
                await self.cancel(job_id)
        for job in list(self.scheduler.reservation_jobs.waiting.values()):
            reservation_id = self.jobs.views[job.job_id].spec.reservation_id
            is_over = job.reason is WaitReason.RESERVATION_OVER
            # Since the last await somebody may have cancelled it.
            if not is_over or not reservation_id or job.job_id not in self.scheduler.waiting:
                continue
            kept = entries.get(reservation_id)
            was_released = kept is None or kept.state is ReservationState.RELEASED
            self.scheduler.cancel(job.job_id, now)
            if was_released:
                await self.over(
                    job.job_id, JobState.CANCELLED, None, "its reservation was released"
                )
            else:
                reason = "its reservation was over before it could start"
                await self.over(job.job_id, JobState.FAILED, None, reason)


def _area_of(view: JobView, reservation: Reservation | None) -> str:
    """Where a job works: with the others of its reservation. A job of somebody else's, in one of
    the site or bound to it by an administrator, has a folder of its own: an area is one login's.
    """
    if reservation is None or reservation.owner != view.owner:
        return view.job_id
    return reservation.reservation_id
