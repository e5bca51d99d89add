"""``gurlab``: recorded workloads and whole grids on the production code, in virtual time.

Exit codes: 0 done, 2 wrong usage or malformed input (docs/exit-codes.md).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridio.cli_frame import JsonOption, command_line
from gridtravel.gridio.terminal.text import print_json, say
from gridtravel.simulator.cli.decide_cli import decide
from gridtravel.simulator.cli.market_cli import economy
from gridtravel.simulator.cli.search_cli import compare_search
from gridtravel.simulator.cli.torture_cli import crashes, torture
from gridtravel.simulator.cli.tree_cli import tree
from gridtravel.simulator.processes.kills import kills
from gridtravel.simulator.studies.command import study

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gridtravel.simulator.replay.report import PolicyRun
    from gridtravel.simulator.replay.swf import Trace

app = command_line(
    "gurlab", "Laboratory of the grid: the production scheduler on recorded workloads."
)
app.command()(decide)
app.command()(study)
app.command()(economy)
app.command()(torture)
app.command()(crashes)
app.command()(kills)
app.command()(tree)
app.command()(compare_search)


@app.command()
def replay(
    trace: Annotated[Path, typer.Argument(help="Workload log (SWF), plain or gzipped.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="fcfs, sjf, easy, easy-sjbf, conservative or replan; with named- in front a"
            " job keeps particular processors. Several allowed."
        ),
    ] = None,
    procs: Annotated[
        int | None, typer.Option(help="Processors of the machine; default: the log's header.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many jobs.")] = None,
    ties: Annotated[
        str, typer.Option(help="Order within one second: sequential, ends-first or batch.")
    ] = "batch",
    starts: Annotated[
        Path | None,
        typer.Option(help="CSV of starts; with several policies their names go before the suffix."),
    ] = None,
    gantt: Annotated[
        Path | None, typer.Option(help="Picture of a stretch (PNG, SVG, PDF).")
    ] = None,
    gantt_jobs: Annotated[
        str, typer.Option(help="The stretch: FIRST-LAST, counted from 1.")
    ] = "1-200",
    as_json: JsonOption = False,
) -> None:
    """Serve a log under one or more policies and compare what comes out."""
    from gridtravel.simulator.replay.loop import NAMED_PREFIX, TieRule, policy_for_log
    from gridtravel.simulator.replay.loop import replay as serve
    from gridtravel.simulator.replay.metrics import measure
    from gridtravel.simulator.replay.report import PolicyRun, starts_path, write_starts
    from gridtravel.simulator.replay.swf import read_trace

    names = list(dict.fromkeys(name for word in policy or ["easy"] for name in word.split(",")))
    configs = {name: policy_for_log(name) for name in names}
    if ties not in tuple(TieRule):
        raise InputError(f"unknown tie rule {ties[:40]!r}", hint=f"known: {', '.join(TieRule)}")
    stretch = _stretch(gantt_jobs)
    with _Progress(is_quiet=as_json) as progress:
        loaded = read_trace(trace, procs, limit, progress.reading)
        runs = []
        for name, config in configs.items():
            progress.policy(name, len(loaded.jobs))
            before = time.process_time()
            schedule = serve(
                loaded.jobs,
                loaded.procs,
                config,
                TieRule(ties),
                progress.serving,
                keeps_nodes=name.startswith(NAMED_PREFIX),
            )
            cpu_s = time.process_time() - before
            metrics = measure(loaded.jobs, schedule, loaded.procs)
            runs.append(PolicyRun(policy=name, starts=schedule, metrics=metrics, cpu_s=cpu_s))
            if starts is not None:
                write_starts(starts_path(starts, name, len(names)), loaded.jobs, schedule)
    _tell(loaded, ties, runs, as_json=as_json)
    if gantt is not None:
        from gridtravel.simulator.replay.report import draw_gantt

        for run in runs:
            draw_gantt(starts_path(gantt, run.policy, len(names)), loaded, run, *stretch)


@app.command()
def reservations(
    trace: Annotated[Path, typer.Argument(help="Workload log (SWF), plain or gzipped.")],
    policy: Annotated[str, typer.Option(help="Policy that serves the queue.")] = "conservative",
    procs: Annotated[
        int | None, typer.Option(help="Processors; default: the log's header.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many jobs.")] = None,
    accounts: Annotated[int, typer.Option(help="Accounts that ask.")] = 2000,
    interval_s: Annotated[int, typer.Option(help="Mean seconds between two requests.")] = 600,
    window_node_seconds: Annotated[
        int, typer.Option(help="Node-seconds all accounts may have in any day.")
    ] = 115_200,
    nodes: Annotated[int, typer.Option(help="Most nodes of a reservation.")] = 4,
    seconds: Annotated[int, typer.Option(help="Duration of each reservation.")] = 3600,
    slots: Annotated[
        str, typer.Option(help="Ladder on which reservations take whole slots, or exact.")
    ] = "exact",
    seed: Annotated[int, typer.Option(help="Fixes the whole run.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Do user-settable reservations at their limits delay the batch stream? Defaults are
    Catalina's.
    """
    from gridtravel.gridcore.capacity.ladders import SlotLadder
    from gridtravel.gridcore.capacity.whole_slots import SlotRule
    from gridtravel.local_sched.reservations.user_reservations import (
        AccountLimits,
        UserReservationLimits,
    )
    from gridtravel.simulator.replay import report
    from gridtravel.simulator.replay.loop import policy_for_log
    from gridtravel.simulator.replay.reservation_study import Petitioners, study_reservations
    from gridtravel.simulator.replay.swf import read_trace

    config = policy_for_log(policy)
    rule = SlotRule(ladder=SlotLadder.parse(slots))
    limits = UserReservationLimits(
        default=AccountLimits(reservations_max=2, nodes_max=nodes, duration_max_s=seconds),
        window_node_seconds_max=window_node_seconds,
    )
    asking = Petitioners(accounts=accounts, interval_s=interval_s, seed=seed)
    with _Progress(is_quiet=as_json) as progress:
        loaded = read_trace(trace, procs, limit, progress.reading)
        progress.policy(policy, len(loaded.jobs))
        study = study_reservations(
            loaded.jobs, loaded.procs, config, limits, asking, rule, progress.serving
        )
    if as_json:
        print_json(report.study_as_json(loaded, policy, study))
        return
    from gridtravel.gridio.terminal.console import TerminalConsole

    TerminalConsole().print(report.study_as_table(loaded, policy, study))


