"""What a trip may become when a leg is lost: tables of rules, trips and losses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import Itinerary, Leg, LegState, Transport, TripState
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.gridcore.trips.trip_wishes import HealingRule
from gridtravel.travel_agent.booking.healing_rules import Loss, Remedy, remedy
from tests.support.metajob_builders import SC2004, machine, metajob, stage

THREE = metajob(
    machines=(
        machine("a", nodes_min=1, nodes_max=8),
        machine("b", nodes_min=2, nodes_max=8),
        machine("c", nodes_min=1, nodes_max=4),
    )
)
SINGLE = metajob(
    usage_pattern=UsagePattern.SINGLE,
    nodes_total=4,
    machines=(machine("a", nodes_max=8), machine("b", nodes_max=8)),
)
PIPELINE = metajob(
    usage_pattern=UsagePattern.PIPELINE,
    nodes_total=4,
    machines=(machine("a"), machine("b")),
    duration_s=600,
    stages=(stage("make", "a", "b", nodes=4, duration_s=600), stage("draw", "b", duration_s=600)),
)


def a_trip(*legs: tuple[str, str, int]) -> Itinerary:
    """A booked trip with these legs (name, machine, nodes), an hour into the window."""
    start = SC2004 + 600
    return Itinerary(
        trip_id="t",
        name="trip",
        state=TripState.BOOKED,
        legs=tuple(
            Leg(
                name=name,
                machine=where,
                site=where,
                nodes=nodes,
                interval=Interval(start, start + 7200),
                transport=Transport.GRPC,
                state=LegState.BOOKED,
                reservation_id=f"{where}.1",
            )
            for name, where, nodes in legs
        ),
    )


EVERYWHERE = a_trip(("a", "a", 4), ("b", "b", 5), ("c", "c", 3))


def lost(trip: Itinerary, name: str, **how: Any) -> dict[str, Loss]:
    """The loss of one leg."""
    leg = trip.leg(name)
    assert leg is not None
    return {name: Loss(leg=leg, why="broken", **how)}


def tried(rule: HealingRule, job: Metajob, trip: Itinerary, name: str, **how: Any) -> Remedy | None:
    """What a rule makes of the loss of one leg."""
    return remedy(rule, job, trip, lost(trip, name, **how))


def test_replaced_at_the_same_time_by_the_others() -> None:
    """The machine is left out, its nodes go to the others, and the start stays where it is; the
    metajob keeps its own window for later.
    """
    found = tried(HealingRule.REPLACE_LEG, THREE, EVERYWHERE, "c")
    assert found is not None
    assert [each.machine for each in found.wanted.machines] == ["a", "b"]
    assert (found.wanted.nodes_total, found.wanted.window) == (12, THREE.window)
    assert found.search.window == Interval(SC2004 + 600, SC2004 + 7800)


@pytest.mark.parametrize(
    ("job", "trip", "name"),
    [
        pytest.param(replace(THREE, nodes_total=17), EVERYWHERE, "a", id="too few nodes left"),
        pytest.param(SINGLE, a_trip(("a", "a", 4)), "a", id="the other machine"),
        pytest.param(PIPELINE, a_trip(("make", "a", 4), ("draw", "b", 1)), "draw", id="no other"),
    ],
)
def test_what_cannot_be_replaced(job: Metajob, trip: Itinerary, name: str) -> None:
    """What would contradict the metajob is no remedy; a single trip has its other machines."""
    found = tried(HealingRule.REPLACE_LEG, job, trip, name)
    if job is SINGLE:
        assert found is not None
        assert [each.machine for each in found.wanted.machines] == ["b"]
    else:
        assert found is None


def test_a_stage_goes_to_another_of_its_machines() -> None:
    """Only the stage that was lost; the others keep theirs, and those behind it may move."""
    trip = a_trip(("make", "a", 4), ("draw", "b", 1))
    found = tried(HealingRule.REPLACE_LEG, PIPELINE, trip, "make")
    assert found is not None
    assert [each.machines for each in found.wanted.stages] == [("b",), ("b",)]
    assert found.search.earliest_start == SC2004 + 600
    assert found.search.latest_end == PIPELINE.latest_end


@pytest.mark.parametrize(("nodes_left", "total"), [(4, 11), (2, 9), (1, None), (0, None)], ids=str)
def test_shrinks_to_what_is_left_and_no_further(nodes_left: int, total: int | None) -> None:
    """The lost leg does with what its site has, the others keep their size; below the machine's
    minimum the rule does not help.
    """
    found = tried(HealingRule.SHRINK, THREE, EVERYWHERE, "b", nodes_left=nodes_left)
    if total is None:
        assert found is None
        return
    assert found is not None
    assert found.wanted.nodes_total == total
    assert [each.nodes_max for each in found.wanted.machines] == [4, nodes_left, 3]


def test_what_has_ended_does_not_shrink() -> None:
    """A reservation that its site has released has no rest."""
    assert tried(HealingRule.SHRINK, THREE, EVERYWHERE, "b", nodes_left=4, is_gone=True) is None


def test_a_stage_shrinks() -> None:
    """Its nodes, and the trip's total with them."""
    trip = a_trip(("make", "a", 4), ("draw", "b", 1))
    found = tried(HealingRule.SHRINK, PIPELINE, trip, "make", nodes_left=2)
    assert found is not None
    assert (found.wanted.stages[0].nodes, found.wanted.nodes_total) == (2, 2)


@pytest.mark.parametrize(
    ("is_out_of_reach", "machines"), [(True, ["a", "b"]), (False, ["a", "b", "c"])]
)
def test_moves_within_the_whole_window(is_out_of_reach: bool, machines: list[str]) -> None:
    """A site that lacks nodes is asked again for another time; one that is silent is left out."""
    found = tried(HealingRule.MOVE_TRIP, THREE, EVERYWHERE, "c", is_out_of_reach=is_out_of_reach)
    assert found is not None
    assert found.search == found.wanted
    assert [each.machine for each in found.wanted.machines] == machines
    assert found.wanted.window == THREE.window
