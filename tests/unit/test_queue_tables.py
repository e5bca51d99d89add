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
from gridtravel.local_sched.scheduling.config import SchedulerConfig
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
