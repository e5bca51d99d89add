"""The metajob as a value: each contradiction is refused when it is made, naming the field and the
way out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.errors import FieldError, InputError
from gridtravel.gridcore.trips.metajobs import (
    Alternative,
    HealingRule,
    MachineRequest,
    Notifications,
    StagedFile,
    TaskSpec,
    UsagePattern,
)
from gridtravel.gridcore.trips.trip_wishes import TripEvent
from tests.support.metajob_builders import SC2004, machine, metajob, stage

TWO_STAGES = (stage("compute", "datastar655"), stage("draw", "purduesp", transfer_s=600))


def pipeline(**changes: Any) -> dict[str, Any]:
    """What makes the default metajob a pipeline of two stages."""
    return {
        "usage_pattern": UsagePattern.PIPELINE,
        "nodes_total": 1,
        "stages": TWO_STAGES,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"name": ""}, "name", "not a usable name"),
        ({"name": "../x"}, "name", "not a usable name"),
        ({"name": "n" * 65}, "name", "not a usable name"),
        ({"nodes_total": 0}, "nodes_total", "total number of nodes is 0"),
        ({"nodes_total": 1}, "nodes_total", "2 to 160"),
        ({"nodes_total": 161}, "nodes_total", "2 to 160"),
        (
            {"nodes_total": 159, "usage_pattern": UsagePattern.SINGLE},
            "nodes_total",
            "no machine takes 159 nodes",
        ),
        ({"duration_s": 0}, "duration_s", "duration is 0"),
        ({"duration_s": 9001}, "latest_end", "window of 2h30m is shorter"),
        ({"duration_s": 8990, "guard_s": 11}, "latest_end", "takes 2h30m1s"),
        ({"guard_s": -1}, "guard_s", "guard is -1"),
        ({"latest_end": SC2004}, "latest_end", "not after the earliest start"),
        ({"earliest_start": -1}, "earliest_start", "out of range"),
        ({"latest_end": 10**12}, "latest_end", "out of range"),
        ({"latest_end": SC2004 + 11 * 366 * 86_400}, "latest_end", "longer than ten years"),
        ({"machines": ()}, "machines", "names 0 machines"),
        ({"machines": (machine(), machine())}, "machines", "named twice"),
        ({"stages": TWO_STAGES}, "stages", "belong to a pipeline"),
        ({"budget_millicredits": -1}, "budget_millicredits", "negative"),
        ({"is_race": True}, "is_race", "one winner"),
        ({"healing": (HealingRule.SHRINK,) * 2}, "healing", "twice"),
        ({"alternatives": (Alternative(nodes_total=8),) * 17}, "alternatives", "at most 16"),
        ({"alternatives": (Alternative(nodes_total=500),)}, "alternatives", "alternative 1: 500"),
        (pipeline(stages=()), "stages", "pipeline of 0 stages"),
        (pipeline(stages=(stage("a", "elsewhere"),)), "stages", "not among the machines"),
        (pipeline(stages=(stage("a", "purduesp", nodes=3),)), "stages", "purduesp takes 1 to 2"),
        (pipeline(stages=(stage("a", "purduesp"),) * 2), "stages", "two stages are called a"),
        (pipeline(stages=(stage("a", "purduesp", slack_s=1),)), "stages", "nothing before it"),
        (pipeline(nodes_total=2), "nodes_total", "largest stage uses 1"),
        (pipeline(latest_end=SC2004 + 7799), "latest_end", "takes 2h10m"),
        (pipeline(alternatives=(Alternative(duration_s=1),)), "alternatives", "stages fix"),
    ],
)
def test_a_contradiction_is_refused(changes: dict[str, Any], field: str, told: str) -> None:
    """What no site could serve is refused before any is asked: one error, its field, a next
    step."""
    with pytest.raises(FieldError) as caught:
        metajob(**changes)
    assert caught.value.field == field
    assert told in caught.value.message
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"machine": "two words"}, "machine"),
        ({"nodes_min": 0}, "nodes_min"),
        ({"nodes_max": 0}, "nodes_max"),
        ({"nodes_max": 10_000_001}, "nodes_max"),
        ({"nodes_min": 159}, "nodes_min"),
        ({"account": "x" * 129}, "account"),
        ({"login": "a\nb"}, "login"),
        ({"email_notify": "a@b, c@d"}, "email_notify"),
        ({"email_notify": "a@b\nBcc: c@d"}, "email_notify"),
        ({"email_notify": "nobody"}, "email_notify"),
        ({"features": ("no way",)}, "features"),
        ({"features": tuple(f"f{n}" for n in range(65))}, "features"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    """Minimum and maximum, names and addresses of a machine are checked where they are made."""
    with pytest.raises(FieldError) as caught:
        machine(**changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"machines": ()}, "machines"),
        ({"machines": ("a", "a")}, "machines"),
        ({"nodes": 0}, "nodes"),
        ({"duration_s": 0}, "duration_s"),
        ({"transfer_s": -1}, "transfer_s"),
        ({"slack_s": -1}, "slack_s"),
        ({"receives": (StagedFile(source="../a", destination="a"),)}, "receives"),
        ({"receives": (StagedFile(source="a", destination="/a"),)}, "receives"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    """A stage has a place, a size, a length, and moves files between the folders of its legs
    only."""
    with pytest.raises(FieldError) as caught:
        stage("draw", "purduesp", **changes)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"command": ()}, "command"),
        ({"command": ("",)}, "command"),
        ({"command": ("a\0",)}, "command"),
        ({"command": ("a", "\ud800")}, "command"),
        ({"environment": (("A", "\ud800"),)}, "environment"),
        ({"command": ("a",) * 4097}, "command"),
        ({"environment": (("A", "1"), ("A", "2"))}, "environment"),
        ({"environment": (("1A", "1"),)}, "environment"),
        ({"environment": (("GRID_TRIP", "1"),)}, "environment"),
        ({"environment": (("A", "\0"),)}, "environment"),
        ({"environment": (("A", "x" * 131_072),)}, "environment"),
        ({"environment": tuple((f"A{n}", "") for n in range(513))}, "environment"),
        ({"stage_in": (StagedFile(source="a", destination="../a"),)}, "stage_in"),
        ({"stage_in": (StagedFile(source="a", destination="~/a"),)}, "stage_in"),
        ({"stage_in": (StagedFile(source="a", destination="a"),) * 10_001}, "stage_in"),
        ({"stage_out": (StagedFile(source="/etc/passwd", destination="a"),)}, "stage_out"),
    ],
)
def test_a_task_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    """Commands are argument vectors; staged files stay within the leg's folder; the site's
    variables are its own."""
    with pytest.raises(FieldError) as caught:
        TaskSpec(**{"command": ("./run",), **changes})
    assert caught.value.field == field


def test_an_empty_staged_path_is_refused() -> None:
    """A staged file has a source and a destination."""
    for source, destination, field in (("", "a", "source"), ("a", "", "destination")):
        with pytest.raises(FieldError) as caught:
            StagedFile(source=source, destination=destination)
        assert caught.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"emails": ("a@b",) * 33}, "emails"),
        ({"emails": ("a",)}, "emails"),
        ({"before_start_s": -1}, "before_start_s"),
        ({"hook_command": ("a\0",)}, "hook_command"),
    ],
)
def test_notifications_that_cannot_be_are_refused(changes: dict[str, Any], field: str) -> None:
    """Addresses, times and commands of notifications are checked where they are made."""
    with pytest.raises(FieldError) as caught:
        Notifications(**changes)
    assert caught.value.field == field


def test_an_alternative_changes_something() -> None:
    """An alternative without any change would be asked for in vain."""
    with pytest.raises(FieldError, match="changes nothing"):
        Alternative()


def test_order_that_means_nothing_is_made_uniform() -> None:
    """Features, events and variables are kept sorted, so that equal wishes are equal values."""
    assert machine(features=("b", "a", "b")).features == ("a", "b")
    assert TaskSpec(command=("a",), environment=(("B", ""), ("A", ""))).environment[0][0] == "A"
    events = Notifications(events=(TripEvent.DONE, TripEvent.BOOKED, TripEvent.DONE)).events
    assert events == (TripEvent.BOOKED, TripEvent.DONE)


def test_a_single_needs_one_machine_that_takes_all_nodes() -> None:
    """SINGLE: the candidates are the machines whose minimum and maximum admit the total."""
    asked = metajob(usage_pattern=UsagePattern.SINGLE)
    assert [m.machine for m in asked.candidates] == ["datastar655"]
    assert [m.machine for m in metajob().candidates] == ["datastar655", "purduesp"]


def test_the_shortest_span_counts_transfers_and_guards() -> None:
    """A pipeline takes its stages, the transfers between them, and a guard band for each leg."""
    assert metajob(guard_s=5).span_min_s == 7205
    assert metajob(**pipeline(guard_s=5)).span_min_s == 3600 + 600 + 3600 + 10
    assert metajob().window.duration_s == 9000


def test_the_nearest_task_holds() -> None:
    """The stage's task goes before the machine's, and that before the metajob's."""
    own, everybody, staged = (TaskSpec(command=(name,)) for name in ("own", "all", "stage"))
    asked = metajob(
        **pipeline(
            task=everybody,
            machines=(machine(task=own), machine("purduesp")),
            stages=(stage("a", "datastar655", task=staged), stage("b", "purduesp")),
        )
    )
    assert asked.task_for("datastar655", "a") == staged
    assert asked.task_for("datastar655") == own
    assert asked.task_for("purduesp", "b") == everybody
    assert asked.task_for("nowhere") == everybody
    assert asked.machine("nowhere") is None
    assert metajob().task_for("purduesp") is None


