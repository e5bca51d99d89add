"""Metajobs for tests: a valid default of which a test states only what matters, and Hypothesis
strategies of any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from gridtravel.gridcore.trips.metajobs import (
    Alternative,
    HealingRule,
    MachineRequest,
    Metajob,
    Notifications,
    Objective,
    Stage,
    StagedFile,
    TaskSpec,
    UsagePattern,
)
from gridtravel.gridcore.trips.trip_wishes import TripEvent

PACIFIC: Final = ZoneInfo("America/Los_Angeles")
NOON_BEFORE: Final = 1_099_944_000
"""12:00 on 8 November 2004 in San Diego: the day before the paper's demonstration."""
SC2004: Final = 1_100_012_400
"""07:00 on 9 November 2004 in San Diego."""
PAPER_FILE: Final = Path(__file__).parent / "metajobs" / "paper_metajob.gur"


def machine(name: str = "datastar655", **changes: Any) -> MachineRequest:
    """The first machine of the paper's example, changed."""
    return replace(MachineRequest(machine=name, nodes_min=1, nodes_max=158), **changes)


def stage(name: str, *machines: str, **changes: Any) -> Stage:
    """A stage of one node for an hour, changed."""
    return replace(Stage(name=name, machines=machines, nodes=1, duration_s=3600), **changes)


def metajob(**changes: Any) -> Metajob:
    """The paper's example, changed."""
    values: dict[str, Any] = {
        "name": "trip",
        "usage_pattern": UsagePattern.MULTIPLE,
        "nodes_total": 12,
        "machines": (machine(), machine("purduesp", nodes_max=2)),
        "duration_s": 7200,
        "earliest_start": SC2004,
        "latest_end": SC2004 + 9000,
    }
    return Metajob(**{**values, **changes})


_NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_PRINTABLE = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
_SITE_PATHS = _NAMES.map(lambda name: f"out/{name}")
_ARGV = st.lists(_TEXTS, max_size=3).map(lambda rest: ("./program", *rest))
_LABELS = st.text(st.characters(categories=["L", "N"]), max_size=12)
_MAIL = _NAMES.map(lambda name: f"{name}@example.org")
_BUDGETS = st.none() | st.integers(0, 10**15)

_TASKS = st.none() | st.builds(
    TaskSpec,
    command=_ARGV,
    environment=st.dictionaries(
        st.from_regex(r"[A-FH-Z_][A-Z0-9_]{0,8}", fullmatch=True), _TEXTS, max_size=3
    ).map(lambda found: tuple(sorted(found.items()))),
    stage_in=st.lists(
        st.builds(StagedFile, source=_PRINTABLE, destination=_SITE_PATHS), max_size=2
    ).map(tuple),
    compile_command=st.just(()) | _ARGV,
    stage_out=st.lists(
        st.builds(StagedFile, source=_SITE_PATHS, destination=_PRINTABLE), max_size=2
    ).map(tuple),
)


@st.composite
def _machines(draw: st.DrawFn) -> tuple[MachineRequest, ...]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    found = []
    for name in names:
        low, high = sorted(draw(st.tuples(st.integers(1, 500), st.integers(1, 500))))
        found.append(
            MachineRequest(
                machine=name,
                nodes_min=low,
                nodes_max=high,
                account=draw(_LABELS),
                login=draw(_LABELS),
                email_notify=draw(st.just("") | _MAIL),
                features=tuple(draw(st.lists(_NAMES, max_size=2))),
                task=draw(_TASKS),
            )
        )
    return tuple(found)


@st.composite
def _stages(draw: st.DrawFn, machines: tuple[MachineRequest, ...]) -> tuple[Stage, ...]:
    names = draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True))
    found = []
    for position, name in enumerate(names):
        where = draw(st.sampled_from(machines))
        found.append(
            Stage(
                name=name,
                machines=(where.machine,),
                nodes=draw(st.integers(where.nodes_min, where.nodes_max)),
                duration_s=draw(st.integers(1, 10**6)),
                transfer_s=draw(st.integers(0, 10**5)) if position else 0,
                slack_s=draw(st.none() | st.integers(0, 10**5)) if position else None,
                receives=(StagedFile(source="a", destination="b/c"),) if position else (),
                task=draw(_TASKS),
            )
        )
    return tuple(found)


@st.composite
def metajobs(draw: st.DrawFn) -> Metajob:
    """Any valid metajob."""
    pattern = draw(st.sampled_from(UsagePattern))
    machines = draw(_machines())
    stages: tuple[Stage, ...] = ()
    duration_s = draw(st.integers(1, 10**6))
    guard_s = draw(st.integers(0, 600))
    span_s = duration_s + guard_s
    if pattern is UsagePattern.PIPELINE:
        stages = draw(_stages(machines))
        nodes = max(stage.nodes for stage in stages)
        span_s = sum(s.duration_s + s.transfer_s + guard_s for s in stages)
    elif pattern is UsagePattern.SINGLE:
        where = draw(st.sampled_from(machines))
        nodes = draw(st.integers(where.nodes_min, where.nodes_max))
    else:
        low = sum(m.nodes_min for m in machines)
        nodes = draw(st.integers(low, sum(m.nodes_max for m in machines)))
    earliest_start = draw(st.integers(0, 2**33))
    latest_end = earliest_start + span_s + draw(st.integers(0, 10**6))
    later = Alternative(latest_end=latest_end + 60, budget_millicredits=draw(_BUDGETS))
    return Metajob(
        name=draw(_NAMES),
        usage_pattern=pattern,
        nodes_total=nodes,
        machines=machines,
        duration_s=duration_s,
        earliest_start=earliest_start,
        latest_end=latest_end,
        preference_reorder=draw(st.booleans()),
        objective=draw(st.sampled_from(Objective)),
        estimate_s=draw(st.none() | st.integers(1, 10**6)),
        is_restartable=draw(st.booleans()),
        memory_mb=draw(st.none() | st.integers(1, 10**6)),
        disk_mb=draw(st.none() | st.integers(1, 10**6)),
        budget_millicredits=draw(_BUDGETS),
        guard_s=guard_s,
        is_race=pattern is UsagePattern.SINGLE and draw(st.booleans()),
        accepts_alternative=draw(st.booleans()),
        task=draw(_TASKS),
        stages=stages,
        alternatives=draw(st.sampled_from([(), (later,)])),
        healing=tuple(draw(st.lists(st.sampled_from(HealingRule), unique=True))),
        notifications=Notifications(
            emails=tuple(draw(st.lists(_MAIL, max_size=2))),
            events=tuple(draw(st.lists(st.sampled_from(TripEvent), unique=True))),
            before_start_s=draw(st.integers(0, 86_400)),
            hook_command=draw(st.just(()) | _ARGV),
        ),
    )
