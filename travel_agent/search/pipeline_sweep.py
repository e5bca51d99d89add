"""The sweep for pipelines: one round of inquiries for every stage at every machine where it may
run, then the provably earliest (or cheapest) chain over what came back.

``gridcore.trips.pipeline_planning`` has the chain; here are the questions. A machine is asked about
all its stages in one call, each stage within the window that its predecessors and successors leave
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.durations import format_duration
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.gridcore.trips.metajobs import Metajob, Objective
from gridtravel.gridcore.trips.pipeline_planning import (
    ChainLink,
    NoChain,
    earliest_starts,
    latest_starts,
    plan_chain,
)
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.travel_agent.news import News, Step
from gridtravel.travel_agent.search.sweep import news_of
from gridtravel.travel_agent.trip_context import TripContext

Place = tuple[str, str]
"""A stage and a machine where it may run."""


class PipelineSweep:
    """See the module; ``travel_agent.search.sweep.Search``.

    A refusal makes its place be asked again. When the fresh answer leads to the same start and that
    is refused once more, an inquiry does not show why (a limit that another stage of this very trip
    uses up): the place is given up.
    """

    def __init__(self, trip: TripContext) -> None:
        self._trip = trip
        self._links = chain_of(trip.metajob)
        self._answers: dict[Place, Availability | Decline] = {}
        self._proposed: Plan | None = None
        self._refused_at: dict[Place, Instant] = {}

    async def propose(self) -> Plan | Decline:
        """See ``Search``. Long answers that were cut are gone on with as far as they matter."""
        await self._ask([place for place in self._places() if place not in self._answers])
        while True:
            plan = self._plan(self._answers)
            cut = self._cut_before(plan)
            if cut:
                await self._go_on(cut)
            elif isinstance(plan, Plan):
                self._proposed = plan
                return plan
            else:
                return await self._why_not(plan)

    async def learn(self, refusals: Mapping[str, Decline]) -> None:
        """See ``Search``."""
        for leg in self._proposed.legs if self._proposed is not None else ():
            refusal = refusals.get(leg.name)
            if refusal is None:
                continue
            place = (leg.name, leg.machine)
            if self._refused_at.get(place) == leg.start:
                self._answers[place] = refusal
            else:
                self._refused_at[place] = leg.start
                self._answers.pop(place, None)

    # -- planning ----------------------------------------------------------------------------------

    def _places(self) -> list[Place]:
        return [(link.name, machine) for link in self._links for machine in link.machines]

    def _plan(self, answers: Mapping[Place, Availability | Decline]) -> Plan | NoChain:
        return plan_chain(
            self._links,
            {place: each for place, each in answers.items() if isinstance(each, Availability)},
            budget_millicredits=self._trip.metajob.budget_millicredits,
            objective=self._trip.metajob.objective,
        )

    def _cut_before(self, plan: Plan | NoChain) -> list[Place]:
        """Places whose answer ends before the last start that could still make a better chain."""
        last_start = self._trip.metajob.latest_end - self._links[-1].length_s
        is_earliest = self._trip.metajob.objective is Objective.EARLIEST_FINISH
        if isinstance(plan, Plan) and is_earliest:
            last_start = plan.legs[-1].start
        needed = dict(self._by_stage(latest_starts(self._links, last_start)))
        return [
            place
            for place, answer in self._answers.items()
            if isinstance(answer, Availability) and answer.known_until <= needed[place[0]]
        ]

    def _by_stage(self, instants: Iterable[Instant]) -> Iterable[tuple[str, Instant]]:
        return zip((link.name for link in self._links), instants, strict=True)

    # -- asking ------------------------------------------------------------------------------------

    async def _ask(self, places: list[Place], *, until: Instant | None = None) -> None:
        """One inquiry at each machine, about all its places in the list."""
        requests = {
            place: self._request(place, until or self._trip.metajob.latest_end) for place in places
        }
        for place, answer in (await self._inquire(requests)).items():
            self._answers[place] = answer
            self._trip.tell(news_of(f"{place[0]} at {place[1]}", answer))
        self._check_reachable()

    async def _go_on(self, places: list[Place]) -> None:
        """Ask for what lies behind the last answers, and put both together."""
        requests = {}
        for place in places:
            known = self._answers[place]
            assert isinstance(known, Availability), "only answers have an end of what is known"
            request = self._request(place, self._trip.metajob.latest_end)
            requests[place] = replace(request, earliest_start=known.known_until)
        for place, answer in (await self._inquire(requests)).items():
            known = self._answers[place]
            assert isinstance(known, Availability), "nobody else changes the answers"
            if isinstance(answer, Availability) and answer.known_until > known.known_until:
                joined = (*known.offers, *answer.offers)
                self._answers[place] = replace(answer, offers=joined)
            else:
                # Nothing behind what is known: it is complete up to the window's end.
                self._answers[place] = replace(known, known_until=self._trip.metajob.latest_end)

    async def _inquire(
        self, requests: Mapping[Place, ReservationRequest]
    ) -> dict[Place, Availability | Decline]:
        machines = list(dict.fromkeys(machine for _, machine in requests))
        asked = [[place for place in requests if place[1] == machine] for machine in machines]
        answers = await asyncio.gather(
            *(
                self._inquire_one(machine, [requests[place] for place in places])
                for machine, places in zip(machines, asked, strict=True)
            )
        )
        return {
            place: answer
            for places, told in zip(asked, answers, strict=True)
            for place, answer in zip(places, told, strict=True)
        }

    async def _inquire_one(
        self, machine: str, requests: list[ReservationRequest]
    ) -> list[Availability | Decline]:
        self._trip.tell(News(step=Step.ASKED, place=machine))
        destination = self._trip.destinations[machine]
        try:
            return await destination.connection.calendar.inquire(requests)
        except UnavailableError as fault:
            self._trip.tell(News(step=Step.UNREACHABLE, place=machine, text=str(fault)))
            unreachable = _Unreachable(
                rule=DeclineRule.NO_ROOM,
                message=f"{machine} cannot be reached: {fault}",
                site=destination.site,
            )
            return [unreachable] * len(requests)

    def _check_reachable(self) -> None:
        """A stage none of whose machines can be reached is not refused: nobody was asked."""
        for link in self._links:
            answers = [self._answers.get((link.name, machine)) for machine in link.machines]
            if all(isinstance(each, _Unreachable) for each in answers):
                reasons = "; ".join(each.message for each in answers if isinstance(each, Decline))
                raise UnavailableError(
                    f"stage {link.name}: {reasons}", hint="try again, or name another machine"
                )

    def _request(self, place: Place, latest_end: Instant) -> ReservationRequest:
        """What a machine is asked about a stage: anywhere in the window that the others leave."""
        stage, machine = place
        link = next(each for each in self._links if each.name == stage)
        destination = self._trip.destinations[machine]
        first = dict(
            self._by_stage(earliest_starts(self._links, self._trip.metajob.earliest_start))
        )
        last = dict(
            self._by_stage(latest_starts(self._links, latest_end - self._links[-1].length_s))
        )
        return ReservationRequest(
            request_id=f"{self._trip.trip_id}.{stage}.inquiry",
            account=destination.account,
            nodes_min=link.nodes,
            nodes_max=link.nodes,
            duration_s=link.length_s,
            earliest_start=first[stage],
            latest_end=last[stage] + link.length_s,
            features=destination.required_features,
            notify_email=destination.request.email_notify,
        )

    # -- refusing ----------------------------------------------------------------------------------

    async def _why_not(self, plan: NoChain) -> Decline:
        """The refusal, and what would work: the same chain within a window that ends later."""
        refusal = self._describe(plan)
        if refusal.rule not in (DeclineRule.NO_ROOM, DeclineRule.START_TOO_SOON):
            return refusal
        descriptions = await asyncio.gather(
            *(each.connection.calendar.describe() for each in self._trip.destinations.values()),
            return_exceptions=True,
        )
        known = [each for each in descriptions if not isinstance(each, BaseException)]
        if len(known) < len(descriptions):
            return refusal
        clock = min(int(each.time_precise) for each in known)
        until = clock + min(each.horizon_s for each in known) - 1
        if until <= self._trip.metajob.latest_end:
            return refusal
        inside = dict(self._answers)
        await self._ask(self._places(), until=until)
        wider, self._answers = self._answers, inside
        found = self._plan(wider)
        if isinstance(found, NoChain):
            return refusal
        end = found.legs[-1].start + self._links[-1].length_s
        fits = end - found.start <= self._trip.metajob.window.duration_s
        return replace(
            refusal,
            message=f"{refusal.message}; with a window until {format_utc(end)} it would fit",
            earliest=found.start if fits else None,
        )

    def _describe(self, plan: NoChain) -> Decline:
        """Why the sites' answers hold no chain."""
        job = self._trip.metajob
        if plan.cheapest_millicredits is not None:
            message = (
                f"the cheapest chain in the window costs {plan.cheapest_millicredits}"
                f" millicredits, the budget is {job.budget_millicredits}"
            )
            return Decline(rule=DeclineRule.BUDGET, message=message)
        link = next(each for each in self._links if each.name == plan.stage)
        if not plan.has_room:
            answers = [self._answers.get((link.name, machine)) for machine in link.machines]
            refusals = [each for each in answers if isinstance(each, Decline)]
            told = "; ".join(each.message for each in refusals) or "no machine has room"
            rule = refusals[0].rule if refusals else DeclineRule.NO_ROOM
            return Decline(rule=rule, message=f"stage {link.name}: {told}")
        before = self._links[self._links.index(link) - 1]
        waits = "" if link.slack_s is None else f" and at most {format_duration(link.slack_s)} more"
        message = (
            f"stage {link.name} ({link.nodes} nodes for {format_duration(link.length_s)}) has no"
            f" room behind {before.name}: {format_duration(link.transfer_s)} for the transfer"
            f"{waits}, from {format_utc(job.earliest_start)} to {format_utc(job.latest_end)}"
        )
        return Decline(rule=DeclineRule.NO_ROOM, message=message)


class _Unreachable(Decline):
    """The stand-in for the answer of a machine that gave none."""


def chain_of(metajob: Metajob) -> tuple[ChainLink, ...]:
    """The stages of a pipeline as the planning wants them."""
    return tuple(
        ChainLink(
            name=stage.name,
            machines=stage.machines,
            nodes=stage.nodes,
            length_s=metajob.length_s(stage.name),
            transfer_s=stage.transfer_s,
            slack_s=stage.slack_s,
        )
        for stage in metajob.stages
    )
