"""Prices of shared nodes: the papers' formulas and example, node by node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.reservations import DeclineRule
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.admission.registry import (
    BACKFILLING,
    POLICIES,
    policy_named,
    read_settings,
)
from gridtravel.local_sched.policies.dollar_pricing import utilisation_price
from gridtravel.local_sched.policies.edf_dollar import EdfDollar
from gridtravel.local_sched.policies.libra import Libra
from gridtravel.local_sched.policies.libra_dollar import LibraDollar, ResFree
from gridtravel.local_sched.policies.libra_posted import LibraPosted
from gridtravel.local_sched.policies.policy import Admitted, Refused
from gridtravel.local_sched.policies.proportional_share import Control
from gridtravel.local_sched.policies.shared_nodes import NEVER
from tests.support.sharing_scenes import a_class, a_job, let_in, rates_of

HOUR = 3600


def test_price_by_utilisation_is_that_of_the_example() -> None:
    """Section V.B: 100 units an hour, 90 committed, 10 asked for: $2 over two hours, $1.25 over
    five. This is PUtil, before alpha and beta, with 90 units committed over the whole window.
    """
    assert utilisation_price(200, 200 - 90 - 10, 1.0) == 2.0
    assert utilisation_price(500, 500 - 90 - 10, 1.0) == 1.25


@pytest.mark.parametrize(("hours", "price"), [(2, 2.0), (5, 1.25)])
def test_memory_costs_by_utilisation_as_in_the_example(hours: int, price: float) -> None:
    """The same through an admission: 90 unit-hours are held by a task, ours are 10."""
    policy = LibraDollar(alpha=0.0, beta=1.0, processor_price=0.0, memory_price=1.0)
    shared = a_class(policy, memory_mb=100.0)
    let_in(shared, a_job("a", 1, deadline=HOUR, memory_mb=90.0))
    asked = a_job("b", 1, deadline=hours * HOUR, memory_mb=10.0 / hours)
    assert let_in(shared, asked).price == pytest.approx(10.0 / hours * price)


def test_libra_costs_estimate_and_urgency() -> None:
    """Cost = alpha E + beta E/D; not multiplied by the nodes."""
    terms = let_in(a_class(Libra(), 3), a_job("a", 10, 40, nodes=3))
    assert terms.price == 10.25
    dear = Libra(work_price=2.0, urgency_price=8.0)
    assert let_in(a_class(dear), a_job("a", 10, 40)).price == 22.0


def test_libra_takes_the_least_loaded_nodes() -> None:
    """By load in whole millionths, then by number."""
    shared = a_class(Libra(), 4)
    let_in(shared, a_job("a", 50, 100))
    let_in(shared, a_job("b", 10, 100))
    assert let_in(shared, a_job("c", 1, 100, nodes=3)).node_numbers == (2, 3, 1)


def test_libra_dollar_takes_the_fullest_nodes_that_the_budget_pays() -> None:
    """Ascending by RESFree; a node above the budget is passed over, and the search goes on; the
    job costs what the dearest of its nodes does (lines 17 to 34).
    """
    shared = a_class(LibraDollar(), 3)
    let_in(shared, a_job("a", 80, 100))
    job = a_job("b", 10, 100)
    rich = shared.offer(job, 0)
    assert isinstance(rich, Admitted)
    assert rich.node_numbers == (0,)
    assert rich.price == pytest.approx(10 * (1 + 0.1 * 100 / 10))
    poor = shared.offer(replace(job, budget=15.0), 0)
    assert isinstance(poor, Admitted)
    assert poor.node_numbers == (1,)
    assert poor.price == pytest.approx(10 * (1 + 0.1 * 100 / 90))
    both = shared.offer(replace(job, nodes=2), 0)
    assert isinstance(both, Admitted)
    assert (both.node_numbers, both.price) == ((0, 1), rich.price)
    too_poor = shared.offer(replace(job, budget=11.0), 0)
    assert isinstance(too_poor, Refused)
    assert too_poor.rule is DeclineRule.BUDGET
    assert [each.budget for each in too_poor.would_pass] == [11.112]


def test_room_by_full_estimates_or_by_needs_within_the_window() -> None:
    """Equation 6 deducts all of a running estimate, though half has been had and most is due later;
    ``window`` deducts the need until the job's deadline.
    """
    for res_free, room_s in (
        (ResFree.FULL, 100 - 80 - 10),
        (ResFree.WINDOW, 100 - 0.25 * 100 - 10),
    ):
        shared = a_class(LibraDollar(res_free=res_free, control=Control.STRICT))
        let_in(shared, a_job("a", 80, 200))
        shared.measured("a", 0, 45.0, 60)
        job = a_job("b", 10, 160, submitted_at=60.0)
        terms = shared.offer(job, 60)
        assert isinstance(terms, Admitted)
        assert terms.price == pytest.approx(10 * (1 + 0.1 * 100 / room_s))


def test_posted_price_is_that_of_the_emptiest_nodes() -> None:
    """Placed on the fullest all the same; the budget says only yes or no."""
    shared = a_class(LibraPosted(), 2)
    let_in(shared, a_job("a", 80, 100))
    terms = let_in(shared, a_job("b", 10, 100, budget=11.2))
    assert terms.node_numbers == (0,)
    assert terms.price == pytest.approx(10 * (1 + 0.1 * 100 / 90))


def test_earliest_deadline_runs_alone_and_changes_over_at_once() -> None:
    """Of equal deadlines the first job's; a task past its estimate keeps its turn until its
    deadline, and after that runs when nothing else can.
    """
    shared = a_class(EdfDollar())
    let_in(shared, a_job("a", 10, 100))
    let_in(shared, a_job("b", 10, 50))
    let_in(shared, a_job("c", 10, 50))
    assert rates_of(shared) == {"a": [0.0], "b": [1.0], "c": [0.0]}
    assert shared.next_change() == 50
    shared.advance(30)
    assert rates_of(shared)["b"] == [1.0]
    shared.advance(50)
    assert rates_of(shared) == {"a": [1.0], "b": [0.0], "c": [0.0]}
    shared.leave("a", 55)
    assert rates_of(shared) == {"b": [1.0], "c": [0.0]}
    shared.leave("b", 60)
    shared.leave("c", 60)
    assert shared.next_change() == NEVER


def test_demand_before_a_deadline_must_fit() -> None:
    """Where half of the needs would be free, the work due first may still leave no time."""
    shared = a_class(EdfDollar(beta=0.0))
    let_in(shared, a_job("a", 40, 50))
    refused = shared.offer(a_job("b", 20, 55), 0)
    assert isinstance(refused, Refused)
    assert refused.rule is DeclineRule.DEADLINE
    # 40 + 20 s from now; a whole second later than 60, where no room would be left.
    assert [each.deadline for each in refused.would_pass] == [61]
    let_in(shared, a_job("b", 9, 20))
    refused = shared.offer(a_job("c", 2, 10), 0)
    assert isinstance(refused, Refused)


def test_room_of_earliest_deadlines_is_the_least_slack_after_ours() -> None:
    """RESFree: of the job's own deadline and of those behind it."""
    shared = a_class(EdfDollar())
    let_in(shared, a_job("a", 30, 200))
    let_in(shared, a_job("b", 50, 100))
    terms = shared.offer(a_job("c", 10, 60), 0)
    assert isinstance(terms, Admitted)
    # Slack at 60: 60 - 10; at 100: 100 - 60; at 200: 200 - 90.
    assert terms.price == pytest.approx(10 * (1 + 0.3 * 60 / 40))


