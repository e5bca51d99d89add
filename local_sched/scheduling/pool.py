"""The nodes of one resource class with everything that is planned on them.

Nodes are counted for the future and named at the start: with interchangeable nodes, whenever the
count allows a start, that many nodes are idle then. The names are bits of one integer
(performance.md, 2.2).

Nodes that drain for a reservation of named nodes are out of the count (``node_drains``), so the
plan does not use them. Jobs that are over before the reservation begins may: after each pass, those
that still wait are asked in the order of the queue, and one that fits wholly on idle nodes of a
drain and ends in time starts there. It gives up its own planned start for it; nobody else's
changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gridtravel.gridcore.capacity.node_sets import lowest_bits
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import REPORT_IT, ConflictError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import QueuePolicy
from gridtravel.local_sched.scheduling.backfill import Backfill, BackfillRule
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.job_queue import JobQueue, QueueOrder, by_rank
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.node_drains import NodeDrain, NodeDrains
from gridtravel.local_sched.scheduling.shortpools import Shortpool, ShortpoolBlock

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import Reservation


class NodeNames:
    """Which nodes are idle, and which are down; bit *i* stands for ``names[i]``."""

    __slots__ = ("down", "idle", "names")

    def __init__(self, names: Sequence[str]) -> None:
        if len(set(names)) != len(names):
            raise InputError("two nodes have the same name")
        self.names = tuple(names)
        self.idle = (1 << len(names)) - 1
        """Nodes that no job runs on and that are up."""
        self.down = 0

    def take_named(self, names: Iterable[str]) -> int:
        """Take these nodes, for a job that runs on them already."""
        mask = 0
        for name in names:
            mask |= self.bit_of(name)
        self.idle &= ~mask
        return mask

    def give_back(self, mask: int) -> None:
        """Nodes of a job that is over; those that are down stay out of use."""
        self.idle |= mask & ~self.down

    def named(self, mask: int) -> tuple[str, ...]:
        """The names behind a mask, in order of the class's list."""
        return tuple(name for bit, name in enumerate(self.names) if mask >> bit & 1)

    def bit_of(self, name: str) -> int:
        """The bit of one node; ``InputError`` when the class has no such node."""
        try:
            return 1 << self.names.index(name)
        except ValueError:
            raise InputError(f"no node is called {name[:80]!r}") from None


