"""Two levels of slotted schedulers: clusters, and a manager that may place a job on any of them.

Calendar paper, section 2.3 and the studies 3.2 and 3.3. A job is its home cluster's own affair
unless the rule promotes it: because it is large or long, because home is too small for it, or
because home's first slot is too far off. A promoted job goes to the member with the earliest first
fit, whole: it is never spread over members.

Backfill goes from the top down: where room has appeared, first the manager's jobs in order, which
may move to another member for it, then each member's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.trade import TradeBook
from gridtravel.gridcore.capacity.slot_grid import NEVER
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.simulator.imprecise.slotted_scheduler import SlottedCycle, SlottedScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.local_sched.scheduling.jobs import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionRule:
    """Which jobs a member hands to the manager; ``None`` switches a reason off."""

    nodes_max: int | None = None
    """More nodes than this are promoted."""
    duration_min_s: int | None = None
    """So long or longer is promoted."""
    patience_s: int | None = None
    """A first slot further off than this is too far: the job is bumped up."""

    def __post_init__(self) -> None:
        for bound in (self.nodes_max, self.duration_min_s, self.patience_s):
            if bound is not None and bound < 0:
                raise InputError(f"a bound of promotion cannot be negative: {bound}")

    def promotes(self, job: Job) -> bool:
        """True when the job is of the manager's kind, however free home is."""
        return (self.nodes_max is not None and job.nodes > self.nodes_max) or (
            self.duration_min_s is not None and job.limit_s >= self.duration_min_s
        )


class SlottedTree:
    """Members by name, in the order in which the last tie between them is broken."""

    def __init__(self, members: Mapping[str, SlottedScheduler], rule: PromotionRule) -> None:
        if not members:
            raise InputError("a tree needs at least one member")
        self.members = dict(members)
        self.rule = rule
        self.trade = TradeBook(tuple(self.members))
        self.homes: dict[str, str] = {}
        """Home of each job that is not over, by job id."""
        self.places: dict[str, str] = {}
        """The member that runs it or will; differs from home only for promoted jobs."""
        self.promoted: dict[str, Job] = {}
        """The manager's jobs that wait, in order of arrival."""
        self.promoted_count = 0
        self._arrivals: list[Job] = []
        self._wakeups = dict.fromkeys(self.members, NEVER)
        """When each member has to be looked at, if nothing happens to it before."""

    # -- what the users and the nodes report -------------------------------------------------------

    def submit(self, job: Job, home: str) -> None:
        """A job has come to its home cluster; the next cycle gives it its place."""
        if home not in self.members:
            raise NotFoundError(f"no member {home!r}", hint="name one that is there")
        self.homes[job.job_id] = home
        self._arrivals.append(job)

    def job_ended(self, job_id: str, now: Instant) -> Job:
        """A running job is over; its node-seconds are lent, borrowed or local from now on."""
        place = self.places.get(job_id)
        if place is None:
            raise NotFoundError(f"no running job {job_id!r}", hint="name one that is there")
        job = self.members[place].job_ended(job_id, now)
        del self.places[job_id]
        started = now if job.started_at is None else job.started_at
        self.trade.record(place, self.homes.pop(job_id), job.nodes * (now - started))
        self._wakeups[place] = now
        return job

    # -- the cycle ---------------------------------------------------------------------------------

    def cycle(self, now: Instant) -> SlottedCycle:
        """Refine all, backfill from the top down, place who came, start who is due."""
        for job in self._arrivals:
            self._wakeups[self.homes[job.job_id]] = now
        is_quiet = not self._arrivals and not self.promoted
        due = [name for name in self.members if self._wakeups[name] <= now or not is_quiet]
        for name in due:
            self.members[name].advance(now)
        self._backfill_promoted(now)
        for name in due:
            member = self.members[name]
            if member.calendar.has_new_room:
                member.backfill([each for each in member.waiting if each not in self.promoted])
        for job in self._arrivals:
            self._place(job, now)
        self._arrivals.clear()
        starts: list[Job] = []
        for name in due:
            member = self.members[name]
            starts.extend(member.start_due(now))
            wakeup = member.next_wakeup()
            self._wakeups[name] = NEVER if wakeup is None else wakeup
        for job in starts:
            self.promoted.pop(job.job_id, None)
        wakeup = min(self._wakeups.values())
        return SlottedCycle(starts, None if wakeup >= NEVER else wakeup)

    # -- inside ------------------------------------------------------------------------------------

    def _place(self, job: Job, now: Instant) -> None:
        home = self.homes[job.job_id]
        member = self.members[home]
        rule = self.rule
        start = member.first_start(job)
        is_late = rule.patience_s is not None and start is not None
        if is_late and start is not None and rule.patience_s is not None:
            is_late = start > member.calendar.grid.ceil(now) + rule.patience_s
        if start is not None and not is_late and not rule.promotes(job):
            self._put(job, home, start)
            return
        found = self._best(job, NEVER if start is None else start, home)
        if found is None and start is None:
            del self.homes[job.job_id]
            return
        self.promoted[job.job_id] = job
        self.promoted_count += 1
        self._put(job, *(found or (home, start or now)))

    def _put(self, job: Job, name: str, start: Instant) -> None:
        self.members[name].place(job, start)
        self.places[job.job_id] = name

    def _best(
        self, job: Job, before: Instant, home: str, *, only_new: bool = False
    ) -> tuple[str, Instant] | None:
        """The member with the earliest first fit before ``before``.

        On a tie home, then the smallest, where least room is spoilt for large jobs, then who has
        lent least so far (the paper's prototype favoured low numbers, footnote 3), then the order
        of the members.
        """
        best: tuple[tuple[Instant, bool, int, int], str] | None = None
        for name, member in self.members.items():
            if only_new and not member.calendar.has_new_room:
                continue
            start = member.first_start(job, before)
            if start is not None:
                lent = self.trade.accounts[name].lent
                rank = (start, name != home, member.calendar.nodes, lent)
                if best is None or rank < best[0]:
                    best = rank, name
                before = min(before, start + 1)
        return None if best is None else (best[1], best[0][0])

    def _backfill_promoted(self, now: Instant) -> None:
        """The manager's turn: each of its jobs in order, to the earliest place on any member."""
        members = self.members
        if not any(member.calendar.has_new_room for member in members.values()):
            return
        for job_id, job in self.promoted.items():
            place = self.places[job_id]
            member = members[place]
            planned = member.calendar.bookings[job_id].start
            if planned <= now:
                continue
            here = member.calendar.earlier_start(job_id)
            found = self._best(job, here, self.homes[job_id], only_new=True)
            if found is not None:
                member.give_up(job)
                self._put(job, *found)
            elif here < planned:
                member.calendar.move(job_id, here)
                member.moved(job, here)
