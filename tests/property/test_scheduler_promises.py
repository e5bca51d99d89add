"""Any history of submissions, ends, cancellations and user-settable reservations keeps every
promise.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from tests.support.scheduler_worlds import CONSERVATIVE, EASY, FCFS, REPLAN, SmallSite

NODES = 4
BOUNDED = SchedulerConfig(backfill=BackfillRule(compression_jobs_max=2))
POLICIES = {
    "conservative": CONSERVATIVE,
    "bounded": BOUNDED,
    "easy": EASY,
    "fcfs": FCFS,
    "replan": REPLAN,
}

STEPS_MAX = 30

steps = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, NODES), st.integers(1, 30), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(st.just("cancel"), st.integers(0, 5)),
    st.tuples(st.just("reserve"), st.integers(1, NODES), st.integers(1, 20), st.integers(0, 40)),
    st.tuples(st.just("release"), st.integers(0, 3)),
    st.tuples(st.just("pass"), st.integers(1, 15)),
)
histories = st.lists(steps, max_size=STEPS_MAX)


class World:
    """A site, the reservations it has promised, and the places it has told."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.site = SmallSite(config, NODES)
        self.reservations: list[Reservation] = []
        self.places: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.keeps = config.backfill.keeps_planned_starts and config.backfill.depth is None

    def do(self, step: tuple[Any, ...]) -> None:
        """One step of a history, then a cycle, then every check."""
        site = self.site
        match step:
            case ("submit", nodes, limit_s, uses_all):
                job = site.submit(nodes, limit_s)
                self.ends[job.job_id] = limit_s if uses_all else max(1, limit_s // 2)
            case ("end", which):
                running = site.running()
                if which < len(running):
                    site.end(site.scheduler.running[running[which]])
            case ("cancel", which):
                waiting = list(site.scheduler.waiting)
                if which < len(waiting):
                    site.scheduler.cancel(waiting[which], site.now)
                    self.places.pop(waiting[which], None)
            case ("reserve", nodes, duration_s, ahead_s):
                self.reserve(nodes, duration_s, site.now + ahead_s)
            case ("release", which):
                if which < len(self.reservations):
                    site.release(self.reservations.pop(which))
            case ("pass", seconds):
                for _ in range(seconds):
                    self.second()
        self.cycle()

    def reserve(self, nodes: int, duration_s: int, earliest: int) -> None:
        """The central promise: nobody's planned start is later because of it, not by a second."""
        site = self.site
        before = site.scheduler.plan_of_queue("node", site.now)[1]
        answer = site.reserve(nodes, duration_s, earliest)
        assert site.scheduler.plan_of_queue("node", site.now)[1] == before
        if isinstance(answer, Reservation):
            self.reservations.append(answer)

    def second(self) -> None:
        """One second passes; what has run its true time, or its limit, ends."""
        site = self.site
        site.now += 1
        for job in list(site.scheduler.running.values()):
            assert job.started_at is not None
            if site.now >= job.started_at + self.ends[job.job_id]:
                site.end(job)
        self.cycle()

    def cycle(self) -> None:
        """The scheduler decides; nothing promised may be broken."""
        site = self.site
        result = site.cycle()
        assert result.stops == [], "nobody is stopped: every job ends by its limit"
        profile = site.calendar.free["node"]
        assert min(profile.free) >= 0, "no second is over-committed"
        self.check_rooms()
        if self.keeps:
            for job in [*site.scheduler.waiting.values(), *result.starts]:
                self.check_place(job)

    def check_rooms(self) -> None:
        """What runs and what is reserved at this second fits the machine, and reservations find
        idle nodes.
        """
        site = self.site
        used = sum(job.nodes for job in site.scheduler.running.values())
        reserved = sum(
            each.nodes for each in site.calendar.live() if each.start <= site.now < each.end
        )
        assert used + reserved <= NODES, "no reservation starts late: its nodes are idle"

    def check_place(self, job: Job) -> None:
        """A place told is a promise: the job starts then or earlier."""
        place = job.started_at if job.started_at is not None else job.planned_start
        assert place is not None
        assert place <= self.places.get(job.job_id, place), f"{job} got later"
        self.places[job.job_id] = place

    def drain(self) -> None:
        """Nothing starves: with no newcomers, everybody has started after the sum of all
        demands.
        """
        patience_s = sum(job.limit_s for job in self.site.scheduler.waiting.values())
        patience_s += sum(each.interval.duration_s for each in self.reservations) + 200
        for _ in range(patience_s):
            if not self.site.scheduler.waiting:
                break
            self.second()
        assert not self.site.scheduler.waiting


@pytest.mark.parametrize("policy", POLICIES)
@given(history=histories)
def test_promises_hold_in_any_history(policy: str, history: list[tuple[Any, ...]]) -> None:
    """No over-commitment, no late reservation, no broken place, no delay by reservations, no
    starvation.
    """
    world = World(POLICIES[policy])
    for step in history:
        world.do(step)
    world.drain()
