"""What a job is refused for, with the number that would pass; and what the parts refuse to be
made of.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.capacity.node_sets import lowest_bits
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.admission.admit import admit
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import (
    JobLimits,
    OverrunRule,
    SchedulerConfig,
    SchedulerMode,
)
from gridtravel.local_sched.scheduling.job_queue import (
    FIRST_COME,
    SHORTEST_FIRST,
    JobQueue,
    fixed_order,
)
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.pool import NodeNames, ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler

THIN = ResourceClass(name="thin", nodes=8, features=("ib",))
FAT = ResourceClass(name="fat", nodes=4, features=("ib", "large"))


def spec(nodes: int = 1, limit_s: int = 10, **more: object) -> JobSpec:
    """A job of account x."""
    fields: dict[str, object] = {
        "request_id": "r",
        "name": "n",
        "account": "x",
        "nodes": nodes,
        "limit_s": limit_s,
        "argv": ("true",),
    }
    return JobSpec(**(fields | more))  # type: ignore[arg-type]


def site(limits: JobLimits | None = None) -> LocalScheduler:
    """Eight thin nodes and four fat ones."""
    config = SchedulerConfig(limits=limits or JobLimits())
    return site_scheduler(Calendar("here", [THIN, FAT]), config)


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (spec(3), "fat"),
        (spec(5), "thin"),
        (spec(1, features=("large",)), "fat"),
        (spec(1, features=("ib",)), "fat"),
    ],
)
def test_job_waits_for_the_smallest_class_that_has_all(wish: JobSpec, expected: str) -> None:
    """Room in principle and every feature; the larger machine stays free for larger jobs."""
    job = admit(site(), wish, "ann", "1", 0)
    assert isinstance(job, Job)
    assert job.class_name == expected


@pytest.mark.parametrize(
    ("limits", "wish", "rule", "told"),
    [
        (JobLimits(), spec(9), DeclineRule.TOO_LARGE, "8 is all there is"),
        (JobLimits(), spec(5, features=("large",)), DeclineRule.TOO_LARGE, "4 is all there is"),
        (JobLimits(), spec(features=("gpu",)), DeclineRule.FEATURES, "known: ib, large"),
        (JobLimits(limit_max_s=5), spec(), DeclineRule.LIMIT_DURATION, "5 s is the most"),
        (JobLimits(jobs_waiting_max=1), spec(), DeclineRule.LIMIT_JOBS, "1 jobs wait"),
        (JobLimits(jobs_waiting_max_per_user=1), spec(), DeclineRule.LIMIT_JOBS, "user ann has 1"),
        (JobLimits(jobs_waiting_max_per_account=1), spec(), DeclineRule.LIMIT_JOBS, "account x"),
        (JobLimits(nodes_running_max_per_user=2), spec(3), DeclineRule.LIMIT_NODES, "2 nodes"),
        (JobLimits(nodes_running_max_per_account=2), spec(3), DeclineRule.LIMIT_NODES, "account x"),
    ],
)
def test_refusals_name_the_rule_and_what_would_pass(
    limits: JobLimits, wish: JobSpec, rule: DeclineRule, told: str
) -> None:
    """With one job of the same user and account waiting."""
    scheduler = site(limits)
    first = Job("0", 1, 10, 0, "ann", "x", "thin")
    scheduler.submit(first, 0)
    answer = admit(scheduler, wish, "ann", "1", 0)
    assert isinstance(answer, Decline)
    assert answer.rule is rule
    assert told in answer.message


def test_stopped_site_accepts_nothing() -> None:
    """And says so."""
    scheduler = site()
    scheduler.mode = SchedulerMode.STOPPED
    answer = admit(scheduler, spec(), "ann", "1", 0)
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.SUSPENDED


def test_account_caps_pass_jobs_over() -> None:
    """Nodes of one account at a time; the next account's job starts."""
    scheduler = site(JobLimits(nodes_running_max_per_account=4, jobs_running_max_per_account=9))
    for number, account in enumerate(("x", "x", "y")):
        scheduler.submit(Job(str(number), 3, 10, 0, "ann", account, "thin"), 0)
    assert [job.job_id for job in scheduler.cycle(0).starts] == ["0", "2"]


