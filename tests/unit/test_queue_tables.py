"""``[queue]``, ``[priority]`` and ``[qos.NAME]`` of a site's configuration, and what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.jobs.restart import scheduler_job
from gridtravel.agents.journal.events import JobAccepted
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.admission.admit import admit
from gridtravel.local_sched.admission.registry import PLANNING, POLICIES, policy_named
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.policies.proportional_share import Control
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.job_queue import EARLIEST_DEADLINE, FIRST_COME
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.queries import waiting_reason, why
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler

SITE = '[site]\nname = "lab"\n'


def scheduler_of(folder: Path, text: str) -> LocalScheduler:
    """A site of eight nodes, configured by ``text``."""
    path = folder / "site.toml"
    path.write_text(SITE + text)
    calendar = Calendar("lab", [ResourceClass(name="n", nodes=8)])
    return site_scheduler(calendar, load_site_config(path).scheduler)


def spec(owner: str = "ann", **more: object) -> JobSpec:
    """A job for one node."""
    fields: dict[str, object] = {
        "request_id": "r", "name": "x", "account": owner, "nodes": 1, "limit_s": 100,
        "argv": ("true",),
    }  # fmt: skip
    return JobSpec(**(fields | more))  # type: ignore[arg-type]


def submitted(scheduler: LocalScheduler, job_id: str, owner: str = "ann", **more: object) -> Job:
    """A job in the queue."""
    job = admit(scheduler, spec(owner, **more), owner, job_id, 0)
    assert isinstance(job, Job), job
    scheduler.submit(job, 0)
    return job


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[queue]\nlimit_max = 3600", "queue.limit_max: this key is not known"),
        ('[queue]\nlimit_max_s = "1h"', "queue.limit_max_s: "),
        ("[queue]\nlimit_max_s = -5", "queue.limit_max_s: "),
        ("[queue]\ngrace_s = 1.5", "queue.grace_s: "),
        ("[queue]\ndepth = -1", "queue.depth"),
        ("[queue]\njobs_running_max_per_user = -1", "queue.jobs_running_max_per_user"),
        ("[priority]\nqueue_time = 0\nexpansion_factor = 0", "priority weights let jobs starve"),
        ('[priority]\nresources = "much"', "priority.resources: "),
        ("[priority]\nresources = nan", "priority.resources: "),
        ('[queue]\norder = "fcfs"\n[priority]\nqueue_time = 2', "priority: it has no effect"),
        ('[queue]\npolicy = "easy"\n[priority]\nqueue_time = 2', "priority: it has no effect"),
        ('[queue]\npolicy = "fair"', "queue.policy: unknown policy 'fair'"),
        ('[queue]\npolicy = "easy"\norder = "sjf"', "queue.order: it has no effect"),
        ('[queue]\npolicy = "easy"\ndepth = 1', "queue.depth: it has no effect"),
        ('[queue]\npolicy = "libra"', "queue.policy: libra divides nodes"),
        ('[[classes]]\npolicy = "fair"', "classes.0.policy: unknown policy 'fair'"),
        ("[[classes]]\nmemory_mb = 5", "classes.0.memory_mb: it has no effect"),
        ('[[classes]]\npolicy = "easy"\ndisk_mb = 5', "classes.0.disk_mb: it has no effect"),
        ('[[classes]]\npolicy = "libra"\nmemory_mb = 0', "classes.0.memory_mb: "),
        (
            '[[classes]]\nname = "cpu"\npolicy = "libra"\n[prices.classes]\ncpu = 5',
            "prices.classes.cpu: it has no effect",
        ),
        ("[policy.libra]\nwork_price = 2", "policy.libra: it has no effect"),
        ('[queue]\npolicy = "easy"\n[policy.easy]\nbeta = 2', "policy.easy: easy has no setting"),
        *(
            (f'[[classes]]\npolicy = "libra-dollar"\n[policy.libra-dollar]\n{setting}', said)
            for setting, said in (
                ("gamma = 1", "policy.libra-dollar: libra-dollar has no setting 'gamma'"),
                ("beta = -1", "policy.libra-dollar: "),
                ("beta = true", "policy.libra-dollar: beta must be a number"),
                ("beta = nan", "policy.libra-dollar"),
                ('control = "loose"', "policy.libra-dollar: unknown control"),
            )
        ),
        ("[priority]\nage = 1", "priority.age: this key is not known"),
        ("[qos.high]\ntarget_expansion = 0.5", "qos.high: a target expansion factor is above 1"),
        ("[qos.high]\ntarget_queue_time = 60", "this key is not known"),
        ('[reservations]\nseconds = "4h"', "reservations.seconds: "),
        ("[reservations]\nnode = 4", "reservations.node: this key is not known"),
        ("[reservations]\nwindow_s = 0", "reservations.window_s: "),
    ],
)
def test_unknown_keys_and_wrong_units_are_named(tmp_path: Path, text: str, said: str) -> None:
    """One message with the file and the key, and nothing is configured by halves."""
    with pytest.raises(InputError) as caught:
        scheduler_of(tmp_path, text)
    assert said in caught.value.message
    assert "site.toml" in caught.value.message
    assert "\n" not in caught.value.message


def test_weights_are_those_of_the_file(tmp_path: Path) -> None:
    """Term by term, as ``catalina priority`` shows them."""
    scheduler = scheduler_of(
        tmp_path,
        "[priority]\nresources = 80\nnodes_full = 8\nqueue_time = 2\n[qos.up]\npriority = 3",
    )
    submitted(scheduler, "full", nodes=8)
    scheduler.cycle(0)
    submitted(scheduler, "next", nodes=2, quality_of_service="up")
    terms = why(scheduler, "next", 50).priority_terms
    assert terms["resources"] == 20
    assert terms["queue_time"] == 100
    assert terms["quality_of_service"] == 3 * 425
    assert terms["expansion_factor"] == 1.5


def test_a_target_that_is_reached_comes_first(tmp_path: Path) -> None:
    """The term grows towards the target and jumps on reaching it, past everything else."""
    scheduler = scheduler_of(
        tmp_path, "[priority]\nresources = 0\n[qos.soon]\ntarget_queue_time_s = 60"
    )
    submitted(scheduler, "full", nodes=8)
    scheduler.cycle(0)
    submitted(scheduler, "first", nodes=8)
    submitted(scheduler, "soon", nodes=8, quality_of_service="soon")
    assert why(scheduler, "soon", 30).priority_terms["target_queue_time"] == pytest.approx(1 / 30)
    assert why(scheduler, "soon", 60).priority_terms["target_queue_time"] == 10_000
    order = [job.job_id for job in scheduler.pools["n"].in_order(60)]
    assert order == ["soon", "first"]


def test_caps_hold_and_say_so(tmp_path: Path) -> None:
    """What runs: the job waits, blocks nobody and names the cap. What waits: declined, with it."""
    scheduler = scheduler_of(
        tmp_path,
        "[queue]\njobs_running_max_per_user = 1\nnodes_running_max_per_account = 4\n"
        "jobs_waiting_max_per_user = 2\n",
    )
    submitted(scheduler, "a1")
    second = submitted(scheduler, "a2")
    other = submitted(scheduler, "b1", "bob", nodes=3)
    third = submitted(scheduler, "b2", "eve", account="bob", nodes=2)
    started = [job.job_id for job in scheduler.cycle(0).starts]
    assert started == ["a1", "b1"] or started == ["b1", "a1"]
    assert waiting_reason(scheduler, second) is WaitReason.USER_LIMIT
    assert waiting_reason(scheduler, third) is WaitReason.ACCOUNT_LIMIT
    submitted(scheduler, "a3")
    refused = admit(scheduler, spec(), "ann", "a4", 0)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.LIMIT_JOBS
    assert "2 is the most" in refused.message
    scheduler.job_ended("a1", 10)
    scheduler.job_ended(other.job_id, 10)
    assert sorted(job.job_id for job in scheduler.cycle(10).starts) == ["a2", "b2"]


def test_a_service_is_for_those_it_names(tmp_path: Path) -> None:
    """Others are declined and told which are theirs; so is a service that there is not."""
    scheduler = scheduler_of(
        tmp_path, '[qos.urgent]\nusers = ["ann"]\naccounts = ["rich"]\n[qos.idle]\npriority = -1\n'
    )
    submitted(scheduler, "1", quality_of_service="urgent")
    submitted(scheduler, "2", "bob", account="rich", quality_of_service="urgent")
    refused = admit(scheduler, spec("bob", quality_of_service="urgent"), "bob", "3", 0)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.ACCOUNT
    assert refused.message.endswith("yours: idle")
    unknown = admit(scheduler, spec(quality_of_service="gold"), "ann", "4", 0)
    assert isinstance(unknown, Decline)
    assert "'gold'; yours: urgent, idle" in unknown.message


def test_a_job_waits_where_it_starts_first() -> None:
    """Of the classes that have what it asks for; of several that are free the smallest."""
    classes = [ResourceClass(name="big", nodes=4), ResourceClass(name="small", nodes=2)]
    scheduler = site_scheduler(Calendar("lab", classes), SchedulerConfig())
    first = submitted(scheduler, "1", nodes=2)
    assert first.class_name == "small"
    scheduler.cycle(0)
    second = submitted(scheduler, "2", nodes=2)
    assert second.class_name == "big", "small is taken for 100 s"
    assert submitted(scheduler, "3", nodes=2, limit_s=500).class_name == "big"
    scheduler.cycle(0)
    assert submitted(scheduler, "4", nodes=2).class_name == "small", "both at 100"


@pytest.mark.parametrize(
    ("accepted", "restored"), [("big", "big"), ("", "small"), ("gone", "small"), ("tiny", "small")]
)
def test_a_restart_leaves_a_job_in_its_class(accepted: str, restored: str) -> None:
    """As long as the site has it with room for the job; whatever would start first by then."""
    classes = [
        ResourceClass(name=name, nodes=nodes)
        for name, nodes in (("big", 4), ("small", 2), ("tiny", 1))
    ]
    scheduler = site_scheduler(Calendar("lab", classes), SchedulerConfig())
    jobs = JobTable("lab")
    jobs.apply(
        JobAccepted(job_id="1.lab", owner="ann", spec=spec(nodes=2), at=0, class_name=accepted)
    )
    job = scheduler_job(scheduler, jobs, jobs.views["1.lab"])
    assert job is not None
    assert job.class_name == restored


def test_each_class_has_the_policy_that_is_named_for_it(tmp_path: Path) -> None:
    """That of the queue is for all others; a class whose policy divides nodes is not in the
    calendar, and the back end has all nodes in the order of the file.
    """
    path = tmp_path / "site.toml"
    path.write_text(
        SITE
        + """
