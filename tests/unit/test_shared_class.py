"""Who is on the nodes of a shared class, what each task gets, and when that changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, Refused
from gridtravel.local_sched.policies.proportional_share import Control
from gridtravel.local_sched.policies.shared_nodes import NEVER
from tests.support.sharing_scenes import a_class, a_job, let_in, rates_of

FAIR = Libra()
STRICT = Libra(control=Control.STRICT)


def test_an_offer_promises_nothing() -> None:
    """Only who joins counts for the next admission."""
    shared = a_class(STRICT)
    assert isinstance(shared.offer(a_job("a", 90), 0), Admitted)
    assert shared.jobs == {}
    let_in(shared, a_job("b", 90))
    assert isinstance(shared.offer(a_job("a", 90), 0), Refused)


def test_strict_shares_are_needs_and_fair_ones_fill_the_node() -> None:
    """Needs of 10/100 and 30/100: as they are, or in proportion."""
    for policy, expected in ((STRICT, [0.1, 0.3]), (FAIR, [0.25, 0.75])):
        shared = a_class(policy)
        let_in(shared, a_job("a", 10))
        let_in(shared, a_job("b", 30))
        assert [rates_of(shared)[name][0] for name in "ab"] == pytest.approx(expected)


def test_joining_twice_is_joining_once() -> None:
    """Whoever replays a journal may say it again."""
    shared = a_class(FAIR)
    terms = let_in(shared, a_job("a"))
    shared.join(a_job("a"), terms, 5)
    assert len(shared.nodes[0].tasks) == 1
    shared.validate()


def test_rates_change_when_an_estimate_is_used_up_and_when_a_deadline_passes() -> None:
    """A task past its estimate has the need it came with; so has one past its deadline."""
    shared = a_class(STRICT)
    let_in(shared, a_job("a", 10))
    shared.measured("a", 0, 9.0, 50)
    assert rates_of(shared)["a"] == pytest.approx([1 / 50])
    assert shared.next_change() == 100
    shared.measured("a", 0, 9.9, 60)
    shared.advance(100)
    assert shared.nodes[0].tasks[0].received_s == pytest.approx(10.0)
    assert rates_of(shared)["a"] == pytest.approx([0.1])
    assert shared.next_change() == NEVER


def test_time_alone_changes_rates_at_its_own_instant() -> None:
    """What is found late was in force from the moment it was due."""
    late, in_time = a_class(FAIR), a_class(FAIR)
    for shared in (late, in_time):
        let_in(shared, a_job("a", 5, 100))
        let_in(shared, a_job("b", 50, 400))
    due = in_time.next_change()
    assert 0 < due < 100
    in_time.bring_up_to_date(due)
    for shared in (late, in_time):
        shared.bring_up_to_date(120)
    assert rates_of(late) == rates_of(in_time)
    assert [task.received_s for task in late.nodes[0].tasks] == pytest.approx(
        [task.received_s for task in in_time.nodes[0].tasks]
    )


def test_what_happens_elsewhere_changes_no_rate() -> None:
    """Needs grow or shrink meanwhile, but a node is divided anew only by what happens on it."""
    shared = a_class(FAIR, nodes=2)
    let_in(shared, a_job("a", 10, 20))
    let_in(shared, a_job("b", 1, 100, nodes=2))
    shared.take_changes()
    before = rates_of(shared)["a"]
    shared.bring_up_to_date(3)
    terms = Admitted(price=1.0, deadline=50, node_numbers=(1,))
    shared.join(a_job("c", 1, 50), terms, 3)
    assert rates_of(shared)["a"] == before
    assert sorted(shared.take_changes()) == ["b", "c"]


def test_changes_are_told_once_and_only_of_who_is_there() -> None:
    """First rates are changes; equal ones are none; tasks that are over are not told of."""
    shared = a_class(STRICT)
    let_in(shared, a_job("a", 10))
    assert shared.take_changes() == {"a": {0: 0.1}}
    assert shared.take_changes() == {}
    let_in(shared, a_job("b", 10))
    assert shared.take_changes() == {"b": {0: 0.1}}
    shared.leave("b", 1)
    shared.validate()
    assert "b" not in shared.take_changes()


def test_a_job_ends_with_its_last_task() -> None:
    """Tasks are independent: the other node's goes on. What is said twice changes nothing."""
    shared = a_class(FAIR, nodes=2)
    let_in(shared, a_job("a", nodes=2))
    assert not shared.task_ended("a", 0, 5)
    assert not shared.task_ended("a", 0, 6)
    assert [len(node.tasks) for node in shared.nodes] == [0, 1]
    shared.validate()
    assert shared.task_ended("a", 1, 7)
    assert shared.task_ended("a", 1, 8)
    shared.leave("a", 9)
    shared.measured("a", 0, 5.0, 9)
    assert shared.jobs == {}
    shared.validate()


