"""The paper's search, step by step: sites that are asked for nothing but to set and cancel."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.trips.metajobs import Metajob, Objective, Stage, UsagePattern
from gridtravel.gridcore.trips.planning import Plan, SiteShare, fill, shifted, shifting_step
from gridtravel.travel_agent.choices import SearchChoice
from gridtravel.travel_agent.search.choice import check_search, choose_search
from gridtravel.travel_agent.search.probe import AHEAD_S, Probe
from gridtravel.travel_agent.search.sweep import Sweep
from gridtravel.travel_agent.search.trials import TRIALS_MAX
from tests.support.search_world import (
    NOW,
    CalendarSite,
    Load,
    LogPage,
    PatientClock,
    a_context,
    a_trip,
    ways_to,
)

WHOLE = NOW + 10
"""The first second of the window."""


class Scene:
    """Some loaded sites, and a probe for one trip."""

    def __init__(
        self,
        metajob: Metajob,
        loads: Mapping[str, Load],
        *,
        nodes: int = 8,
        prices: Mapping[str, int] | None = None,
    ) -> None:
        self.clock = PatientClock(NOW)
        self.sites = {
            name: CalendarSite(
                name,
                self.clock,
                nodes=nodes,
                load=load,
                price=(prices or {}).get(name, 0),
                answers_inquiries=False,
            )
            for name, load in loads.items()
        }
        self.log = LogPage()
        ways = ways_to(metajob, self.sites)
        self.probe = Probe(a_context(metajob, ways, log=self.log, clock=self.clock))

    async def shares(self) -> dict[str, int]:
        """Nodes by machine of what is proposed; nothing may be left behind."""
        plan = await self.probe.propose()
        assert isinstance(plan, Plan), plan
        self.check_nothing_left()
        self.start = plan.start
        assert {leg.start for leg in plan.legs} == {plan.start}
        return {leg.machine: leg.nodes for leg in plan.legs}

    def check_nothing_left(self) -> None:
        """No test reservation in any book, none in the log."""
        assert [site.live() for site in self.sites.values()] == [[] for _ in self.sites]
        assert self.log.announced() == set()


async def test_the_least_loaded_machine_gets_most() -> None:
    """Steps 1 and 2: the delays of test reservations make the order, the first is asked for as many
    as it may take.
    """
    scene = Scene(a_trip({"a": (1, 8), "b": (1, 8)}, 9), {"a": [(8, NOW, 15)], "b": []})
    scene.sites["b"].book.free["n"].book(1, NOW, NOW + 20)
    assert await scene.shares() == {"a": 2, "b": 7}
    assert scene.start == NOW + 15


async def test_without_reordering_the_users_order_holds() -> None:
    """``machine_preference_reorder=no``: nobody's load is measured."""
    trip = a_trip({"a": (1, 8), "b": (1, 8)}, 9, preference_reorder=False)
    scene = Scene(trip, {"a": [(8, NOW, 15)], "b": []})
    assert await scene.shares() == {"a": 8, "b": 1}
    assert scene.sites["a"].calls["reserve"] == 1


async def test_the_window_slides_to_a_start_in_common() -> None:
    """Steps 3 and 4: gaps that do not match make the latest start the next earliest one."""
    scene = Scene(
        a_trip({"a": (8, 8), "b": (8, 8), "c": (8, 8)}, 24),
        {
            "a": [(8, NOW + 30, 20)],
            "b": [(8, NOW, 40), (8, NOW + 60, 20)],
            "c": [(8, NOW, 95)],
        },
    )
    assert await scene.shares() == {"a": 8, "b": 8, "c": 8}
    assert scene.start == NOW + 95


async def test_nodes_shift_to_the_more_heavily_loaded() -> None:
    """Step 5: the least loaded grants one node at once and is slid past the only common start; an
    exact distribution finds it.
    """
    scene = Scene(
        a_trip({"a": (1, 8), "b": (1, 8)}, 9),
        {
            "a": [(7, NOW, 30), (1, NOW + 30, 20), (3, NOW + 50, 260)],
            "b": [(8, NOW, 12), (6, NOW + 12, 300)],
        },
    )
    assert await scene.shares() == {"a": 7, "b": 2}
    assert scene.start == NOW + 30


async def test_the_first_machine_that_is_free() -> None:
    """Single: one test reservation at each, the earliest start is taken; ties go to the preferred
    one.
    """
    shares = {"a": (1, 8), "b": (1, 8), "c": (1, 8)}
    scene = Scene(
        a_trip(shares, 8, pattern=UsagePattern.SINGLE),
        {"a": [(1, NOW, 90)], "b": [(1, NOW, 50)], "c": [(1, NOW, 50)]},
    )
    assert await scene.shares() == {"b": 8}
    assert scene.start == NOW + 50
    assert [site.calls["reserve"] for site in scene.sites.values()] == [1, 1, 1]


