from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.trips.itineraries import Itinerary, TripState
from gridtravel.travel_agent.demo.coupled.reference import Verdict
from gridtravel.travel_agent.demo.run import _read_result
from gridtravel.travel_agent.demo.screen import DemoScreen
from gridtravel.travel_agent.demo.trip import Outcome


def _declined() -> Itinerary:
    refusal = Decline(rule=DeclineRule.NO_ROOM, message="purdue is full", nodes_now=1)
    planned = Itinerary(trip_id="trip-1", name="t", state=TripState.PLANNED)
    return planned.declined(refusal)


def test_a_refused_trip_is_shown_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Refused by a site, the demonstration says why, and that it has shown nothing."""
    screen = DemoScreen(is_quiet=False)
    screen.booked(_declined(), 0.01)
    screen.verdict(Outcome(itinerary=_declined()))
    shown = capsys.readouterr().out
    assert "declined: purdue is full" in shown
    assert "WRONG: nothing was booked: purdue is full" in shown


def test_a_result_without_sense_is_shown_and_not_believed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whatever a site sends back as a result, the screen survives it and says what is wrong."""
    outcome = Outcome(
        results={"purduesp": {"mean_temperature": "hot"}},
        verdict=Verdict(faults=("this is no result of the atmosphere",), budget_error=0.5),
    )
    DemoScreen(is_quiet=False).verdict(outcome)
    shown = capsys.readouterr().out
    assert "at unknown" in shown
    assert "WRONG: this is no result of the atmosphere" in shown


def test_what_is_no_json_object_is_an_empty_result(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A result file is a site's word: it is read, never trusted."""
    path = tmp_path_factory.mktemp("r") / "result.json"
    for content in (b"{", b"[1]", b"\xff", b""):
        path.write_bytes(content)
        assert _read_result(path) == {}


def test_for_scripts_nothing_but_the_object_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Quiet means quiet: standard output belongs to the JSON object."""
    screen = DemoScreen(is_quiet=True)
    screen.begin()
    screen.verdict(Outcome())
    screen.taking_down()
    assert capsys.readouterr().out == ""
