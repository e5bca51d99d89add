"""Probe: the paper's search, for sites that can only set and cancel reservations (GUR paper,
section 4).

Nobody is ever inquired of. What a site would grant is learned by setting a test reservation there
(``trials``) and cancelling it:

1. one test reservation at each machine measures its delay: the least loaded comes first;
2. in that order each is asked for as many of the nodes still needed as it may take, from the
   earliest start on; it grants what it has at its earliest, and the last must grant the rest;
3. when all start together, that is the solution;
4. else the latest-starting stay, the others are cancelled and asked again from that start on: the
   sliding window;
5. when the window is exhausted, each machine is asked for an exact number, first as many as
   possible at the least loaded, then ever more at the more heavily loaded, until minimums and
   maximums bind;
6. the first solution wins.

Before the plan is proposed every test reservation is cancelled: the booking sets its own holds,
which are legs of a trip. Somebody else may be quicker; then the search begins again.

It is bounded, and it is not exact: see docs/searches.md for what it misses and what it costs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Reservation
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.metajobs import Objective, UsagePattern
from gridtravel.gridcore.trips.planning import (
    Plan,
    PlannedLeg,
    SiteShare,
    fill,
    shifted,
    shifting_step,
)
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.search.jitter import jitter_s
from gridtravel.travel_agent.search.trials import TRIALS_MAX, Trials
from gridtravel.travel_agent.trip_context import TripContext

ROUNDS_MAX: Final = 32
"""How often the window slides for one distribution of nodes."""
DISTRIBUTIONS_MAX: Final = 16
"""How many exact distributions are tried; with more possible ones several nodes shift at once."""
AHEAD_S: Final = 5
"""What is to start at once must be held before it starts: the n-th proposal looks n times this far
ahead at the least, because the search itself takes time.
"""
PAUSE_LEAST_S: Final = 0.2
PAUSE_JITTERS: Final = 10
"""That there is no room is believed when it was heard twice, for another traveller's test
reservations may have been in the way: between the two lie so many seconds, and so many times the
jitter of the first attempt.
"""

Trial = Mapping[str, Reservation]
"""Test reservations that start together, by machine."""


@dataclass(slots=True)
class _Failures:
    """What stood in the way, for the refusal."""

    cheapest_millicredits: int | None = None
    """Least price of a solution that the budget does not pay for."""


class Probe:
    """See the module; ``travel_agent.search.sweep.Search``."""

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self._machines = list(trip.destinations)
        self._trials = Trials(trip)
        self._proposals = 0
        self._order: list[str] = []
        """The machines in the order in which they are filled; empty: not measured yet."""
        requests = {name: each.request for name, each in trip.destinations.items()}
        self._shares = {
            name: SiteShare(name=name, nodes_min=each.nodes_min, nodes_max=each.nodes_max)
            for name, each in requests.items()
        }

    async def propose(self) -> Plan | Decline:
        """See ``Search``. No test reservation is left when it returns; after a fault, and Ctrl-C,
        the log says which may be.
        """
        assert self._trip.metajob.usage_pattern is not UsagePattern.PIPELINE, "refused before"
        self._proposals += 1
        soonest = self._trip.clock.now() + AHEAD_S * self._proposals
        begin = max(self._trip.metajob.earliest_start, soonest)
        if begin + self._trip.metajob.span_min_s > self._trip.metajob.latest_end:
            message = (
                f"test reservations take their time: the start must be"
                f" {AHEAD_S * self._proposals} s ahead, and the window ends before"
            )
            return Decline(rule=DeclineRule.START_TOO_SOON, message=message, earliest=begin)
        found = await self._find(begin)
        if isinstance(found, Decline) and found.rule is DeclineRule.NO_ROOM:
            pause_s = PAUSE_LEAST_S + PAUSE_JITTERS * jitter_s(self._trip.trip_id, 1)
            await self._trip.clock.sleep_until(self._trip.clock.now_precise() + pause_s)
            found = await self._find(begin)
        return found if isinstance(found, Decline) else self._plan(found)

    async def learn(self, refusals: Mapping[str, Decline]) -> None:
        """See ``Search``. The next proposal sets new test reservations in any case; the order of
        the machines stays as it was measured.
        """

    async def _find(self, begin: Instant) -> Trial | Decline:
        is_single = self._trip.metajob.usage_pattern is UsagePattern.SINGLE
        found = await (self._anywhere(begin) if is_single else self._together(begin))
        await self._trials.cancel_all()
        return found

    def _plan(self, found: Trial) -> Plan:
        return Plan(
            legs=tuple(
                PlannedLeg(
                    name=name,
                    machine=name,
                    nodes=found[name].nodes,
                    start=found[name].start,
                    price_millicredits=found[name].price_millicredits,
                )
                for name in self._machines
                if name in found
            )
        )

    # -- single ------------------------------------------------------------------------------------

    async def _anywhere(self, begin: Instant) -> Trial | Decline:
        """One test reservation at each machine; the earliest (or the cheapest) start is taken."""
        await self._trials.announce(self._machines, begin)
        total = self._trip.metajob.nodes_total
        answers = await asyncio.gather(
            *(self._ask_any(name, total, begin) for name in self._machines)
        )
        failures = _Failures()
        granted = [
            (name, kept)
            for name, kept in zip(self._machines, answers, strict=True)
            if isinstance(kept, Reservation) and self._is_paid({name: kept}, failures)
        ]
        if granted:
            is_earliest = self._trip.metajob.objective is Objective.EARLIEST_FINISH
            name, kept = min(
                granted,
                key=lambda each: (
                    (each[1].start, each[1].price_millicredits)
                    if is_earliest
                    else (each[1].price_millicredits, each[1].start)
                ),
            )
            return {name: kept}
        refusals = [each for each in answers if isinstance(each, Decline)]
        if failures.cheapest_millicredits is not None or not refusals:
            return self._refusal(failures)
        return Decline(
            rule=refusals[0].rule,
            message="; ".join(each.message for each in refusals),
            earliest=min((e.earliest for e in refusals if e.earliest is not None), default=None),
            nodes_now=max(each.nodes_now for each in refusals),
        )

    async def _ask_any(self, name: str, total: int, begin: Instant) -> Reservation | Decline:
        try:
            return await self._trials.set(name, total, total, begin)
        except UnavailableError as fault:
            if len(self._machines) == 1:
                raise
            self._trip.tell(News(step=Step.UNREACHABLE, place=name, text=str(fault)))
            await self._trials.forget(name)
            return Decline(rule=DeclineRule.NO_ROOM, message=f"{name} cannot be reached", site=name)

    # -- multiple ----------------------------------------------------------------------------------

    async def _together(self, begin: Instant) -> Trial | Decline:
        if not self._order:
            refusal = await self._measure(begin)
            if refusal is not None:
                return refusal
        failures = _Failures()
        if self._trip.metajob.objective is Objective.EARLIEST_FINISH:
            found = await self._slide(begin, None)
            if found is not None and self._is_paid(found, failures):
                return found
        total = self._trip.metajob.nodes_total
        shares = [self._shares[name] for name in self._order]
        step = shifting_step(shares, total, DISTRIBUTIONS_MAX)
        sizes = fill(shares, total)
        while sizes is not None and not self._trials.is_spent:
            found = await self._slide(begin, sizes)
            if found is not None and self._is_paid(found, failures):
                return found
            sizes = shifted(shares, sizes, step)
        return self._refusal(failures)

    async def _measure(self, begin: Instant) -> Decline | None:
        """Step 1. The order of the machines, or why one of them can never be part of the trip.

        One after the other, and every traveller in the same order: of two who want the same last
        room one is refused before it has anything that the other needs. For the lowest cost the
        order found is that of the prices: what is asked of the first is most.
        """
        is_cheapest = self._trip.metajob.objective is Objective.LOWEST_COST
        if not self._trip.metajob.preference_reorder and not is_cheapest:
            self._order = list(self._machines)
            return None
        await self._trials.announce(self._machines, begin)
        for name in sorted(self._machines):
            answer = await self._trials.set(
                name, self._shares[name].nodes_min, self._most(name), begin
            )
            if isinstance(answer, Decline):
                await self._trials.cancel_all()
                return answer
        granted = dict(self._trials.held)
        await self._trials.cancel_all()

        def rank(name: str) -> tuple[int, int]:
            kept = granted[name]
            if is_cheapest:
                return (kept.price_millicredits // kept.nodes, kept.start)
            return (kept.start, -kept.nodes)

        self._order = sorted(self._machines, key=rank)
        return None

    async def _slide(self, begin: Instant, sizes: Mapping[str, int] | None) -> Trial | None:
        """Steps 2 to 4, for exact ``sizes`` or for whatever distribution comes of asking; ``None``:
        the window is exhausted. Each round starts later than the one before.
        """
        trials, at = self._trials, begin
        for _ in range(ROUNDS_MAX):
            missing = [name for name in self._order if name not in trials.held]
            if trials.is_spent:
                break
            await trials.announce(missing, at)
            for position, name in enumerate(missing):
                least, most = (
                    self._range(missing[position:]) if sizes is None else (sizes[name], sizes[name])
                )
                answer = await trials.set(name, least, most, at)
                if isinstance(answer, Decline):
                    await trials.cancel_all()
                    return None
                at = max(at, answer.start)
            late = [name for name, kept in trials.held.items() if kept.start < at]
            if not late:
                found = dict(trials.held)
                await trials.cancel_all()
                return found
            await trials.cancel(late)
        await trials.cancel_all()
        return None

    def _range(self, rest: Sequence[str]) -> tuple[int, int]:
        """Fewest and most nodes that the first of ``rest`` is asked for, so that the others of it
        can still take what is missing then.
        """
        needed = self._trip.metajob.nodes_total - sum(
            kept.nodes for kept in self._trials.held.values()
        )
        first, others = self._shares[rest[0]], [self._shares[name] for name in rest[1:]]
        least = max(first.nodes_min, needed - sum(self._most(each.name) for each in others))
        most = min(self._most(first.name), needed - sum(each.nodes_min for each in others))
        assert least <= most, "what is held leaves room for the minimums of the others"
        return least, most

    def _most(self, name: str) -> int:
        """Most nodes of this machine that any distribution has."""
        others = sum(each.nodes_min for each in self._shares.values() if each.name != name)
        return min(self._shares[name].nodes_max, self._trip.metajob.nodes_total - others)

    # -- answers -----------------------------------------------------------------------------------

    def _is_paid(self, found: Trial, failures: _Failures) -> bool:
        """True when the budget pays for it; else it is noted what would have."""
        price = sum(kept.price_millicredits for kept in found.values())
        budget = self._trip.metajob.budget_millicredits
        if budget is None or price <= budget:
            return True
        known = failures.cheapest_millicredits
        failures.cheapest_millicredits = price if known is None else min(known, price)
        return False

    def _refusal(self, failures: _Failures) -> Decline:
        job = self._trip.metajob
        if failures.cheapest_millicredits is not None:
            message = (
                f"the cheapest start that was found costs {failures.cheapest_millicredits}"
                f" millicredits, the budget is {job.budget_millicredits}"
            )
            return Decline(rule=DeclineRule.BUDGET, message=message)
        window = f"{format_utc(job.earliest_start)} to {format_utc(job.latest_end)}"
        why = (
            f"gave up after {TRIALS_MAX} test reservations"
            if self._trials.is_spent
            else f"no common start found with {self._trials.count} test reservations"
        )
        message = (
            f"{job.nodes_total} nodes from {window}: {why};"
            " a longer window or fewer nodes may do, and so may --search sweep"
        )
        return Decline(rule=DeclineRule.NO_ROOM, message=message)
