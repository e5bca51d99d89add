"""Compression: after nodes have come free each waiting job, in turn, moves to its earliest start;
none gets later.

The plain loop searches the whole plan for every job. Two facts, neither of which changes an answer,
spare part of that:

1. A job that could not start earlier when it was last measured still cannot, unless a second that
   was in its way has gained free nodes since. So only the *loose stretch* is looked at, the hull of
   all that became free, and not at all by jobs that need more nodes than any second of it has.
2. A move only books and gives back what old and new time do not share
   (``AvailabilityProfile.move``).

A move frees nodes. Later jobs of the pass see that at once, earlier ones in the next pass, as
in the plain loop: published schedulers agree on that to the last job, so it is kept exactly.

A long queue would still cost a search for each job (0.3 ms each with 10,000 jobs planned), so a
pass may be bounded: then the first jobs and a part of the others, taken in turn, are searched for,
and the rest are only asked whether they can start now. Nobody's start gets later by that; the far
end of the plan is a few cycles less tight.

Tried and left out, because it gained nothing on the logs: remembering demands that were found to
have no start, since queues by priority ask for less and less as the pass goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gridtravel.gridcore.timing.instants import Instant

if TYPE_CHECKING:
    from gridtravel.gridcore.capacity.profile import AvailabilityProfile
    from gridtravel.local_sched.scheduling.jobs import Job

FAR = 1 << 62
"""Later than any instant that is ever compared with it; never stored as a time."""


class Compression:
    """The loose stretch between passes, and the pass itself."""

    __slots__ = ("_loose_from", "_loose_until", "_turn", "jobs_max")

    def __init__(self, jobs_max: int | None) -> None:
        self.jobs_max = jobs_max
        """Jobs searched for in one pass; ``None``: all."""
        self._loose_from = FAR
        self._loose_until = -FAR
        self._turn = 0
        """Position in the queue where the next bounded pass takes up the jobs behind the first."""

    def availability_grew(self, start: Instant, end: Instant) -> None:
        """Nodes came free in ``[start, end)`` ahead of plan."""
        if start < end:
            if start < self._loose_from:
                self._loose_from = start
            if end > self._loose_until:
                self._loose_until = end

    def run(
        self,
        profile: AvailabilityProfile,
        jobs: Sequence[Job],
        now: Instant,
        plan_start: Callable[[Job, Instant], None],
    ) -> Instant:
        """One pass over the queue in order. Returns the earliest new start, ``FAR`` when nobody
        moved.

        ``find_place`` is called for jobs that are not planned.
        """
        if profile.names_nodes:
            return self._choose_anew(profile, jobs, now, plan_start)
        searched, others = self._share_out(jobs)
        loose_from, loose_until = max(self._loose_from, now), self._loose_until
        left_from, left_until = FAR, -FAR
        earliest = FAR
        peak = profile.max_free(loose_from, loose_until) if loose_from < loose_until else 0
        earlier = profile.earlier
        for job in searched:
            planned = job.planned_start
            if planned is None:
                plan_start(job, now)
                continue
            nodes = job.nodes
            if nodes > peak or planned <= loose_from:
                continue
            limit_s = job.limit_s
            first = loose_from - limit_s + 1
            start = earlier(nodes, limit_s, now if first < now else first, planned, loose_until)
            if start >= planned:
                continue
            left_peak = profile.move(nodes, limit_s, planned, start)
            job.planned_start = job.promised_start = start
            if start < earliest:
                earliest = start
            left = planned if planned > start + limit_s else start + limit_s
            left_from = min(left_from, left)
            left_until = max(left_until, planned + limit_s)
            loose_from, loose_until = min(loose_from, left_from), max(loose_until, left_until)
            peak = max(peak, left_peak)
        if others:
            self.availability_grew(left_from, left_until)
            return min(earliest, self._start_at_once(profile, others, now, plan_start))
        self._loose_from, self._loose_until = left_from, left_until
        return earliest

    def _choose_anew(
        self,
        profile: AvailabilityProfile,
        jobs: Sequence[Job],
        now: Instant,
        plan_start: Callable[[Job, Instant], None],
    ) -> Instant:
        """The plain loop, where bookings keep their nodes: each job gives up start and nodes and
        takes the earliest start and the lowest nodes, also when its start stays."""
        for job in jobs:
            if job.planned_start is not None:
                end = job.planned_start + job.limit_s
                profile.unbook(job.nodes, job.planned_start, end)
                job.planned_start = None
            plan_start(job, now)
        return min(
            (job.planned_start for job in jobs if job.planned_start is not None), default=FAR
        )

    def _share_out(self, jobs: Sequence[Job]) -> tuple[Sequence[Job], Sequence[Job]]:
        """Whom this pass searches for, in order, and who is only asked whether he can start now."""
        most = self.jobs_max
        if most is None or len(jobs) <= most:
            return jobs, ()
        first = most - most // 2
        begin = self._turn if first <= self._turn < len(jobs) else first
        end = begin + most // 2
        self._turn = end
        return [*jobs[:first], *jobs[begin:end]], [*jobs[first:begin], *jobs[end:]]

    def _start_at_once(
        self,
        profile: AvailabilityProfile,
        jobs: Sequence[Job],
        now: Instant,
        plan_start: Callable[[Job, Instant], None],
    ) -> Instant:
        """Move to ``now`` whoever fits there beside all the others; a test each, no search."""
        availability = profile.free_at(now)
        moved = FAR
        for job in jobs:
            planned = job.planned_start
            if planned is None:
                plan_start(job, now)
                availability = profile.free_at(now)
                continue
            nodes = job.nodes
            if nodes > availability or planned <= now:
                continue
            end = now + job.limit_s
            if profile.fits(nodes, now, end if end < planned else planned):
                profile.move(nodes, job.limit_s, planned, now)
                self.availability_grew(planned if planned > end else end, planned + job.limit_s)
                job.planned_start = job.promised_start = moved = now
                availability = profile.free_at(now)
        return moved
