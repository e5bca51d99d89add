"""``gurlab torture`` and ``gurlab crashes``: whole grids in virtual time, run to death.

Exit codes: 0 every promise was kept, 1 one was broken, 2 wrong usage.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.gridio.terminal.text import print_json, say, say_all, tell, tell_all

SEEDS_MAX = 10_000_000


def torture(
    seeds: Annotated[str, typer.Option(help="FIRST..LAST, or one seed.")] = "1..100",
    sites: Annotated[int, typer.Option(min=2, max=50, help="Most sites in a world.")] = 20,
    loss: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Most of the messages that are lost.")
    ] = 0.5,
    liars: Annotated[
        bool,
        typer.Option("--liars", help="A third of the laptops lie, mostly a site and a manager."),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes; default: one a processor.")
    ] = None,
    whole_story: Annotated[
        bool, typer.Option("--story", help="Tell all that happened, failure or not (one seed).")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Live random worlds of sites and travellers with faults, and check every promise."""
    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.cli.torture import Summary, run_seeds
    from gridtravel.simulator.cli.torture_report import (
        STORIES_MAX,
        seeds_as_json,
        seeds_as_table,
        story,
    )

    chosen = _range(seeds)
    if whole_story:
        _tell_all(chosen, sites, loss, liars=liars)
        return
    summary = Summary()
    with _Progress(len(chosen), is_quiet=as_json) as worlds:
        for result in run_seeds(chosen, sites_most=sites, loss=loss, liars=liars, workers=workers):
            summary.add(result)
            worlds.advance(1)
    for result in summary.failures[:STORIES_MAX]:
        again = f"gurlab torture --seeds {result.seed} --sites {sites} --loss {loss}"
        again += " --liars" if liars else ""
        tell_all(story(result, again))
    if as_json:
        print_json(seeds_as_json(summary))
    else:
        TerminalConsole().print(seeds_as_table(summary))
        if summary.failures:
            failing = ", ".join(str(each.seed) for each in summary.failures)
            say(f"failing seeds: {failing}")
    if summary.failures:
        raise typer.Exit(1)


