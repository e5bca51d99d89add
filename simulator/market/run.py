"""The market from its opening to its books: daemons, grants, orders, ends, and what was found.

What was found is judged here too: who ran in time, who paid what, and whether all books agree.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridio.ledger.ledger import EARNED, Ledger
from gridtravel.gridio.rpc.client.grpc_site import GrpcSite
from gridtravel.gridio.trust.credentials import load_credential
from gridtravel.local_sched.catalina.session import open_session
from gridtravel.local_sched.catalina.work.accounts import grant
from gridtravel.simulator.market.buyer import Buyer, Purchase
from gridtravel.simulator.market.orders import ORDERS
from gridtravel.simulator.market.share_meter import ShareMeter, ShareSample
from gridtravel.simulator.market.sites import (
    HARBOUR,
    MILLI,
    SITES,
    USERS,
    ledger_of,
    socket_of,
)

if TYPE_CHECKING:
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.gridio.system.ids import IdSource
    from gridtravel.simulator.market.orders import Order
    from gridtravel.travel_agent.demo.grid import DemoGrid

SAMPLE_S: Final = 0.5
Tell = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class Market:
    """What happened."""

    opened_at: float
    budgets: Mapping[str, int]
    """Millicredits by user, over all sites."""
    purchases: list[Purchase] = field(default_factory=list)
    sampled_at: list[float] = field(default_factory=list)
    """The moments at which shares were measured."""
    samples: list[ShareSample] = field(default_factory=list)
    accounts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Balances in millicredits at the end, by site; the site's own begin with a colon."""
    granted: dict[str, dict[str, int]] = field(default_factory=dict)
    """Millicredits by site and user."""
    faults: list[str] = field(default_factory=list)
    """What should not be; none in a market that keeps its promises."""

    def seconds(self, moment: float) -> float:
        """Since the market opened, to a hundredth."""
        return round(moment - self.opened_at, 2)

    def spent_by(self, user: str) -> int:
        """Millicredits that a user has paid at all sites together, by their books."""
        return sum(given[user] - self.accounts[site][user] for site, given in self.granted.items())


async def hold_market(
    grid: DemoGrid, clock: Clock, ids: IdSource, *, stretch: float, tell: Tell
) -> Market:
    """Let the users of a grid that is up buy what they want, until all is over and paid."""
    users = [user.stretched(stretch) for user in USERS]
    market = Market(
        opened_at=clock.now_precise(), budgets={user.login: user.budget * MILLI for user in users}
    )
    for site in SITES:
        given = market.granted[site.name] = {}
        async with open_session(str(socket_of(grid.folder, site.name)), "UTC", {}) as session:
            for user in users:
                amount = user.grants[site.name]
                await grant(session, user.login, str(amount), note="for the market", request_id="")
                given[user.login] = amount * MILLI
    connections: list[GrpcSite] = []
    try:
        buyers: dict[str, Buyer] = {}
        for user in users:
            credential = load_credential(grid.folder.user(user.login) / "credential")
            reached = []
            for site in SITES:
                endpoint = grid.endpoints[site.name]
                connection = GrpcSite(endpoint, credential, site=site.name, clock=clock)
                connections.append(connection)
                described = await connection.calendar.describe()
                reached.append((described.millicredits_per_node_hour, site, connection.site))
            reached.sort(key=lambda found: found[0])
            cheapest_first = {site.name: (site, port) for _, site, port in reached}
            buyers[user.login] = Buyer(user, cheapest_first, clock, ids.new_id)
        market.opened_at = clock.now_precise()
        orders = [each.stretched(stretch) for each in ORDERS]
        meter = ShareMeter(grid.folder.site(HARBOUR.name))
        async with _measuring(meter, clock):
            await _trade(market, buyers, orders, clock, tell)
        market.sampled_at, market.samples = meter.moments, meter.samples
    finally:
        await asyncio.gather(*(each.close() for each in connections))
    _look_at_books(market, grid)
    _judge(market)
    return market


async def _trade(
    market: Market, buyers: Mapping[str, Buyer], orders: list[Order], clock: Clock, tell: Tell
) -> None:
    """One order after the other when its time has come; returns when all jobs are over."""
    async with asyncio.TaskGroup() as group:
        for order in orders:
            await clock.sleep_until(market.opened_at + order.at_s)
            buyer = buyers[order.user]
            purchase = await buyer.buy(order)
            market.purchases.append(purchase)
            taken = purchase.taken
            if taken is None:
                tell(f"{order.user}'s {order.name}: refused by all")
                continue
            tell(f"{order.user}'s {order.name}: {taken.site}, {taken.price_millicredits / MILLI:g}")
            group.create_task(buyer.follow(purchase))


@contextlib.asynccontextmanager
async def _measuring(meter: ShareMeter, clock: Clock) -> AsyncIterator[None]:
    """Measure shares as long as this is open."""

    async def measure() -> None:
        while True:
            meter.sample(clock.now_precise())
            await clock.sleep_until(clock.now_precise() + SAMPLE_S)

    task = asyncio.create_task(measure())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _look_at_books(market: Market, grid: DemoGrid) -> None:
    """Count every ledger again, beside its daemon."""
    for site in SITES:
        ledger = Ledger(ledger_of(grid.folder, site.name))
        with contextlib.closing(ledger):
            try:
                ledger.check()
            except ConflictError as fault:
                market.faults.append(f"{site.name}: {fault}")
            accounts = market.accounts[site.name] = ledger.accounts()
            for reference in ledger.open_holds():
                market.faults.append(f"{site.name}: {reference} is not settled")
            for purchase in market.purchases:
                taken = purchase.taken
                if taken is None or taken.site != site.name:
                    continue
                hold = ledger.hold_of(f"job/{taken.job_id}")
                if hold is None or hold.charged != purchase.paid_millicredits:
                    market.faults.append(f"{site.name}: the books differ on {taken.job_id}")
        given = market.granted[site.name]
        spent = sum(amount - accounts[user] for user, amount in given.items())
        if accounts[EARNED] != spent:
            market.faults.append(f"{site.name} earned {accounts[EARNED]}, {spent} was spent there")


def is_in_time(purchase: Purchase) -> bool:
    """True for a job that did its work by the deadline that was agreed."""
    view, taken = purchase.view, purchase.taken
    if view is None or taken is None or view.ended_at is None:
        return False
    return view.state is JobState.COMPLETED and view.ended_at <= taken.deadline


def _judge(market: Market) -> None:
    """What users were promised."""
    for purchase in market.purchases:
        taken, order = purchase.taken, purchase.order
        if taken is None:
            continue
        if purchase.paid_millicredits > taken.budget_millicredits:
            market.faults.append(f"{order.name} paid more than its budget")
        if not is_in_time(purchase):
            market.faults.append(f"{order.name} was not done by its deadline")
    for user, budget in market.budgets.items():
        if market.spent_by(user) > budget:
            market.faults.append(f"{user} paid more than the budget over all sites")
