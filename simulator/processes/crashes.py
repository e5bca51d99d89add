"""``gurlab crashes --real``: every point of every kind of trip, on several grids side by side.

Each grid (a lane) is a process of its own with its daemons, and takes its share of the crashes, one
trip after the other. First each kind is lived once without trouble, which names the points.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gridtravel.simulator.processes.crash_points import (
    Crash,
    Phase,
    Point,
    TripKind,
    crashes_of,
    points_of,
    spread_over,
)

if TYPE_CHECKING:
    from rich.table import Table

    from gridtravel.simulator.kernel.event_log import Violation
    from gridtravel.simulator.processes.autopsy import Finding
    from gridtravel.simulator.processes.crash_campaign import CrashCampaign

OUTCOMES: Final = ("BOOKED", "ABSENT", "TORN")
TRIES_MAX: Final = 3
"""So often a trip is lived until somebody dies at the point: who writes what first, and how often,
is never quite the same.
"""
UNLIVED: Final = "every trip is lived to its end"
BATCH: Final = 12
"""So many trips over one grid: its journals stay short, and a lane's end is seen soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What came of one crash."""

    crash: Crash
    outcome: str
    doubt_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """What came of one grid's share."""

    told: list[Told] = field(default_factory=list)
    """Of the crashes that came about."""
    missed: list[Crash] = field(default_factory=list)
    """Their points never came."""
    trips: int = 0
    points: list[Point] = field(default_factory=list)
    """Of a trip without trouble."""
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one grid is to live."""

    kind: TripKind
    crashes: tuple[Crash, ...]
    """None: one trip without trouble."""
    staged_bytes: int
    keep: Path | None = None


@dataclass(slots=True)
class CrashReport:
    """Everything that is told."""

    told: list[Told] = field(default_factory=list)
    missed: list[Crash] = field(default_factory=list)
    trips: int = 0
    points: dict[TripKind, int] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, lane: LaneReport) -> None:
        """One grid is done."""
        self.told += lane.told
        self.missed += lane.missed
        self.trips += lane.trips
        self.broken += lane.broken
        self.counts.update(lane.counts)


def live_all(
    kinds: Iterable[TripKind],
    *,
    lanes: int,
    staged_bytes: int,
    some: int | None = None,
    keep: Path | None = None,
    tell: Callable[[str], None],
) -> CrashReport:
    """Everything. ``some``: only so many crashes of each kind, spread over its trip."""
    report = CrashReport()
    peaceful = [Share(kind=kind, crashes=(), staged_bytes=staged_bytes) for kind in kinds]
    shares: list[Share] = []
    for share, lane in _spread(peaceful, lanes):
        report.add(lane)
        report.points[share.kind] = len(lane.points)
        crashes = crashes_of(share.kind, lane.points)
        chosen = crashes if some is None else spread_over(crashes, some)
        tell(f"{share.kind}: {len(lane.points)} points, {len(chosen)} of {len(crashes)} crashes")
        size = min(BATCH, -(-len(chosen) // lanes)) or 1
        for first in range(0, len(chosen), size):
            name = f"{share.kind}-{first // size}"
            shares.append(
                Share(
                    kind=share.kind,
                    crashes=tuple(chosen[first : first + size]),
                    staged_bytes=staged_bytes,
                    keep=keep / name if keep is not None else None,
                )
            )
    for _, lane in _spread(shares, lanes):
        report.add(lane)
        for told in lane.told:
            tell(f"{told.crash}: {told.outcome}")
        for crash in lane.missed:
            tell(f"{crash}: not reached")
        for text in lane.broken:
            tell(f"broken: {text}")
    return report


def _spread(shares: Sequence[Share], lanes: int) -> Iterator[tuple[Share, LaneReport]]:
    # Not forked: a fork copies whatever threads and locks the caller has.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(lanes, len(shares)), mp_context=context) as pool:
        running = {pool.submit(live_share, share): share for share in shares}
        for done in as_completed(running):
            fault = done.exception()
            if fault is not None:
                broken = f"{UNLIVED}: {type(fault).__name__}: {fault}"
                yield running[done], LaneReport(broken=[broken])
            else:
                yield running[done], done.result()


def live_share(share: Share) -> LaneReport:
    """One grid from its foundation to its checks."""
    return asyncio.run(_live(share))


async def _live(share: Share) -> LaneReport:
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.gridio.system.ids import RandomIds
    from gridtravel.simulator.processes.crash_campaign import CrashCampaign
    from gridtravel.simulator.processes.crash_trips import SITES_OF
    from gridtravel.simulator.processes.laptops import Typist
    from gridtravel.simulator.processes.live_batch import live_batch
    from gridtravel.simulator.processes.live_grid import USER, live_grid
    from gridtravel.simulator.processes.live_state import ask_live

    clock = SystemClock()
    with ExitStack() as stack:
        batch = stack.enter_context(live_batch()) if share.kind is TripKind.NO_AGENT else None
        grid = stack.enter_context(
            live_grid(
                clock,
                RandomIds(clock),
                names=SITES_OF[share.kind],
                small_disks=False,
                has_manager=share.kind is TripKind.GROUP,
                batch=batch,
            )
        )
        await grid.start()
        typist = Typist(grid.folder.user_config(USER))
        campaign = CrashCampaign(grid, typist, clock, staged_bytes=share.staged_bytes)
        try:
            for crash in share.crashes or (None,):
                for _ in range(TRIES_MAX):
                    if (await campaign.play(share.kind, crash)).is_reached or crash is None:
                        break
            await campaign.come_to_rest()
            ends_at = clock.now_precise()
            await campaign.look_at_status()
            live = await ask_live(grid, clock)
            for daemon in reversed(grid.daemons):
                if (code := await daemon.end()) != 0:
                    campaign.note_broken("daemons end well", f"code {code}", daemon.name)
            finding, violations = _look(campaign, ends_at, live)
        finally:
            typist.close()
            if share.keep is not None:
                shutil.copytree(grid.folder.root, share.keep, ignore=_unneeded)
                if grid.batch is not None and grid.batch.far.exists():
                    shutil.copytree(grid.batch.far, share.keep / "far")
    points = points_of(share.kind, campaign.results[0].diary)
    reached = [each.crash for each in campaign.results if each.is_reached]
    return LaneReport(
        told=[
            Told(
                crash=each.crash,
                outcome=finding.outcomes.get(each.laptop.trip_id, "ABSENT"),
                doubt_s=finding.doubt_longest_s.get(each.laptop.trip_id, 0.0),
            )
            for each in campaign.results
            if each.crash is not None and each.is_reached
        ],
        missed=[each for each in share.crashes if each not in reached],
        trips=len(campaign.results),
        points=points if not share.crashes else [],
        broken=_named(campaign, violations),
        counts=campaign.happened.counts,
    )


def _look(
    campaign: CrashCampaign, ends_at: float, live: dict[str, Any]
) -> tuple[Finding, list[Violation]]:
    """All checkers, over what everybody left."""
    from gridtravel.simulator.processes.autopsy import check_programs, examine
    from gridtravel.simulator.processes.found_books import FoundWorld
    from gridtravel.simulator.processes.live_grid import CHILDREN, SITES
    from gridtravel.simulator.processes.live_state import compare

    grid, happened = campaign.grid, campaign.happened
    absences = {each.name: each.absences for each in grid.daemons}
    world = FoundWorld({each.name: each for each in happened.laptops}, ends_at, absences)
    for rule, text, about in happened.broken:
        world.event_log.broken(rule, text, about)
    for name, site in grid.sites.items():
        world.add_site(name, SITES[name], site.records(), site.spans)
        compare(world.event_log, site, live[name])
    if grid.manager is not None:
        nodes = sum(SITES[name] for name in CHILDREN)
        world.add_manager(grid.manager.name, nodes, grid.manager.records())
    if grid.batch is not None:
        world.add_cluster(grid.batch)
    for daemon in grid.daemons:
        _, found, trace = daemon.log.read_text("utf-8", "replace").partition("Traceback")
        if found:
            text = f"{daemon.name} logs a traceback: {trace[:4000]}"
            world.event_log.broken("no defects", text, daemon.name)
    check_programs(world, grid.evidence, grid.races)
    finding = examine(world, (), grid.evidence)
    happened.counts.update(world.event_log.counts)
    return finding, finding.broken


def _named(campaign: CrashCampaign, violations: Sequence[Violation]) -> list[str]:
    """Each with the crash of the trip that it is about."""
    crashes = {each.laptop.trip_id: each.crash for each in campaign.results}
    texts = []
    for violation in violations:
        about = [str(crashes[each]) for each in violation.about if crashes.get(each)]
        texts.append(" ".join([str(violation), *(f"({each})" for each in about)]))
    return texts


def as_object(report: CrashReport) -> dict[str, Any]:
    """The report for scripts."""
    return {
        "trips": [
            {
                "kind": kind.value,
                "points": points,
                "crashes": len(told := [each for each in report.told if each.crash.kind is kind]),
                "not_reached": sum(each.kind is kind for each in report.missed),
                "outcomes": dict(sorted(Counter(each.outcome for each in told).items())),
                "doubt_longest_s": max((each.doubt_s for each in told), default=0.0),
            }
            for kind, points in report.points.items()
        ],
        "lived": report.trips,
        "counts": dict(sorted(report.counts.items())),
        "broken": report.broken,
    }


def as_table(report: CrashReport) -> Table:
    """A row for each kind, who died, and how far the trip had come."""
    from rich.table import Table

    table = Table(title="real processes, one death a trip", box=None)
    for name in ("trip", "died"):
        table.add_column(name)
    for name in ("crashes", *(each.value for each in Phase), *(each.lower() for each in OUTCOMES)):
        table.add_column(name, justify="right")
    rows = dict.fromkeys((each.crash.kind, each.crash.victim) for each in report.told)
    for kind, victim in sorted(rows):
        told = [
            each for each in report.told if (each.crash.kind, each.crash.victim) == (kind, victim)
        ]
        struck = Counter(each.crash.at.phase for each in told)
        outcomes = Counter(each.outcome for each in told)
        table.add_row(
            kind.value,
            victim,
            f"{len(told)}",
            *(f"{struck[each]}" for each in Phase),
            *(f"{outcomes[each]}" for each in OUTCOMES),
        )
    return table


def _unneeded(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied, and what need not be."""
    paths = {name: Path(folder) / name for name in names}
    is_kept = {name: path.is_dir() or path.is_file() for name, path in paths.items()}
    return [name for name, kept in is_kept.items() if not kept or name.startswith("large.dat")]
