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
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.admission.admit import admit, policy_job, queue_view
from gridtravel.local_sched.admission.registry import BACKFILLING, policy_named
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, QueueView
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from tests.support.scheduler_worlds import SmallSite

submissions = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=8)


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
    view = queue_view(site.scheduler, "node", site.now)
    pool = site.scheduler.pools["node"]
    assert [job.job_id for job in view.waiting] == [job.job_id for job in pool.in_order(site.now)]
    assert sorted(job.job_id for job in view.waiting) == sorted(site.scheduler.waiting)
    assert queue_view(site.scheduler, "node", site.now) == view
    assert site.calendar.free["node"].steps() == before


def test_room_of_a_view_is_without_waiting_jobs() -> None:
    """A policy plans the whole queue anew; only what runs and what is reserved is in its way."""
    site = SmallSite()
    site.submit(3, 100)
    site.submit(4, 50)
    site.cycle()
    view = queue_view(site.scheduler, "node", 0)
    assert view.availability() == AvailabilityProfile.from_steps(4, [(0, 1), (100, 4)])
    assert [(job.job_id, job.work_s) for job in view.running] == [("j1", 100)]


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
    site = SmallSite()
    policy = SmallJobsOnly()
    spec = JobSpec(request_id="a", name="n", account="x", nodes=2, limit_s=5, argv=("true",))
    job = admit(site.scheduler, spec, "ann", "1", 0, policy)
    assert isinstance(job, Job)
    assert job.deadline == 50
    assert policy_job(job).deadline == 50
    wide = JobSpec(request_id="b", name="n", account="x", nodes=3, limit_s=5, argv=("true",))
    refused = admit(site.scheduler, wide, "ann", "2", 0, policy)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.POLICY


def test_unknown_policy_names_the_known() -> None:
    """One dictionary, and a mistake lists it."""
    assert policy_named("easy").backfill.depth == 1
    with pytest.raises(InputError, match="conservative"):
        policy_named("magic")
