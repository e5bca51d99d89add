"""Searches behind one interface: where and when could the trip go, given what sites answer.

A search proposes a plan; the booking tries to hold it. What a site declines goes back to the
search, which learns and proposes again. Bounded: each proposal after the first follows on a fresh
inquiry at the sites that declined, and the booking makes at most ``ATTEMPTS_MAX`` attempts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.metajobs import Metajob, Objective, UsagePattern
from gridtravel.gridcore.trips.planning import (
    NoPlan,
    Plan,
    SiteShare,
    by_load,
    plan_common_start,
    plan_single,
)
from gridtravel.travel_agent.log.events import AskedLeg
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext


class Search(Protocol):
    """Proposes plans until one can be held or nothing is left."""

    async def propose(self) -> Plan | Decline:
        """The best plan that is known to be possible, or why there is none."""
        ...

    async def learn(self, refusals: Mapping[str, Decline]) -> None:
        """The owners of these legs of the last proposal said no to them; by the legs' names."""
        ...


def window_request(
    metajob: Metajob, destination: Destination, request_id: str, *, until: Instant | None = None
) -> ReservationRequest:
    """What one machine is asked in a round of inquiries: its share, anywhere in the window."""
    machine = destination.request
    others_min = sum(each.nodes_min for each in metajob.machines if each != machine)
    if metajob.usage_pattern is UsagePattern.SINGLE:
        least = most = metajob.nodes_total
    else:
        least, most = machine.nodes_min, min(machine.nodes_max, metajob.nodes_total - others_min)
    return ReservationRequest(
        request_id=request_id,
        account=destination.account,
        nodes_min=least,
        nodes_max=most,
        duration_s=metajob.duration_s + metajob.guard_s,
        earliest_start=metajob.earliest_start,
        latest_end=until or metajob.latest_end,
        features=destination.required_features,
        notify_email=machine.email_notify,
    )


def hold_request(metajob: Metajob, destination: Destination, leg: AskedLeg) -> ReservationRequest:
    """What the site of ``leg`` is asked to hold: exactly that."""
    return ReservationRequest(
        request_id=leg.request_id,
        account=destination.account,
        nodes_min=leg.nodes,
        nodes_max=leg.nodes,
        duration_s=metajob.length_s(leg.name),
        earliest_start=leg.start,
        latest_end=leg.start + metajob.length_s(leg.name),
        features=destination.required_features,
        notify_email=destination.request.email_notify,
    )


