"""QoPS: who is admitted ends in time, whoever comes later and whoever is ended for him."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.admission.registry import policy_named
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, QueueView, Refused
from gridtravel.local_sched.policies.qops import Qops
from gridtravel.simulator.economy.decide import decide
from gridtravel.simulator.economy.qops_world import QopsJob, QopsWorld
from gridtravel.simulator.economy.workload import EconomyJob

PROCS = 4
rows = st.lists(
    st.tuples(
        st.integers(0, 6),  # after the one before
        st.integers(1, 12),  # run
        st.integers(1, PROCS),
        st.integers(0, 25),  # slack of the deadline
        st.booleans(),
    ),
    min_size=1,
    max_size=14,
)


def jobs_of(drawn: list[tuple[int, int, int, int, bool]]) -> list[QopsJob]:
    """Jobs of a small machine, with many ties."""
    jobs, now = [], 0
    for gap, run_s, procs, slack_s, has_deadline in drawn:
        now += gap
        jobs.append(QopsJob(now, run_s, procs, now + run_s + slack_s, has_deadline))
    return jobs


@settings(max_examples=150, deadline=None)
@given(
    drawn=rows,
    slack=st.sampled_from([1.0, 1.5, 3.0]),
    tolerance=st.sampled_from([1.0, 2.0, 8.0]),
    kill_candidates=st.sampled_from([0, 2, 8]),
    kill_grace=st.sampled_from([0, 1, 3]),
)
def test_accepted_deadlines_are_kept(
    drawn: list[tuple[int, int, int, int, bool]],
    slack: float,
    tolerance: float,
    kill_candidates: int,
    kill_grace: int,
) -> None:
    """Neither a later job nor a kill makes anybody late, and everybody admitted ends; an offer that
    is taken is honoured (the world asserts it), and never looser than the user bears.
    """
    jobs = jobs_of(drawn)
    policy = Qops(slack=slack, kill_candidates=kill_candidates, kill_grace=kill_grace)
    world = QopsWorld(jobs, PROCS, policy, tolerance=tolerance)
    for row, fate in zip(jobs, world.run(), strict=True):
        assert (fate.end is None) == (fate.agreed is None)
        if fate.end is None or fate.agreed is None:
            continue
        assert fate.end <= fate.agreed
        assert fate.end >= row.submit + row.run_s
        span = row.deadline - row.submit
        assert fate.as_asked or not row.has_deadline or fate.agreed - row.submit < tolerance * span
        assert kill_candidates or not fate.kills


@settings(max_examples=100, deadline=None)
@given(drawn=rows)
def test_a_decided_workload_keeps_its_deadlines(
    drawn: list[tuple[int, int, int, int, bool]],
) -> None:
    """``gurlab decide`` serves by the plan that an admission rests on, also when jobs are shorter
    than was said: every accepted job ends, by its deadline.
    """
    jobs = [
        EconomyJob(
            str(number), row.submit, row.run_s, row.run_s + number % 3, row.procs,
            row.deadline + number % 3, 10**9,
        )
        for number, row in enumerate(jobs_of(drawn))
    ]  # fmt: skip
    for job, decision in zip(jobs, decide(jobs, policy_named("qops"), PROCS), strict=True):
        if decision.cost is not None:
            assert decision.end is not None
            assert decision.end <= job.deadline


def a_job(name: str, nodes: int, limit_s: int, deadline: int, **others: object) -> PolicyJob:
    """A job that came now."""
    job = PolicyJob(
        job_id=name, nodes=nodes, limit_s=limit_s, submitted_at=0, sequence=99, deadline=deadline
    )
    return replace(job, **others)  # type: ignore[arg-type]  # by name


def a_view(*waiting: PolicyJob, running: tuple[PolicyJob, ...] = (), nodes: int = 4) -> QueueView:
    """A machine with these jobs in line; what runs has its nodes."""
    steps = [(0, nodes - sum(each.nodes for each in running))]
    for end in sorted({each.booked_until or 0 for each in running}):
        still = sum(each.nodes for each in running if (each.booked_until or 0) > end)
        steps.append((end, nodes - still))
    return QueueView(
        now=0,
        nodes=nodes,
        capacity=nodes,
        waiting=waiting,
        running=running,
        room_steps=tuple(steps),
    )


def test_a_new_job_goes_first_when_all_others_can_wait() -> None:
    """The slides' first step: placed at the start, everybody still in time."""
    patient = a_job("patient", 4, 10, 100, sequence=1, planned_start=0)
    answer = Qops().admit(a_view(patient), a_job("new", 4, 10, 10))
    assert isinstance(answer, Admitted)
    assert dict(answer.plan) == {"new": 0, "patient": 10}
    assert answer.deadline == 10


def test_a_critical_job_goes_to_the_front() -> None:
    """The new job first makes one late; that one first, and both are in time."""
    urgent = a_job("urgent", 4, 10, 12, sequence=1, planned_start=0)
    answer = Qops().admit(a_view(urgent), a_job("new", 4, 10, 30))
    assert isinstance(answer, Admitted)
    assert dict(answer.plan) == {"urgent": 0, "new": 10}


