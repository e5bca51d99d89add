"""A user of the market: one budget over all sites, the cheapest that is in time, then offers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import pytest

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, PassingTerms
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobTerms, JobView
from gridtravel.gridcore.ports import SitePort
from gridtravel.gridio.ledger.ledger import Ledger
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.local_sched.scheduling.jobs import WaitReason
from gridtravel.simulator.market.buyer import NO_PLAN, TOO_LATE, Buyer, Purchase
from gridtravel.simulator.market.orders import Order
from gridtravel.simulator.market.sites import MILLI, MarketSite, MarketUser

NOW = 1_000
Answer = Callable[[JobSpec], JobView | Decline]


@dataclass
class Desk:
    """One site whose answers are given; its ledger is a real one."""

    answer: Answer
    price: int = 10
    """Credits of a job, in whole."""
    paid: int | None = None
    """What it pays in the end; ``None``: all."""
    specs: list[JobSpec] = field(default_factory=list)
    ledger: Ledger = field(default_factory=lambda: Ledger(None))

    def __post_init__(self) -> None:
        self.ledger.grant("ada", 1_000 * MILLI, request_id="a", note="", at=NOW)

    async def submit(self, spec: JobSpec) -> JobView | Decline:
        self.specs.append(spec)
        said = self.answer(spec)
        if isinstance(said, Decline):
            return said
        view = replace(said, job_id=f"{len(self.specs)}.desk")
        assert self.ledger.hold(f"job/{view.job_id}", "ada", self.price * MILLI, NOW) is None
        return view

    async def cancel_job(self, job_id: str) -> None:
        self.ledger.release(f"job/{job_id}", NOW)

    async def watch_job(self, job_id: str) -> AsyncIterator[JobView]:
        paid = self.price if self.paid is None else self.paid
        self.ledger.charge(f"job/{job_id}", paid * MILLI, NOW)
        yield replace(a_view(self.specs[-1]), job_id=job_id, state=JobState.COMPLETED)

    async def jobs(self, *, job_ids: Sequence[str]) -> list[JobView]:
        raise AssertionError(f"{job_ids} were planned at once")

    async def query(self, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        assert name == "account"
        lines = self.ledger.statement(arguments["account"])
        return {
            "lines": [
                {"reference": each.reference, "kind": each.kind, "millicredits": each.millicredits}
                for each in lines
            ]
        }


def a_view(spec: JobSpec) -> JobView:
    """A job that has just come."""
    return JobView(
        job_id="x", site="x", owner="ada", spec=spec, state=JobState.QUEUED, submitted_at=NOW
    )


def admits(spec: JobSpec) -> JobView:
    """A site with shares: the deadline is promised."""
    terms = JobTerms(agreed_at=NOW, deadline=spec.deadline, node_numbers=(0,))
    return replace(a_view(spec), terms=terms)


def plans(start: int) -> Answer:
    """A site with whole nodes."""
    return lambda spec: replace(a_view(spec), planned_start=start)


def behind_others(spec: JobSpec) -> JobView:
    """A site that has looked at the job and plans no start for it."""
    return replace(a_view(spec), reason=WaitReason.BEHIND_OTHERS.value)


def wants(deadline: int, budget: int | None) -> Answer:
    """A site that takes the job by that deadline, for that many credits."""

    def answer(spec: JobSpec) -> JobView | Decline:
        assert spec.deadline is not None
        assert spec.budget_millicredits is not None
        is_rich = budget is None or spec.budget_millicredits >= budget * MILLI
        if spec.deadline >= deadline and is_rich:
            return admits(spec)
        terms = PassingTerms(
            deadline=max(deadline, spec.deadline),
            budget_millicredits=spec.budget_millicredits if budget is None else budget * MILLI,
        )
        return Decline(rule=DeclineRule.DEADLINE, message="no", passing=(terms,))

    return answer


def an_order(**changed: Any) -> Order:
    """Wanted in 20 seconds for 30 credits, and on no other terms."""
    usual: dict[str, Any] = {
        "name": "job",
        "user": "ada",
        "at_s": 0,
        "estimate_s": 5,
        "runs_s": 3,
        "within_s": 20,
        "budget": 30,
        "latest_s": 20,
        "budget_max": 30,
    }
    return Order(**(usual | changed))


def a_buyer(*desks: Desk, budget: int = 100) -> Buyer:
    """Ada before some sites, the cheapest first: s0, s1, ..."""
    numbers = count()
    sites = {
        f"s{number}": (
            MarketSite(name=f"s{number}", nodes=1, policy="x", credits_per_node_s=number + 1),
            cast("SitePort", desk),
        )
        for number, desk in enumerate(desks)
    }
    user = MarketUser(login="ada", budget=budget, grants={})
    return Buyer(user, sites, ManualClock(NOW), lambda prefix: f"{prefix}-{next(numbers)}")


def outcome(purchase: Purchase) -> list[tuple[str, bool, str]]:
    """Who was asked, whether the job stayed, and why not."""
    return [(each.site, each.is_taken, each.refusal) for each in purchase.asks]


async def test_the_cheapest_site_that_is_in_time_has_the_job() -> None:
    """The others are not asked."""
    desks = Desk(plans(NOW + 15)), Desk(admits)
    purchase = await a_buyer(*desks).buy(an_order())
    assert outcome(purchase) == [("s0", True, "")]
    assert desks[1].specs == []


@pytest.mark.parametrize(("answer", "why"), [(plans(NOW + 16), TOO_LATE), (behind_others, NO_PLAN)])
async def test_a_job_that_would_be_late_is_taken_back(answer: Answer, why: str) -> None:
    """It is cancelled, costs nothing, and goes elsewhere."""
    desks = Desk(answer), Desk(admits)
    buyer = a_buyer(*desks)
    purchase = await buyer.buy(an_order())
    assert outcome(purchase) == [("s0", False, why), ("s1", True, "")]
    assert desks[0].ledger.open_holds() == {}
    assert buyer.left_millicredits == 90 * MILLI


async def test_one_budget_for_all_sites() -> None:
    """What is held anywhere is not offered elsewhere; what was not paid comes back."""
    desks = Desk(admits, price=30, paid=20), Desk(admits)
    buyer = a_buyer(*desks, budget=50)
    first = await buyer.buy(an_order(budget=40))
    assert desks[0].specs[-1].budget_millicredits == 40 * MILLI
    await buyer.buy(an_order(budget=40))
    assert desks[0].specs[-1].budget_millicredits == 20 * MILLI
    await buyer.follow(first)
    assert first.paid_millicredits == 20 * MILLI
    assert first.view is not None
    assert first.view.state is JobState.COMPLETED
    assert buyer.left_millicredits == 0 * MILLI


async def test_the_nearest_offer_is_taken_up() -> None:
    """Of two sites the one whose deadline is nearer; a second later than offered."""
    desks = Desk(wants(NOW + 50, None)), Desk(wants(NOW + 40, None))
    purchase = await a_buyer(*desks).buy(an_order(latest_s=60))
    taken = purchase.taken
    assert taken is not None
    assert (taken.site, taken.deadline, taken.is_offer) == ("s1", NOW + 41, True)


async def test_a_dearer_offer_is_paid_as_far_as_the_budget_goes() -> None:
    """A little more than offered, and never more than is left; at the deadline as it was."""
    purchase = await a_buyer(Desk(wants(NOW, 35)), budget=100).buy(an_order(budget_max=60))
    taken = purchase.taken
    assert taken is not None
    assert (taken.deadline, taken.budget_millicredits) == (NOW + 20, 35_700)
    purchase = await a_buyer(Desk(wants(NOW, 35)), budget=35).buy(an_order(budget_max=60))
    assert purchase.taken is not None
    assert purchase.taken.budget_millicredits == 35_000


@pytest.mark.parametrize(
    ("answer", "budget", "changed"),
    [
        (wants(NOW + 61, None), 100, {"latest_s": 60}),
        (wants(NOW, 61), 100, {"budget_max": 60}),
        (wants(NOW, 61), 60, {"budget_max": 100}),
    ],
)
async def test_what_the_user_does_not_bear_is_not_asked_for(
    answer: Answer, budget: int, changed: Mapping[str, int]
) -> None:
    """Too late, too dear for the job, more than the user has: refused by all."""
    desk = Desk(answer)
    purchase = await a_buyer(desk, budget=budget).buy(an_order(**changed))
    assert purchase.taken is None
    assert len(desk.specs) == 1


async def test_offers_that_are_gone_are_not_run_after_for_ever() -> None:
    """A site that always wants a little more hears of it a few times."""

    def runs_away(spec: JobSpec) -> Decline:
        assert spec.deadline is not None
        terms = PassingTerms(deadline=spec.deadline + 1)
        return Decline(rule=DeclineRule.DEADLINE, message="no", passing=(terms,))

    desk = Desk(runs_away)
    purchase = await a_buyer(desk).buy(an_order(latest_s=1_000))
    assert purchase.taken is None
    assert len(desk.specs) == 6