async def test_a_machine_out_of_reach_does_not_stop_a_single_trip() -> None:
    """Of several machines one that does not answer is left out, and told to forget the request."""
    scene = Scene(
        a_trip({"a": (1, 8), "b": (1, 8)}, 8, pattern=UsagePattern.SINGLE), {"a": [], "b": []}
    )
    scene.sites["a"].is_gone = True
    assert await scene.shares() == {"b": 8}
    assert scene.sites["a"].calls["release_request"] == 1


async def test_a_machine_out_of_reach_stops_a_common_start() -> None:
    """All are needed: a fault, and the log says what may have been left for ``gur resume``."""
    scene = Scene(a_trip({"a": (1, 8), "b": (1, 8)}, 8), {"a": [], "b": []})
    scene.sites["b"].is_gone = True
    with pytest.raises(UnavailableError):
        await scene.probe.propose()
    left = {kept.request.request_id for site in scene.sites.values() for kept in site.live()}
    assert left
    assert left <= scene.log.announced()


@pytest.mark.parametrize("pattern", [UsagePattern.SINGLE, UsagePattern.MULTIPLE])
async def test_a_window_that_no_site_can_serve(pattern: UsagePattern) -> None:
    """The refusal is the site's own, with the start that would do."""
    trip = a_trip({"a": (4, 4)}, 4, pattern=pattern)
    scene = Scene(trip, {"a": [(8, NOW, 400)]})
    answer = await scene.probe.propose()
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.NO_ROOM
    assert answer.earliest == NOW + 400
    scene.check_nothing_left()


async def test_no_start_in_common_is_said_after_a_bounded_number_of_calls() -> None:
    """Two sites that are never free together: every distribution is tried, and no more than
    ``TRIALS_MAX`` test reservations are set.
    """
    teeth = range(NOW, NOW + 320, 20)
    scene = Scene(
        a_trip({"a": (1, 8), "b": (1, 8)}, 9),
        {"a": [(8, at, 10) for at in teeth], "b": [(8, at + 10, 10) for at in teeth]},
    )
    answer = await scene.probe.propose()
    assert isinstance(answer, Decline)
    assert "no common start found" in answer.message or "gave up" in answer.message
    asked = sum(site.calls["reserve"] for site in scene.sites.values())
    assert asked <= TRIALS_MAX + len(scene.sites)
    scene.check_nothing_left()


async def test_the_cheapest_machine_is_filled_first_for_the_lowest_cost() -> None:
    """Lowest cost: the order is that of the prices, whoever is free first."""
    trip = a_trip({"a": (1, 8), "b": (1, 8)}, 9, objective=Objective.LOWEST_COST)
    scene = Scene(trip, {"a": [], "b": [(8, NOW, 200)]}, prices={"a": 7200, "b": 3600})
    assert await scene.shares() == {"a": 1, "b": 8}
    assert scene.start == NOW + 200


async def test_a_budget_that_pays_for_nothing_is_told_the_least_price() -> None:
    """A solution above the budget is none; the refusal names the cheapest that was found."""
    trip = a_trip({"a": (1, 8), "b": (1, 8)}, 9, budget_millicredits=50)
    scene = Scene(trip, {"a": [], "b": []}, prices={"a": 7200, "b": 3600})
    answer = await scene.probe.propose()
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.BUDGET
    assert "costs 100 millicredits" in answer.message
    scene.check_nothing_left()


async def test_the_next_proposal_looks_farther_ahead() -> None:
    """What is to start at once was refused because the search took its time: the next proposal
    leaves more of it.
    """
    trip = a_trip({"a": (1, 8)}, 8, earliest_start=NOW)
    scene = Scene(trip, {"a": []})
    await scene.shares()
    assert scene.start == NOW + AHEAD_S
    await scene.probe.learn({})
    await scene.shares()
    assert scene.start == NOW + 2 * AHEAD_S


async def test_a_refusal_is_believed_when_it_is_heard_twice() -> None:
    """Another traveller's test reservation was in the way, and is gone a moment later."""
    scene = Scene(a_trip({"a": (8, 8), "b": (8, 8)}, 16), {"a": [], "b": []})
    others = await scene.sites["b"].reserve(
        ReservationRequest(
            request_id="other",
            account="default",
            nodes_min=1,
            nodes_max=1,
            duration_s=300,
            earliest_start=WHOLE,
            latest_end=WHOLE + 300,
        ),
        ttl_s=100,
    )
    assert isinstance(others, Reservation)

    async def let_go(instant: float) -> None:
        await scene.sites["b"].release(others.reservation_id)

    scene.clock.sleep_until = let_go  # type: ignore[method-assign]  # time passes for the other one
    assert await scene.shares() == {"a": 8, "b": 8}


