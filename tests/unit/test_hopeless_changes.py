"""A change that a site refuses for what does not pass is not asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.gridcore.booking.leg_change import SETTLE_S
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.travel_agent.booking.amend import TripChange
from gridtravel.travel_agent.news import News, Step
from tests.support.fault_world import START, FaultWorld


async def a_trip(world: FaultWorld) -> str:
    """Booked at both sites."""
    trip = await world.laptop().book(world.metajob())
    assert trip.state is TripState.BOOKED
    return trip.trip_id


async def changed(world: FaultWorld, trip: str) -> tuple[Decline, list[News], int]:
    """The refusal of a change, the plans it took, and how many holds were asked for."""
    news: list[News] = []
    before = sum(count for (_, verb), count in world.said.items() if verb == "reserve")
    answer = await world.laptop().amend(trip, TripChange(duration_s=90), listener=news.append)
    after = sum(count for (_, verb), count in world.said.items() if verb == "reserve")
    assert answer.decline is not None
    assert answer.itinerary.state is TripState.BOOKED
    return answer.decline, [each for each in news if each.step is Step.PLANNED], after - before


async def test_near_the_start_nothing_is_planned(tmp_path: Path) -> None:
    """A site says at once that there is no time left to settle which form of a leg counts."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    trip = await a_trip(world)
    world.clock.advance_to(START - SETTLE_S)
    refusal, plans, holds = await changed(world, trip)
    assert refusal.rule is DeclineRule.START_TOO_SOON
    assert (plans, holds) == ([], 0)


@pytest.mark.parametrize(
    ("rule", "most"), [(DeclineRule.LIMIT_NODES, 1), (DeclineRule.NO_ROOM, 16)]
)
async def test_a_plan_is_tried_again_only_when_its_refusal_may_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: DeclineRule, most: int
) -> None:
    """Room comes and goes; a limit stays, also for the second window that is tried."""
    world = FaultWorld(tmp_path, "alpha", "beta")
    trip = await a_trip(world)
    refusal = Decline(rule=rule, message="no", site="beta")
    calendar = world.sites["beta"].calendar
    monkeypatch.setattr(calendar, "decide_reserve", lambda *_, **__: (refusal, ()))
    told, plans, _ = await changed(world, trip)
    assert told.rule is rule
    assert 1 <= len(plans) <= most
    assert (len(plans) > 1) == rule.may_pass
