"""What a policy is shown, and what the site makes of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.admission.admit import admit
from gridtravel.local_sched.admission.registry import BACKFILLING, policy_named
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, QueueView
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason, Wishes
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from tests.support.scheduler_worlds import SmallSite

submissions = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=8)


def view_of(site: SmallSite) -> QueueView:
    """What a policy of its one class would be shown."""
    scheduler = site.scheduler
    return queue_view(scheduler.pools["node"], scheduler.running.values(), site.now)


@pytest.mark.parametrize("name", BACKFILLING)
@given(submissions=submissions)
def test_a_view_is_the_queue_and_changes_nothing(
    name: str, submissions: list[tuple[int, int]]
) -> None:
    """Everybody who waits is in it, in the order of the queue; looking twice is looking once."""
    policy = BACKFILLING[name]
    site = SmallSite(SchedulerConfig(order=policy.order, backfill=policy.backfill))
    for nodes, limit_s in submissions:
        site.submit(nodes, limit_s)
    site.cycle()
    before = site.calendar.free["node"].steps()
    view = view_of(site)
    pool = site.scheduler.pools["node"]
    assert [job.job_id for job in view.waiting] == [job.job_id for job in pool.in_order(site.now)]
    assert sorted(job.job_id for job in view.waiting) == sorted(site.scheduler.waiting)
    assert view_of(site) == view
    assert site.calendar.free["node"].steps() == before


def test_room_of_a_view_is_without_waiting_jobs() -> None:
    """A policy plans the whole queue anew; only what runs and what is reserved is in its way."""
    site = SmallSite()
    site.submit(3, 100)
    site.submit(4, 50)
    site.cycle()
    view = view_of(site)
    assert view.availability() == AvailabilityProfile.from_steps(4, [(0, 1), (100, 4)])
    assert [(job.job_id, job.work_s) for job in view.running] == [("j1", 100)]


def test_what_is_shown_of_a_job_follows_it() -> None:
    """It is made once, and anew when anything of it is another."""
    job = Job("1", 2, 10, 0, "ann", "x", "node")
    shown = policy_job(job)
    assert policy_job(job) is shown
    for name, value in (
        ("deadline", 50),
        ("started_at", 3),
        ("sequence", 7),
        ("limit_s", 20),
        ("nodes", 3),
        ("wishes", Wishes(estimate_s=5.0, budget=9.0, is_restartable=True)),
    ):
        setattr(job, name, value)
        assert policy_job(job) != shown, name
        shown = policy_job(job)
    assert (shown.deadline, shown.work_s, shown.budget, shown.is_restartable) == (50, 5, 9, True)


@dataclass(frozen=True)
class SmallJobsOnly:
    """Admits small jobs only, with a deadline."""

    def admit(self, view: QueueView, job: PolicyJob) -> Admitted | Decline:
        """Two nodes at most."""
        if job.nodes > 2:
            return Decline(rule=DeclineRule.POLICY, message="too wide", nodes_now=2)
        return Admitted(deadline=view.now + 10 * job.limit_s)

    def prioritise(self, view: QueueView) -> Sequence[str] | None:
        """In the queue's order."""
        del view
        return None

    def gives_up(self, job: PolicyJob, now: Instant) -> str:
        """Nobody leaves."""
        del job, now
        return ""


def test_admission_asks_the_policy_last_and_keeps_its_deadline() -> None:
    """The site's caps come first; the policy's refusal is passed on; its promise goes into the
    job.
    """
    site = SmallSite(SchedulerConfig(policy=SmallJobsOnly()))
    spec = JobSpec(request_id="a", name="n", account="x", nodes=2, limit_s=5, argv=("true",))
    job = admit(site.scheduler, spec, "ann", "1", 0)
    assert isinstance(job, Job)
    assert job.deadline == 50
    assert policy_job(job).deadline == 50
    wide = JobSpec(request_id="b", name="n", account="x", nodes=3, limit_s=5, argv=("true",))
    refused = admit(site.scheduler, wide, "ann", "2", 0)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.POLICY


@dataclass(frozen=True)
class LastComeFirst(SmallJobsOnly):
    """Serves whoever came last, and nobody who has waited for a minute."""

    def prioritise(self, view: QueueView) -> Sequence[str] | None:
        """Backwards."""
        return [job.job_id for job in sorted(view.waiting, key=lambda job: -job.sequence)]

    def gives_up(self, job: PolicyJob, now: Instant) -> str:
        """A minute is the most."""
        return "it waited too long" if now - job.submitted_at > 60 else ""


@given(submissions=submissions, fifth=st.integers(1, 4))
def test_a_policy_orders_its_queue(submissions: list[tuple[int, int]], fifth: int) -> None:
    """The queue is served in the order that the policy says, whatever order it would have had;
    whoever is put on hold meanwhile is passed over and comes back into his turn.
    """
    backfill = BackfillRule(depth=0)
    site = SmallSite(SchedulerConfig(backfill=backfill, policy=LastComeFirst()))
    blocker = site.submit(4, 100)
    site.cycle()
    jobs = [site.submit(nodes, limit_s) for nodes, limit_s in submissions]
    held = jobs[fifth % len(jobs)]
    site.scheduler.hold(held.job_id, WaitReason.HELD)
    site.cycle(1)
    others = [job.job_id for job in reversed(jobs) if job is not held]
    assert [job.job_id for job in site.scheduler.pools["node"].queue.jobs] == others
    site.scheduler.hold(held.job_id, None)
    site.cycle(2)
    assert [job.job_id for job in site.scheduler.pools["node"].queue.jobs] == [
        job.job_id for job in reversed(jobs)
    ]
    site.now = 3
    site.end(blocker)
    assert jobs[-1] in site.cycle(3).starts


def test_a_policy_gives_a_job_up() -> None:
    """It leaves the queue with its reason, as if it had been cancelled, on hold or not; what runs
    stays.
    """
    site = SmallSite(SchedulerConfig(policy=LastComeFirst()))
    runs = site.submit(4, 1000)
    site.cycle()
    waits, held = site.submit(1, 10), site.submit(1, 10)
    site.scheduler.hold(held.job_id, WaitReason.HELD)
    assert list(site.cycle(60).given_up) == []
    assert list(site.cycle(61).given_up) == [
        (waits, "it waited too long"),
        (held, "it waited too long"),
    ]
    assert waits.state is JobState.CANCELLED
    assert list(site.scheduler.running) == [runs.job_id]
    assert not site.scheduler.waiting
    assert list(site.cycle(62).given_up) == []


def test_unknown_policy_names_the_known() -> None:
    """One dictionary, and a mistake lists it."""
    assert policy_named("easy").backfill.depth == 1
    with pytest.raises(InputError, match="conservative"):
        policy_named("magic")