class ResourcePool:
    """Profile, queue, plan and node names of one class. Mutable, owned by the scheduler."""

    __slots__ = (
        "backfill",
        "drains",
        "features",
        "has_new_holds",
        "name",
        "nodes",
        "policy",
        "profile",
        "queue",
        "ranks",
        "set_aside",
        "shortpool",
    )

    def __init__(
        self,
        name: str,
        profile: AvailabilityProfile,
        rule: BackfillRule,
        order: QueueOrder,
        *,
        features: tuple[str, ...] = (),
        node_names: Sequence[str] | None = None,
        shortpool: Shortpool | None = None,
        policy: QueuePolicy | None = None,
    ) -> None:
        if node_names is not None and len(node_names) != profile.capacity:
            raise InputError(
                f"class {name!r} has {profile.capacity} nodes and {len(node_names)} node names"
            )
        if shortpool is not None and rule.depth is None and rule.keeps_planned_starts:
            raise InputError(
                f"class {name!r}: a shortpool moves with time, so a planned start is no promise",
                hint="give the class a reservation depth, or let it plan anew in each pass",
            )
        self.name = name
        self.shortpool = None if shortpool is None else ShortpoolBlock(shortpool)
        self.features = frozenset(features)
        self.profile = profile
        """Shared with the site's calendar: running jobs, planned starts and reservations in one
        sum."""
        self.policy = policy
        """Who is let in, who leaves, and the order of the queue; ``None``: everybody is let in, and
        ``order`` serves."""
        self.ranks: dict[str, int] = {}
        """The order that the policy said last, by job id; empty where it leaves it to ``order``."""
        self.queue = JobQueue(order)
        self.backfill = Backfill(profile, rule)
        self.nodes = None if node_names is None else NodeNames(node_names)
        """``None``: nothing is launched here, counts are enough (a replay)."""
        self.drains = NodeDrains(profile)
        """Nodes that reservations of named nodes need, and their drains."""
        self.set_aside: list[Job] = []
        """Waiting jobs on hold or over a cap: they have no planned start and block nobody."""
        self.has_new_holds = False
        """True when a job was put on hold or let go since the last cycle."""

    def reorder(self, job_ids: Sequence[str]) -> None:
        """The policy has said in which order the queue is to be served."""
        if not self.ranks:
            self.queue.order = by_rank(self.ranks)
        self.ranks.clear()
        self.ranks.update((job_id, rank) for rank, job_id in enumerate(job_ids))

    @property
    def has_news(self) -> bool:
        """True when jobs came or went, or nodes did, since the last pass."""
        queue = self.queue
        return bool(queue.arrivals) or queue.is_reordered or self.backfill.has_news

    def in_order(self, now: Instant) -> list[Job]:
        """All waiting jobs of the open queue as they would be served now, those set aside in
        their turn.
        """
        key = self.queue.order.key
        return sorted([*self.queue.jobs, *self.set_aside], key=lambda job: key(job, now))

    def serve(self, now: Instant) -> list[Job]:
        """Step 6 of the cycle: the jobs of the open queue that start now, booked and out of it. It
        must be in order, and the profile begin now.
        """
        if self.shortpool is not None:
            self._move_shortpool(self.shortpool, now)
        if not self.drains.are_any:
            return self.backfill.cycle(self.queue, now)
        closed = self.drains.closed(now)
        self.drains.settle(now)
        # A drain may have taken over nodes since they were counted as idle.
        taken = self._named_nodes().idle & self.drains.closed(now) & ~closed
        self.backfill.idle -= taken.bit_count()
        return self.backfill.cycle(self.queue, now) + self._fill_drains(now)

    def _fill_drains(self, now: Instant) -> list[Job]:
        """Jobs that start now on draining nodes: booked, with their nodes, and out of the queue."""
        if self.nodes is None or not self.nodes.idle & self.drains.draining(now):
            return []
        may_overtake = self.backfill.rule.depth != 0
        started = []
        for job in list(self.queue.jobs):
            if self._start_in_drain(job, now):
                started.append(job)
            elif not may_overtake:
                break
        return started

    def _start_in_drain(self, job: Job, now: Instant) -> bool:
        names, drains, profile = self._named_nodes(), self.drains, self.profile
        end, planned = now + job.limit_s, job.planned_start
        mask = lowest_bits(
            names.idle & drains.draining(now) & ~drains.barred(now, end),
            job.nodes,
        )
        if mask is None:
            return False
        self.backfill.drop_planned_start(job)
        drains.occupied(mask, end, now)
        if not profile.fits(job.nodes, now, end):
            if planned is not None:
                self.backfill.keep_planned_start(job, planned)
            drains.vacated(mask, now)
            return False
        self.queue.remove(job)
        profile.book(job.nodes, now, end)
        job.booked_until, job.node_mask = end, mask
        names.idle &= ~mask
        return True

    def _move_shortpool(self, block: ShortpoolBlock, now: Instant) -> None:
        """Let the block follow time; the queue is planned anew behind it."""
        self.backfill.drop_all_planned_starts(self.queue.jobs)
        block.move(self.profile, now)
        self.queue.is_reordered = True

    def admit_account(self, account: str, now: Instant) -> None:
        """Take the block away for a search by an entitled account; put it back for anybody else's.

        Until the next cycle, which moves it anyway; booking what was found needs the nodes. Drains
        come before anybody's search as well.
        """
        if self.drains.are_any:
            self.drains.settle(now)
        block = self.shortpool
        if block is None:
            return
        if account in block.rule.accounts:
            block.lift(self.profile)
        elif not block.nodes_kept:
            block.move(self.profile, now)

    def plan_of_queue(self, now: Instant) -> tuple[AvailabilityProfile, dict[str, Instant]]:
        """A start for every queued job, on a copy: what is free then, and the starts by job id.

        A start that was missed long ago (a suspended site) counts as none.
        """
        profile = self.profile.copy()
        profile.advance(now)
        starts = {}
        placeless = []
        for job in (*self.queue.jobs, *self.set_aside):
            planned = job.planned_start
            if planned is not None and not self.backfill.is_missed(job, now):
                starts[job.job_id] = planned
                continue
            if planned is not None and planned + job.limit_s > now:
                profile.unbook(job.nodes, planned, planned + job.limit_s)
            if job.hold_reason is None:
                placeless.append(job)
        key = self.queue.order.key
        for job in sorted(placeless, key=lambda job: key(job, now)):
            start = profile.earliest_fit(job.nodes, job.limit_s, now)
            if start is not None:
                profile.book(job.nodes, start, start + job.limit_s)
                starts[job.job_id] = start
        return profile, starts

    def displace(self, nodes: int, start: Instant, end: Instant) -> list[Job]:
        """Give up planned starts, the last in the queue first, until ``nodes`` are free in
        ``[start, end)``.
        """
        displaced = []
        for job in reversed(self.queue.jobs):
            if self.profile.fits(nodes, start, end):
                break
            planned = job.planned_start
            if planned is not None and planned < end and planned + job.limit_s > start:
                self.backfill.drop_planned_start(job)
                job.promised_start = None
                displaced.append(job)
        return displaced[::-1]

    def availability_without_queue(self, now: Instant) -> AvailabilityProfile:
        """A copy of the profile with running jobs and reservations alone."""
        availability = self.profile.copy()
        for job in self.queue.jobs:
            if job.planned_start is not None:
                availability.unbook(job.nodes, job.planned_start, job.planned_start + job.limit_s)
        availability.advance(now)
        return availability

    # -- names -------------------------------------------------------------------------------------

    def choose_nodes(self, job: Job, now: Instant) -> int | None:
        """Idle nodes for a job whose end is known, lowest first; ``None``: too few of those that
        it may have.

        A job inside a reservation may have nodes that drain, if it ends in time: what was promised
        before the drain began is kept wherever nodes are free.
        """
        names, drains = self._named_nodes(), self.drains
        if not drains.are_any:
            return lowest_bits(names.idle, job.nodes)
        own = drains.own(job.reservation_id) if job.reservation_id else None
        if own is not None:
            return lowest_bits(names.idle & own, job.nodes)
        barred = drains.barred(now, job.booked_until)
        found = lowest_bits(names.idle & ~barred & ~drains.closed(now), job.nodes)
        if found is None and job.reservation_id:
            found = lowest_bits(names.idle & ~barred, job.nodes)
        return found

    def take_nodes(self, job: Job, now: Instant) -> None:
        """The job gets its nodes, the ones that were chosen for it or now."""
        names = self._named_nodes()
        mask = job.node_mask or self.choose_nodes(job, now)
        if mask is None:
            raise ConflictError(
                f"{job} is to start, and too few of its nodes are idle", hint=REPORT_IT
            )
        names.idle &= ~mask
        job.node_mask = mask
        if self.drains.are_any:
            self.drains.occupied(mask, job.booked_until, now)

    def give_back_nodes(self, job: Job, now: Instant) -> None:
        """A job is over; its booked time was given back before."""
        self._named_nodes().give_back(job.node_mask)
        if self.drains.are_any:
            self.drains.vacated(job.node_mask, now)

    def count_idle(self, now: Instant, unused: int) -> None:
        """What the queue may start on: idle nodes without those that running reservations have not
        used yet, and without those that drain.
        """
        idle = self._named_nodes().idle
        if self.drains.are_any:
            idle &= ~self.drains.closed(now)
        self.backfill.idle = idle.bit_count() - unused

    def drain_for(
        self, reservation: Reservation, names: Iterable[str], drain_s: int | None
    ) -> NodeDrain:
        """The drain of a reservation of named nodes. ``drain_s``: no job has a longer limit."""
        named, mask = self._named_nodes(), 0
        for name in names:
            mask |= named.bit_of(name)
        start = reservation.start
        return NodeDrain(
            reservation_id=reservation.reservation_id,
            mask=mask,
            start=start,
            end=reservation.end,
            drain_from=0 if drain_s is None else start - drain_s,
        )

    def begin_drain(self, drain: NodeDrain, running: Iterable[Job], now: Instant) -> None:
        """Jobs are kept off the nodes of a reservation that is in the profile."""
        jobs = [(job.node_mask, job.booked_until) for job in running if job.class_name == self.name]
        self.drains.add(drain, jobs, self._named_nodes().down, now)
        self.backfill.availability_shrank()

    def end_drain(self, reservation_id: str, now: Instant) -> None:
        """The reservation of named nodes is over or cancelled."""
        self.drains.drop(reservation_id)
        self.backfill.availability_grew(now, FAR)

    @property
    def nodes_up(self) -> int:
        """Nodes of the class that are not down."""
        down = 0 if self.nodes is None else self.nodes.down.bit_count()
        return self.profile.capacity - down

    def remove(self, job: Job) -> None:
        """A waiting job leaves the queue without having started."""
        if job in self.set_aside:
            self.set_aside.remove(job)
        else:
            self.backfill.drop_planned_start(job)
            self.queue.remove(job)

    def node_down(self, name: str, now: Instant) -> int:
        """A node leaves the plan, promised or not; its bit. Twice is the same as once."""
        names = self._named_nodes()
        bit = names.bit_of(name)
        if not names.down & bit:
            names.down |= bit
            names.idle &= ~bit
            self.profile.advance(now)
            self.profile.withdraw(1, now, None)
            self.drains.failed(names.down, now)
            self.backfill.availability_shrank()
        return bit

    def node_up(self, name: str, now: Instant) -> int:
        """A node is back in the plan; its bit. Whether it is idle is for the caller to say."""
        names = self._named_nodes()
        bit = names.bit_of(name)
        if names.down & bit:
            names.down &= ~bit
            self.profile.advance(now)
            self.profile.unbook(1, now, None)
            self.drains.failed(names.down, now)
            self.backfill.availability_grew(now, FAR)
        return bit

    def set_back(self, running: Iterable[Job], now: Instant) -> None:
        """See ``LocalScheduler.set_back``: what runs, what failed, drains, then the
        queue's places.
        """
        profile = self.profile
        if self.nodes is not None:
            profile.withdraw(self.nodes.down.bit_count(), now, None)
        for job in running:
            if job.is_booked and job.booked_until > now:
                profile.withdraw(job.nodes, now, job.booked_until)
        if self.shortpool is not None:
            self.shortpool.forget()
        self.drains.set_back(now)
        self.backfill.set_back([*self.queue.jobs, *self.set_aside], now)
        self.queue.is_reordered = True

    def _named_nodes(self) -> NodeNames:
        if self.nodes is None:
            raise InputError(f"the nodes of class {self.name!r} have no names")
        return self.nodes

    def validate(self, running: Sequence[Job]) -> None:
        """Assert that names agree with running jobs and every planned start is a queued job's."""
        self.profile.validate()
        if self.nodes is not None:
            used = 0
            for job in running:
                assert job.node_mask.bit_count() == job.nodes, f"{job} has its nodes"
                assert not used & job.node_mask, "no node runs two jobs"
                used |= job.node_mask
            assert not used & self.nodes.idle, "a node is idle or busy, not both"
