"""The scheduler of one site: a state machine that serves live jobs and replayed ones alike.

No clock, no IO, no waiting: every method takes ``now`` and returns at once. ``cycle`` says what to
start and to stop and when it wants to be called next; the shell around it journals, then launches,
then tells it what happened. Whatever is in here and not in the journal is lost together with the
process, so nothing outside may rely on a decision that is not journaled yet.

Reservations are made between cycles, by the owner of the calendar, in what ``free_after_queue``
says is left: after all queued jobs, which is the paper's promise."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.policies.shared_nodes import NEVER
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.config import SchedulerConfig, SchedulerMode
from gridtravel.local_sched.scheduling.eligibility import Allowance, sort_out
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.limit_watch import LimitWatch
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.reservation_jobs import (
    InsideStart,
    NoReservations,
    ReservationBook,
    ReservationJobs,
)
from gridtravel.local_sched.scheduling.shared_jobs import SharedJobs, ends_by
from gridtravel.local_sched.scheduling.usage import UsageBook
from gridtravel.local_sched.sharing.shared_class import SharedClass

NOTHING_SHARED: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType({})


class CycleResult(NamedTuple):
    """What a cycle wants done (a tuple: a replay makes two a job)."""

    starts: list[Job]
    """To launch now; booked, named and counted already."""
    stops: list[Job]
    """To be told to end; they count as running until ``job_ended``. Said again while they stay."""
    next_wakeup: Instant | None
    """When time alone may change something; ``None``: nothing to wait for."""
    given_up: Sequence[tuple[Job, str]] = ()
    """Waiting jobs that left the queue because its policy does not serve them any more, and why;
    cancelled already."""
    shares: Mapping[str, tuple[float, ...]] = NOTHING_SHARED
    """Of jobs on shared nodes, by id: the part that it gets of each of its nodes, in their order;
    those for which one has changed since the last cycle, and those that start."""
    next_share_change: float = NEVER
    """When time alone changes shares; infinity: never. Exact, with its fraction."""


class LocalScheduler:
    """All jobs of one site, from submission to end. Mutable, one owner."""

    def __init__(
        self,
        pools: Mapping[str, ResourcePool],
        config: SchedulerConfig,
        book: ReservationBook | None = None,
        shared: Mapping[str, SharedClass] | None = None,
    ) -> None:
        if not pools and not shared:
            raise InputError("a scheduler needs at least one resource class")
        self.config = config
        self.pools = dict(pools)
        """Classes whose nodes one job has at a time."""
        self.shared = SharedJobs(shared or {})
        """Classes whose nodes several jobs have at once; none is in ``pools`` as well."""
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

    @property
    def next_sequence(self) -> int:
        """The rank of the next job that is submitted."""
        return self._submitted + 1

    def submit(self, job: Job, now: Instant, moment: float | None = None) -> None:
        """A new job joins the queue or, when it is bound, waits for its reservations. It is planned
        in the next cycle. What may be refused is refused before (``admission``). One that was
        admitted to shared nodes is on them from ``moment`` on, which is ``now`` to its fraction."""
        self._submitted += 1
        job.sequence = self._submitted
        if job.class_name in self.shared:
            self.shared.join(job, float(now) if moment is None else moment)
        self.waiting[job.job_id] = job
        self.usage.job_submitted(job)
        self._join_queue(job, now)
        if job.plan:
            self._adopt(job)

    def cancel(self, job_id: str, now: Instant, moment: float | None = None) -> Job:
        """A waiting job will not run. A running one is stopped by whoever launched it, and then
        ended.
        """
        job = self.waiting.get(job_id)
        if job is None:
            if job_id in self.running:
                raise ConflictError(
                    f"job {job_id} has started", hint="stop its tasks, then report its end"
                )
            raise NotFoundError(
                f"no waiting job {job_id!r}",
                hint="it may have started or ended meanwhile: catalina show-q, catalina history",
            )
        self._leave_queue(job, float(now) if moment is None else moment)
        del self.waiting[job_id]
        self.usage.job_withdrawn(job)
        job.state = JobState.CANCELLED
        job.ended_at = now
        self._remember(job)
        return job

    def _adopt(self, job: Job) -> None:
        """The queue takes over the plan on which the admission of ``job`` rests."""
        pool, plan = self.pools[job.class_name], dict(job.plan)
        pool.backfill.drop_all_planned_starts(pool.queue.jobs)
        for killed, free_from in job.kills:
            self.make_way(killed, free_from, plan.pop(killed))
        pool.backfill.adopt(pool.queue.jobs, plan)
        job.plan, job.kills = (), ()

    def make_way(self, job_id: str, free_from: Instant, again_at: Instant) -> None:
        """A running job is being ended for another one: its nodes are free then, and it starts
        again at ``again_at``, which is kept for it from now on. It is told to end, and requeued
        when it has, by whoever launched it.
        """
        job = self._running(job_id)
        pool = self.pools[job.class_name]
        if free_from < job.booked_until:
            pool.profile.unbook(job.nodes, free_from, job.booked_until)
            job.booked_until = free_from
            pool.backfill.availability_grew(free_from, FAR)
        self._limit_watch.add(job)
        if pool.profile.fits(job.nodes, again_at, again_at + job.limit_s):
            pool.profile.book(job.nodes, again_at, again_at + job.limit_s)
            job.planned_start = again_at

    def exchange(self, job: Job, now: Instant) -> None:
        """``job`` in place of the waiting one of the same id, whose turn it keeps."""
        old = self._waiting(job.job_id)
        self._leave_queue(old)
        self.usage.job_withdrawn(old)
        job.sequence = old.sequence
        self.waiting[job.job_id] = job
        self.usage.job_submitted(job)
        self._join_queue(job, now)

    def job_ended(
        self,
        job_id: str,
        now: Instant,
        exit_code: int | None = 0,
        *,
        moment: float | None = None,
    ) -> Job:
        """A running job is gone; what was booked for it beyond now is free for others. ``moment``:
        ``now`` to its fraction, which counts on shared nodes."""
        job = self._running(job_id)
        del self.running[job_id]
        if job.planned_start is not None:
            self.pools[job.class_name].backfill.drop_planned_start(job)
        if job.class_name in self.shared:
            self.shared.leave(job, float(now) if moment is None else moment)
        else:
            self._leave_nodes(job, now)
        job.ended_at = now
        job.exit_code = exit_code
        job.state = JobState.COMPLETED if exit_code == 0 else JobState.FAILED
        self.usage.job_ended(job)
        if self.config.history_jobs_max:
            self._remember(job)
        return job

    def _leave_nodes(self, job: Job, now: Instant) -> None:
        pool = self.pools[job.class_name]
        if job.is_booked:
            profile, until, backfill = pool.profile, job.booked_until, pool.backfill
            profile.advance(now)
            if until > now:
                profile.unbook(job.nodes, now, until)
            backfill.idle += job.nodes
            backfill.availability_grew(now, until)
        else:
            self.reservation_jobs.job_ended(job)
        if pool.nodes is not None:
            pool.give_back_nodes(job, now)

    def requeue(self, job_id: str, now: Instant, moment: float | None = None) -> Job:
        """A running job lost its nodes, or never ran, and shall run from the start; it keeps its
        rank. On shared nodes it was admitted to these: it has the same again, at once."""
        running = self._running(job_id)
        again_at, running.planned_start = running.planned_start, None
        job = self.job_ended(job_id, now, None, moment=moment)
        self.finished.pop(job_id, None)
        job.state = JobState.QUEUED
        job.reason = WaitReason.NEW
        job.started_at = job.ended_at = job.promised_start = None
        job.node_mask, job.reservation_id, job.is_booked = 0, "", True
        self.waiting[job_id] = job
        self.usage.job_submitted(job)
        if job.class_name in self.shared:
            self.shared.join(job, float(now) if moment is None else moment)
        self._join_queue(job, now)
        if again_at is not None:
            self.pools[job.class_name].backfill.expect(job, again_at)
        return job

    def restore_running(
        self,
        job: Job,
        booked_until: Instant,
        reservation_id: str,
        node_names: Iterable[str],
        *,
        moment: float = 0.0,
    ) -> None:
        """After a restart: a job that had started before. ``started_at`` is set; called before the
        first cycle, when the profile holds reservations and other running jobs alone."""
        if job.started_at is None:
            raise InputError(f"{job.job_id} has not started")
        self._submitted += 1
        job.sequence = self._submitted
        job.state = JobState.RUNNING
        job.booked_until = booked_until
        if job.class_name in self.shared:
            self.shared.join(job, moment)
        else:
            self._restore_on_nodes(job, reservation_id, node_names)
        self.running[job.job_id] = job
        self.usage.job_submitted(job)
        self.usage.job_started(job)

    def _restore_on_nodes(self, job: Job, reservation_id: str, node_names: Iterable[str]) -> None:
        pool, booked_until = self.pools[job.class_name], job.booked_until
        assert job.started_at is not None, "the caller looked"
        job.reservation_id = reservation_id
        job.is_booked = not reservation_id
        if pool.nodes is not None:
            job.node_mask = pool.nodes.take_named(node_names)
        if job.is_booked and booked_until > pool.profile.origin:
            pool.profile.withdraw(job.nodes, job.started_at, booked_until)
        pool.backfill.idle -= job.nodes
        if reservation_id:
            self.reservation_jobs.job_started(job)
        self._limit_watch.add(job)

    def hold(self, job_id: str, reason: WaitReason | None) -> None:
        """Pass a waiting job over for this reason, or let it go (``None``)."""
        job = self._in_line(job_id)
        job.hold_reason = reason
        self.pools[job.class_name].has_new_holds = True

    def displace(self, class_name: str, nodes: int, start: Instant, end: Instant) -> list[Job]:
        """Waiting jobs give up their planned starts, the last in the queue first, until ``nodes``
        are free in ``[start, end)`` or none is left to give up. Returns them in the order of the
        queue; the next cycle plans them anew. Only the site's own reservations ask for this."""
        return self._pool(class_name).displace(nodes, start, end)

    # -- events in: shared nodes -------------------------------------------------------------------

    def part_ended(self, job_id: str, node_name: str, moment: float) -> None:
        """What a job of a shared class did on one node is over, and its other parts go on."""
        job = self._running(job_id)
        if job.class_name in self.shared:
            self.shared.part_ended(job, node_name, moment)

    def measured(self, job_id: str, received_s: Sequence[float], moment: float) -> None:
        """Processor time that a job of a shared class has really had on each of its nodes."""
        job = self._running(job_id)
        if job.class_name in self.shared:
            self.shared.measured(job, received_s, moment)

    # -- events in: bindings -----------------------------------------------------------------------

    def bind_job(self, job_id: str, reservation_ids: Iterable[str], now: Instant) -> None:
        """The job may run in these reservations and nowhere else; none: back to the open queue."""
        job = self._in_line(job_id)
        self._leave_queue(job)
        job.bound_to = tuple(dict.fromkeys(reservation_ids))
        self._join_queue(job, now)

    def resize_bound(self, job_id: str, nodes: int, limit_s: int) -> None:
        """Another size for a job that waits for its reservation: it has no planned start in the
        queue that could change with it. A job that does not wait for one is left alone."""
        job = self.reservation_jobs.waiting.get(job_id)
        if job is not None:
            job.nodes, job.limit_s = nodes, limit_s

    def bind_reservation(self, reservation_id: str, job_ids: Iterable[str]) -> None:
        """Only these jobs may use the reservation; none: its owner's bound jobs may."""
        self.reservation_jobs.bind(reservation_id, job_ids)

    # -- events in: availability and nodes ---------------------------------------------------------

    def availability_changed(self, now: Instant) -> None:
        """The calendar freed nodes, whenever that is: the next cycle plans every queue anew, and
        nobody gets later."""
        for pool in self.pools.values():
            pool.backfill.availability_grew(now, FAR)
            pool.queue.is_reordered = True

    def set_back(self, now: Instant) -> None:
        """The clock was ahead and has been set right. The profiles hold reservations alone, from
        ``now`` on: everything else is booked again. What was started or stopped meanwhile stays so.
        """
        for pool in self.pools.values():
            pool.set_back(self._jobs_of(pool), now)
        self.shared.set_back(float(now))

    def node_down(self, class_name: str, node_name: str, now: Instant) -> list[Job]:
        """A node failed: it leaves the plan at once. Returns the jobs that were on it; whether they
        are told, cancelled or requeued is the site's decision. Saying it twice changes nothing."""
        if class_name in self.shared:
            return self.shared.node_down(class_name, node_name)
        pool = self._pool(class_name)
        return self._jobs_on(pool, pool.node_down(node_name, now))

    def node_up(self, class_name: str, node_name: str, now: Instant) -> None:
        """A failed node is back. Saying it twice changes nothing."""
        if class_name in self.shared:
            self.shared.node_up(class_name, node_name)
            return
        pool = self._pool(class_name)
        bit = pool.node_up(node_name, now)
        if pool.nodes is not None and not self._jobs_on(pool, bit):
            pool.nodes.idle |= bit

    def drain_nodes(self, reservation: Reservation, names: Iterable[str], now: Instant) -> None:
        """A reservation in the book is of these nodes: jobs that could be in its way get others.
        Saying it twice changes nothing."""
        pool = self.pools[reservation.resource_class]
        if reservation.reservation_id not in pool.drains:
            drain = pool.drain_for(reservation, names, self.longest_limit_s)
            pool.begin_drain(drain, self.running.values(), now)

    def end_drains(self, now: Instant) -> None:
        """Jobs may have the nodes of reservations that are over or cancelled."""
        for pool in self.pools.values():
            for key in [each.reservation_id for each in pool.drains]:
                if not self.reservation_jobs.is_committed(key):
                    pool.end_drain(key, now)

    @property
    def longest_limit_s(self) -> int | None:
        """No job that waits or may come has a longer limit; ``None``: any limit may come."""
        most = self.config.limits.limit_max_s
        if most is None:
            return None
        return max([most, *(job.limit_s for job in self.waiting.values())])

    def _jobs_of(self, pool: ResourcePool) -> list[Job]:
        return [job for job in self.running.values() if job.class_name == pool.name]

    def _jobs_on(self, pool: ResourcePool, bit: int) -> list[Job]:
        running = self.running.values()
        return [job for job in running if job.class_name == pool.name and job.node_mask & bit]

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, now: Instant, moment: float | None = None) -> CycleResult:
        """Everything that follows from what is known at ``now``; calling it again changes nothing
        more. The steps are those of Catalina's iteration (GUR and Catalina paper, section 3;
        peers.md A.5), with running reservations before the queue, for a job of the queue that one
        of them lets in has left the queue:

        1. resources: the past is forgotten, every plan begins now
        2. overruns: jobs still there at the end of their limit are booked on, then stopped
        3. running reservations: their jobs start inside them, without touching what is free for the
           queue
        4. priorities: jobs that the policy gives up leave, a changing order is sorted anew
        5. eligibility: jobs on hold or over a cap are passed over, each with its reason
        6. planned starts of queued jobs, in order, up to the reservation depth, and backfill
        7. starts: nodes get their names, usage is counted
        8. shared nodes, at ``moment``, which is ``now`` to its fraction: whoever was admitted
           starts, in any mode, since it was promised; who gets how much from now on
        """
        starts: list[Job] = []
        stops: list[Job] = []
        given_up: list[tuple[Job, str]] = []
        self._forget_past(now)  # 1
        self._limit_watch.look(now, stops)  # 2
        if self._takes_reservations:
            self._serve_reservations(now, starts, stops)  # 3
        if self.mode is SchedulerMode.RUNNING:
            # Class by class, since what starts in one class counts against the caps in the next.
            for pool in self.pools.values():
                if pool.policy is not None:
                    given_up += self._ask(pool, pool.policy, now)  # 4
                pool.queue.sort(now)
                self._sort_out(pool, now)  # 5
                started = pool.serve(now)  # 6
                self._start(pool, started, now)  # 7
                starts += started
        if not self.shared.classes:
            return CycleResult(starts, stops, self._next_wakeup(now), given_up)
        shares = self._serve_shared(now, float(now) if moment is None else moment, starts, stops)
        wakeup, change = self._next_wakeup(now), self.shared.next_change()
        return CycleResult(starts, stops, wakeup, given_up, shares, change)

    def _serve_shared(
        self, now: Instant, moment: float, starts: list[Job], stops: list[Job]
    ) -> dict[str, tuple[float, ...]]:
        """Step 8."""
        self.shared.advance(moment)
        stops += self.shared.overdue(moment)
        for job in self.shared.take_admitted():
            job.state, job.started_at, job.booked_until = JobState.STARTING, now, ends_by(job)
            del self.waiting[job.job_id]
            self.running[job.job_id] = job
            self.usage.job_started(job)
            starts.append(job)
        return self.shared.take_shares()

    def _forget_past(self, now: Instant) -> None:
        """Step 1. The idle nodes are counted in step 3, when it is known what is kept of them."""
        for pool in self.pools.values():
            if pool.profile.times[0] < now:
                pool.profile.advance(now)

    def _serve_reservations(self, now: Instant, starts: list[Job], stops: list[Job]) -> None:
        """Step 3: the nodes of reservations that are over, the jobs that outlived theirs, those
        that start inside, and what all of them leave idle."""
        # After step 2: what a drain that ends now frees is for the queue, not for an overrun.
        self._follow_book(now)
        for job in self.reservation_jobs.outlived():
            self._limit_watch.take_over(job, now, stops)
        if self.mode is SchedulerMode.RUNNING:
            for start in self.reservation_jobs.due(now, self.waiting):
                self._start_inside(start, now, starts)
        # Last: nodes that a job inside has just taken are not kept for its reservation any more.
        self._count_idle(now)

    def _follow_book(self, now: Instant) -> None:
        """Where reservations were made or are over, all is planned anew and their drains end."""
        if self._book_seen != self.reservation_jobs.book.changes:
            self._book_seen = self.reservation_jobs.book.changes
            self.availability_changed(now)
            self.end_drains(now)

    def _start_inside(self, start: InsideStart, now: Instant, starts: list[Job]) -> None:
        job = start.job
        pool = self.pools[job.class_name]
        job.reservation_id, job.booked_until = start.reservation_id, start.booked_until
        if pool.nodes is not None and pool.choose_nodes(job, now) is None:
            job.reservation_id, job.reason = "", WaitReason.NODES_BUSY
            return
        if not job.bound_to:
            self._leave_queue(job)
        job.is_booked = False
        self.reservation_jobs.job_started(job)
        self._start(pool, [job], now)
        starts.append(job)

    def _count_idle(self, now: Instant) -> None:
        """Nodes that the queue may start on: without those that running reservations keep."""
        inside = self.reservation_jobs
        unused = dict.fromkeys(self.pools, 0)
        for reservation in inside.running_now(now):
            name = reservation.resource_class
            if name in unused and reservation.reservation_id not in self.pools[name].drains:
                unused[name] += inside.unused_nodes(reservation)
        for name, pool in self.pools.items():
            if pool.nodes is not None:
                pool.count_idle(now, unused[name])

    def _ask(self, pool: ResourcePool, policy: QueuePolicy, now: Instant) -> list[tuple[Job, str]]:
        """Step 4 where a policy serves: who leaves, and in which order the others are served. The
        order is asked for when there is something new to it.
        """
        given_up = []
        for job in (*pool.queue.jobs, *pool.set_aside):
            why = policy.gives_up(policy_job(job), now)
            if why:
                self.cancel(job.job_id, now)
                given_up.append((job, why))
        if pool.has_news:
            order = policy.prioritise(queue_view(pool, self.running.values(), now))
            if order is not None:
                pool.reorder(order)
        return given_up

    def _sort_out(self, pool: ResourcePool, now: Instant) -> None:
        """Step 5."""
        sort_out(pool, Allowance(self.config.limits, self.usage) if self._has_caps else None, now)

    def _start(self, pool: ResourcePool, jobs: Iterable[Job], now: Instant) -> None:
        """Step 7: from waiting to running; their time is booked already."""
        for job in jobs:
            if pool.nodes is not None:
                pool.take_nodes(job, now)
            job.state = JobState.STARTING
            job.started_at = now
            job_id = job.job_id
            del self.waiting[job_id]
            self.running[job_id] = job
            self.usage.job_started(job)
            self._limit_watch.add(job)

    def _next_wakeup(self, now: Instant) -> Instant | None:
        """The next change of any plan or planned start, the next end of a running job's time, and
        at a site that takes reservations the next edge of one.
        """
        wakeup = FAR
        for pool in self.pools.values():
            times = pool.profile.times
            if len(times) > 1 and times[1] < wakeup:
                wakeup = times[1]
            planned = pool.backfill.next_planned
            if now < planned < wakeup:
                wakeup = planned  # not always a step: others may have their nodes until then
        if self._limit_watch.next_at < wakeup:
            wakeup = min(wakeup, self._limit_watch.next_due())
        if self._takes_reservations:
            boundary = self.reservation_jobs.next_boundary(now)
            if boundary is not None and boundary < wakeup:
                wakeup = boundary
        return None if wakeup >= FAR else wakeup

    # -- questions ---------------------------------------------------------------------------------

    def free_after_queue(
        self, class_name: str, now: Instant, account: str = ""
    ) -> AvailabilityProfile:
        """What is free once every queued job has its planned start: where user-settable
        reservations are made.

        A copy. This is policy 1 of the paper, section 3: user-settable reservations are made only
        after all currently queued jobs are scheduled. ``account``: may be entitled to a shortpool.
        """
        self._pool(class_name).admit_account(account, now)
        return self.plan_of_queue(class_name, now)[0]

    def plan_of_queue(
        self, class_name: str, now: Instant
    ) -> tuple[AvailabilityProfile, dict[str, Instant]]:
        """A start for every queued job of a class, on a copy: what is free then, the starts by job
        id.

        Jobs without a planned start (a small depth, a cap, an arrival since the last cycle) get
        one, in order; jobs on hold, and those that can never fit, do not.
        """
        return self._pool(class_name).plan_of_queue(now)

    def is_in_line(self, job_id: str) -> bool:
        """True for a job that waits in a queue, and could be made to wait longer."""
        job = self.waiting.get(job_id)
        return job is not None and job.class_name not in self.shared

    def node_names(self, job: Job) -> tuple[str, ...]:
        """Names of a running job's nodes, in order of the class's list; empty where nodes have
        none.
        """
        if job.class_name in self.shared:
            return self.shared.node_names(job)
        nodes = self._pool(job.class_name).nodes
        return () if nodes is None else nodes.named(job.node_mask)

    def validate(self) -> None:
        """Assert what links jobs, pools and usage, for tests and simulated worlds."""
        running, waiting = self.running.values(), self.waiting.values()
        bound = self.reservation_jobs.waiting
        for name, pool in self.pools.items():
            pool.validate([job for job in running if job.class_name == name])
        for job in waiting:
            assert job.state is JobState.QUEUED, f"{job} waits"
            assert (job.job_id in bound) == bool(job.bound_to), f"{job} waits in one queue"
        self.shared.validate({**self.waiting, **self.running})
        queued = sum(len(pool.queue) + len(pool.set_aside) for pool in self.pools.values())
        queued += sum(job.class_name in self.shared for job in waiting)
        assert queued + len(bound) == len(waiting), "nobody is lost"
        assert sum(each.jobs_running for each in self.usage.users.values()) == len(running)

    # -- inside ------------------------------------------------------------------------------------

    def _leave_queue(self, job: Job, moment: float = 0.0) -> None:
        if job.bound_to:
            del self.reservation_jobs.waiting[job.job_id]
        elif job.class_name in self.shared:
            self.shared.leave(job, moment)
        else:
            self.pools[job.class_name].remove(job)

    def _join_queue(self, job: Job, now: Instant) -> None:
        if job.bound_to:
            self.reservation_jobs.waiting[job.job_id] = job
            return
        if job.class_name in self.shared:
            return
        pool = self.pools[job.class_name]
        pool.queue.add(job, now)
        pool.has_new_holds |= job.hold_reason is not None

    def _waiting(self, job_id: str) -> Job:
        job = self.waiting.get(job_id)
        if job is None:
            raise NotFoundError(
                f"no waiting job {job_id!r}",
                hint="it may have started or ended meanwhile: catalina show-q, catalina history",
            )
        return job

    def _in_line(self, job_id: str) -> Job:
        """A waiting job that can be made to wait longer."""
        job = self._waiting(job_id)
        if not self.is_in_line(job_id):
            raise ConflictError(
                f"job {job_id} was admitted to nodes that jobs share, where nobody waits",
                hint=f"end it with: catalina del-job {job_id}",
            )
        return job

    def _running(self, job_id: str) -> Job:
        job = self.running.get(job_id)
        if job is None:
            raise NotFoundError(
                f"no running job {job_id!r}",
                hint="it may have started or ended meanwhile: catalina show-q, catalina history",
            )
        return job

    def _pool(self, class_name: str) -> ResourcePool:
        pool = self.pools.get(class_name)
        if pool is None:
            raise NotFoundError(
                f"no resource class {class_name!r}; known: {', '.join(self.pools)}",
                hint="name one of those",
            )
        return pool

    def _remember(self, job: Job) -> None:
        finished = self.finished
        finished[job.job_id] = job
        if len(finished) > self.config.history_jobs_max:
            finished.popitem(last=False)