def test_what_is_late_is_nobodys_demand() -> None:
    """It runs when nothing else can, so it keeps nobody out."""
    shared = a_class(EdfDollar())
    let_in(shared, a_job("a", 10, 20))
    let_in(shared, a_job("b", 10, 100, submitted_at=30.0), 30)


def test_memory_must_last_until_the_deadline() -> None:
    """What is free at the moment may be held for longer than the job's time allows: RESFree is not
    above 0. A later deadline is named, and where memory has a price the budget beside it.
    """
    for price in (0.0, 1.0):
        shared = a_class(LibraDollar(memory_price=price), memory_mb=100.0)
        let_in(shared, a_job("a", 1, 1000, memory_mb=50.0))
        refused = shared.offer(a_job("b", 1, 100, memory_mb=50.0, budget=500.0), 0)
        assert isinstance(refused, Refused)
        assert refused.rule is DeclineRule.DEADLINE
        (terms,) = refused.would_pass
        assert terms.deadline == 1001
        assert terms.budget is not None
        assert terms.budget == 500 if price == 0 else terms.budget > 500


def test_nothing_is_named_for_memory_that_is_taken() -> None:
    """No deadline and no budget makes a node larger."""
    shared = a_class(LibraDollar(), memory_mb=100.0)
    let_in(shared, a_job("a", 1, 1000, memory_mb=60.0))
    for memory_mb in (50.0, 100.0):
        refused = shared.offer(a_job("b", 1, 100, memory_mb=memory_mb), 0)
        assert isinstance(refused, Refused)
        assert refused.would_pass == ()
        assert "nothing would pass now" in refused.message
    empty = a_class(LibraDollar(), memory_mb=100.0)
    refused = empty.offer(a_job("b", 1, 100, memory_mb=100.0), 0)
    assert isinstance(refused, Refused)
    assert refused.would_pass == ()


