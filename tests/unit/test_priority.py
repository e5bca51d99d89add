"""Catalina's priority: weighted terms, the expansion factor, targets, and no starvation."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.priority import (
    PriorityRule,
    PriorityWeights,
    QualityOfService,
    by_priority,
)
from gridtravel.local_sched.scheduling.queries import why
from tests.support.scheduler_worlds import SmallSite

SERVICES = {
    "": QualityOfService(),
    "high": QualityOfService(priority=2),
    "soon": QualityOfService(target_queue_time_s=100, priority_max=1000),
    "fair": QualityOfService(target_expansion=3.0, priority_max=500),
}


def job(nodes: int = 1, limit_s: int = 100, service: str = "", sequence: int = 1) -> Job:
    """A job submitted at 0."""
    spec = JobSpec(
        request_id="r",
        name="n",
        account="a",
        nodes=nodes,
        limit_s=limit_s,
        argv=("true",),
        quality_of_service=service,
    )
    made = Job("1", nodes, limit_s, 0, "ann", "a", "node", spec)
    made.sequence = sequence
    return made


@pytest.mark.parametrize("service", [*SERVICES, "unknown"])
@pytest.mark.parametrize("now", [-5, 0, 50, 99, 100, 5000])
def test_priority_is_the_sum_of_its_terms(service: str, now: int) -> None:
    """What decides is what people are shown, term by term."""
    rule = PriorityRule(services=SERVICES, nodes_full=8)
    made = job(nodes=4, service=service)
    made.priority_boost = 7
    assert rule.priority(made, now) == pytest.approx(sum(rule.terms(made, now).values()))


def test_expansion_factor_grows_fastest_for_short_jobs() -> None:
    """(wait + limit) / limit: after the same wait the short job is ahead."""
    weights = PriorityWeights(resources=0, queue_time=0)
    rule = PriorityRule(weights=weights)
    assert rule.priority(job(limit_s=100), 300) == 4.0
    assert rule.priority(job(limit_s=300), 300) == 2.0


def test_targets_grow_as_they_come_near_and_jump_when_reached() -> None:
    """1 / (target - value), then the service's greatest priority (peers, A.5)."""
    rule = PriorityRule(services=SERVICES)
    terms = [rule.terms(job(service="soon"), now)["target_queue_time"] for now in (0, 99, 100, 200)]
    assert terms == [1 / 100, 1.0, 1000, 1000]
    fair = [rule.terms(job(service="fair"), now)["target_expansion"] for now in (0, 100, 200)]
    assert fair == [1 / 2, 1.0, 500]


def test_nothing_starves() -> None:
    """However the other weights are set, a job that has waited long enough passes any fresh one."""
    rule = PriorityRule(services=SERVICES, nodes_full=1)
    order = by_priority(rule)
    old, fresh = job(nodes=1, sequence=1), job(nodes=1000, service="high", sequence=2)
    now = 10**8
    fresh.submitted_at = now
    assert order.key(old, now) < order.key(fresh, now)
    with pytest.raises(InputError, match="starve"):
        PriorityWeights(expansion_factor=0, queue_time=0)


def test_senseless_services_are_refused() -> None:
    """Targets that every job misses at once, and a machine without nodes."""
    with pytest.raises(InputError):
        QualityOfService(target_expansion=1.0)
    with pytest.raises(InputError):
        QualityOfService(target_queue_time_s=0)
    with pytest.raises(InputError):
        PriorityRule(nodes_full=0)


def test_queue_by_priority_is_sorted_in_each_cycle() -> None:
    """A wide job passes narrow ones in the plan, and why shows the terms."""
    site = SmallSite(SchedulerConfig(order=by_priority(PriorityRule(nodes_full=4))))
    site.submit(4, 100)
    narrow, wide = site.submit(1, 50), site.submit(4, 100)
    site.scheduler.hold(narrow.job_id, WaitReason.HELD)
    site.cycle()
    site.scheduler.hold(narrow.job_id, None)
    told = why(site.scheduler, wide.job_id, 0)
    assert told.jobs_before == 0
    assert told.priority_terms["resources"] == 250
    assert told.planned_start == 100