def test_positions_back_off_exponentially() -> None:
    """Without re-orderings the new job is tried at 0, 1, 2, 4 and behind all: what only the third
    place allows is refused, what the fourth allows is not.
    """
    others = [
        a_job(f"j{i}", 4, 10, 10 * i + 10 if i < 4 else 100, sequence=i, planned_start=10 * i)
        for i in range(6)
    ]
    policy = Qops(reorderings=0, feedback=0)
    answer = policy.admit(a_view(*others), a_job("new", 4, 10, 50))
    assert isinstance(answer, Admitted)
    assert dict(answer.plan)["new"] == 40
    tight = [replace(each, deadline=10 * i + 10 if i < 3 else 100) for i, each in enumerate(others)]
    assert isinstance(policy.admit(a_view(*tight), a_job("new", 4, 10, 40)), Refused)


@pytest.mark.parametrize(("slack", "offered"), [(1.0, 20), (1.5, 30)])
def test_a_refusal_names_a_deadline_that_passes(slack: float, offered: int) -> None:
    """The best that binary search finds, made looser by the slack; asked with it, admitted."""
    fixed = a_job("fixed", 4, 10, 10, sequence=1, planned_start=0)
    policy, new = Qops(slack=slack, feedback=10), a_job("new", 4, 10, 12)
    refused = policy.admit(a_view(fixed), new)
    assert isinstance(refused, Refused)
    assert refused.rule is DeclineRule.DEADLINE
    assert [each.deadline for each in refused.would_pass] == [offered]
    again = policy.admit(a_view(fixed), replace(new, deadline=offered))
    assert isinstance(again, Admitted)


def test_a_restartable_job_makes_way() -> None:
    """Of what runs, the one with the least work lost, if it can still end in time itself; with a
    grace its nodes come free later.
    """
    runs = [
        a_job(name, 2, 50, deadline, started_at=at, booked_until=at + 50, is_restartable=True)
        for name, deadline, at in (("long ago", 200, -20), ("just now", 200, -5))
    ]
    new = a_job("new", 2, 10, 12)
    view = a_view(running=tuple(runs))
    assert isinstance(Qops().admit(view, new), Decline)
    answer = Qops(kill_candidates=8).admit(view, new)
    assert isinstance(answer, Admitted)
    assert answer.kills == (("just now", 0),)
    assert dict(answer.plan) == {"new": 0, "just now": 10}
    late = Qops(kill_candidates=8, kill_grace=3).admit(view, new)
    assert isinstance(late, Decline)
    tight = tuple(replace(each, deadline=55) for each in runs)
    assert isinstance(Qops(kill_candidates=8).admit(a_view(running=tight), new), Decline)
    fixed = tuple(replace(each, is_restartable=False) for each in runs)
    assert isinstance(Qops(kill_candidates=8).admit(a_view(running=fixed), new), Decline)


def test_a_job_without_a_deadline_gets_a_loose_one() -> None:
    """A day, or twice the span it could have now, where that is longer."""
    job = replace(a_job("new", 4, 10, 0), deadline=None)
    answer = Qops().admit(a_view(), job)
    assert isinstance(answer, Admitted)
    assert answer.deadline == 86_400
    fixed = a_job("fixed", 4, 100_000, 100_000, sequence=1, planned_start=0)
    answer = Qops().admit(a_view(fixed), job)
    assert isinstance(answer, Admitted)
    assert answer.deadline == 2 * 100_010


def test_both_charges_and_the_budget() -> None:
    """Nodes x estimate, and the usual slowdown over the requested one; a budget below is refused
    with the price.
    """
    policy = Qops(resource_price=2.0, urgency_price=100.0, slowdown_short=3.0)
    job = a_job("new", 2, 10, 50)
    answer = policy.admit(a_view(), job)
    assert isinstance(answer, Admitted)
    assert answer.price == pytest.approx(2.0 * 20 + 100.0 * 3.0 / (50 / 10))
    refused = policy.admit(a_view(), replace(job, budget=99.0))
    assert isinstance(refused, Refused)
    assert refused.rule is DeclineRule.BUDGET
    assert [each.budget for each in refused.would_pass] == [pytest.approx(100.0)]
    assert isinstance(policy.admit(a_view(), replace(job, budget=100.0)), Admitted)


@pytest.mark.parametrize(
    ("key", "value"), [("slack", 0.5), ("reorderings", -1), ("feedback", float("nan"))]
)
def test_senseless_settings_are_refused(key: str, value: float) -> None:
    """Slack below 1 would promise what is not there."""
    with pytest.raises(InputError):
        Qops(**{key: value})


def test_what_the_machine_never_has_is_refused() -> None:
    """Wider than the class."""
    answer = Qops().admit(a_view(), a_job("new", 5, 10, 100))
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.TOO_LARGE
