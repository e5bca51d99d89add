"""How the stages of a pipeline hang together once they are booked, and what people are shown."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.itineraries import (
    InputWay,
    Itinerary,
    Leg,
    LegState,
    Transport,
    TripState,
)
from gridtravel.gridcore.trips.metajobs import Metajob, StagedFile, TaskSpec, UsagePattern
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.terminal.console import TerminalConsole
from gridtravel.travel_agent.itinerary_json import itinerary_json
from gridtravel.travel_agent.output.rendering import input_lines, itinerary_table
from gridtravel.travel_agent.running.pipeline_inputs import (
    check_stages,
    handover_of,
    neighbours,
    with_inputs,
)
from gridtravel.travel_agent.running.reports import LegLook, report_on
from gridtravel.travel_agent.sites.destinations import Destination
from tests.support.metajob_builders import SC2004, machine, metajob, stage

TASK = TaskSpec(command=("./run",))
FIELD = StagedFile(source="field", destination="in")


def a_pipeline(*names: str, task: TaskSpec | None = TASK) -> Metajob:
    """Stages at the machines of these names, each with an hour; each later one receives a file."""
    stages = tuple(
        stage(f"s{number}", name, receives=(FIELD,) if number else ())
        for number, name in enumerate(names)
    )
    machines = tuple(machine(name) for name in dict.fromkeys(names))
    return metajob(
        usage_pattern=UsagePattern.PIPELINE,
        nodes_total=1,
        machines=machines,
        stages=stages,
        task=task,
        latest_end=SC2004 + 100_000,
    )


def booked(job: Metajob) -> Itinerary:
    """Every stage at the site called like its machine, one behind the other."""
    legs = tuple(
        Leg(
            name=each.name,
            machine=each.machines[0],
            site=f"{each.machines[0]}-site",
            nodes=1,
            interval=Interval(SC2004 + 7200 * number, SC2004 + 7200 * number + 3600),
            transport=Transport.GRPC,
        )
        for number, each in enumerate(job.stages)
    )
    return Itinerary(trip_id="trip-1", name="chain", state=TripState.PLANNED, legs=legs)


def reached(job: Metajob, **endpoints: str) -> dict[str, Destination]:
    """Where other sites reach these machines; the others are this user's alone."""
    return {
        each.machine: Destination(
            request=each,
            connection=cast(SiteConnection, None),
            site=f"{each.machine}-site",
            endpoint=endpoints.get(each.machine, ""),
            card="a card" if each.machine in endpoints else None,
        )
        for each in job.machines
    }


def test_each_stage_knows_its_neighbours() -> None:
    """The first has none before it, the last none behind it; legs of other trips have neither."""
    job = a_pipeline("a", "b", "c")
    trip = booked(job)
    found = [[each and each.name for each in neighbours(job, trip, leg)] for leg in trip.legs]
    assert found == [[None, "s1"], ["s0", "s2"], ["s1", None]]
    assert neighbours(metajob(), trip, trip.legs[0]) == (None, None)


def test_the_site_fetches_wherever_it_has_a_way() -> None:
    """From a site with an endpoint, and from itself; what only this user reaches, the laptop
    brings.
    """
    job = a_pipeline("a", "b", "b", "c")
    places = reached(job, a="a:1")
    trip = with_inputs(job, booked(job), places)
    assert [leg.input_by for leg in trip.legs] == [
        None,
        InputWay.SITES,
        InputWay.SITES,
        InputWay.LAPTOP,
    ]
    files = (HandedFile(source="field", destination="in"),)
    expected = [
        None,
        Handover(leg="s0", site="a-site", endpoint="a:1", files=files),
        Handover(leg="s1", site="b-site", endpoint="", files=files),
        None,
    ]
    found = [handover_of(job, trip, leg, places) for leg in trip.legs]
    assert found == expected
    assert [each and each.card for each in found] == [None, "a card", "", None]
    (line,) = input_lines(trip)
    assert "s3" in line
    assert "gur watch trip-1" in line


def test_a_manager_gives_no_files() -> None:
    """It answers for calendars; its children have the files."""
    job = a_pipeline("a", "b")
    places = reached(job, a="a:1")
    places["a"] = replace(places["a"], is_manager=True)
    assert with_inputs(job, booked(job), places).legs[1].input_by is InputWay.LAPTOP


def test_reserved_time_waits_for_nobody() -> None:
    """Stages without a task have no jobs that could wait or be waited for."""
    job = a_pipeline("a", "b", task=None)
    trip = with_inputs(job, booked(job), reached(job, a="a:1"))
    assert [leg.input_by for leg in trip.legs] == [None, None]
    assert handover_of(job, trip, trip.legs[1], reached(job, a="a:1")) is None


def test_what_no_stage_could_do_is_refused_before_anything_is_booked() -> None:
    """Files of a stage that runs nothing."""
    with pytest.raises(InputError, match="receives files of s0, which runs nothing"):
        check_stages(a_pipeline("a", "b", task=None))
    check_stages(a_pipeline("a", "b"))
    check_stages(metajob())


def test_people_and_scripts_see_stage_and_machine() -> None:
    """The table names both; the object has the way of the input for later stages alone."""
    job = a_pipeline("a", "b")
    trip = with_inputs(job, booked(job), reached(job, a="a:1"))
    screen = StringIO()
    TerminalConsole(file=screen, width=80).print(itinerary_table(trip, ZoneInfo("UTC")))
    assert "s1 at b" in screen.getvalue()
    legs = itinerary_json(trip)["legs"]
    assert [(leg["leg"], leg["machine"]) for leg in legs] == [("s0", "a"), ("s1", "b")]
    assert [leg.get("input_by") for leg in legs] == [None, "sites"]
    assert "input_by" not in legs[0]


def test_a_pipeline_runs_between_its_stages() -> None:
    """From the first start to the last end it is RUNNING, also while no job runs; the spread of
    starts that were never meant to be the same is not shown.
    """
    job = a_pipeline("a", "b")
    trip = replace(booked(job), state=TripState.BOOKED)
    states = [
        ([LegState.BOOKED, LegState.BOOKED], TripState.BOOKED),
        ([LegState.COMPLETED, LegState.BOOKED], TripState.RUNNING),
        ([LegState.COMPLETED, LegState.RUNNING], TripState.RUNNING),
        ([LegState.COMPLETED, LegState.COMPLETED], TripState.COMPLETED),
    ]
    for legs, expected in states:
        looks = [
            LegLook(leg=replace(leg, reservation_id="r", state=state))
            for leg, state in zip(trip.legs, legs, strict=True)
        ]
        report = report_on(trip, looks)
        assert report.itinerary.state is expected
        assert report.spread is None
