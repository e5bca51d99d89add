"""A live site whose class ``cpu`` is shared by Libra: from a submission to its end, over restarts,
with everything that users and administrators may try on the way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gridtravel.agents.maintenance_rules import MaintenanceRules, NodeFailureRule
from gridtravel.gridcore.booking.calendar_rules import FlatTariff
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import ConflictError, InputError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.gridio.ledger.ledger import EARNED, HELD, Ledger
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.resource_managers.base import EndReason, TaskEvent, TaskEventKind
from gridtravel.local_sched.sharing.shared_class import SharedClass
from tests.support.maintenance_world import KENNETH, ROOT, MaintenanceWorld, a_wish

NOW = 1_000
GRANTED = 200_000
"""Millicredits."""


def two_nodes() -> Iterator[SharedClass]:
    """Nodes ``cpu-0`` and ``cpu-1``."""
    yield SharedClass("cpu", ["cpu-0", "cpu-1"], Libra(), ("cpu",))


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[MaintenanceWorld]:
    """A site of four whole nodes and two shared ones, where kenneth has 200 credits."""
    ledger = Ledger(None)
    ledger.grant("kenneth", GRANTED, request_id="first", note="", at=0)
    world = MaintenanceWorld(tmp_path, now=NOW, shared=two_nodes, ledger=ledger)
    await world.start()
    yield world
    await world.stop()
    await world.machine.close()
    ledger.check()


def credits_of(lab: MaintenanceWorld) -> tuple[int, int, int]:
    """What kenneth has, what is held, what the site has earned."""
    assert lab.ledger is not None
    kept = lab.ledger.accounts()
    return kept.get("kenneth", 0), kept.get(HELD, 0), kept.get(EARNED, 0)


async def answer_to(
    lab: MaintenanceWorld, name: str, work_s: int, within_s: int | None, **others: Any
) -> JobView | Decline:
    """What the site says to a job of so much work within so many seconds; it runs as estimated."""
    lab.runs.setdefault(f"{lab.agent.jobs.ids_given + 1}.lab", work_s)
    usual: dict[str, Any] = {"nodes": 1, "limit_s": 5, "estimate_s": work_s, "features": ("cpu",)}
    spec = JobSpec(
        request_id=name,
        name=name,
        account="kenneth",
        argv=("true",),
        deadline=None if within_s is None else lab.clock.now() + within_s,
        **(usual | others),
    )
    answer = await lab.desk().submit(spec)
    await lab.tick()
    return answer


async def let_in(
    lab: MaintenanceWorld, name: str, work_s: int, within_s: int, **others: Any
) -> str:
    """The id of a job that is admitted."""
    answer = await answer_to(lab, name, work_s, within_s, **others)
    assert isinstance(answer, JobView), answer
    lab.agent.scheduler.validate()
    return answer.job_id


async def until_over(lab: MaintenanceWorld, *job_ids: str) -> list[float]:
    """Let time pass exactly, and say when each of the jobs ended."""
    ended: dict[str, float] = {}
    for _ in range(1_000):
        for job_id in job_ids:
            if lab.view(job_id).state.is_over:
                ended.setdefault(job_id, lab.clock.now_precise())
        if len(ended) == len(job_ids):
            return [ended[job_id] for job_id in job_ids]
        wake_at = await lab.agent.tick()
        due = lab.clock.next_wake_up
        moment = wake_at if due is None else min(wake_at, due)
        lab.clock.advance_to(max(moment, lab.clock.now_precise()))
        await lab.tick()
    raise AssertionError("they never end")


async def test_a_job_is_priced_and_starts_at_once(lab: MaintenanceWorld) -> None:
    """Libra's price is E + E/D; alone on its node it has all of it, and is over when its work is
    done, whatever its limit says.
    """
    job_id = await let_in(lab, "a", 40, 100, budget_millicredits=50_000)
    view = lab.view(job_id)
    assert view.terms is not None
    assert view.terms.price_millicredits == 40_400
    assert (view.terms.deadline, view.terms.node_numbers) == (NOW + 100, (0,))
    assert (view.state, view.node_names, view.shares) == (JobState.RUNNING, ("cpu-0",), (1.0,))
    assert await until_over(lab, job_id) == [pytest.approx(NOW + 40)]
    assert lab.view(job_id).state is JobState.COMPLETED


async def test_jobs_share_a_node_by_their_needs(lab: MaintenanceWorld) -> None:
    """Needs of 0.5 and 0.25 divide the node as 2 to 1; each is in time."""
    await let_in(lab, "elsewhere", 95, 100)
    long = await let_in(lab, "long", 50, 100)
    short = await let_in(lab, "short", 25, 100)
    assert lab.view(long).node_names == lab.view(short).node_names == ("cpu-1",)
    assert lab.view(long).shares == pytest.approx((2 / 3,))
    assert lab.view(short).shares == pytest.approx((1 / 3,))
    assert await until_over(lab, long, short) == pytest.approx([NOW + 75, NOW + 75])


async def test_a_refusal_says_what_would_pass(lab: MaintenanceWorld) -> None:
    """The deadline and the budget that it names are taken when they are said at that moment."""
    await let_in(lab, "a", 80, 100)
    await let_in(lab, "b", 80, 100)
    refused = await answer_to(lab, "c", 30, 60, budget_millicredits=40_000)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.DEADLINE
    (passing, *_) = refused.passing
    assert passing.deadline > NOW + 60
    assert str(passing.deadline) in refused.message
    within_s, budget = passing.deadline - NOW, passing.budget_millicredits
    await let_in(lab, "d", 30, within_s, budget_millicredits=budget)


async def test_a_budget_below_the_price_is_refused(lab: MaintenanceWorld) -> None:
    """By a thousandth of a credit as well."""
    refused = await answer_to(lab, "a", 40, 100, budget_millicredits=40_399)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.BUDGET
    await let_in(lab, "b", 40, 100, budget_millicredits=40_400)


async def test_a_job_is_ended_at_its_deadline(lab: MaintenanceWorld) -> None:
    """One that was said to need less than it does, and shares its node with one that has another
    need; not before.
    """
    lab.runs["1.lab"] = 500
    job_id = await let_in(lab, "a", 40, 100)
    assert await until_over(lab, job_id) == [pytest.approx(NOW + 100)]
    assert lab.view(job_id).state is JobState.TIMED_OUT


async def test_a_restart_keeps_what_was_agreed(lab: MaintenanceWorld) -> None:
    """Price, promise, nodes and what was had so far: the machine went on meanwhile."""
    first = await let_in(lab, "a", 60, 100)
    second = await let_in(lab, "b", 20, 100)
    terms = [lab.view(each).terms for each in (first, second)]
    await lab.outage(10)
    assert [lab.view(each).terms for each in (first, second)] == terms
    shared = lab.agent.scheduler.shared.classes["cpu"]
    assert [task.received_s for task in shared.nodes[0].tasks] == pytest.approx([10.0])
    lab.agent.scheduler.validate()
    refused = await answer_to(lab, "c", 90, 95)
    assert isinstance(refused, Decline), "the jobs of before count"
    assert await until_over(lab, first, second) == pytest.approx([NOW + 60, NOW + 20])


async def test_an_admission_that_was_cut_off_starts_after_the_restart(tmp_path: Path) -> None:
    """It was promised; its time counts from the acceptance."""
    lab = MaintenanceWorld(tmp_path, now=NOW, shared=two_nodes)
    await lab.start()
    lab.runs["1.lab"] = 40
    spec = JobSpec(
        request_id="a",
        name="a",
        account="kenneth",
        nodes=1,
        limit_s=40,
        argv=("true",),
        features=("cpu",),
        deadline=NOW + 100,
    )
    assert isinstance(await lab.desk().submit(spec), JobView)
    lab.clock.advance(10)
    await lab.restart()
    view = lab.view("1.lab")
    assert view.terms is not None
    assert view.terms.agreed_at == NOW
    assert await until_over(lab, "1.lab") == [pytest.approx(NOW + 50)]
    await lab.stop()
    await lab.machine.close()


async def test_a_class_that_is_gone_ends_its_jobs(lab: MaintenanceWorld) -> None:
    """Nobody promised them whole nodes: their processes end as well, and they pay nothing."""
    job_id = await let_in(lab, "a", 40, 100)
    await lab.stop()
    lab._shared = tuple
    lab.agent = lab._made()
    await lab.start()
    assert lab.view(job_id).state is JobState.FAILED
    assert lab.machine.task(job_id).ended is not None
    assert credits_of(lab) == (GRANTED, 0, 0)


async def test_nobody_waits_on_shared_nodes(lab: MaintenanceWorld) -> None:
    """So nothing can be put on hold, bound or moved up; deleting works at any moment."""
    lab.runs["1.lab"] = 40
    spec = JobSpec(
        request_id="a",
        name="a",
        account="kenneth",
        nodes=1,
        limit_s=40,
        argv=("true",),
        features=("cpu",),
        deadline=NOW + 100,
    )
    await lab.desk().submit(spec)
    assert "1.lab" in lab.agent.scheduler.waiting
    why = await lab.desk().query("why", {"job": "1.lab"})
    assert isinstance(why, dict)
    assert "starts at once" in why["reason"]
    queue = await lab.desk().query("queue", {})
    assert isinstance(queue, dict)
    assert queue["jobs"][0]["deadline"] == NOW + 100
    assert queue["jobs"][0]["price"] == 40_400
    for order in ("hold-job", "release-job"):
        with pytest.raises(ConflictError):
            await lab.desk().order(order, {"job": "1.lab"})
    with pytest.raises(ConflictError):
        await lab.desk(ROOT).order("boost-job", {"job": "1.lab", "points": "3"})
    with pytest.raises(ConflictError):
        await lab.desk().bind_job("1.lab", [])
    assert (await lab.desk().cancel_job("1.lab")).state is JobState.CANCELLED
    lab.agent.scheduler.validate()
    job_id = await let_in(lab, "b", 90, 100)
    await lab.desk().cancel_job(job_id)
    await lab.tick()
    assert lab.view(job_id).state is JobState.CANCELLED
    await let_in(lab, "c", 90, 95)  # its node is free again


@pytest.mark.parametrize("rule", [NodeFailureRule.REQUEUE, NodeFailureRule.CANCEL])
async def test_a_failed_node_ends_its_jobs_and_takes_no_others(
    tmp_path: Path, rule: NodeFailureRule
) -> None:
    """They cannot wait for another node: where jobs are requeued they are cancelled as well."""
    lab = MaintenanceWorld(
        tmp_path, MaintenanceRules(on_node_failure=rule), now=NOW, shared=two_nodes
    )
    await lab.start()
    job_id = await let_in(lab, "a", 40, 100)
    told = await lab.desk(ROOT).order("node-down", {"node": "cpu-0"})
    assert isinstance(told, dict)
    assert (told["class"], told["jobs"], told["rule"]) == ("cpu", [job_id], "cancel")
    await lab.tick()
    assert lab.view(job_id).state is JobState.CANCELLED
    assert lab.view(await let_in(lab, "b", 40, 100)).node_names == ("cpu-1",)
    await lab.restart()
    assert lab.view(await let_in(lab, "c", 40, 100)).node_names == ("cpu-1",)
    nodes = await lab.desk().query("nodes", {})
    assert isinstance(nodes, dict)
    found = {each["resource_class"]: each for each in nodes["classes"]}
    assert (found["cpu"]["busy"], found["cpu"]["idle"], found["cpu"]["down"]) == (1, 0, 1)
    await lab.desk(ROOT).order("node-up", {"node": "cpu-0"})
    assert lab.view(await let_in(lab, "d", 90, 100)).node_names == ("cpu-0",)
    await lab.stop()
    await lab.machine.close()


async def test_a_job_whose_node_fails_before_it_starts_is_cancelled(lab: MaintenanceWorld) -> None:
    """It was admitted, and nothing says that it ever ran; a restart finds it over."""
    spec = JobSpec(
        request_id="a",
        name="a",
        account="kenneth",
        nodes=1,
        limit_s=40,
        argv=("true",),
        features=("cpu",),
        deadline=NOW + 100,
    )
    await lab.desk().submit(spec)
    told = await lab.desk(ROOT).order("node-down", {"node": "cpu-0", "jobs": "requeue"})
    assert isinstance(told, dict)
    assert told["jobs"] == ["1.lab"]
    assert lab.view("1.lab").state is JobState.CANCELLED
    await lab.tick()
    assert credits_of(lab) == (GRANTED, 0, 0)
    await lab.restart()
    lab.agent.scheduler.validate()
    assert "node cpu-0 failed" in lab.view("1.lab").reason


async def test_nothing_is_reserved_on_shared_nodes(lab: MaintenanceWorld) -> None:
    """A share is no promise of a whole node at one moment: asked or booked, the answer says so."""
    wish = a_wish("r", 1, NOW + 60, 60, features=("cpu",))
    port = lab.agent.calendar_port(KENNETH)
    (asked,) = await port.inquire([wish])
    booked = await port.reserve(wish, ttl_s=20)
    at_once = await lab.desk().set_reservation(wish, is_dry_run=False)
    for answer in (asked, booked, at_once):
        assert isinstance(answer, Decline)
        assert answer.rule is DeclineRule.FEATURES
        assert "shared" in answer.message
    assert not lab.agent.calendar.reservations
    assert [each.name for each in (await port.describe()).classes] == ["n"]


async def test_a_job_without_a_deadline_is_told_to_say_one(lab: MaintenanceWorld) -> None:
    """Where its features leave whole nodes it waits for these instead."""
    refused = await answer_to(lab, "a", 40, None)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.DEADLINE
    queued = await answer_to(lab, "b", 40, None, features=())
    assert isinstance(queued, JobView)
    assert lab.agent.jobs.classes[queued.job_id] == "n"


async def test_a_suspended_site_admits_nobody_to_shared_nodes(lab: MaintenanceWorld) -> None:
    """Time up to a deadline would run out in vain."""
    await lab.desk(ROOT).order("set-mode", {"mode": "suspended"})
    refused = await answer_to(lab, "a", 40, 100)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.SUSPENDED


async def test_the_price_that_was_agreed_is_held_and_paid(lab: MaintenanceWorld) -> None:
    """Not a part of it by time, and no more than it."""
    job_id = await let_in(lab, "a", 40, 100)
    assert credits_of(lab) == (GRANTED - 40_400, 40_400, 0)
    await until_over(lab, job_id)
    assert credits_of(lab) == (GRANTED - 40_400, 0, 40_400)


async def test_an_account_that_cannot_pay_gets_no_share(lab: MaintenanceWorld) -> None:
    """Nothing is held, nobody joins."""
    assert lab.ledger is not None
    refused = await answer_to(lab, "a", 200, 400)
    assert isinstance(refused, Decline)
    assert refused.rule is DeclineRule.BUDGET
    assert credits_of(lab) == (GRANTED, 0, 0)
    assert not lab.agent.scheduler.shared.classes["cpu"].jobs


async def test_a_job_that_is_kept_short_pays_nothing(lab: MaintenanceWorld) -> None:
    """Somebody took the processor that it was promised: its deadline passes, and that is the
    site's fault. One that was said to need less than it does pays.
    """
    job_id = await let_in(lab, "a", 40, 50)
    lab.machine.set_shares({job_id: (0.1,)})
    assert await until_over(lab, job_id) == [pytest.approx(NOW + 50)]
    view = lab.view(job_id)
    assert view.state is JobState.TIMED_OUT
    assert "before it had the processor time" in view.reason
    assert credits_of(lab) == (GRANTED, 0, 0)
    lab.runs["2.lab"] = 400
    longer = await let_in(lab, "b", 40, 50)
    await until_over(lab, longer)
    assert lab.view(longer).state is JobState.TIMED_OUT
    assert credits_of(lab) == (GRANTED - 40_800, 0, 40_800)


async def test_memory_is_counted_on_each_node(tmp_path: Path) -> None:
    """What a job says it needs has to be free on its nodes."""

    def small_nodes() -> Iterator[SharedClass]:
        yield SharedClass("cpu", ["cpu-0"], Libra(), ("cpu",), memory_mb=1_000)

    lab = MaintenanceWorld(tmp_path, now=NOW, shared=small_nodes)
    await lab.start()
    await let_in(lab, "a", 10, 100, memory_mb=600)
    refused = await answer_to(lab, "b", 10, 100, memory_mb=600)
    assert isinstance(refused, Decline)
    await let_in(lab, "c", 10, 100, memory_mb=400)
    await lab.stop()
    await lab.machine.close()


async def test_a_clock_that_was_ahead_stops_nobody(lab: MaintenanceWorld) -> None:
    """For a day nothing would be divided anew, and nobody measured: the class is put together
    again, with what each has had.
    """
    job_id = await let_in(lab, "a", 95, 100)
    await let_in(lab, "b", 95, 100)
    await lab.tick(10)
    lab.agent.scheduler.cycle(NOW + 86_400, NOW + 86_400.0)
    await lab.desk(ROOT).order("node-down", {"node": "cpu-1", "jobs": "notify"})
    await lab.tick()
    lab.agent.scheduler.validate()
    shared = lab.agent.scheduler.shared.classes["cpu"]
    received_s = [task.received_s for node in shared.nodes for task in node.tasks]
    assert received_s == pytest.approx([10.0, 10.0])
    assert [node.is_up for node in shared.nodes] == [True, False]
    refused = await answer_to(lab, "c", 40, 100)
    assert isinstance(refused, Decline)
    taken = await answer_to(lab, "d", 4, 100)
    assert isinstance(taken, JobView)
    assert lab.view(job_id).shares[0] < 1, "the node is divided"


@pytest.mark.parametrize("features", ["cpu", ""])
async def test_what_is_quoted_is_held_and_paid(lab: MaintenanceWorld, features: str) -> None:
    """By a policy or by the tariff: the price of an inquiry is that of the submission after it."""
    lab.agent.calendar.tariff = FlatTariff(3_600_000)
    await let_in(lab, "before", 60, 100)
    held_before = credits_of(lab)[1]
    said = {"nodes": 1, "limit_s": 40, "estimate_s": 40, "features": features}
    said |= {"deadline": NOW + 100, "budget_millicredits": 50_000}
    quote = await lab.desk().query("quote", {name: str(each) for name, each in said.items()})
    assert isinstance(quote, dict)
    assert quote["declined"] is None
    assert credits_of(lab)[1] == held_before, "nothing is kept for it"
    wanted = tuple(filter(None, [features]))
    answer = await answer_to(
        lab, "a", 40, 100, features=wanted, limit_s=40, budget_millicredits=50_000
    )
    assert isinstance(answer, JobView)
    assert credits_of(lab)[1] - held_before == quote["price"]
    assert lab.agent.jobs.classes[answer.job_id] == quote["class"]
    earned = credits_of(lab)[2]
    await until_over(lab, answer.job_id)
    assert credits_of(lab)[2] - earned == quote["price"]


async def test_a_refusal_is_quoted_with_what_would_pass(lab: MaintenanceWorld) -> None:
    """As a submission would be refused."""
    said = {"nodes": "1", "limit_s": "40", "features": "cpu", "deadline": str(NOW + 100)}
    quote = await lab.desk().query("quote", said | {"budget_millicredits": "40399"})
    assert isinstance(quote, dict)
    assert quote["declined"]["rule"] == "budget"
    (passing, *_) = quote["declined"]["would_pass"]
    again = said | {"budget_millicredits": str(passing["budget"])}
    again["deadline"] = str(passing["deadline"])
    passed = await lab.desk().query("quote", again)
    assert isinstance(passed, dict)
    assert passed["declined"] is None
    for wrong in ("nan", "-1", "1e3", "0.5"):
        with pytest.raises(InputError):
            await lab.desk().query("quote", said | {"budget_millicredits": wrong})


async def test_a_job_that_never_ran_has_its_nodes_again(lab: MaintenanceWorld) -> None:
    """A machine that did not take up the order: on the same terms, under the next execution's id,
    and with nothing received.
    """
    job_id = await let_in(lab, "a", 40, 100)
    lab.runs["1.lab.2"] = 40
    await lab.tick(5)
    await lab.agent.runner.task_event(
        TaskEvent(job_id=job_id, kind=TaskEventKind.LOST, at=NOW, reason=EndReason.NEVER_RAN)
    )
    await lab.tick()
    lab.agent.scheduler.validate()
    view = lab.view(job_id)
    assert (view.state, view.node_names) == (JobState.RUNNING, ("cpu-0",))
    assert lab.agent.jobs.execution_id(job_id) == "1.lab.2"
    assert await until_over(lab, job_id) == [pytest.approx(NOW + 45)]
