"""The sweep for pipelines: what it asks, how it learns, and what it says when nothing fits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    ReservationRequest,
)
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridcore.trips.metajobs import (
    MachineRequest,
    Metajob,
    Objective,
    Stage,
    UsagePattern,
)
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.travel_agent.search.alternatives import offered
from gridtravel.travel_agent.search.pipeline_sweep import PipelineSweep
from gridtravel.travel_agent.sites.destinations import Destination
from tests.support.search_world import a_context

NOW = 1000
NODES = 4


class TellingSite:
    """A site that counts how often it is asked, tells ``offers_max`` runs of starts at a time, and
    may be out of reach.
    """

    def __init__(self, name: str, *, price: int = 0, offers_max: int = 100) -> None:
        self.book = Calendar(
            name,
            [ResourceClass(name="n", nodes=NODES)],
            rules=CalendarRules(offers_max=offers_max, horizon_s=900),
            tariff=FlatTariff(price),
            origin=NOW,
        )
        self.asked: list[int] = []
        """Requests in each inquiry."""
        self.is_gone = False

    @property
    def calendar(self) -> TellingSite:
        """The connection's calendar is the site itself."""
        return self

    def busy(self, start: int, end: int, nodes: int = NODES) -> None:
        """Book it, in seconds from now."""
        self.book.free["n"].book(nodes, NOW + start, NOW + end)

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        if self.is_gone:
            raise UnavailableError(f"{self.book.site} does not answer")
        self.asked.append(len(requests))
        return [self.book.inquire(request, NOW) for request in requests]

    async def describe(self) -> SiteDescription:
        """What it is."""
        return SiteDescription(
            site=self.book.site,
            is_manager=False,
            classes=(ClassDescription(name="n", nodes=NODES),),
            time_zone="UTC",
            time_precise=float(NOW),
            lead_s=3,
            hold_ttl_max_s=300,
            horizon_s=900,
            millicredits_per_node_hour=0,
            software="",
            login="ada",
        )


def a_pipeline(*stages: Stage, **others: Any) -> Metajob:
    """These stages over the machines a and b, within the next 300 seconds."""
    fields: dict[str, Any] = {
        "name": "trip",
        "usage_pattern": UsagePattern.PIPELINE,
        "nodes_total": max(stage.nodes for stage in stages),
        "machines": tuple(
            MachineRequest(machine=name, nodes_min=1, nodes_max=NODES) for name in ("a", "b")
        ),
        "duration_s": 10,
        "earliest_start": NOW + 10,
        "latest_end": NOW + 310,
        "stages": stages,
    }
    return Metajob(**(fields | others))


def a_stage(name: str, *machines: str, **others: Any) -> Stage:
    """Two nodes for ten seconds."""
    fields: dict[str, Any] = {"name": name, "machines": machines, "nodes": 2, "duration_s": 10}
    return Stage(**(fields | others))


def a_sweep(metajob: Metajob, sites: dict[str, TellingSite]) -> PipelineSweep:
    """The search over these sites."""
    destinations = {
        each.machine: Destination(
            request=each,
            connection=sites[each.machine],  # type: ignore[arg-type]  # all that a search uses
            site=each.machine,
        )
        for each in metajob.candidates
    }
    return PipelineSweep(a_context(metajob, destinations))


def starts(plan: Plan | Decline) -> list[tuple[str, str, int]]:
    """Stage, machine and start of each leg, in seconds from now."""
    assert isinstance(plan, Plan), plan
    return [(leg.name, leg.machine, leg.start - NOW) for leg in plan.legs]


async def test_a_stage_waits_for_the_one_before_and_its_transfer() -> None:
    """One call to each machine, whatever the number of its stages; the second stage starts when the
    first has ended, the guard is over and the data has moved.
    """
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["a"].busy(0, 50)
    metajob = a_pipeline(
        a_stage("one", "a"), a_stage("two", "b", transfer_s=7), a_stage("three", "a"), guard_s=2
    )
    plan = await a_sweep(metajob, sites).propose()
    assert starts(plan) == [("one", "a", 50), ("two", "b", 69), ("three", "a", 81)]
    assert (sites["a"].asked, sites["b"].asked) == ([2], [1])


async def test_slack_delays_the_first_stage_rather_than_wait_between_two() -> None:
    """With no slack the whole chain waits for the late machine; with it only the second stage."""
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["b"].busy(0, 100)
    tight = a_pipeline(a_stage("one", "a"), a_stage("two", "b", slack_s=0))
    assert starts(await a_sweep(tight, sites).propose()) == [("one", "a", 90), ("two", "b", 100)]
    loose = a_pipeline(a_stage("one", "a"), a_stage("two", "b"))
    assert starts(await a_sweep(loose, sites).propose()) == [("one", "a", 10), ("two", "b", 100)]


