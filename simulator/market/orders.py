"""What the users of the market want run, and when they ask for it: the script.

Lengths are in seconds and sums in credits. All are stretched by one factor, and so are the users'
budgets: on a machine with much to do everything takes longer, and deadlines have to lie further
off.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Final

from gridtravel.simulator.market.sites import MarketSite

RUNS_OF_ESTIMATE: Final = 0.6
"""Users of real sites say more than they need; here it is also what a busy machine takes."""
BURN: Final = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job as its user asks for it."""

    name: str
    user: str
    at_s: float
    """When it is asked for, after the market has opened."""
    estimate_s: int
    """Processor time that it needs at most; so long it has nodes of its own."""
    runs_s: float
    """What it really takes."""
    within_s: int
    """Its deadline, counted from when it is asked for."""
    budget: int
    """Credits that it may cost, as far as the user's own budget allows."""
    latest_s: int
    """The latest deadline that the user takes instead, likewise."""
    budget_max: int
    """The most credits that the user pays instead."""

    def argv(self, site: MarketSite) -> tuple[str, ...]:
        """What runs: work where the site's processors are this machine's."""
        if site.is_shared:
            return (sys.executable, "-I", "-c", BURN, str(self.runs_s))
        return ("sleep", str(self.runs_s))

    def stretched(self, factor: float) -> Order:
        """Everything so many times longer, and the money for it."""
        return replace(
            self,
            at_s=self.at_s * factor,
            estimate_s=round(self.estimate_s * factor),
            runs_s=self.runs_s * factor,
            within_s=round(self.within_s * factor),
            budget=round(self.budget * factor),
            latest_s=round(self.latest_s * factor),
            budget_max=round(self.budget_max * factor),
        )


def _order(
    at_s: float,
    user: str,
    name: str,
    estimate_s: int,
    within_s: int,
    budget: int,
    *,
    latest_s: int = 0,
    budget_max: int = 0,
) -> Order:
    return Order(
        name=name,
        user=user,
        at_s=at_s,
        estimate_s=estimate_s,
        runs_s=estimate_s * RUNS_OF_ESTIMATE,
        within_s=within_s,
        budget=budget,
        latest_s=latest_s or within_s,
        budget_max=budget_max or budget,
    )


ORDERS: Final = (
    _order(0, "ada", "render", 24, 45, 30),
    _order(1, "ben", "align", 6, 12, 30),
    _order(2, "cleo", "fold", 10, 45, 12),
    _order(3, "ada", "mesh", 6, 20, 30),
    _order(4, "ben", "dock", 8, 14, 40),
    _order(5, "cleo", "sweep", 8, 14, 26, latest_s=45),
    _order(8, "ada", "blend", 6, 9, 26, latest_s=40),
    _order(13, "ada", "knit", 3, 30, 8, latest_s=90),
    _order(17, "ben", "quick", 4, 8, 10, budget_max=20),
    _order(18, "cleo", "thumb", 3, 30, 8),
    _order(20, "ada", "trace", 5, 12, 20),
    _order(21, "cleo", "index", 4, 12, 12, latest_s=30),
    _order(23, "ben", "grand", 24, 60, 100, latest_s=90),
)
"""Dear and urgent ones that no site takes as they are, and some that wait for the cheapest."""
