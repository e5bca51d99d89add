"""A workload served by slotted schedulers in virtual time: one cluster, or several below a manager.

As in ``loop``, the driver owns time and the true run times and no rule of scheduling. In one
second first all ends are told, then all arrivals, then one cycle is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from gridtravel.gridcore.booking.trade import TradeBalance
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar
from gridtravel.simulator.imprecise.slotted_scheduler import SlottedScheduler
from gridtravel.simulator.imprecise.slotted_tree import PromotionRule, SlottedTree
from gridtravel.simulator.replay.swf import TraceJob

PROGRESS_JOBS: Final = 500
"""Jobs between two calls of the progress function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlottedRun:
    """What came of a workload; the lists run beside its jobs."""

    starts: list[Instant]
    places: list[str]
    """The member each job ran on."""
    trade: dict[str, TradeBalance]
    promoted: int
    """Jobs that were the manager's."""
    slots_max: int
    """Most slots one calendar ever had, as far as sampled at every arrival."""
    steps_max: int
    """Most steps one profile ever held, sampled likewise: what is really in memory."""


def serve(
    jobs: Sequence[tuple[str, TraceJob]],
    members: Sequence[tuple[str, int]],
    ladder: SlotLadder,
    rule: PromotionRule | None = None,
    progress: Callable[[int], None] | None = None,
) -> SlottedRun:
    """Serve ``jobs``, each with its home, in order of submission, on empty ``members`` (name,
    nodes).

    ``progress`` is called with the number of jobs submitted so far. ``InputError`` when a job fits
    nowhere.
    """
    world = _World(jobs, members, ladder, rule or PromotionRule())
    world.run(progress)
    if -1 in world.starts:
        stuck = jobs[world.starts.index(-1)][1]
        raise InputError(f"job {stuck.job_id} can never start on any member")
    return SlottedRun(
        starts=world.starts,
        places=world.places,
        trade=world.tree.trade.accounts,
        promoted=world.tree.promoted_count,
        slots_max=world.slots_max,
        steps_max=world.steps_max,
    )


class _World:
    """Clusters and their users: they submit, and their jobs end when they truly end."""

    def __init__(
        self,
        jobs: Sequence[tuple[str, TraceJob]],
        members: Sequence[tuple[str, int]],
        ladder: SlotLadder,
        rule: PromotionRule,
    ) -> None:
        self.jobs = jobs
        origin = jobs[0][1].submit if jobs else 0
        self.tree = SlottedTree(
            {
                name: SlottedScheduler(ImpreciseCalendar(nodes, ladder, origin))
                for name, nodes in members
            },
            rule,
        )
        self.starts: list[Instant] = [-1] * len(jobs)
        self.places = [""] * len(jobs)
        self.ends: list[tuple[Instant, int]] = []
        self.arrived = 0
        self.slots_max = 0
        self.steps_max = 0

    def run(self, progress: Callable[[int], None] | None) -> None:
        """Until every job is over."""
        jobs, ends, tree = self.jobs, self.ends, self.tree
        total = len(jobs)
        wakeup: Instant | None = None
        while self.arrived < total or ends or wakeup is not None:
            moments = [] if wakeup is None else [wakeup]
            if ends:
                moments.append(ends[0][0])
            if self.arrived < total:
                moments.append(jobs[self.arrived][1].submit)
            now = min(moments)
            while ends and ends[0][0] == now:
                tree.job_ended(str(heappop(ends)[1]), now)
            while self.arrived < total and jobs[self.arrived][1].submit == now:
                self.submit(now, progress)
            result = tree.cycle(now)
            wakeup = result.next_wakeup
            for job in result.starts:
                index = int(job.job_id)
                self.starts[index] = now
                self.places[index] = tree.places[job.job_id]
                heappush(ends, (now + jobs[index][1].run_s, index))

    def submit(self, now: Instant, progress: Callable[[int], None] | None) -> None:
        """Tell the scheduler what the next user would tell it, and no more."""
        index = self.arrived
        self.arrived = index + 1
        home, job = self.jobs[index]
        self.tree.submit(
            Job(str(index), job.procs, job.estimate_s, now, str(job.user), str(job.group), "nodes"),
            home,
        )
        calendar = self.tree.members[home].calendar
        self.slots_max = max(self.slots_max, calendar.slot_count())
        self.steps_max = max(self.steps_max, len(calendar.profile.times))
        if progress is not None and self.arrived % PROGRESS_JOBS == 0:
            progress(self.arrived)
