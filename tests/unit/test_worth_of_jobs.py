"""Deadline, budget and estimate of a job: what is refused, wherever it comes from."""

from __future__ import annotations

import io
import math
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    BUDGET_LIMIT_MILLICREDITS,
    DURATION_LIMIT_S,
    Decline,
    DeclineRule,
    PassingTerms,
)
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import SPACE_LIMIT_MB, JobSpec, JobTerms
from gridtravel.gridcore.timing.timetext import INSTANT_LIMIT
from gridtravel.gridio.rpc.codec.site_messages import JOB, SPEC
from gridtravel.local_sched.admission.admit import admit, terms_of
from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.local_sched.catalina.work.jobs import JobWords, job_spec
from gridtravel.local_sched.policies.policy import Admitted
from gridtravel.local_sched.scheduling.backfill import BackfillRule
from gridtravel.local_sched.scheduling.config import SchedulerConfig
from gridtravel.local_sched.scheduling.job_queue import FIRST_COME
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridwire.v1 import site_pb2 as pb

NOW = 1_000


def a_spec(**others: Any) -> JobSpec:
    """A job of one node."""
    usual: dict[str, Any] = {
        "request_id": "r",
        "name": "n",
        "account": "a",
        "nodes": 1,
        "limit_s": 60,
        "argv": ("true",),
    }
    return JobSpec(**(usual | others))


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"deadline": 0}, "deadline"),
    ({"deadline": -5}, "deadline"),
    ({"deadline": math.nan}, "deadline"),
    ({"deadline": INSTANT_LIMIT + 1}, "deadline"),
    ({"budget_millicredits": -1}, "budget"),
    ({"budget_millicredits": math.nan}, "budget"),
    ({"budget_millicredits": math.inf}, "budget"),
    ({"budget_millicredits": BUDGET_LIMIT_MILLICREDITS + 1}, "budget"),
    ({"estimate_s": 0}, "estimate"),
    ({"estimate_s": -1}, "estimate"),
    ({"estimate_s": math.nan}, "estimate"),
    ({"estimate_s": DURATION_LIMIT_S + 1}, "estimate"),
    ({"memory_mb": 0}, "memory"),
    ({"disk_mb": -1}, "disk"),
    ({"disk_mb": math.nan}, "disk"),
    ({"memory_mb": SPACE_LIMIT_MB + 1}, "memory"),
]


@pytest.mark.parametrize(("wish", "said"), WRONG)
def test_no_job_has_an_absurd_worth(wish: dict[str, Any], said: str) -> None:
    """A value of a job holds none, so no journal and no policy meets one."""
    with pytest.raises(InputError, match=said):
        a_spec(**wish)


@pytest.mark.parametrize(
    ("wish", "said"),
    [(wish, said) for wish, said in WRONG if all(type(each) is int for each in wish.values())],
)
def test_none_comes_over_the_wire(wish: dict[str, int], said: str) -> None:
    """Whatever a caller's program sends."""
    message = SPEC.encode(a_spec())
    for name, value in wish.items():
        setattr(message, name, value)
    with pytest.raises(InputError, match=said):
        SPEC.decode(message)


@pytest.mark.parametrize("share", [-0.1, 1.01, math.nan, math.inf])
def test_no_site_shows_shares_that_cannot_be(share: float) -> None:
    """A share is a part of a node."""
    message = pb.Job(job_id="1.lab", spec=SPEC.encode(a_spec()), state=pb.JobState.JOB_STATE_QUEUED)
    assert JOB.decode(message).shares == ()
    message.shares.append(share)
    with pytest.raises(InputError, match=r"job\.shares"):
        JOB.decode(message)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"budget": "-1"}, "no budget"),
        ({"budget": "nan"}, "no budget"),
        ({"budget": "1e30"}, "no budget"),
        ({"budget": "1_000"}, "no budget"),
        ({"budget": "0.0001"}, "no budget"),
        ({"estimate": "0"}, "at least one second"),
        ({"estimate": "nan"}, "nan"),
        ({"estimate": "-3"}, "-3"),
    ],
)
def test_none_is_written_at_the_command_line(words: dict[str, Any], said: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InputError, match=said):
        job_spec(JobWords(command=["a"], limit="1h", **words), {}, io.BytesIO(), str)


def test_words_of_worth_are_exact() -> None:
    """Credits to a thousandth; without a limit the estimate is it."""
    spec = job_spec(
        JobWords(command=["a"], budget="12.345", estimate="90m", is_restartable=True),
        {},
        io.BytesIO(),
        str,
    )
    assert (spec.budget_millicredits, spec.estimate_s, spec.limit_s) == (12_345, 5400, 5400)
    assert spec.is_restartable


def a_scheduler() -> LocalScheduler:
    """Four nodes, first come, first served."""
    pool = ResourcePool("n", AvailabilityProfile(4), BackfillRule(), FIRST_COME)
    return LocalScheduler({"n": pool}, SchedulerConfig())


def test_a_deadline_that_is_past_is_refused() -> None:
    """It is the site's clock that tells; the moment after it is a deadline."""
    refused = admit(a_scheduler(), a_spec(deadline=NOW), "ada", "1.lab", NOW)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.DEADLINE
    assert isinstance(admit(a_scheduler(), a_spec(deadline=NOW + 1), "ada", "1.lab", NOW), Job)


@pytest.mark.parametrize(
    ("price", "agreed"),
    [
        (0.0, 0),
        (11.1, 11_100),  # 11.1 * 1000 is a little more in floating point
        (11.1001, 11_101),
        (12.345, 12_345),
        (12.3449999, 12_345),
    ],
)
def test_a_price_is_rounded_up_to_millicredits(price: float, agreed: int) -> None:
    """In which budgets are said, so one that is within its budget stays within it."""
    assert terms_of(Admitted(price=price), NOW).price_millicredits == agreed


def test_nobody_pays_above_his_budget() -> None:
    """Also where a policy asks for no budgets, as the backfilling baselines."""
    rule = policy_named("fcfs-bf")
    pool = ResourcePool("n", AvailabilityProfile(4), rule.backfill, rule.order, policy=rule.queue)
    scheduler = LocalScheduler({"n": pool}, SchedulerConfig())
    spec = a_spec(estimate_s=30, deadline=NOW + 60, budget_millicredits=29_999)
    refused = admit(scheduler, spec, "ada", "1.lab", NOW)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.BUDGET
    assert refused.passing == (PassingTerms(deadline=NOW + 60, budget_millicredits=30_000),)
    taken = admit(scheduler, replace(spec, budget_millicredits=30_000), "ada", "1.lab", NOW)
    assert isinstance(taken, Job)
    assert taken.terms == JobTerms(agreed_at=NOW, price_millicredits=30_000, deadline=NOW + 60)


@pytest.mark.parametrize(
    "wrong",
    [
        {"price_millicredits": -1},
        {"price_millicredits": BUDGET_LIMIT_MILLICREDITS + 1},
        {"agreed_at": math.nan},
        {"node_numbers": (0, -1)},
    ],
)
def test_terms_pay_nobody_to_run(wrong: dict[str, Any]) -> None:
    """A price is not negative, and the rest is of this world."""
    usual: dict[str, Any] = {"agreed_at": NOW}
    with pytest.raises(InputError):
        JobTerms(**(usual | wrong))