def test_a_price_that_no_time_brings_down_is_named_with_a_deadline() -> None:
    """Below alpha x RE, or where all room there will ever be is too dear: the earliest deadline at
    its price.
    """
    for budget in (5.0, 10.0, 11.0):
        shared = a_class(LibraDollar())
        let_in(shared, a_job("a", 90, 100))
        refused = shared.offer(a_job("b", 10, 50, budget=budget), 0)
        assert isinstance(refused, Refused)
        (terms,) = refused.would_pass
        assert terms.budget is not None
        assert terms.budget > 11
        assert terms.deadline > 100
    with_alpha_alone = a_class(LibraDollar(beta=0.0))
    refused = with_alpha_alone.offer(a_job("b", 10, 5, budget=10.0), 0)
    assert isinstance(refused, Refused)
    assert [(each.deadline, each.budget) for each in refused.would_pass] == [(11, 10.0)]


def test_a_job_without_a_deadline_has_no_end_of_patience() -> None:
    """D is infinite; a queue may serve it, a shared class does not."""
    assert a_job("a", deadline=None).patience_s == NEVER


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_can_be_named(name: str) -> None:
    """Without settings each has its defaults, and knows what it is."""
    chosen = policy_named(name)
    assert (chosen.sharing is not None) == (name in ("libra", "libra-dollar", "libra-posted",
                                                     "edf-dollar"))  # fmt: skip
    if name in BACKFILLING:
        with pytest.raises(InputError, match="known: none"):
            policy_named(name, {"beta": 1})


def test_settings_are_numbers_or_words() -> None:
    """As typed, or as they stand in a file."""
    typed = policy_named("libra-dollar", read_settings(["beta=0.5", "res_free=window"]))
    assert typed.sharing == LibraDollar(beta=0.5, res_free=ResFree.WINDOW)
    assert typed == policy_named("libra-dollar", {"beta": 0.5, "res_free": "window"})
    assert policy_named("edf-dollar", {"beta": 1}).sharing == EdfDollar(beta=1.0)
    assert policy_named("libra", {"control": "strict"}).sharing == Libra(control=Control.STRICT)


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("magic", [], "known: fcfs, .*libra-dollar"),
        ("libra", ["beta=0.1"], "known: control, work_price, urgency_price"),
        ("libra", ["control=loose"], "known: fair, strict"),
        ("edf-dollar", ["control=fair"], "no setting 'control'"),
        ("fcfs-bf", ["beta=0.1"], "known: none"),
        ("libra-dollar", ["beta=nan"], "beta must be a number"),
        ("libra-dollar", ["beta=-1"], "pays no user"),
        ("libra-dollar", ["beta"], "say key=value"),
        ("libra-dollar", ["beta=1", "beta=2"], "given twice"),
    ],
)
def test_wrong_settings_are_told(name: str, words: list[str], told: str) -> None:
    """With what would be right."""
    with pytest.raises(InputError, match=told):
        policy_named(name, read_settings(words))


def test_a_setting_of_a_file_must_be_a_number_too() -> None:
    """True is no number, whatever Python says."""
    with pytest.raises(InputError, match="must be a number"):
        policy_named("libra-dollar", {"beta": True})
    with pytest.raises(InputError, match="pays no user"):
        policy_named("libra-dollar", {"beta": float("nan")})