async def test_goes_on_behind_a_cut_answer_no_further_than_needed() -> None:
    """Sites that tell one run of starts at a time are asked until the earliest finish is certain,
    and not about what lies behind it.
    """
    sites = {name: TellingSite(name, offers_max=1) for name in ("a", "b")}
    for first in range(10, 130, 12):
        sites["b"].busy(first, first + 1, 3)
        sites["b"].busy(first + 11, first + 12, 1)
    sites["a"].busy(0, 60)
    metajob = a_pipeline(a_stage("one", "a"), a_stage("two", "b"))
    plan = await a_sweep(metajob, sites).propose()
    free = sites["b"].book.free["n"]
    possible = [t for t in range(NOW + 70, NOW + 300) if free.fits(2, t, t + 10)]
    assert starts(plan)[-1] == ("two", "b", possible[0] - NOW)
    assert 1 < len(sites["b"].asked) < 30
    assert len(sites["a"].asked) == 1


async def test_the_cheapest_chain_is_looked_for_in_the_whole_window() -> None:
    """Lowest cost: the dear machine is not taken, however early it is; a budget refuses with the
    least price there is.
    """
    sites = {
        "a": TellingSite("a", price=7200, offers_max=1),
        "b": TellingSite("b", price=360, offers_max=1),
    }
    sites["b"].busy(0, 200)
    stages = (a_stage("one", "a", "b"), a_stage("two", "a", "b"))
    cheapest = a_pipeline(*stages, objective=Objective.LOWEST_COST)
    plan = await a_sweep(cheapest, sites).propose()
    assert starts(plan) == [("one", "b", 200), ("two", "b", 210)]
    poor = await a_sweep(a_pipeline(*stages, budget_millicredits=3), sites).propose()
    assert isinstance(poor, Decline)
    assert poor.rule is DeclineRule.BUDGET
    assert "costs 4 millicredits, the budget is 3" in poor.message


async def test_a_refused_place_is_asked_again_and_given_up_when_it_refuses_the_same() -> None:
    """The first refusal asks that place anew; when the same start is refused again although it is
    still offered, the stage goes to its other machine.
    """
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["b"].busy(0, 60)
    sweep = a_sweep(a_pipeline(a_stage("one", "a"), a_stage("two", "a", "b")), sites)
    no = Decline(rule=DeclineRule.LIMIT_RESERVATIONS, message="a: one reservation each", site="a")
    first = await sweep.propose()
    await sweep.learn({"two": no})
    assert await sweep.propose() == first
    assert sites["a"].asked == [2, 1]
    await sweep.learn({"two": no})
    assert starts(await sweep.propose()) == [("one", "a", 10), ("two", "b", 60)]
    await sweep.learn({"two": no})
    await sweep.propose()
    await sweep.learn({"two": no})
    answer = await sweep.propose()
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.LIMIT_RESERVATIONS
    assert answer.message.startswith("stage two: ")


async def test_what_would_work_is_a_later_end_and_can_be_booked() -> None:
    """The refusal names the stage, the end that would do, and a start whose window of the same
    length holds the whole chain: taken as the offer, it fits.
    """
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["b"].busy(0, 500)
    metajob = a_pipeline(a_stage("one", "a"), a_stage("two", "b", transfer_s=5, slack_s=60))
    answer = await a_sweep(metajob, sites).propose()
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.NO_ROOM
    assert "stage two" in answer.message
    assert "with a window until" in answer.message
    assert answer.earliest == NOW + 425
    (other,) = offered(metajob, answer)
    assert starts(await a_sweep(other, sites).propose()) == [("one", "a", 425), ("two", "b", 500)]


async def test_a_stage_with_room_at_the_wrong_time_is_told_with_its_slack() -> None:
    """Both stages have room in the window, but never one after the other."""
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["a"].busy(0, 200)
    sites["b"].busy(100, 899)
    metajob = a_pipeline(a_stage("one", "a"), a_stage("two", "b", slack_s=20), latest_end=NOW + 890)
    answer = await a_sweep(metajob, sites).propose()
    assert isinstance(answer, Decline)
    assert answer.earliest is None
    assert "stage two" in answer.message


async def test_a_machine_out_of_reach_is_done_without_where_another_is_named() -> None:
    """Its stages go elsewhere; a stage that has no other machine is not called refused."""
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    sites["a"].is_gone = True
    metajob = a_pipeline(a_stage("one", "a", "b"), a_stage("two", "b"))
    assert [each[1] for each in starts(await a_sweep(metajob, sites).propose())] == ["b", "b"]
    only = a_pipeline(a_stage("one", "a"), a_stage("two", "b"))
    with pytest.raises(UnavailableError, match="stage one: a cannot be reached"):
        await a_sweep(only, sites).propose()


async def test_questions_to_all_machines_are_asked_at_the_same_time() -> None:
    """No machine waits for another one's answer."""
    sites = {"a": TellingSite("a"), "b": TellingSite("b")}
    together = asyncio.Barrier(2)
    for site in sites.values():
        inquire = site.inquire

        async def meeting(
            requests: Sequence[ReservationRequest], inquire: Any = inquire
        ) -> list[Availability | Decline]:
            await together.wait()
            found: list[Availability | Decline] = await inquire(requests)
            return found

        site.inquire = meeting  # type: ignore[method-assign]  # this site's only
    metajob = a_pipeline(a_stage("one", "a"), a_stage("two", "b"))
    async with asyncio.timeout(5):
        assert isinstance(await a_sweep(metajob, sites).propose(), Plan)