def test_jobs_waiting_for_different_classes_do_not_meet() -> None:
    """Each class has its own queue; one cycle serves them all and wakes up for the first."""
    scheduler = site()
    thin, fat = Job("a", 8, 50, 0, "ann", "x", "thin"), Job("b", 4, 20, 0, "ann", "x", "fat")
    for job in (thin, fat):
        scheduler.submit(job, 0)
    result = scheduler.cycle(0)
    assert result.starts == [thin, fat]
    assert result.next_wakeup == 20
    assert scheduler.node_names(fat) == ("fat-0", "fat-1", "fat-2", "fat-3")


def test_queue_in_a_fixed_order_inserts_and_forgets() -> None:
    """Shorter jobs go in front; a removed newcomer is no arrival any more."""
    queue = JobQueue(SHORTEST_FIRST)
    long, short = Job("l", 1, 90, 0, "", "", ""), Job("s", 1, 5, 0, "", "", "")
    for number, job in enumerate((long, short)):
        job.sequence = number
        queue.add(job, 0)
    assert queue.jobs == [short, long]
    assert queue.is_reordered
    queue.remove(short)
    assert queue.arrivals == [long]
    assert len(queue) == 1
    assert fixed_order("sjf") is SHORTEST_FIRST
    with pytest.raises(InputError, match="fcfs, sjf, edf"):
        fixed_order("magic")


def test_lowest_bits_by_bisection_equal_those_one_by_one() -> None:
    """For every small mask and count."""
    for mask in range(64):
        bits = [1 << bit for bit in range(6) if mask >> bit & 1]
        for count in range(7):
            expected = sum(bits[:count]) if count <= len(bits) else None
            assert lowest_bits(mask, count) == expected


def test_names_are_unique_and_enough() -> None:
    """A class has as many names as nodes, each once; too few idle ones is a fault, not a wrong
    name.
    """
    with pytest.raises(InputError, match="same name"):
        NodeNames(["a", "a"])
    pool = ResourcePool("n", AvailabilityProfile(1), BackfillRule(), FIRST_COME, node_names=["a"])
    with pytest.raises(ConflictError):
        pool.take_nodes(Job("j", 2, 1, 0, "ann", "any", "n"), 0)
    with pytest.raises(InputError, match="node names"):
        ResourcePool("x", AvailabilityProfile(2), BackfillRule(), FIRST_COME, node_names=["a"])
    unnamed = ResourcePool("x", AvailabilityProfile(2), BackfillRule(), FIRST_COME)
    with pytest.raises(InputError, match="no names"):
        unnamed.node_down("a", 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BackfillRule(depth=-1),
        lambda: BackfillRule(compression_jobs_max=0),
        lambda: BackfillRule(late_start_max_s=-1),
        lambda: OverrunRule(step_s=-1),
        lambda: OverrunRule(grace_s=-1),
        lambda: JobLimits(jobs_running_max_per_user=-1),
        lambda: SchedulerConfig(history_jobs_max=-1),
        lambda: LocalScheduler({}, SchedulerConfig()),
        lambda: AvailabilityProfile(-1),
        lambda: AvailabilityProfile(2).cap(-1, 0, 5),
        lambda: AvailabilityProfile(2).min_free(5, 5),
        lambda: AvailabilityProfile.from_steps(2, [(5, 1), (3, 2)]),
        lambda: AvailabilityProfile.from_steps(2, []),
    ],
)
def test_senseless_values_are_refused(make: Callable[[], object]) -> None:
    """Bounds are checked where a value is made."""
    with pytest.raises(InputError):
        make()


def test_unknown_names_are_faults_of_the_caller() -> None:
    """No such job, class or running job; history forgets the oldest first."""
    scheduler = site_scheduler(Calendar("here", [THIN]), SchedulerConfig(history_jobs_max=1))
    for wrong in (
        lambda: scheduler.job_ended("x", 0),
        lambda: scheduler.hold("x", WaitReason.HELD),
        lambda: scheduler.free_after_queue("x", 0),
    ):
        with pytest.raises(NotFoundError):
            wrong()
    unstarted = Job("u", 1, 10, 0, "ann", "x", "thin")
    with pytest.raises(InputError):
        scheduler.restore_running(unstarted, 10, "", ["thin-0"])
    for name in ("a", "b"):
        scheduler.submit(Job(name, 1, 10, 0, "ann", "x", "thin"), 0)
    scheduler.cycle(0)
    for name in ("a", "b"):
        scheduler.job_ended(name, 5, 1)
    assert list(scheduler.finished) == ["b"]
    assert "FAILED" in repr(scheduler.finished["b"])
