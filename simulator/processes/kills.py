"""``gurlab kills``: the campaign from its seed to its table.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, say_all, tell, tell_all

if TYPE_CHECKING:
    from rich.table import Table

    from gridtravel.simulator.kernel.event_log import Violation
    from gridtravel.simulator.processes.autopsy import Finding
    from gridtravel.simulator.processes.campaign import Campaign


OUTCOMES: Final = ("BOOKED", "CANCELLED", "ABSENT", "TORN", "CUT")


@dataclass(slots=True)
class Row:
    """What came of the rounds of one kind of trouble."""

    rounds: int = 0
    reached: int = 0
    points: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    doubt_longest_s: float = 0.0


@dataclass(slots=True)
class Report:
    """Everything that is told."""

    rows: dict[str, Row]
    broken: list[Violation]
    excused: int
    """Broken by a cut journal alone."""
    cuts: Counter[str]
    counts: Mapping[str, int]
    disk_kind: str


TRACE_SHOWN: Final = 4000
"""Characters of a daemon's first traceback that a report repeats."""


def kills(
    rounds: Annotated[int, typer.Option(min=1, help="Trips, and troubles.")] = 40,
    first: Annotated[int, typer.Option(min=0, help="Begin with this round of the seed.")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Which troubles, where and when.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="Copy all journals and logs there at the end.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Kill, stop, starve and set back real daemons and laptops, and check every promise."""
    import asyncio

    from gridtravel.gridio.terminal.console import TerminalConsole

    report = asyncio.run(
        _play(seed, range(first, first + rounds), keep, (lambda _: None) if as_json else tell)
    )
    if as_json:
        print_json(as_object(report))
    else:
        TerminalConsole().print(as_table(report))
        say_all(_notes(report))
    tell_all(map(str, report.broken))
    if report.broken:
        raise typer.Exit(1)


async def _play(seed: int, rounds: range, keep: Path | None, tell: Callable[[str], None]) -> Report:
    from gridtravel.gridio.system.clock import SystemClock
    from gridtravel.gridio.system.ids import RandomIds
    from gridtravel.simulator.processes.campaign import Campaign
    from gridtravel.simulator.processes.laptops import Typist
    from gridtravel.simulator.processes.live_grid import USER, live_grid
    from gridtravel.simulator.processes.live_state import ask_live
    from gridtravel.simulator.processes.rounds import plan_round

    clock = SystemClock()
    with live_grid(clock, RandomIds(clock)) as grid:
        await grid.start()
        typist = Typist(grid.folder.user_config(USER))
        campaign = Campaign(grid, typist, clock)
        try:
            for number in rounds:
                plan = plan_round(seed, number)
                tell(f"{number:4}  {plan.strikes:<6}  {plan.trouble}  {'+'.join(plan.legs)}")
                await campaign.play(plan)
            await campaign.come_to_rest()
            ends_at = clock.now_precise()
            await campaign.look_at_status()
            live = await ask_live(grid, clock)
            for site in grid.sites.values():
                code = await site.end()
                if code != 0:
                    campaign.note_broken("daemons end well", f"{site.name}: code {code}", site.name)
            finding = look(campaign, ends_at, live)
        finally:
            typist.close()
            if keep is not None:
                shutil.copytree(grid.folder.root, keep, ignore=_no_pipes)
        return report_on(campaign, finding, grid.disk_kind)


def look(campaign: Any, ends_at: float, live: Mapping[str, Any]) -> Finding:
    """All checkers, over what everybody left."""
    from gridtravel.simulator.processes.autopsy import examine
    from gridtravel.simulator.processes.found_books import FoundWorld
    from gridtravel.simulator.processes.live_grid import SITES
    from gridtravel.simulator.processes.live_state import compare

    grid, happened = campaign.grid, campaign.happened
    laptops = {each.name: each for each in happened.laptops}
    world = FoundWorld(laptops, ends_at)
    for rule, text, about in happened.broken:
        world.event_log.broken(rule, text, about)
    for name, site in grid.sites.items():
        world.add_site(name, SITES[name], site.records(), site.spans)
        compare(world.event_log, site, live[name])
        _, found, trace = site.log.read_text("utf-8", "replace").partition("Traceback")
        if found:
            text = f"{name} logs a traceback: {trace[:TRACE_SHOWN]}"
            world.event_log.broken("no defects", text, name)
    finding = examine(world, happened.cuts, grid.evidence)
    happened.counts.update(world.event_log.counts)
    return finding


def report_on(campaign: Campaign, finding: Finding, disk_kind: str) -> Report:
    """Rows by kind of trouble."""
    rows: dict[str, Row] = {}
    for result in campaign.rounds:
        row = rows.setdefault(result.plan.trouble.value, Row())
        trip_id = result.laptop.trip_id
        row.rounds += 1
        row.reached += result.is_reached
        if result.is_reached:
            row.points.add(result.plan.point)
        outcome = finding.outcomes.get(trip_id, "ABSENT")
        is_undone = outcome == "ABSENT" and result.laptop.state is TripState.CANCELLED
        row.outcomes["CANCELLED" if is_undone else outcome] += 1
        row.doubt_longest_s = max(row.doubt_longest_s, finding.doubt_longest_s.get(trip_id, 0.0))
    cuts: Counter[str] = Counter()
    for cut in campaign.happened.cuts:
        kind = "refused to start" if cut.kept is None else "went on with all"
        cuts["lost records, and said so" if cut.lost and cut.is_owned_up else kind] += 1
    return Report(
        rows, finding.broken, len(finding.excused), cuts, campaign.happened.counts, disk_kind
    )


def as_object(report: Report) -> dict[str, Any]:
    """The report for scripts."""
    return {
        "disk": report.disk_kind,
        "troubles": [
            {
                "trouble": trouble,
                "rounds": row.rounds,
                "reached": row.reached,
                "points": len(row.points),
                "outcomes": dict(sorted(row.outcomes.items())),
                "doubt_longest_s": row.doubt_longest_s,
            }
            for trouble, row in report.rows.items()
        ],
        "cuts": dict(sorted(report.cuts.items())),
        "counts": dict(sorted(report.counts.items())),
        "excused": report.excused,
        "broken": [str(each) for each in report.broken],
    }


def as_table(report: Report) -> Table:
    """One row a kind of trouble."""
    from rich.table import Table

    table = Table(title="real processes, one trouble a trip", box=None)
    table.add_column("trouble")
    for name in ("rounds", "struck", "points", *(each.lower() for each in OUTCOMES), "doubt"):
        table.add_column(name, justify="right")
    for trouble, row in report.rows.items():
        table.add_row(
            trouble,
            f"{row.rounds}",
            f"{row.reached}",
            f"{len(row.points)}",
            *(f"{row.outcomes[each]}" for each in OUTCOMES),
            f"{row.doubt_longest_s:.0f} s",
        )
    return table


def _notes(report: Report) -> list[str]:
    """What the table has no column for."""
    found = [f"full disks: {report.disk_kind}"]
    found += [f"journals cut that {what}: {count}" for what, count in sorted(report.cuts.items())]
    found += [f"{what}: {count}" for what, count in sorted(report.counts.items())]
    found.append(f"broken by a cut journal alone: {report.excused}")
    found.append(f"broken promises: {len(report.broken)}")
    return found


def _no_pipes(folder: str, names: list[str]) -> list[str]:
    """What cannot be copied, and what need not be."""
    paths = {name: Path(folder) / name for name in names}
    return [name for name, path in paths.items() if not (path.is_file() or path.is_dir())]