def _tell(loaded: Trace, ties: str, runs: Sequence[PolicyRun], *, as_json: bool) -> None:
    from gridtravel.gridio.terminal.console import TerminalConsole
    from gridtravel.simulator.replay import report

    if as_json:
        print_json(report.as_json(loaded, ties, runs))
        return
    note = report.lines_note(loaded)
    if note:
        say(note)
    TerminalConsole().print(report.as_table(loaded, ties, runs))


def _stretch(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and is_count(first) and is_count(last) and 1 <= int(first) <= int(last)):
        raise InputError(
            f"not a stretch of jobs: {text[:40]!r}", hint="say FIRST-LAST, for example 1-200"
        )
    return int(first) - 1, int(last)


class _Progress:
    """A bar on standard error while people are looking; silent otherwise."""

    def __init__(self, *, is_quiet: bool) -> None:
        from rich.progress import Progress

        from gridtravel.gridio.terminal.console import TerminalConsole

        console = TerminalConsole(to_stderr=True)
        self._bars = Progress(
            console=console, transient=True, disable=is_quiet or not console.is_terminal
        )
        self._task = self._bars.add_task("reading", total=None)

    def __enter__(self) -> _Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def reading(self, lines: int) -> None:
        """So many lines are read."""
        self._bars.update(self._task, completed=lines)

    def policy(self, name: str, jobs: int) -> None:
        """From now on this policy is served."""
        self._bars.remove_task(self._task)
        self._task = self._bars.add_task(name, total=jobs)

    def serving(self, jobs: int) -> None:
        """So many jobs have been submitted."""
        self._bars.update(self._task, completed=jobs)


def main() -> None:
    """Entry point of the ``gurlab`` command."""
    app()


if __name__ == "__main__":
    main()
