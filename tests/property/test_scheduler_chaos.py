"""Anything may happen to a live site, in any order: nothing breaks, and no node ever runs two
jobs.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import (
    JobLimits,
    OverrunRule,
    SchedulerConfig,
    SchedulerMode,
)
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.priority import PriorityRule, by_priority
from gridtravel.local_sched.scheduling.queries import why
from tests.support.scheduler_worlds import SmallSite

NODES = 4
OVERRUN = OverrunRule(step_s=3, grace_s=5)
CONFIGS = {
    "conservative": SchedulerConfig(overrun=OVERRUN),
    "easy": SchedulerConfig(overrun=OVERRUN, backfill=BackfillRule(depth=1)),
    "depth-2": SchedulerConfig(overrun=OVERRUN, backfill=BackfillRule(depth=2)),
    "replan": SchedulerConfig(overrun=OVERRUN, backfill=BackfillRule(keeps_planned_starts=False)),
    "priority": SchedulerConfig(overrun=OVERRUN, order=by_priority(PriorityRule(nodes_full=NODES))),
    "limited": SchedulerConfig(overrun=OVERRUN, limits=JobLimits(limit_max_s=20)),
    "capped": SchedulerConfig(
        overrun=OVERRUN,
        limits=JobLimits(jobs_running_max_per_user=2, nodes_running_max_per_account=3),
    ),
}

steps = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, NODES), st.integers(1, 20), st.integers(0, 3)),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("requeue"), st.integers(0, 5)),
    st.tuples(st.just("reserve"), st.integers(1, NODES), st.integers(1, 20), st.integers(0, 20)),
    st.tuples(
        st.just("fix"),
        st.sets(st.integers(0, NODES - 1), min_size=1),
        st.integers(0, 25),
        st.integers(1, 12),
    ),
    st.tuples(st.just("release"), st.integers(0, 3)),
    st.tuples(st.just("bind"), st.integers(0, 3), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("list"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.just("hold"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("node"), st.integers(0, NODES - 1), st.booleans()),
    st.tuples(st.just("mode"), st.sampled_from(SchedulerMode)),
    st.tuples(st.just("pass"), st.integers(1, 12)),
)


def pick(things: list[Any], which: int) -> Any:
    """One of them, or ``None``."""
    return things[which] if which < len(things) else None


class Chaos:
    """A site, and whatever is done to it."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.site = SmallSite(config, NODES)
        self.reservations: list[Reservation] = []

    def do(self, step: tuple[Any, ...]) -> None:
        """One step; then a cycle, with every check."""
        site, scheduler = self.site, self.site.scheduler
        waiting = list(scheduler.waiting.values())
        match step:
            case ("submit", nodes, limit_s, which):
                reservation = pick(self.reservations, which)
                owner = "ann" if nodes % 2 else "bob"
                bound_to = reservation.reservation_id if reservation else ""
                site.submit(nodes, limit_s, owner=owner, bound_to=bound_to)
            case ("end", which):
                if job := pick(list(scheduler.running.values()), which):
                    site.end(job)
            case ("requeue", which):
                if job := pick(list(scheduler.running.values()), which):
                    scheduler.requeue(job.job_id, site.now)
            case ("cancel", which):
                if job := pick(waiting, which):
                    scheduler.cancel(job.job_id, site.now)
            case ("reserve", nodes, duration_s, ahead_s):
                answer = site.reserve(nodes, duration_s, site.now + ahead_s)
                if isinstance(answer, Reservation):
                    self.reservations.append(answer)
            case ("fix", nodes, ahead_s, duration_s):
                names = [f"node-{each}" for each in sorted(nodes)]
                answer = site.fix(names, site.now + ahead_s, duration_s)
                if isinstance(answer, Reservation):
                    self.reservations.append(answer)
            case ("release", which):
                if which < len(self.reservations):
                    site.release(self.reservations.pop(which))
            case ("bind", which, reserved, is_bound):
                reservation, job = pick(self.reservations, reserved), pick(waiting, which)
                if job and reservation:
                    targets = [reservation.reservation_id] if is_bound else []
                    scheduler.bind_job(job.job_id, targets, site.now)
            case ("list", which, reserved):
                if reservation := pick(self.reservations, reserved):
                    jobs = [each.job_id for each in waiting[:which]]
                    scheduler.bind_reservation(reservation.reservation_id, jobs)
            case ("hold", which, is_held):
                if job := pick(waiting, which):
                    scheduler.hold(job.job_id, WaitReason.HELD if is_held else None)
            case ("node", which, is_up):
                change = scheduler.node_up if is_up else scheduler.node_down
                change("node", f"node-{which}", site.now)
            case ("mode", mode):
                scheduler.mode = mode
            case ("pass", seconds):
                for _ in range(seconds):
                    site.now += 1
                    self.cycle()
        self.cycle()

    def cycle(self) -> None:
        """Nothing over-committed that was not lost or overrun, every reason told, and it is
        idempotent.
        """
        site = self.site
        running_before = set(site.scheduler.running)
        result = site.cycle()
        for job in result.starts:
            assert job.job_id not in running_before
            self.check_start(job)
        again = site.scheduler.cycle(site.now)
        assert again.starts == [], "a second cycle at once has nothing to add"
        assert result.next_wakeup is None or result.next_wakeup > site.now
        used = sum(job.nodes for job in site.scheduler.running.values())
        assert used <= NODES
        for job_id in site.scheduler.waiting:
            assert why(site.scheduler, job_id, site.now).reason

    def check_start(self, job: Job) -> None:
        """It has its nodes by name, and inside a reservation it stays within it."""
        assert len(self.site.scheduler.node_names(job)) == job.nodes
        assert self.site.scheduler.mode is SchedulerMode.RUNNING
        if job.reservation_id:
            reservation = self.site.calendar.reservations[job.reservation_id]
            assert reservation.start <= self.site.now < reservation.end
            assert job.booked_until <= reservation.end
        else:
            assert not job.bound_to, "a bound job runs inside and nowhere else"
            assert job.hold_reason is None


@pytest.mark.parametrize("name", CONFIGS)
@given(history=st.lists(steps, min_size=5, max_size=50))
def test_nothing_breaks_in_any_history(name: str, history: list[tuple[Any, ...]]) -> None:
    """Submissions, bindings, overruns, failures, repairs, holds, modes, drains, in any order."""
    chaos = Chaos(CONFIGS[name])
    for step in history:
        chaos.do(step)
