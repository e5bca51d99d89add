"""One trip over three sites, and a crash at every point where anybody could die.

The world is lived once without a crash, to count the occasions of every party: each callback (which
is each ``await``), each message sent and received, each write before and after. Then it is lived
again for each of them, and for how the party comes back: soon, after its holds' lifetimes, and a
laptop also never. In pairs, a second party dies as well; messages and writes are the points that
matter there, for what lies between two of them cannot be told apart from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from gridtravel.gridcore.jobs.tasks import TaskSpec
from gridtravel.gridcore.trips.machines import MachineRequest
from gridtravel.gridcore.trips.metajobs import Metajob, UsagePattern
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, TripWish
from gridtravel.simulator.grid.simulated_site import SitePlan
from gridtravel.simulator.grid.world import PlannedCrash, WorldPlan, WorldRecord, WorldTypes, live
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN

SITES: Final = ("north", "east", "south")
LAPTOP: Final = "ada"
SOON_S: Final = 2.0
LATER_S: Final = 75.0
"""Beyond the lifetime of a hold, and long before the trip."""
PAIR_KINDS: Final = (
    PointKind.SENT,
    PointKind.RECEIVED,
    PointKind.WRITE_BEFORE,
    PointKind.WRITE_AFTER,
)


@dataclass(slots=True)
class Tally:
    """What came of all crashes of one party (or pair) at one kind of point."""

    worlds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    doubt_longest_s: float = 0.0
    failures: list[tuple[tuple[PlannedCrash, ...], str]] = field(default_factory=list)

    def add(self, crashes: tuple[PlannedCrash, ...], record: WorldRecord) -> None:
        """Take one world into account."""
        self.worlds += 1
        self.outcomes.update(record.outcomes.values() or ["ABSENT"])
        self.doubt_longest_s = max(self.doubt_longest_s, record.doubt_longest_s)
        for violation in record.event_log.violations:
            self.failures.append((crashes, str(violation)))

    def merge(self, other: Tally) -> None:
        """Take another tally of the same kind into account."""
        self.worlds += other.worlds
        self.outcomes.update(other.outcomes)
        self.doubt_longest_s = max(self.doubt_longest_s, other.doubt_longest_s)
        self.failures += other.failures


def one_trip(seed: int = 1, *, crashes: tuple[PlannedCrash, ...] = ()) -> WorldPlan:
    """A trip of two nodes at each of three sites, in ten minutes."""
    metajob = Metajob(
        name="triangle",
        usage_pattern=UsagePattern.MULTIPLE,
        nodes_total=6,
        machines=tuple(MachineRequest(machine=name, nodes_min=2, nodes_max=2) for name in SITES),
        duration_s=120,
        earliest_start=WORLD_BEGIN + 600,
        latest_end=WORLD_BEGIN + 3600,
        task=TaskSpec(command=("run",)),
    )
    wish = TripWish(at_s=1.0, metajob=metajob)
    return WorldPlan(
        seed=seed,
        sites=tuple(SitePlan(name=name) for name in SITES),
        laptops=(LaptopPlan(name=LAPTOP, wishes=(wish,)),),
        crashes=crashes,
        storm_s=20.0,
    )


def points_of(record: WorldRecord, kinds: Sequence[PointKind]) -> list[CrashPoint]:
    """Every occasion of these kinds in a world that was lived without a crash."""
    return [
        CrashPoint(party=party, kind=kind, number=number)
        for party, counts in record.counts_of.items()
        for kind in kinds
        for number in range(1, counts[kind] + 1)
    ]


def ways_back(point: CrashPoint) -> tuple[float | None, ...]:
    """When a party that died may start again."""
    return (SOON_S, LATER_S, None) if point.party == LAPTOP else (SOON_S, LATER_S)


def alone(points: Sequence[CrashPoint]) -> Iterator[tuple[PlannedCrash, ...]]:
    """Each point, in each way."""
    for point in points:
        for back_after_s in ways_back(point):
            yield (PlannedCrash(at=point, back_after_s=back_after_s),)


def in_pairs(points: Sequence[CrashPoint]) -> Iterator[tuple[PlannedCrash, ...]]:
    """Each two points of two parties. Both are gone for long, or for good where that is allowed:
    whoever comes back soon is hardly gone.
    """
    for one, other in combinations(points, 2):
        if one.party != other.party:
            yield tuple(
                PlannedCrash(at=point, back_after_s=None if point.party == LAPTOP else LATER_S)
                for point in (one, other)
            )


def try_crashes(
    plans: Sequence[tuple[PlannedCrash, ...]], types: WorldTypes | None = None
) -> dict[tuple[str, str], Tally]:
    """Live a world for each; tallies by who dies and at what kind of point."""
    tallies: dict[tuple[str, str], Tally] = {}
    for crashes in plans:
        record = live(one_trip(crashes=crashes), types)
        who = " + ".join(_role(each.at.party) for each in crashes)
        where = crashes[0].at.kind.value if len(crashes) == 1 else "two points"
        tallies.setdefault((who, where), Tally()).add(crashes, record)
    return tallies


def _role(party: str) -> str:
    return "laptop" if party == LAPTOP else party
