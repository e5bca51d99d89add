"""The sweep search against sites that tell little at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Availability, Decline, ReservationRequest
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, Objective, UsagePattern
from gridtravel.gridcore.trips.planning import Plan
from gridtravel.travel_agent.search.sweep import Sweep
from gridtravel.travel_agent.sites.destinations import Destination
from tests.support.search_world import a_context

NOW = 1000
NODES = 4


class TerseSite:
    """A site that offers one run of starts in each answer, and counts how often it is asked."""

    def __init__(self, name: str, price: int = 0) -> None:
        self.calendar_book = Calendar(
            name,
            [ResourceClass(name="n", nodes=NODES)],
            rules=CalendarRules(offers_max=1, horizon_s=500),
            tariff=FlatTariff(price),
            origin=NOW,
        )
        self.asked = 0

    @property
    def calendar(self) -> TerseSite:
        """The connection's calendar is the site itself."""
        return self

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        self.asked += 1
        return [self.calendar_book.inquire(request, NOW) for request in requests]

    async def describe(self) -> SiteDescription:
        """What it is."""
        return SiteDescription(
            site=self.calendar_book.site,
            is_manager=False,
            classes=(ClassDescription(name="n", nodes=NODES),),
            time_zone="UTC",
            time_precise=float(NOW),
            lead_s=3,
            hold_ttl_max_s=300,
            horizon_s=500,
            millicredits_per_node_hour=0,
            software="",
            login="ada",
        )


def a_metajob(pattern: UsagePattern, **others: object) -> Metajob:
    """Four nodes over two machines, or two on one, for ten seconds in the next 300."""
    is_single = pattern is UsagePattern.SINGLE
    fields: dict[str, object] = {
        "name": "trip",
        "usage_pattern": pattern,
        "nodes_total": 2 if is_single else 4,
        "machines": tuple(
            MachineRequest(machine=name, nodes_min=2, nodes_max=2) for name in ("a", "b")
        ),
        "duration_s": 10,
        "earliest_start": NOW + 10,
        "latest_end": NOW + 310,
    }
    return Metajob(**(fields | others))  # type: ignore[arg-type]  # named above


def destinations(metajob: Metajob, sites: dict[str, TerseSite]) -> dict[str, Destination]:
    """Each machine at its site."""
    return {
        each.machine: Destination(
            request=each,
            connection=sites[each.machine],  # type: ignore[arg-type]  # all that a search uses
            site=each.machine,
        )
        for each in metajob.machines
    }


def comb(site: TerseSite, first: int, teeth: int) -> None:
    """Book the site so that it has many short gaps, none long enough for the trip."""
    profile = site.calendar_book.free["n"]
    for tooth in range(teeth):
        start = first + 12 * tooth
        profile.book(3, start, start + 1)
        profile.book(1, start + 11, start + 12)


async def test_goes_on_behind_a_cut_answer_to_the_earliest_common_start() -> None:
    """Sites that tell one run at a time are asked until the earliest common start is certain."""
    sites = {"a": TerseSite("a"), "b": TerseSite("b")}
    comb(sites["a"], NOW + 10, 8)
    comb(sites["b"], NOW + 16, 8)
    metajob = a_metajob(UsagePattern.MULTIPLE)
    plan = await Sweep(a_context(metajob, destinations(metajob, sites))).propose()
    assert isinstance(plan, Plan)
    possible = [
        start
        for start in range(metajob.earliest_start, metajob.latest_end - 9)
        if all(s.calendar_book.free["n"].fits(2, start, start + 10) for s in sites.values())
    ]
    assert plan.start == possible[0]
    assert sites["a"].asked > 1


async def test_a_machine_that_told_little_may_still_be_the_first_that_is_free() -> None:
    """Single: nobody's plan is taken before every other machine is known up to its start."""
    sites = {"a": TerseSite("a"), "b": TerseSite("b")}
    sites["a"].calendar_book.free["n"].book(4, NOW, NOW + 200)
    comb(sites["b"], NOW + 10, 8)
    metajob = a_metajob(UsagePattern.SINGLE, nodes_total=2)
    plan = await Sweep(a_context(metajob, destinations(metajob, sites))).propose()
    assert isinstance(plan, Plan)
    assert plan.legs[0].name == "b"
    assert plan.start < NOW + 200


@pytest.mark.parametrize("pattern", [UsagePattern.SINGLE, UsagePattern.MULTIPLE])
async def test_the_cheapest_start_is_looked_for_in_the_whole_window(pattern: UsagePattern) -> None:
    """Lowest cost: a cut answer is completed up to the window's end before anything is chosen."""
    sites = {"a": TerseSite("a", 3600), "b": TerseSite("b", 7200)}
    comb(sites["a"], NOW + 10, 8)
    metajob = a_metajob(pattern, objective=Objective.LOWEST_COST)
    plan = await Sweep(a_context(metajob, destinations(metajob, sites))).propose()
    assert isinstance(plan, Plan)
    assert plan.price_millicredits == (20 if pattern is UsagePattern.SINGLE else 60)


async def test_ends_where_the_horizon_of_a_site_ends() -> None:
    """A window beyond what sites plan for is refused, not searched for ever."""
    sites = {"a": TerseSite("a"), "b": TerseSite("b")}
    sites["a"].calendar_book.free["n"].book(4, NOW, NOW + 250)
    sites["b"].calendar_book.free["n"].book(4, NOW + 250, NOW + 600)
    metajob = a_metajob(UsagePattern.MULTIPLE, latest_end=NOW + 2000)
    answer = await Sweep(a_context(metajob, destinations(metajob, sites))).propose()
    assert isinstance(answer, Decline)
    assert sites["a"].asked < 20