def test_an_alternative_keeps_what_it_does_not_say() -> None:
    """``shaped_by`` replaces only what the alternative names, and leaves no further
    alternatives."""
    smaller = Alternative(nodes_total=8, budget_millicredits=5)
    asked = metajob(alternatives=(smaller,))
    shaped = asked.shaped_by(smaller)
    assert shaped == replace(asked, nodes_total=8, budget_millicredits=5, alternatives=())
    assert asked.shaped_by(Alternative(duration_s=60)).budget_millicredits is None


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (SC2004 - 86_400, None),
        (SC2004 + 1800, None),
        (SC2004 + 1801, "only 1h59m59s of the window are left"),
        (SC2004 + 9000, "the window ended"),
        (SC2004 + 99_999, "the window ended"),
    ],
)
def test_a_window_can_come_too_late(now: int, told: str | None) -> None:
    """A trip is possible while its shortest span still fits between now and the latest end."""
    if told is None:
        metajob().check_still_possible(now)
        return
    with pytest.raises(FieldError, match=told) as caught:
        metajob().check_still_possible(now)
    assert caught.value.field == "latest_end"


def test_a_machine_says_which_sizes_it_accepts() -> None:
    """Both bounds belong to the range."""
    request = MachineRequest(machine="m", nodes_min=2, nodes_max=3)
    assert [request.accepts(nodes) for nodes in (1, 2, 3, 4)] == [False, True, True, False]
