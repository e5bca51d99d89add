from __future__ import annotations

import json
import math

import pytest

from gridtravel.travel_agent.demo.coupled.atmosphere import Atmosphere, heat_convergence
from gridtravel.travel_agent.demo.coupled.coupling import CouplingError, Place
from gridtravel.travel_agent.demo.coupled.ocean import Ocean
from gridtravel.travel_agent.demo.coupled.reference import (
    BUDGET_TOLERANCE,
    run_alone,
    run_in_one_process,
    verify,
)
from gridtravel.travel_agent.demo.coupled.stepping import BANDS, STEPS_PER_YEAR, mean

STEPS = 2 * STEPS_PER_YEAR


def _variables(**changes: str) -> dict[str, str]:
    companion = {"leg": "south", "site": "s", "nodes": 2, "contact": "127.0.0.1:2"}
    return {
        "GRID_TRIP": "trip-1",
        "GRID_LEG": "north",
        "GRID_SITE": "n",
        "GRID_NODES": "10",
        "GRID_CONTACT": "127.0.0.1:1",
        "GRID_COMPANIONS": json.dumps([companion]),
        **changes,
    }


def _exchanged(result: dict[str, object], steps: int) -> dict[str, object]:
    return {**result, "exchanges": steps}


def test_the_reference_is_right_by_its_own_measure() -> None:
    """Two results that exchanged every step are accepted, and their heat is conserved to 1e-9."""
    ocean, atmosphere = run_in_one_process(STEPS)
    verdict = verify(_exchanged(ocean, STEPS), _exchanged(atmosphere, STEPS), STEPS)
    assert verdict.faults == ()
    assert verdict.budget_error < BUDGET_TOLERANCE


def test_without_exchange_both_halves_are_wrong_by_degrees() -> None:
    """A model that hears only its companion's first flux settles elsewhere, and is refused for its
    temperatures, its fluxes and the heat of the coupled world.
    """
    steps = 10 * STEPS_PER_YEAR
    ocean, atmosphere = run_in_one_process(steps)
    lonely_ocean = run_alone(Ocean(), steps, Atmosphere().outgoing())
    lonely_atmosphere = run_alone(Atmosphere(), steps, Ocean().outgoing())
    for together, alone in ((ocean, lonely_ocean), (atmosphere, lonely_atmosphere)):
        assert isinstance(together["mean_temperature"], float)
        assert isinstance(alone["mean_temperature"], float)
        assert abs(together["mean_temperature"] - alone["mean_temperature"]) > 3.0
    verdict = verify(_exchanged(lonely_ocean, steps), _exchanged(lonely_atmosphere, steps), steps)
    assert verdict.faults
    assert "ocean: temperatures differs from the run in one process" in verdict.faults
    assert verdict.budget_error > 1e-3


@pytest.mark.parametrize(
    "change",
    [
        {"exchanges": STEPS - 1},
        {"model": "atmosphere"},
        {"heat_gained": None},
        {"temperatures": []},
    ],
)
def test_one_wrong_entry_condemns_a_result(change: dict[str, object]) -> None:
    """Missing exchanges, a swapped file or a missing number are each a fault."""
    ocean, atmosphere = run_in_one_process(STEPS)
    changed = {**_exchanged(ocean, STEPS), **change}
    assert verify(changed, _exchanged(atmosphere, STEPS), STEPS).faults


def test_a_result_survives_json_bit_by_bit() -> None:
    """What a site writes is what is compared: JSON loses nothing."""
    ocean, _ = run_in_one_process(10)
    assert json.loads(json.dumps(ocean)) == ocean


def test_transport_moves_heat_and_makes_none() -> None:
    """Over all bands the convergence of heat is nothing, and it flows from warm to cold."""
    temperatures = [float(band % 7) for band in range(BANDS)]
    assert math.isclose(mean(heat_convergence(temperatures)), 0.0, abs_tol=1e-12)
    hill = heat_convergence([0.0] * 8 + [10.0, 10.0] + [0.0] * 8)
    assert hill[8] < 0 < hill[7]


def test_exactly_one_side_listens() -> None:
    """Who listens follows from the names of the legs alone, and the two sides agree on it."""
    north = Place.from_environment(_variables())
    companion = {"leg": "north", "site": "n", "nodes": 10, "contact": "127.0.0.1:1"}
    south = Place.from_environment(
        _variables(GRID_LEG="south", GRID_COMPANIONS=json.dumps([companion]))
    )
    assert (north.listens, south.listens) == (True, False)
    assert south.companion_contact == north.contact


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"GRID_COMPANIONS": "[]"}, "one companion, not 0"),
        ({"GRID_COMPANIONS": "nonsense"}, "make no sense"),
        ({"GRID_COMPANIONS": "[1]"}, "make no sense"),
        ({"GRID_COMPANIONS": "[{}]"}, "'leg' is not set"),
        ({"GRID_NODES": "many"}, "make no sense"),
    ],
)
def test_a_place_that_is_no_leg_is_refused(changes: dict[str, str], told: str) -> None:
    """Whatever the variables say, the answer is one line and no trace of Python."""
    with pytest.raises(CouplingError, match=told):
        Place.from_environment(_variables(**changes))


def test_outside_a_trip_the_program_says_so() -> None:
    """Run by hand, it names the first variable that is missing."""
    with pytest.raises(CouplingError, match="GRID_COMPANIONS"):
        Place.from_environment({})
