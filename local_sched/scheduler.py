"""The scheduler of one site: a state machine that serves live jobs and replayed ones alike.

No clock, no IO, no waiting: every method takes ``now`` and returns at once. ``cycle`` says what to
start and to stop and when it wants to be called next; the shell around it journals, then launches,
then tells it what happened. Whatever is in here and not in the journal is lost together with the
process, so nothing outside may rely on a decision that is not journaled yet.

A cycle, in the order of Catalina's iteration (GUR and Catalina paper, section 3; peers.md A.5):

1. resources: forget the past, count the nodes that are really idle
2. overruns: jobs still there at the end of their limit are booked on, then stopped
3. running reservations: their jobs start inside them, without touching the queue's room
4. priorities: a changing order is sorted anew
5. eligibility: jobs on hold or over a cap are passed over, each with its reason
6. reservations of queued jobs, in order, up to the reservation depth, and backfill
7. starts: nodes get their names, usage is counted

Reservations are made between cycles, by the owner of the calendar, in what ``free_after_queue``
says is left: after all queued jobs, which is the paper's promise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gridcore.errors import ConflictError, InputError, NotFoundError
from gridcore.instants import Instant
from gridcore.jobs import JobState
from gridcore.profile import AvailabilityProfile
from local_sched.compression import FAR
from local_sched.eligibility import Allowance, sort_out
from local_sched.fixed_nodes import end_drains
from local_sched.invariants import check_scheduler
from local_sched.jobs import Job, WaitReason
from local_sched.limit_watch import LimitWatch
from local_sched.reservation_jobs import (
    InsideStart,
    NoReservations,
    ReservationBook,
    ReservationJobs,
)
from local_sched.resource_pools import ResourcePool
from local_sched.scheduler_config import SchedulerConfig, SchedulerMode
from local_sched.usage import UsageBook


class CycleResult(NamedTuple):
    """What a cycle wants done (a tuple: a replay makes two a job)."""

    starts: list[Job]
    """To launch now; booked, named and counted already."""
    stops: list[Job]
    """To be told to end; they count as running until ``job_ended``. Said again while they stay."""
    next_wakeup: Instant | None
    """When time alone may change something; ``None``: nothing to wait for."""


class LocalScheduler:
    """All jobs of one site, from submission to end. Mutable, one owner."""

    def __init__(
        self,
        pools: Mapping[str, ResourcePool],
        config: SchedulerConfig,
        book: ReservationBook | None = None,
    ) -> None:
        if not pools:
            raise InputError("a scheduler needs at least one resource class")
        self.config = config
        self.pools = dict(pools)
        self.mode = SchedulerMode.RUNNING
        self.waiting: dict[str, Job] = {}
        """By id, in order of submission: everything that has not started."""
        self.running: dict[str, Job] = {}
        """By id, in order of start: everything that occupies nodes."""
        self.finished: OrderedDict[str, Job] = OrderedDict()
        """By id, oldest end first, at most ``history_jobs_max``."""
        self.usage = UsageBook()
        self.reservation_jobs = ReservationJobs(book or NoReservations())
        self._takes_reservations = book is not None
        self._has_caps = config.limits.restricts_starts
        self._book_seen = -1
        self._limit_watch = LimitWatch(self.pools, self.reservation_jobs, config.overrun)
        self._submitted = 0
        if config.overrun.trusts_limits:
            for pool in self.pools.values():
                pool.backfill.idle = FAR

    # -- events in: jobs ---------------------------------------------------------------------------

    def submit(self, job: Job, now: Instant) -> None:
        """A new job joins the queue or, when it is bound, waits for its reservations. It is planned
        in the next cycle. What may be refused is refused before (``admission``)."""
        self._submitted += 1
        job.sequence = self._submitted
        self.waiting[job.job_id] = job
        self.usage.job_submitted(job)
        self._join_queue(job, now)

    def cancel(self, job_id: str, now: Instant) -> Job:
        """A waiting job will not run. A running one is stopped by whoever launched it, and then
        ended.
        """
        job = self.waiting.get(job_id)
        if job is None:
            if job_id in self.running:
                raise ConflictError(
                    f"job {job_id} has started", hint="stop its tasks, then report its end"
                )
            raise NotFoundError(f"no waiting job {job_id!r}")
        self._leave_queue(job)
        del self.waiting[job_id]
        self.usage.job_withdrawn(job)
        job.state = JobState.CANCELLED
        job.ended_at = now
        self._remember(job)
        return job

    def job_running(self, job_id: str) -> None:
        """The resource manager has started it; it counted as there since the decision."""
        self._running(job_id).state = JobState.RUNNING

    def job_ended(self, job_id: str, now: Instant, exit_code: int | None = 0) -> Job:
        """A running job is gone; what was booked for it beyond now is free for others."""
        job = self._running(job_id)
        del self.running[job_id]
        pool = self.pools[job.class_name]
        if job.is_booked:
            profile, until, backfill = pool.profile, job.room_until, pool.backfill
            profile.advance(now)
            if until > now:
                profile.unbook(job.nodes, now, until)
            backfill.idle += job.nodes
            backfill.room_appeared(now, until)
        else:
            self.reservation_jobs.job_ended(job)
        if pool.nodes is not None:
            pool.give_back_nodes(job, now)
        job.ended_at = now
        job.exit_code = exit_code
        job.state = JobState.COMPLETED if exit_code == 0 else JobState.FAILED
        self.usage.job_ended(job, now)
        if self.config.history_jobs_max:
            self._remember(job)
        return job

    def requeue(self, job_id: str, now: Instant) -> Job:
        """A running job lost its nodes and shall run again from the start; it keeps its rank."""
        job = self.job_ended(job_id, now, None)
        self.finished.pop(job_id, None)
        job.state = JobState.QUEUED
        job.reason = WaitReason.NEW
        job.started_at = job.ended_at = job.promised_start = None
        job.node_mask, job.reservation_id, job.is_booked = 0, "", True
        self.waiting[job_id] = job
        self.usage.job_submitted(job)
        self._join_queue(job, now)
        return job

    def restore_running(
        self, job: Job, room_until: Instant, reservation_id: str, node_names: Iterable[str]
    ) -> None:
        """After a restart: a job that had started before. ``started_at`` is set; called before the
        first cycle, when the profile holds reservations and other running jobs alone."""
        if job.started_at is None:
            raise InputError(f"{job.job_id} has not started")
        pool = self.pools[job.class_name]
        self._submitted += 1
        job.sequence = self._submitted
        job.state = JobState.RUNNING
        job.room_until = room_until
        job.reservation_id = reservation_id
        job.is_booked = not reservation_id
        if pool.nodes is not None:
            job.node_mask = pool.nodes.take_named(node_names)
        if job.is_booked and room_until > pool.profile.origin:
            pool.profile.withdraw(job.nodes, job.started_at, room_until)
        pool.backfill.idle -= job.nodes
        self.running[job.job_id] = job
        self.usage.job_submitted(job)
        self.usage.job_started(job)
        if reservation_id:
            self.reservation_jobs.job_started(job)
        self._limit_watch.add(job)

    def hold(self, job_id: str, *, is_held: bool) -> None:
        """Put a waiting job on hold, or let it go."""
        job = self._waiting(job_id)
        job.is_held = is_held
        self.pools[job.class_name].has_new_holds = True

    def make_way(self, class_name: str, nodes: int, start: Instant, end: Instant) -> list[Job]:
        """Waiting jobs give up their places, the last in the queue first, until ``nodes`` are free
        in ``[start, end)`` or no place is left to give up. Returns them in the order of the queue;
        the next cycle plans them anew. Only the site's own reservations ask for this."""
        return self._pool(class_name).make_way(nodes, start, end)

    # -- events in: bindings -----------------------------------------------------------------------

    def bind_job(self, job_id: str, reservation_ids: Iterable[str], now: Instant) -> None:
        """The job may run in these reservations and nowhere else; none: back to the open queue."""
        job = self._waiting(job_id)
        self._leave_queue(job)
        job.bound_to = tuple(dict.fromkeys(reservation_ids))
        self._join_queue(job, now)

    def bind_reservation(self, reservation_id: str, job_ids: Iterable[str]) -> None:
        """Only these jobs may use the reservation; none: its owner's bound jobs may."""
        self.reservation_jobs.bind(reservation_id, job_ids)

    # -- events in: nodes --------------------------------------------------------------------------

    def node_down(self, class_name: str, node_name: str, now: Instant) -> list[Job]:
        """A node failed: it leaves the plan at once. Returns the jobs that were on it; whether they
        are told, cancelled or requeued is the site's decision. Saying it twice changes nothing."""
        pool = self._pool(class_name)
        return self._jobs_on(pool, pool.node_down(node_name, now))

    def node_up(self, class_name: str, node_name: str, now: Instant) -> None:
        """A failed node is back. Saying it twice changes nothing."""
        pool = self._pool(class_name)
        bit = pool.node_up(node_name, now)
        if pool.nodes is not None and not self._jobs_on(pool, bit):
            pool.nodes.idle |= bit

    def _jobs_on(self, pool: ResourcePool, bit: int) -> list[Job]:
        running = self.running.values()
        return [job for job in running if job.class_name == pool.name and job.node_mask & bit]

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, now: Instant) -> CycleResult:
        """Everything that follows from what is known at ``now``; calling it again changes
        nothing more.
        """
        starts: list[Job] = []
        stops: list[Job] = []
        watch = self._limit_watch
        if watch.next_at <= now:
            watch.look(now, stops)
        if self._takes_reservations:
            self._serve_reservations(now, starts, stops)
        wakeup: Instant | None = None
        for pool in self.pools.values():
            profile = pool.profile
            times = profile.times
            if times[0] < now:
                profile.advance(now)
            if self.mode is SchedulerMode.RUNNING:
                self._serve_queue(pool, now, starts)
            if len(times) > 1 and (wakeup is None or times[1] < wakeup):
                wakeup = times[1]
        if self._takes_reservations:
            for moment in (watch.next_due(), self.reservation_jobs.next_boundary(now)):
                if moment is not None and moment < FAR and (wakeup is None or moment < wakeup):
                    wakeup = moment
        return CycleResult(starts, stops, wakeup)

    def _serve_queue(self, pool: ResourcePool, now: Instant, starts: list[Job]) -> None:
        """Steps 4 to 7 for one class."""
        if self._has_caps or pool.set_aside or pool.has_new_holds:
            allowance = Allowance(self.config.limits, self.usage) if self._has_caps else None
            sort_out(pool, allowance, now)
        queue = pool.queue
        if not queue.is_sorted_by_itself:
            queue.sort(now)
        if pool.shortpool is not None:
            pool.move_shortpool(pool.shortpool, now)
        for job in pool.serve(now):
            self._start(pool, job, now)
            starts.append(job)

    def _start(self, pool: ResourcePool, job: Job, now: Instant) -> None:
        """Step 7: from waiting to running; its room is booked already."""
        if pool.nodes is not None:
            pool.take_nodes(job, now)
        job.state = JobState.STARTING
        job.started_at = now
        job_id = job.job_id
        del self.waiting[job_id]
        self.running[job_id] = job
        self.usage.job_started(job)
        self._limit_watch.add(job)

    def _serve_reservations(self, now: Instant, starts: list[Job], stops: list[Job]) -> None:
        """Steps 1 and 3: what the calendar changed, and the jobs inside running reservations."""
        inside = self.reservation_jobs
        if self._book_seen != inside.book.changes:
            self._book_seen = inside.book.changes
            for pool in self.pools.values():
                pool.backfill.room_appeared(now, FAR)
                pool.queue.is_reordered = True
            end_drains(self, now)
        for job in inside.outlived():
            self._limit_watch.take_over(job, now, stops)
        if self.mode is SchedulerMode.RUNNING:
            for start in inside.due(now, self.waiting):
                self._start_inside(start, now, starts)
        unused = dict.fromkeys(self.pools, 0)
        for reservation in inside.running_now(now):
            name = reservation.resource_class
            if name in unused and reservation.reservation_id not in self.pools[name].drains:
                unused[name] += inside.unused_nodes(reservation)
        for name, pool in self.pools.items():
            if pool.nodes is not None:
                pool.count_idle(now, unused[name])

    def _start_inside(self, start: InsideStart, now: Instant, starts: list[Job]) -> None:
        job = start.job
        pool = self.pools[job.class_name]
        job.reservation_id, job.room_until = start.reservation_id, start.room_until
        if pool.nodes is not None and pool.choose_nodes(job, now) is None:
            job.reservation_id, job.reason = "", WaitReason.NODES_BUSY
            return
        if not job.bound_to:
            self._leave_queue(job)
        job.is_booked = False
        self.reservation_jobs.job_started(job)
        self._start(pool, job, now)
        starts.append(job)

    # -- questions ---------------------------------------------------------------------------------

    def free_after_queue(
        self, class_name: str, now: Instant, account: str = ""
    ) -> AvailabilityProfile:
        """Free room once every queued job has its place: where user-settable reservations are made.

        A copy. This is policy 1 of the paper, section 3: user-settable reservations are made only
        after all currently queued jobs are scheduled. ``account``: may be entitled to a shortpool.
        """
        self._pool(class_name).let_in(account, now)
        return self.plan_of_queue(class_name, now)[0]

    def plan_of_queue(
        self, class_name: str, now: Instant
    ) -> tuple[AvailabilityProfile, dict[str, Instant]]:
        """A place for every queued job of a class, on a copy: the room left, the starts by job id.

        Jobs that hold no place (a small depth, a cap, an arrival since the last cycle) get one, in
        order; jobs on hold, and those that can never fit, do not.
        """
        return self._pool(class_name).plan_of_queue(now)

    def node_names(self, job: Job) -> tuple[str, ...]:
        """Names of a running job's nodes, in order of the class's list; empty where nodes have
        none.
        """
        nodes = self._pool(job.class_name).nodes
        return () if nodes is None else nodes.named(job.node_mask)

    def validate(self) -> None:
        """Assert what links jobs, pools and usage."""
        check_scheduler(self)

    # -- inside ------------------------------------------------------------------------------------

    def _leave_queue(self, job: Job) -> None:
        if job.bound_to:
            del self.reservation_jobs.waiting[job.job_id]
        else:
            self.pools[job.class_name].remove(job)

    def _join_queue(self, job: Job, now: Instant) -> None:
        if job.bound_to:
            self.reservation_jobs.waiting[job.job_id] = job
            return
        pool = self.pools[job.class_name]
        pool.queue.add(job, now)
        pool.has_new_holds |= job.is_held

    def _waiting(self, job_id: str) -> Job:
        job = self.waiting.get(job_id)
        if job is None:
            raise NotFoundError(f"no waiting job {job_id!r}")
        return job

    def _running(self, job_id: str) -> Job:
        job = self.running.get(job_id)
        if job is None:
            raise NotFoundError(f"no running job {job_id!r}")
        return job

    def _pool(self, class_name: str) -> ResourcePool:
        pool = self.pools.get(class_name)
        if pool is None:
            raise NotFoundError(f"no resource class {class_name!r}; known: {', '.join(self.pools)}")
        return pool

    def _remember(self, job: Job) -> None:
        finished = self.finished
        finished[job.job_id] = job
        if len(finished) > self.config.history_jobs_max:
            finished.popitem(last=False)
