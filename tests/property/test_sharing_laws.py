"""What every policy of shared nodes promises, in random worlds (the laws of issue 12)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.local_sched.admission.registry import SHARING, policy_named
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.policies.shared_nodes import SharedNode, SharingPolicy
from gridtravel.local_sched.sharing.shared_class import SharedClass
from gridtravel.simulator.economy.shared_world import SharedWorld
from gridtravel.simulator.economy.workload import IN_TIME_S, EconomyJob
from tests.support.economy_workloads import as_jobs, some_rows
from tests.support.sharing_scenes import a_class, a_job, let_in

SETTINGS: dict[str, tuple[dict[str, object], ...]] = {
    "libra": ({}, {"control": "strict"}),
    "libra-dollar": ({}, {"control": "strict", "beta": 1}, {"res_free": "window", "beta": 0.5}),
    "libra-posted": ({}, {"beta": 0.5}),
    "edf-dollar": ({},),
}
CASES = [(name, settings) for name in SHARING for settings in SETTINGS[name]]
seeds = st.integers(0, 10**6)


def sharing(name: str, settings: dict[str, object]) -> SharingPolicy:
    """A policy of the registry."""
    policy = policy_named(name, settings).sharing
    assert policy is not None
    return policy


class WatchedClass(SharedClass):
    """Sees that no node is ever divided into more than it is."""

    def _divide(self, node: SharedNode, now: float) -> None:
        super()._divide(node, now)
        assert sum(task.rate for task in node.tasks) <= 1 + 1e-9


def watched(jobs: list[EconomyJob], procs: int, policy: SharingPolicy) -> SharedWorld:
    """A world whose class is watched."""
    world = SharedWorld(jobs, procs, policy)
    world.shared = WatchedClass("nodes", world.shared.node_names, policy)
    return world


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("kind", ["exact", "over"])
@given(seed=seeds)
def test_deadlines_and_budgets_are_kept(
    name: str, settings: dict[str, object], kind: str, seed: int
) -> None:
    """With exact or over-estimates an admitted job ends by its deadline and pays at most its
    budget; a node is never divided into more than it is.
    """
    rng = Random(seed)
    procs = rng.randint(1, 5)
    jobs = as_jobs(some_rows(rng, 40, procs, kind))
    world = watched(jobs, procs, sharing(name, settings))
    for job, decision in zip(jobs, world.run(), strict=True):
        if decision.cost is not None:
            assert decision.end is not None
            assert decision.end <= job.deadline + IN_TIME_S
            assert decision.cost <= job.budget
    world.shared.validate()
    assert world.shared.jobs == {}


@pytest.mark.parametrize(("name", "settings"), CASES)
@given(seed=seeds)
def test_under_estimates_end_too(name: str, settings: dict[str, object], seed: int) -> None:
    """Nothing is promised then, but whoever is admitted ends, and no share is above 100 %."""
    rng = Random(seed)
    procs = rng.randint(1, 4)
    jobs = as_jobs(some_rows(rng, 30, procs, "under"))
    world = watched(jobs, procs, sharing(name, settings))
    for decision in world.run():
        assert (decision.cost is None) == (decision.end is None)


class AskingClass(SharedClass):
    """Asks again with whatever a refusal names, and without a deadline."""

    refusals = 0

    def decide(self, job: PolicyJob, now: float) -> Admitted | Decline:
        """As ever; whatever is asked beside it changes nothing."""
        self.ask_again(replace(job, deadline=None), now)
        return self.ask_again(job, now)

    def ask_again(self, job: PolicyJob, now: float) -> Admitted | Decline:
        """The answer, after what it names has been tried."""
        answer = super().decide(job, now)
        if isinstance(answer, Decline):
            self.refusals += 1
            passing = self.policy.would_pass(self.nodes, job, now)
            assert passing, answer.message
            for terms in passing:
                again = replace(job, deadline=terms.deadline, budget=terms.budget)
                assert isinstance(super().decide(again, now), Admitted)
                assert terms.deadline == job.deadline or terms.deadline == int(terms.deadline)
        return answer


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("kind", ["exact", "over"])
@given(seed=seeds)
def test_a_refusal_names_what_passes(
    name: str, settings: dict[str, object], kind: str, seed: int
) -> None:
    """Whatever runs on the nodes: asked for again with the deadline and budget that a refusal
    names, the job is admitted. Some terms always pass while nobody is past an estimate.
    """
    rng = Random(seed)
    procs = rng.randint(1, 4)
    policy = sharing(name, settings)
    world = SharedWorld(as_jobs(some_rows(rng, 25, procs, kind)), procs, policy)
    world.shared = AskingClass("nodes", world.shared.node_names, policy)
    world.run()
    assert world.shared.refusals >= 25


@pytest.mark.parametrize("name", ["libra", "libra-posted"])
@given(seed=seeds, times=st.floats(1, 100))
def test_the_price_ignores_the_budget(name: str, seed: int, times: float) -> None:
    """Declaring more never changes what an admitted job pays, nor where it runs."""
    rng = Random(seed)
    procs = rng.randint(1, 4)
    shared = a_class(sharing(name, {}), procs)
    for number, job in enumerate(as_jobs(some_rows(rng, 25, procs, "exact"))):
        told = job.as_told(number)
        answer = shared.offer(told, job.submit)
        if isinstance(answer, Admitted):
            assert told.budget is not None
            richer = replace(told, budget=told.budget * times)
            assert shared.offer(richer, job.submit) == answer
            shared.join(told, answer, job.submit)


@pytest.mark.parametrize(("name", "settings"), CASES)
@given(seed=seeds)
def test_a_policy_changes_nothing(name: str, settings: dict[str, object], seed: int) -> None:
    """It gets the nodes themselves, and leaves them as they are."""
    rng = Random(seed)
    shared = a_class(sharing(name, settings), 3)
    jobs = as_jobs(some_rows(rng, 12, 3, "exact"))
    for number, job in enumerate(jobs):
        told = job.as_told(number)
        shared.bring_up_to_date(job.submit)
        before = [repr(node) for node in shared.nodes]
        answer = shared.offer(told, job.submit)
        for node in shared.nodes:
            shared.policy.rates(node, job.submit)
            shared.policy.next_change(node, job.submit)
        assert [repr(node) for node in shared.nodes] == before
        if isinstance(answer, Admitted):
            shared.join(told, answer, job.submit)


def lines_of_an_offer(policy: SharingPolicy, nodes: int, tasks: int, *, is_rich: bool) -> int:
    """Lines of Python that one offer runs, on nodes with so many tasks each."""
    shared = a_class(policy, nodes)
    for number in range(tasks):
        job = a_job(f"{number}", 1, 1000 + number, nodes=nodes, sequence=number)
        let_in(shared, job)
    asked = a_job("x", 5, 500, nodes=nodes, budget=100 if is_rich else 1)
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        answer = shared.offer(asked, 1)
    finally:
        sys.settrace(before)
    assert isinstance(answer, Admitted) == is_rich
    return lines


@pytest.mark.parametrize("is_rich", [True, False], ids=["admitted", "refused"])
@pytest.mark.parametrize("name", SHARING)
def test_an_admission_takes_time_in_proportion(name: str, is_rich: bool) -> None:
    """Ten times the nodes, or the tasks, are at most some ten times the work; so is the search for
    what would pass.
    """
    policy = sharing(name, {})
    small = lines_of_an_offer(policy, 20, 3, is_rich=is_rich)
    assert lines_of_an_offer(policy, 200, 3, is_rich=is_rich) < 11 * small
    assert lines_of_an_offer(policy, 20, 30, is_rich=is_rich) < 11 * small