class Sweep:
    """One round of inquiries, then the earliest common start over what came back (design, section
    7).

    The start is provably the earliest within the sites' answers (``gridcore.trips.planning``). A
    site that changed its mind is asked again, so every later proposal rests on a newer answer.
    """

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self._answers: dict[str, Availability | Decline] = {}
        self._is_single = trip.metajob.usage_pattern is UsagePattern.SINGLE
        self._length_s = trip.metajob.duration_s + trip.metajob.guard_s

    async def propose(self) -> Plan | Decline:
        """See ``Search``. A long answer may have been cut: the search goes on where the knowledge
        ends, so that nothing earlier is missed and nothing later is given up.
        """
        missing = [name for name in self._trip.destinations if name not in self._answers]
        await self._ask(missing)
        while True:
            refusal = self._refusal()
            if refusal is not None:
                return refusal if self._is_single else await self._why_not(refusal)
            plan = self._plan(self._answers)
            cut = self._cut_before(plan)
            if cut:
                await self._go_on(cut)
            elif isinstance(plan, Plan):
                return plan
            else:
                return await self._why_not(self._describe(plan))

    async def learn(self, refusals: Mapping[str, Decline]) -> None:
        """See ``Search``."""
        for name in refusals:
            self._answers.pop(name, None)

    def _cut_before(self, plan: Plan | NoPlan) -> list[str]:
        """Machines whose answer ends before the moment up to which it must be known: the start of
        the plan, or the end of the window when the cheapest is wanted or none was found yet.
        """
        latest = self._trip.metajob.latest_end - self._length_s
        is_earliest = self._trip.metajob.objective is Objective.EARLIEST_FINISH
        needed = plan.start if isinstance(plan, Plan) and is_earliest else latest
        return [
            name
            for name, answer in self._answers.items()
            if isinstance(answer, Availability) and answer.known_until <= needed
        ]

    def _plan(self, answers: Mapping[str, Availability | Decline]) -> Plan | NoPlan:
        known = {name: each for name, each in answers.items() if isinstance(each, Availability)}
        job = self._trip.metajob
        shares = [share for share in self._shares() if share.name in known]
        if self._is_single:
            return plan_single(
                shares,
                known,
                job.nodes_total,
                budget_millicredits=job.budget_millicredits,
                objective=job.objective,
            )
        order = by_load(shares, known) if job.preference_reorder else [s.name for s in shares]
        return plan_common_start(
            shares,
            known,
            job.nodes_total,
            budget_millicredits=job.budget_millicredits,
            objective=job.objective,
            fill_order=order,
        )

    def _shares(self) -> list[SiteShare]:
        return [
            SiteShare(name=each.machine, nodes_min=each.nodes_min, nodes_max=each.nodes_max)
            for each in self._trip.metajob.machines
            if each.machine in self._trip.destinations
        ]

    async def _ask(self, names: list[str], *, until: Instant | None = None) -> None:
        """One inquiry at each machine, all at the same time."""
        answers = await asyncio.gather(*(self._ask_one(name, until) for name in names))
        for name, answer in zip(names, answers, strict=True):
            self._answers[name] = answer
            self._trip.tell(news_of(name, answer))

    async def _go_on(self, names: list[str]) -> None:
        """Ask these machines for what lies behind their last answer, and put both together."""
        known = {name: self._answers[name] for name in names}
        starts = {
            name: each.known_until for name, each in known.items() if isinstance(each, Availability)
        }
        answers = await asyncio.gather(
            *(self._ask_one(name, None, earliest=start) for name, start in starts.items())
        )
        for name, answer in zip(starts, answers, strict=True):
            before = known[name]
            assert isinstance(before, Availability), "only answers have an end of what is known"
            if isinstance(answer, Decline):
                # Nothing behind what is known: the knowledge is complete up to the window's end.
                end = self._trip.metajob.latest_end - self._length_s + 1
                self._answers[name] = replace(before, known_until=end)
            else:
                joined = (*before.offers, *answer.offers)
                self._answers[name] = replace(answer, offers=joined)

    async def _ask_one(
        self, name: str, until: Instant | None, *, earliest: Instant | None = None
    ) -> Availability | Decline:
        destination = self._trip.destinations[name]
        self._trip.tell(News(step=Step.ASKED, place=name))
        request = window_request(
            self._trip.metajob, destination, f"{self._trip.trip_id}.{name}.inquiry", until=until
        )
        if earliest is not None:
            request = replace(request, earliest_start=earliest)
        try:
            answers = await destination.connection.calendar.inquire([request])
        except UnavailableError as fault:
            if not self._is_single or len(self._trip.destinations) == 1:
                raise
            self._trip.tell(News(step=Step.UNREACHABLE, place=name, text=str(fault)))
            return Decline(rule=DeclineRule.NO_ROOM, message=f"{name} cannot be reached", site=name)
        return answers[0]

    def _refusal(self) -> Decline | None:
        """One refusal that decides: of any site when all are needed, of the last one otherwise."""
        refusals = [each for each in self._answers.values() if isinstance(each, Decline)]
        if not refusals:
            return None
        if not self._is_single:
            return refusals[0]
        if len(refusals) < len(self._answers):
            return None
        starts = [each.earliest for each in refusals if each.earliest is not None]
        message = "; ".join(each.message for each in refusals)
        return Decline(
            rule=refusals[0].rule,
            message=message,
            earliest=min(starts, default=None),
            nodes_now=max(each.nodes_now for each in refusals),
        )

    def _describe(self, plan: NoPlan) -> Decline:
        """Why the sites' answers have no start in common."""
        job = self._trip.metajob
        window = f"{format_utc(job.earliest_start)} to {format_utc(job.latest_end)}"
        if plan.cheapest_millicredits is not None:
            message = (
                f"the cheapest start in the window costs {plan.cheapest_millicredits}"
                f" millicredits, the budget is {job.budget_millicredits}"
            )
            return Decline(rule=DeclineRule.BUDGET, message=message, nodes_now=plan.nodes_now)
        message = (
            f"{job.nodes_total} nodes have no common start from {window}; at most"
            f" {plan.nodes_now} nodes start together"
        )
        return Decline(rule=DeclineRule.NO_ROOM, message=message, nodes_now=plan.nodes_now)

    async def _why_not(self, refusal: Decline) -> Decline:
        """Complete a refusal with the earliest common start behind the window, if there is one."""
        if refusal.rule not in (DeclineRule.NO_ROOM, DeclineRule.START_TOO_SOON):
            return refusal
        descriptions = await asyncio.gather(
            *(each.connection.calendar.describe() for each in self._trip.destinations.values())
        )
        clock = min(int(each.time_precise) for each in descriptions)
        until = clock + min(each.horizon_s for each in descriptions) - 1
        if until <= self._trip.metajob.latest_end:
            return refusal
        inside = dict(self._answers)
        await self._ask(list(self._trip.destinations), until=until)
        wider, self._answers = self._answers, inside
        if any(isinstance(each, Decline) for each in wider.values()):
            return refusal
        plan = self._plan(wider)
        return replace(refusal, earliest=plan.start) if isinstance(plan, Plan) else refusal


def news_of(name: str, answer: Availability | Decline) -> News:
    """What a site answered to an inquiry, for people."""
    if isinstance(answer, Decline):
        return News(step=Step.DECLINED, place=name, text=answer.message)
    first = answer.offers[0]
    text = (
        f"up to {max(offer.nodes for offer in answer.offers)} nodes,"
        f" from {format_utc(first.start)}, {first.unit_price_millicredits} millicredits a node"
    )
    return News(step=Step.OFFERED, place=name, text=text)


def plan_text(plan: Plan) -> str:
    """A plan in one line, for people."""
    if len({leg.start for leg in plan.legs}) > 1:
        return ", ".join(
            f"{leg.name}: {leg.nodes} at {leg.machine} from {format_utc(leg.start)}"
            for leg in plan.legs
        )
    shares = ", ".join(f"{leg.nodes} at {leg.machine}" for leg in plan.legs)
    return f"{shares}, from {format_utc(plan.start)}"