def test_tasks_stand_in_the_order_of_their_jobs() -> None:
    """Also when a restart lets them join in another one."""
    shared = a_class(FAIR)
    for name in "cab":
        let_in(shared, a_job(name))
    assert [task.job_id for task in shared.nodes[0].tasks] == ["a", "b", "c"]


def test_nobody_is_admitted_to_a_node_that_is_down() -> None:
    """Its tasks stay until it is said what became of them."""
    shared = a_class(FAIR, nodes=2)
    shared.node_down(0)
    assert let_in(shared, a_job("a")).node_numbers == (1,)
    refused = shared.offer(a_job("b", nodes=2), 0)
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.nodes_now) == (DeclineRule.TOO_LARGE, 1)
    shared.node_up(0)
    assert let_in(shared, a_job("b", nodes=2)).node_numbers == (0, 1)


def test_a_looser_promise_than_was_asked_for_is_what_counts() -> None:
    """Need and deadline are of the terms, not of the wish."""
    shared = a_class(STRICT)
    shared.join(a_job("a", 10), Admitted(deadline=200, node_numbers=(0,)), 0)
    assert rates_of(shared)["a"] == [0.05]


def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    """An earlier instant counts as the last one."""
    shared = a_class(STRICT)
    let_in(shared, a_job("a"))
    shared.bring_up_to_date(50)
    shared.bring_up_to_date(20)
    assert shared.nodes[0].tasks[0].received_s == pytest.approx(5)


def test_memory_and_disk_must_be_free_on_the_node() -> None:
    """Libra does not price them, but does not promise them twice."""
    shared = a_class(FAIR, nodes=2, memory_mb=100, disk_mb=10)
    assert let_in(shared, a_job("a", memory_mb=60)).node_numbers == (0,)
    assert let_in(shared, a_job("b", memory_mb=60)).node_numbers == (1,)
    refused = shared.offer(a_job("c", memory_mb=60), 0)
    assert isinstance(refused, Refused)
    assert (refused.rule, refused.would_pass) == (DeclineRule.DEADLINE, ())
    assert isinstance(shared.offer(a_job("c", disk_mb=11), 0), Refused)
    let_in(shared, a_job("c", memory_mb=40, disk_mb=10))


def test_jobs_and_prices_must_be_numbers() -> None:
    """No policy has to think of NaN, of a negative estimate, or of a site that pays its users."""
    with pytest.raises(InputError, match="must be numbers"):
        a_job(work_s=float("nan"))
    with pytest.raises(InputError, match="must be numbers"):
        a_job(budget=-1.0)
    with pytest.raises(InputError, match="deadline an instant"):
        a_job(deadline=float("inf"))
    with pytest.raises(InputError, match="pays no user"):
        Libra(work_price=-1)


@pytest.mark.parametrize(
    ("job", "rule"),
    [
        (a_job("a", deadline=None), DeclineRule.DEADLINE),
        (a_job("a", deadline=5), DeclineRule.DEADLINE),
        (a_job("a", 200), DeclineRule.DEADLINE),
        (a_job("a", budget=10.05), DeclineRule.BUDGET),
        (a_job("a", 200, budget=150), DeclineRule.BUDGET),
    ],
    ids=["no deadline", "past", "too long", "too poor", "both"],
)
def test_a_refusal_names_terms_that_pass(job: PolicyJob, rule: DeclineRule) -> None:
    """Asked for with any of them, the job is admitted at that moment."""
    shared = a_class(FAIR)
    shared.bring_up_to_date(7)
    refused = shared.offer(job, 7)
    assert isinstance(refused, Refused)
    assert refused.rule is rule
    assert refused.would_pass
    assert f"{refused.would_pass[0].deadline:.0f}" in refused.message
    for terms in refused.would_pass:
        again = replace(job, deadline=terms.deadline, budget=terms.budget)
        assert isinstance(shared.offer(again, 7), Admitted)
