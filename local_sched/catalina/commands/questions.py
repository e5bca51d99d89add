"""``show-q``, ``show-bf``, ``show-nodes``, ``show-available``, ``estimate``, ``why``, ``priority``
and ``history``: questions, which change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.cli_frame import Without
from gridtravel.local_sched.catalina.options import (
    CommonOptions,
    FeaturesOption,
    JobArgument,
    RowsOption,
)
from gridtravel.local_sched.catalina.shell import command, run, watch
from gridtravel.local_sched.catalina.work import questions
from gridtravel.local_sched.catalina.work.questions import JobFilter

if TYPE_CHECKING:
    from gridtravel.local_sched.catalina.answers import Answer
    from gridtravel.local_sched.catalina.session import Session

WATCH_MIN_S: Final = 0.2
"""No agent is asked more often than this by one terminal."""


@command("show-q")
def show_q(
    wanted: JobFilter,
    *,
    again_s: Annotated[
        float,
        typer.Option("--watch", min=0, metavar="SECONDS", help="Show it again so often; Ctrl-C."),
    ] = 0,
    times: Annotated[
        int, typer.Option("--times", min=0, metavar="N", help="With --watch: so often in all.")
    ] = 0,
    common: CommonOptions,
) -> None:
    """Show the queue: what runs, and what waits, in the order it will be served."""

    async def go(session: Session) -> Answer:
        return await questions.show_queue(session, wanted)

    if not again_s:
        run(common, go)
    if common.as_json:
        raise InputError("--watch shows tables, not --json", hint="ask again from your program")
    watch(common, go, interval_s=max(again_s, WATCH_MIN_S), times=times or None)


@command("history")
def history(
    wanted: Annotated[JobFilter, Without("limit")],
    *,
    limit: RowsOption = 100,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Ended then or later.")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Ended before.")] = "",
    reservations: Annotated[
        bool, typer.Option("--reservations", help="Reservations instead of jobs.")
    ] = False,
    common: CommonOptions,
) -> None:
    """Show jobs, or reservations, that are over, cancelled or expired; the latest first."""
    from gridtravel.local_sched.catalina.work.past_reservations import show_past_reservations

    show = show_past_reservations if reservations else questions.show_history
    some = replace(wanted, limit=limit)
    run(common, lambda session: show(session, some, since=since, until=until))


@command("show-bf")
def show_bf(common: CommonOptions) -> None:
    """Show the backfill windows: what could start now without delaying anybody."""
    run(common, questions.show_backfill)


@command("show-nodes")
def show_nodes(common: CommonOptions) -> None:
    """Show what the nodes do, and as whom the site knows you."""
    run(common, questions.show_nodes)


@command("show-available")
def show_available(
    *,
    account: Annotated[str, typer.Option("--account", help="Default: your own.")] = "",
    start: Annotated[
        str, typer.Option("--start", metavar="TIME", help="Where the window begins; default: now.")
    ] = "",
    common: CommonOptions,
) -> None:
    """Show what is left of the limits on reservations."""
    run(common, lambda session: questions.show_available(session, account, start))


@command("estimate")
def estimate(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="Nodes.")] = 1,
    duration: Annotated[
        str, typer.Option("--duration", metavar="LENGTH", help="The job's limit: 3600 or 1h.")
    ] = "1h",
    features: FeaturesOption = "",
    common: CommonOptions,
) -> None:
    """Say when a job would start if it were submitted now."""
    run(common, lambda session: questions.show_estimate(session, nodes, duration, features))


@command("why")
def why(job: JobArgument, common: CommonOptions) -> None:
    """Say why a job is not running, or how it ended."""
    run(common, lambda session: questions.show_why(session, job))


@command("priority")
def priority(
    *,
    job: Annotated[str, typer.Argument(metavar="JOB", help="One job, term by term.")] = "",
    common: CommonOptions,
) -> None:
    """Show the priorities of what waits, term by term."""
    run(common, lambda session: questions.show_priority(session, job))