def crashes(
    pairs: Annotated[bool, typer.Option("--pairs", help="Also two parties at a time.")] = False,
    steps: Annotated[
        bool, typer.Option("--steps", help="In pairs too, at every await (tens of thousands).")
    ] = False,
    every: Annotated[int, typer.Option(min=1, help="Only every n-th pair.")] = 1,
    real: Annotated[
        bool, typer.Option("--real", help="Real daemons and laptops, killed at every write.")
    ] = False,
    trip: Annotated[
        list[str] | None, typer.Option(help="Of the real trips only this kind; again for more.")
    ] = None,
    some: Annotated[
        int | None, typer.Option(min=1, help="Only so many real crashes of each kind.")
    ] = None,
    staged_mb: Annotated[
        int, typer.Option(min=1, max=10_000, help="What a real co-start stages, in MB a leg.")
    ] = 32,
    keep: Annotated[
        Path | None, typer.Option(help="Copy the journals and logs of real trips there.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes, or real grids; default: one a processor."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Crash every party of one trip at every message, write and await, and check every promise."""
    if real:
        _crash_real(trip or [], some, staged_mb, keep, workers, as_json=as_json)
        return
    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.cli.torture import BATCH, run_crashes
    from gridtravel.simulator.cli.torture_report import crashes_as_json, crashes_as_table
    from gridtravel.simulator.grid.exhaustive import (
        PAIR_KINDS,
        Tally,
        alone,
        in_pairs,
        one_trip,
        points_of,
    )
    from gridtravel.simulator.grid.world import live
    from gridtravel.simulator.kernel.processes import PointKind

    whole = live(one_trip())
    plans = list(alone(points_of(whole, list(PointKind))))
    if pairs:
        kinds = tuple(PointKind) if steps else PAIR_KINDS
        plans += list(in_pairs(points_of(whole, kinds)))[::every]
    tallies: dict[tuple[str, str], Tally] = {}
    with _Progress(len(plans), is_quiet=as_json) as worlds:
        for batch in run_crashes(plans, workers=workers):
            for key, tally in batch.items():
                tallies.setdefault(key, Tally()).merge(tally)
            worlds.advance(BATCH)
    if as_json:
        print_json(crashes_as_json(tallies))
    else:
        TerminalConsole().print(crashes_as_table(tallies))
    failures = [each for tally in tallies.values() for each in tally.failures]
    for dead, text in failures[:20]:
        tell(f"{' and '.join(str(each.at) for each in dead)}: {text}")
    if failures:
        raise typer.Exit(1)


def _crash_real(
    names: Sequence[str],
    some: int | None,
    staged_mb: int,
    keep: Path | None,
    workers: int | None,
    *,
    as_json: bool,
) -> None:
    """Real processes, see ``simulator.processes.crashes``."""
    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.processes.crash_points import TripKind
    from gridtravel.simulator.processes.crashes import as_object, as_table, live_all
    from gridtravel.simulator.processes.live_batch import why_no_slurm

    known = [each.value for each in TripKind]
    for name in names:
        if name not in known:
            raise InputError(f"no such trip: {name[:40]!r}", hint=f"one of {', '.join(known)}")
    chosen = [TripKind(each) for each in names or known]
    reason = why_no_slurm() if TripKind.NO_AGENT in chosen else ""
    if reason and names:
        raise UnavailableError(reason)
    if reason:
        tell(f"NOT LIVED: trips with a site without an agent: {reason}")
        chosen.remove(TripKind.NO_AGENT)
    report = live_all(
        chosen,
        lanes=workers or os.cpu_count() or 1,
        staged_bytes=staged_mb * 1_000_000,
        some=some,
        keep=keep,
        tell=(lambda _: None) if as_json else tell,
    )
    if as_json:
        print_json(as_object(report))
    else:
        TerminalConsole().print(as_table(report))
        say(f"trips: {report.trips}; points that never came: {len(report.missed)}")
        say_all(f"{what}: {count}" for what, count in sorted(report.counts.items()))
        say_all(report.broken)
    if report.broken:
        raise typer.Exit(1)


def _tell_all(seeds: range, sites: int, loss: float, *, liars: bool) -> None:
    """Everything that happened in one world, and whether that was right."""
    from gridtravel.simulator.cli.torture import quiet
    from gridtravel.simulator.grid.random_worlds import random_plan
    from gridtravel.simulator.grid.world import live

    if len(seeds) != 1:
        raise InputError("a story is of one seed", hint="say --seeds N")
    quiet()
    record = live(random_plan(seeds[0], sites_most=sites, loss=loss, liars=liars))
    say_all(record.event_log.story(lines_max=1_000_000))
    if not record.is_clean:
        raise typer.Exit(1)


class _Progress:
    """A bar on standard error while people are looking."""

    def __init__(self, total: int, *, is_quiet: bool) -> None:
        from rich.progress import Progress

        from gridtravel.gridio.terminal.console import TerminalConsole

        console = TerminalConsole(to_stderr=True)
        self._bar = Progress(
            console=console, transient=True, disable=is_quiet or not console.is_terminal
        )
        self._task = self._bar.add_task("worlds", total=total)

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, worlds: int) -> None:
        """So many more are done."""
        self._bar.advance(self._task, worlds)


def _range(text: str) -> range:
    first, dots, last = text.partition("..")
    last = last if dots else first
    if not (is_count(first) and is_count(last)):
        raise InputError(f"not seeds: {text[:40]!r}", hint="say FIRST..LAST, for example 1..1000")
    seeds = range(int(first), int(last) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise InputError(f"no seeds, or too many: {text[:40]!r}", hint=f"1 to {SEEDS_MAX} of them")
    return seeds