async def test_a_refused_machine_stops_the_measuring() -> None:
    """Machines are measured one after the other, by name: who is refused holds nothing that a
    competitor for the same last room would need later.
    """
    scene = Scene(a_trip({"b": (8, 8), "a": (8, 8)}, 16), {"a": [(1, NOW, 400)], "b": []})
    answer = await scene.probe.propose()
    assert isinstance(answer, Decline)
    assert scene.sites["b"].calls["reserve"] == 0


async def test_a_start_that_is_too_near_is_refused_before_anybody_is_asked() -> None:
    """The search itself takes time; what is left of the window is told, and what would do."""
    trip = a_trip({"a": (1, 8)}, 8, earliest_start=NOW + 2, latest_end=NOW + 12)
    scene = Scene(trip, {"a": []})
    answer = await scene.probe.propose()
    assert isinstance(answer, Decline)
    assert answer.rule is DeclineRule.START_TOO_SOON
    assert answer.earliest == NOW + AHEAD_S
    assert not scene.sites["a"].calls


async def test_every_test_reservation_is_in_the_log_before_it_is_asked_for() -> None:
    """What a site holds at any moment the log has announced."""
    scene = Scene(
        a_trip({"a": (1, 8), "b": (1, 8)}, 9), {"a": [(8, NOW + 15, 20)], "b": [(4, NOW, 40)]}
    )

    class Strict(LogPage):
        async def write(self, event: object) -> None:
            await super().write(event)  # type: ignore[arg-type]  # what the probe writes
            held = {kept.request.request_id for s in scene.sites.values() for kept in s.live()}
            assert held <= self.announced()

    log = Strict()
    destinations = ways_to(a_trip({"a": (1, 8), "b": (1, 8)}, 9), scene.sites)
    trip = a_trip({"a": (1, 8), "b": (1, 8)}, 9)
    context = a_context(trip, destinations, log=log, clock=scene.clock, trip_id="trip-2")
    plan = await Probe(context).propose()
    assert isinstance(plan, Plan)
    assert len(log.events) > 3


def chosen(choice: SearchChoice, *, answers_inquiries: bool) -> object:
    """The search for a trip to one site."""
    clock, trip = PatientClock(NOW), a_trip({"a": (1, 4)}, 2)
    sites = {"a": CalendarSite("a", clock, answers_inquiries=answers_inquiries)}
    ways = ways_to(trip, sites)
    check_search(choice, trip, ways)
    return choose_search(choice, a_context(trip, ways, clock=clock))


def test_a_search_is_chosen_by_what_the_sites_can() -> None:
    """Sweep unless a site only sets and cancels; the user's choice goes before, where possible."""
    assert isinstance(chosen(SearchChoice.AUTO, answers_inquiries=True), Sweep)
    assert isinstance(chosen(SearchChoice.AUTO, answers_inquiries=False), Probe)
    assert isinstance(chosen(SearchChoice.PROBE, answers_inquiries=True), Probe)
    with pytest.raises(InputError, match="answers no inquiries"):
        chosen(SearchChoice.SWEEP, answers_inquiries=False)


@pytest.mark.parametrize("choice", [SearchChoice.PROBE, SearchChoice.AUTO])
def test_a_pipeline_is_not_probed_for(choice: SearchChoice) -> None:
    """Said before anybody is asked, with the search that can."""
    trip = a_trip(
        {"a": (1, 4)},
        2,
        pattern=UsagePattern.PIPELINE,
        stages=(Stage(name="one", machines=("a",), nodes=2, duration_s=10),),
    )
    sites = {"a": CalendarSite("a", PatientClock(NOW), answers_inquiries=False)}
    with pytest.raises(InputError, match="cannot book pipelines") as told:
        check_search(choice, trip, ways_to(trip, sites))
    assert "--search sweep" in (told.value.hint or "")


def test_distributions_run_from_the_first_to_the_last() -> None:
    """Filled in order, then shifted to the end, within minimums and maximums and always whole."""
    shares = [
        SiteShare(name="a", nodes_min=1, nodes_max=4),
        SiteShare(name="b", nodes_min=1, nodes_max=3),
        SiteShare(name="c", nodes_min=2, nodes_max=2),
    ]
    sizes, seen = fill(shares, 7), []
    while sizes is not None:
        seen.append(tuple(sizes.values()))
        sizes = shifted(shares, sizes, 1)
    assert seen == [(4, 1, 2), (3, 2, 2), (2, 3, 2)]
    assert fill(shares, 10) is None
    assert shifting_step(shares, 7, 2) == 3
