"""Reservations of named nodes in any history: the nodes are empty when they begin, and nobody else
pays more than the drain.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.local_sched.scheduling.config import JobLimits, SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from tests.support.scheduler_worlds import CONSERVATIVE, EASY, FCFS, REPLAN, SmallSite

NODES = 5
LIMIT_MAX_S = 12


def limited(config: SchedulerConfig) -> SchedulerConfig:
    """The same with a longest limit, so that drains are as short as that."""
    return replace(config, limits=JobLimits(limit_max_s=LIMIT_MAX_S))


POLICIES = {
    "conservative": limited(CONSERVATIVE),
    "conservative, any limit": CONSERVATIVE,
    "easy": limited(EASY),
    "easy, any limit": EASY,
    "replan": limited(REPLAN),
    "fcfs": limited(FCFS),
}

steps = st.one_of(
    st.tuples(st.just("submit"), st.integers(1, NODES), st.integers(1, LIMIT_MAX_S), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, 5)),
    st.tuples(
        st.just("fix"),
        st.sets(st.integers(0, NODES - 1), min_size=1),
        st.integers(0, 40),
        st.integers(1, 12),
    ),
    st.tuples(st.just("reserve"), st.integers(1, NODES), st.integers(1, 20), st.integers(0, 40)),
    st.tuples(st.just("release"), st.integers(0, 3)),
    st.tuples(st.just("down"), st.integers(0, NODES - 1)),
    st.tuples(st.just("up"), st.integers(0, NODES - 1)),
    st.tuples(st.just("pass"), st.integers(1, 15)),
)
histories = st.lists(steps, max_size=25)


class FixedWorld:
    """A site with reservations of both kinds."""

    def __init__(self, config: SchedulerConfig, *, has_failures: bool) -> None:
        self.site = SmallSite(config, NODES)
        self.fixed: dict[str, frozenset[str]] = {}
        self.reservations: list[Reservation] = []
        self.inside: dict[str, Job] = {}
        """The job that is to fill each reservation without names."""
        self.places: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.keeps = config.backfill.keeps_planned_starts and config.backfill.depth is None
        self.has_failures = has_failures

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
            case ("fix", nodes, ahead_s, duration_s):
                self.fix([f"node-{each}" for each in sorted(nodes)], site.now + ahead_s, duration_s)
            case ("reserve", nodes, duration_s, ahead_s):
                answer = site.reserve(nodes, duration_s, site.now + ahead_s)
                if isinstance(answer, Reservation):
                    self.reservations.append(answer)
                    job = site.submit(nodes, duration_s, bound_to=answer.reservation_id)
                    self.ends[job.job_id] = duration_s
                    self.inside[answer.reservation_id] = job
            case ("release", which):
                if which < len(self.reservations):
                    self.release(self.reservations.pop(which))
            case ("down", node) if self.has_failures:
                site.scheduler.node_down("node", f"node-{node}", site.now)
            case ("up", node) if self.has_failures:
                site.scheduler.node_up("node", f"node-{node}", site.now)
            case ("pass", seconds):
                for _ in range(seconds):
                    self.second()
        self.cycle()

    def fix(self, names: list[str], start: int, duration_s: int) -> None:
        """Its answer is remembered; waiting jobs may have lost their places by it."""
        answer = self.site.fix(names, start, duration_s)
        if isinstance(answer, Reservation):
            self.reservations.append(answer)
            self.fixed[answer.reservation_id] = frozenset(names)
            self.places.clear()  # the site's own reservations may move places

    def release(self, reservation: Reservation) -> None:
        """What runs in it is over, what waits for it is withdrawn."""
        site = self.site
        job = self.inside.pop(reservation.reservation_id, None)
        self.fixed.pop(reservation.reservation_id, None)
        site.release(reservation)
        if job is not None and job.job_id in site.scheduler.waiting:
            site.scheduler.cancel(job.job_id, site.now)
        elif job is not None and job.job_id in site.scheduler.running:
            site.end(job)

    def second(self) -> None:
        """One second passes; what has run its true time, or to the end of its room, ends."""
        site = self.site
        site.now += 1
        for job in list(site.scheduler.running.values()):
            assert job.started_at is not None
            if site.now >= min(job.started_at + self.ends[job.job_id], job.booked_until):
                site.end(job)
        self.cycle()

    def cycle(self) -> None:
        """The scheduler decides; nothing promised may be broken."""
        site = self.site
        result = site.cycle()
        self.check_named_nodes()
        if self.has_failures:
            return
        assert result.stops == []
        assert min(site.calendar.free["node"].free) >= 0, "no second is over-committed"
        live = [each for each in site.calendar.live() if each.start <= site.now < each.end]
        outside = [job for job in site.scheduler.running.values() if not job.bound_to]
        used = sum(job.nodes for job in outside)
        assert used + sum(each.nodes for each in live) <= NODES
        for each in live:
            job = self.inside.get(each.reservation_id)
            assert job is None or job.started_at == each.start, f"{job} is late"
        if self.keeps:
            for job in [*site.scheduler.waiting.values(), *result.starts]:
                if not job.bound_to:
                    self.check_place(job)

    def check_named_nodes(self) -> None:
        """Whatever runs in somebody else's named nodes now would be in the way."""
        site = self.site
        for each in site.calendar.live():
            names = self.fixed.get(each.reservation_id)
            if names is None or not each.start <= site.now < each.end:
                continue
            for job in site.scheduler.running.values():
                assert not names & set(site.scheduler.node_names(job)), f"{job} is on {names}"

    def check_place(self, job: Job) -> None:
        """A place told is a promise also where names have to be found for it."""
        place = job.started_at if job.started_at is not None else job.planned_start
        assert place is not None
        assert place <= self.places.get(job.job_id, place), f"{job} got later"
        self.places[job.job_id] = place


@pytest.mark.parametrize("has_failures", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@given(history=histories)
def test_named_nodes_are_empty_when_they_are_due(
    policy: str, has_failures: bool, history: list[tuple[Any, ...]]
) -> None:
    """Named nodes empty at the start; no over-commitment; no place later; nobody starves; and all
    room is given back in the end.
    """
    world = FixedWorld(POLICIES[policy], has_failures=has_failures)
    for step in history:
        world.do(step)
    for node in range(NODES):
        world.site.scheduler.node_up("node", f"node-{node}", world.site.now)
    for _ in range(1_500):
        waiting = [job for job in world.site.scheduler.waiting.values() if not job.bound_to]
        if not waiting and not world.site.calendar.live():
            break
        world.second()
    assert not waiting
    for _ in range(40):
        world.second()
    profile = world.site.calendar.free["node"]
    assert profile.free == [NODES], "nothing of a drain or a reservation is left"
