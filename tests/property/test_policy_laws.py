"""The laws every policy answers to, whatever it decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.policies.admission import admit
from gridtravel.local_sched.policies.policy import (
    POLICIES,
    Admitted,
    BackfillPolicy,
    Placement,
    PolicyJob,
    SiteView,
    policy_named,
    site_view,
    view_of_waiting,
)
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job
from tests.support.scheduler_worlds import SmallSite

submissions = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=8)


@pytest.mark.parametrize("name", POLICIES)
@given(submissions=submissions)
def test_policies_answer_from_the_view_alone(name: str, submissions: list[tuple[int, int]]) -> None:
    """Priorities are a permutation of the queue and the queue's own order; asking twice is asking
    once; nothing in the site changes."""
    policy = POLICIES[name]
    site = SmallSite(SchedulerConfig(order=policy.order, backfill=policy.backfill))
    for nodes, limit_s in submissions:
        site.submit(nodes, limit_s)
    site.cycle()
    before = site.calendar.free["node"].steps()
    view = site_view(site.scheduler, "node", site.now)
    order = policy.prioritise(view)
    assert order == tuple(job.job_id for job in view.waiting)
    assert sorted(order) == sorted(site.scheduler.waiting)
    assert policy.prioritise(view) == order
    job = PolicyJob(job_id="new", nodes=1, limit_s=5, submitted_at=0, sequence=99)
    assert policy.admit(view, job) == Admitted()
    assert policy.place(view, job) is None
    assert site.calendar.free["node"].steps() == before
    assert site_view(site.scheduler, "node", site.now) == view


def test_room_of_a_view_is_without_waiting_jobs() -> None:
    """A policy plans the whole queue anew; only what runs and what is reserved is in its way."""
    site = SmallSite()
    site.submit(3, 100)
    site.submit(4, 50)
    site.cycle()
    view = site_view(site.scheduler, "node", 0)
    assert view.availability() == AvailabilityProfile.from_steps(4, [(0, 1), (100, 4)])
    assert [(job.job_id, job.remaining_s) for job in view.running] == [("j1", 100)]


def test_admission_asks_the_policy_last_and_keeps_its_deadline() -> None:
    """The site's caps come first; the policy's refusal is passed on; its promise goes into the
    job.
    """

    class Strict(BackfillPolicy):
        """Admits small jobs only, with a deadline."""

        def admit(self, view: SiteView, job: PolicyJob) -> Admitted | Decline:
            if job.nodes > 2:
                return Decline(rule=DeclineRule.POLICY, message="too wide", nodes_now=2)
            return Admitted(deadline=view.now + 10 * job.limit_s)

    site = SmallSite()
    policy = Strict()
    spec = JobSpec(request_id="a", name="n", account="x", nodes=2, limit_s=5, argv=("true",))
    job = admit(site.scheduler, spec, "ann", "1", 0, policy)
    assert isinstance(job, Job)
    assert job.deadline == 50
    assert view_of_waiting(job).deadline == 50
    wide = JobSpec(request_id="b", name="n", account="x", nodes=3, limit_s=5, argv=("true",))
    refused = admit(site.scheduler, wide, "ann", "2", 0, policy)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.POLICY


def test_unknown_policy_names_the_known() -> None:
    """One dictionary, and a mistake lists it."""
    assert policy_named("easy").backfill.depth == 1
    with pytest.raises(InputError, match="conservative"):
        policy_named("magic")


@pytest.mark.parametrize(("nodes", "share"), [((), 5), ((1, 1), 5), ((1,), 0), ((1,), 1_000_001)])
def test_senseless_placements_are_refused(nodes: tuple[int, ...], share: int) -> None:
    """Each node once, and a share between nothing and all of it."""
    with pytest.raises(InputError):
        Placement(nodes=nodes, share=share)
