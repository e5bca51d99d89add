"""A user of the market: one budget over all sites, the cheapest site that promises first.

A site with shares promises the deadline when it accepts a job. One with whole nodes tells when the
job starts, and the user takes it back at once, for nothing, when that is too late. What no site
takes as it was asked for is asked for again on the terms that a refusal has offered, as far as the
user bears them and has the money.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.booking.reservations import Decline, PassingTerms
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.local_sched.scheduling.jobs import WaitReason
from gridtravel.simulator.market.sites import MILLI, MarketSite, MarketUser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gridtravel.gridcore.ports import SitePort
    from gridtravel.gridcore.timing.instants import Instant
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.simulator.market.orders import Order

OFFERS_MAX: Final = 5
"""How often an offer is taken up that is gone again when the site hears of it."""
LATER_S: Final = 1
"""A site says what passes at that moment; the answer and the next question take time, in which a
little more comes to be needed: so much later is asked for ..."""
DEARER: Final = 1.02
"""... or so many times the money."""
LOOK_S: Final = 0.1
PLAN_S: Final = 15.0
"""Longest wait for the scheduler to look at a job; a cycle is some milliseconds."""
SETTLE_S: Final = 30.0
"""Longest wait for the account of a job that is over."""
STATEMENT_LINES: Final = "1000"
CLOSING: Final = ("charge", "release")
"""Entries that end what was held for a job."""
TOO_LATE: Final = "it would end too late here"
NO_PLAN: Final = "its start is not planned here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One question to one site, and what came of it."""

    site: str
    deadline: Instant
    budget_millicredits: int
    is_offer: bool = False
    """The site had said that this would pass."""
    job_id: str = ""
    """Empty: refused."""
    price_millicredits: int = 0
    """Held for it; of a job that was taken back, what it has cost nevertheless."""
    refusal: str = ""
    """Why the job does not run there."""
    rule: str = ""
    """The site's rule; empty with a refusal: the user took the job back."""
    passing: tuple[PassingTerms, ...] = ()
    """What would pass."""

    @property
    def is_taken(self) -> bool:
        """True when the job runs there."""
        return not self.refusal


@dataclass(slots=True, kw_only=True)
class Purchase:
    """What came of an order."""

    order: Order
    asks: list[Ask] = field(default_factory=list)
    view: JobView | None = None
    """The job as it was seen last; ``None``: no site has taken it."""
    paid_millicredits: int = 0
    """As the site's ledger has it."""

    @property
    def taken(self) -> Ask | None:
        """The question that was answered with yes."""
        return next((each for each in self.asks if each.is_taken), None)


