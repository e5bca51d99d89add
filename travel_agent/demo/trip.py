"""What the demonstration does with its grid: the jobs that are in the queues already, the trip, and
what has come of it.

The trip is the request of the GUR paper, section 4 (12 nodes over two preferred machines, with a
minimum and a maximum at each), with seconds where the paper has hours, and with programs to run.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import gridtravel.travel_agent.demo.coupled
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridio.system.private_files import make_private_folder
from gridtravel.travel_agent.demo.coupled.reference import Verdict
from gridtravel.travel_agent.demo.coupled.stepping import RESULT_FILE, STEPS_PER_YEAR

YEARS: Final = 10
STEPS: Final = YEARS * STEPS_PER_YEAR
PACE_S: Final = 6.0
"""The models would be through in half a second; nobody could watch that."""
OCEAN: Final = "datastar655"
ATMOSPHERE: Final = "purduesp"
METAJOB_FILE: Final = "ocean-atmosphere.toml"
PROGRAMS: Final = ("ocean.py", "atmosphere.py", "coupling.py", "stepping.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundJob:
    """A job of somebody else's, submitted before the trip is booked."""

    machine: str
    name: str
    nodes: int
    limit_s: int
    runs_s: int
    waits: bool = False
    """It finds no nodes free and is planned behind the others."""


BACKGROUND: Final = (
    BackgroundJob(machine="datastar655", name="storm-surge", nodes=96, limit_s=1800, runs_s=1700),
    BackgroundJob(machine="datastar655", name="folding", nodes=40, limit_s=900, runs_s=800),
    BackgroundJob(
        machine="datastar655", name="galaxies", nodes=60, limit_s=3600, runs_s=3000, waits=True
    ),
    # Both nodes are taken for a few seconds: this is what the trip has to wait for.
    BackgroundJob(machine="purduesp", name="crash-test", nodes=2, limit_s=8, runs_s=6),
    BackgroundJob(machine="purduesp", name="turbine", nodes=1, limit_s=600, runs_s=500, waits=True),
    BackgroundJob(machine="teragrid-ia64", name="quarks", nodes=64, limit_s=60, runs_s=55),
    BackgroundJob(
        machine="teragrid-ia64", name="quarks-2", nodes=32, limit_s=600, runs_s=500, waits=True
    ),
)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the demonstration has seen, step by step."""

    itinerary: Itinerary | None = None
    """As booked, and in the end as the sites' books have it."""
    jobs: dict[str, JobView] = field(default_factory=dict)
    """The latest view of each leg's job."""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Result files by leg."""
    verdict: Verdict | None = None
    alone: dict[str, object] = field(default_factory=dict)
    """Mean temperature, by leg, of each model had it never heard of the other."""

    @property
    def starts(self) -> dict[str, float]:
        """When each leg really started, in seconds since the epoch on its site's clock."""
        found = {leg: view.started_precise for leg, view in self.jobs.items()}
        return {leg: start for leg, start in found.items() if start is not None}

    @property
    def spread_ms(self) -> float | None:
        """Between the first and the last actual start; ``None`` unless all legs started."""
        starts = list(self.starts.values())
        if self.itinerary is None or not 0 < len(self.itinerary.legs) == len(starts):
            return None
        return (max(starts) - min(starts)) * 1000.0

    @property
    def faults(self) -> tuple[str, ...]:
        """Whatever is not as it should be; empty: the demonstration has shown what it promised."""
        if self.itinerary is not None and self.itinerary.decline is not None:
            return (f"nothing was booked: {self.itinerary.decline.message}",)
        if self.verdict is None:
            return ("the trip did not come to a result",)
        failed = tuple(
            f"{leg}: its job is {view.state}, exit code {view.exit_code}"
            for leg, view in self.jobs.items()
            if view.state is not JobState.COMPLETED
        )
        return failed + self.verdict.faults


_HEAD: Final = """\
# An ocean at one site, an atmosphere at the other, both at the same moment (GUR paper, section 4).
name = "{name}"
usage_pattern = "multiple"
nodes_total = 12
preference_reorder = true
duration = "25s"
earliest_start = "+4s"
latest_end = "+3m"
"""

_PREFERRED: Final = """
[[machines]]
name = "datastar655"
login = "kenneth"
account = "sys200"
email_notify = "kenneth@sdsc.edu"
nodes_min = 1
nodes_max = 158{ocean_task}

[[machines]]
name = "purduesp"
login = "kenneth"
account = "TG-STA040001N"
email_notify = "kenneth@sdsc.edu"
nodes_min = 1
nodes_max = 2{atmosphere_task}
"""

_THIRD: Final = """
[[machines]]
name = "teragrid-ia64"
account = "TG-STA040001N"
nodes_min = 1
nodes_max = 64
"""

_TASK: Final = """

[machines.task]
command = ["{python}", "-I", "{program}", "--years", "{years}", "--pace-s", "{pace_s:g}"]
stage_in = ["{program}", "coupling.py", "stepping.py"]
stage_out = ["{result}"]"""


def lay_out_trip(folder: Path, python: str = sys.executable) -> Path:
    """Put the metajob and its programs into ``folder``; the metajob's path."""
    make_private_folder(folder)
    source = Path(gridtravel.travel_agent.demo.coupled.__file__).parent
    for program in PROGRAMS:
        shutil.copyfile(source / program, folder / program)
    path = folder / METAJOB_FILE
    path.write_text(metajob_text(python), encoding="utf-8")
    return path


def metajob_text(python: str) -> str:
    """The trip that is booked; ``python`` is the interpreter at the sites."""
    ocean, atmosphere = (
        _TASK.format(
            python=python.replace("\\", "\\\\").replace('"', '\\"'),
            program=program,
            years=YEARS,
            pace_s=PACE_S,
            result=RESULT_FILE,
        )
        for program in ("ocean.py", "atmosphere.py")
    )
    preferred = _PREFERRED.format(ocean_task=ocean, atmosphere_task=atmosphere)
    return _HEAD.format(name="ocean-atmosphere") + preferred


def three_machines_text() -> str:
    """The same trip over all three machines, as at SC2004; only quoted, so it runs nothing."""
    preferred = _PREFERRED.format(ocean_task="", atmosphere_task="")
    return _HEAD.format(name="three-machines") + preferred + _THIRD