[queue]
policy = "easy-sjbf"
[[classes]]
name = "wide"
nodes = 2
[[classes]]
name = "cpu"
nodes = 3
features = ["shared"]
policy = "libra"
memory_mb = 2048
[[classes]]
name = "late"
nodes = 4
policy = "edf"
[policy.libra]
work_price = 2.5
control = "strict"
"""
    )
    config = load_site_config(path)
    assert [each.name for each in config.classes] == ["wide", "late"]
    assert [each.name for each in config.all_classes] == ["wide", "cpu", "late"]
    cpu = config.shared["cpu"].make()
    assert cpu.policy == Libra(work_price=2.5, control=Control.STRICT)
    assert cpu.node_names == ("cpu-0", "cpu-1", "cpu-2")
    assert cpu.features == frozenset({"shared"})
    assert cpu.nodes[0].memory_mb == 2048
    scheduler = site_scheduler(Calendar("lab", config.classes), config.scheduler, shared=[cpu])
    rules = {name: pool.backfill.rule for name, pool in scheduler.pools.items()}
    assert rules == {
        "wide": policy_named("easy-sjbf").backfill,
        "late": policy_named("edf").backfill,
    }
    assert scheduler.pools["late"].queue.order is EARLIEST_DEADLINE


QUEUES = [name for name in POLICIES if policy_named(name).sharing is None]


@pytest.mark.parametrize("name", QUEUES)
def test_every_policy_serves_a_queue_live(tmp_path: Path, name: str) -> None:
    """Two jobs of all nodes, of which the second has the earlier deadline and is the shorter one:
    both run in the end, in the order that the policy says. QoPS puts a new job first while all
    others can wait.
    """
    scheduler = scheduler_of(tmp_path, f'[queue]\npolicy = "{name}"')
    submitted(scheduler, "running.lab", nodes=8, limit_s=10, deadline=100)
    scheduler.cycle(0)
    submitted(scheduler, "long.lab", nodes=8, limit_s=50, deadline=900)
    submitted(scheduler, "short.lab", nodes=8, limit_s=20, deadline=500)
    scheduler.cycle(1)
    scheduler.job_ended("running.lab", 10)
    (first,) = scheduler.cycle(10).starts
    is_first_come = policy_named(name).order is FIRST_COME and name not in PLANNING
    assert first.job_id == ("long.lab" if is_first_come else "short.lab")
    scheduler.job_ended(first.job_id, 20)
    (second,) = scheduler.cycle(20).starts
    assert {first.job_id, second.job_id} == {"long.lab", "short.lab"}


def test_a_live_queue_by_deadlines_serves_those_without_one_last(tmp_path: Path) -> None:
    """A log's jobs have none, so a replay refuses the order; at a live site some have."""
    scheduler = scheduler_of(tmp_path, '[queue]\npolicy = "edf"')
    submitted(scheduler, "running.lab", nodes=8, limit_s=10)
    scheduler.cycle(0)
    submitted(scheduler, "whenever.lab", nodes=8)
    submitted(scheduler, "urgent.lab", nodes=8, deadline=500)
    scheduler.job_ended("running.lab", 10)
    assert [job.job_id for job in scheduler.cycle(10).starts] == ["urgent.lab"]