class Buyer:
    """One user with connections to all sites. One order is bought at a time."""

    def __init__(
        self,
        user: MarketUser,
        sites: Mapping[str, tuple[MarketSite, SitePort]],
        clock: Clock,
        new_id: Callable[[str], str],
    ) -> None:
        """``sites``: the cheapest first."""
        self.user = user
        self._sites = sites
        self._clock = clock
        self._new_id = new_id
        self._spent: dict[tuple[str, str], int] = {}
        """Millicredits held or paid, by site and job."""

    @property
    def left_millicredits(self) -> int:
        """What may still be spent, at whichever site."""
        return self.user.budget * MILLI - sum(self._spent.values())

    async def buy(self, order: Order) -> Purchase:
        """Ask for it: 1. everywhere as it is, the cheapest first, up to the first yes; 2. on the
        least change of terms that was offered.
        """
        purchase = Purchase(order=order)
        deadline = self._clock.now() + order.within_s
        wished = min(order.budget * MILLI, self.left_millicredits)
        for site in self._sites:
            if await self._ask(purchase, site, deadline, wished):
                return purchase
        for _ in range(OFFERS_MAX):
            offer = self._best_offer(purchase, self._clock.now())
            if offer is None:
                break
            site, terms = offer
            asked = self._with_margin(terms, deadline, wished)
            if await self._ask(purchase, site, *asked, is_offer=True):
                break
        return purchase

    async def follow(self, purchase: Purchase) -> None:
        """See a job to its end and its account settled."""
        taken = purchase.taken
        assert taken is not None
        _, port = self._sites[taken.site]
        async for view in port.watch_job(taken.job_id):
            purchase.view = view
        purchase.paid_millicredits = await self._settled(taken.site, taken.job_id)

    # -- one question ------------------------------------------------------------------------------

    async def _ask(
        self, purchase: Purchase, name: str, deadline: Instant, budget: int, is_offer: bool = False
    ) -> bool:
        """Submit the job there; True when it stays."""
        site, port = self._sites[name]
        order = purchase.order
        ask = Ask(site=name, deadline=deadline, budget_millicredits=budget, is_offer=is_offer)
        answer = await port.submit(
            JobSpec(
                request_id=self._new_id("market"),
                name=order.name,
                account=self.user.login,
                nodes=1,
                limit_s=order.estimate_s,
                estimate_s=order.estimate_s,
                argv=order.argv(site),
                deadline=deadline,
                budget_millicredits=budget,
            )
        )
        if isinstance(answer, Decline):
            purchase.asks.append(
                replace(
                    ask,
                    refusal=answer.message,
                    rule=answer.rule.value,
                    passing=answer.passing,
                )
            )
            return False
        trouble = await self._lateness(port, answer)
        if trouble:
            await port.cancel_job(answer.job_id)
            price = await self._settled(name, answer.job_id)
        else:
            await self._read_account(name)
            price = self._spent[name, answer.job_id]
        purchase.asks.append(
            replace(ask, job_id=answer.job_id, price_millicredits=price, refusal=trouble)
        )
        if not trouble:
            purchase.view = answer
        return not trouble

    async def _lateness(self, port: SitePort, view: JobView) -> str:
        """Why the user does not leave the job there; empty: it will be in time."""
        if view.terms is not None and view.terms.node_numbers:
            return ""  # the deadline is promised
        give_up_at = self._clock.now_precise() + PLAN_S
        while view.state is JobState.QUEUED and view.planned_start is None:
            if view.reason != WaitReason.NEW or self._clock.now_precise() > give_up_at:
                return NO_PLAN
            await self._clock.sleep_until(self._clock.now_precise() + LOOK_S)
            (view,) = await port.jobs(job_ids=[view.job_id])
        start = view.started_at or view.planned_start or self._clock.now()
        assert view.spec.deadline is not None
        return "" if start + view.spec.limit_s <= view.spec.deadline else TOO_LATE

    # -- offers ------------------------------------------------------------------------------------

    def _best_offer(self, purchase: Purchase, now: Instant) -> tuple[str, PassingTerms] | None:
        """Of what each site said last would pass, the nearest deadline that the user bears and can
        pay, the cheapest of equals.
        """
        order, first = purchase.order, purchase.asks[0]
        latest = first.deadline - order.within_s + order.latest_s
        most = min(order.budget_max * MILLI, self.left_millicredits)
        offers = [
            (terms.deadline, terms.budget_millicredits or 0, site, terms)
            for site in self._sites
            for terms in [each for each in purchase.asks if each.site == site][-1].passing
            if now < terms.deadline <= latest and (terms.budget_millicredits or 0) <= most
        ]
        if not offers:
            return None
        _, _, site, terms = min(offers, key=lambda offer: offer[:2])
        return site, terms

    def _with_margin(
        self, terms: PassingTerms, deadline: Instant, wished: int
    ) -> tuple[Instant, int]:
        """The offer and a little more of what it changes."""
        later = terms.deadline + LATER_S if terms.deadline > deadline else terms.deadline
        budget = wished if terms.budget_millicredits is None else terms.budget_millicredits
        if budget > wished:
            budget = min(math.ceil(budget * DEARER), self.left_millicredits)
        return later, budget

    # -- money -------------------------------------------------------------------------------------

    async def _read_account(self, name: str) -> list[dict[str, Any]]:
        """Learn from the statement what each job there has taken of the account."""
        _, port = self._sites[name]
        answer: Any = await port.query(
            "account", {"account": self.user.login, "lines": STATEMENT_LINES}
        )
        lines: list[dict[str, Any]] = answer["lines"]
        spent: dict[tuple[str, str], int] = {}
        for line in lines:
            kind, _, job_id = line["reference"].partition("/")
            if kind == "job":
                spent[name, job_id] = spent.get((name, job_id), 0) - line["millicredits"]
        self._spent |= spent
        return lines

    async def _settled(self, name: str, job_id: str) -> int:
        """Wait until the account of a job that is over is closed; the millicredits it has paid."""
        give_up_at = self._clock.now_precise() + SETTLE_S
        while True:
            lines = await self._read_account(name)
            if f"job/{job_id}" in [each["reference"] for each in lines if each["kind"] in CLOSING]:
                return self._spent[name, job_id]
            if self._clock.now_precise() > give_up_at:
                raise UnavailableError(f"{name} does not settle {job_id}")
            await self._clock.sleep_until(self._clock.now_precise() + LOOK_S)
