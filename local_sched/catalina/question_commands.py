"""``show-q``, ``show-bf``, ``show-nodes``, ``show-available``, ``estimate``, ``why``, ``priority``
and ``history``: questions, which change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from gridcore.errors import InputError
from local_sched.catalina.questions import JobFilter
from local_sched.catalina.reservation_commands import JobArgument
from local_sched.catalina.shell import (
    FeaturesOption,
    JsonOption,
    SocketOption,
    ZoneOption,
    app,
    run,
    watch,
)

if TYPE_CHECKING:
    from local_sched.catalina.answers import Answer
    from local_sched.catalina.session import Session

WATCH_MIN_S: Final = 0.2
"""No agent is asked more often than this by one terminal."""

UserOption = Annotated[str, typer.Option("--user", help="Of this user.")]
AccountFilter = Annotated[str, typer.Option("--account", help="Charged to this account.")]
StateOption = Annotated[
    str, typer.Option("--state", metavar="A,B", help="In one of these states, such as running.")
]
ClassOption = Annotated[
    str, typer.Option("--class", metavar="A,B", help="On nodes of these classes.")
]
ColumnsOption = Annotated[
    str, typer.Option("--columns", metavar="A,B", help="Show these columns; all: each there is.")
]
RowsOption = Annotated[
    int, typer.Option("--limit", min=1, max=5000, metavar="N", help="Most rows.")
]


@app.command("show-q")
def show_q(
    user: UserOption = "",
    account: AccountFilter = "",
    state: StateOption = "",
    classes: ClassOption = "",
    columns: ColumnsOption = "",
    limit: RowsOption = 1000,
    again_s: Annotated[
        float,
        typer.Option("--watch", min=0, metavar="SECONDS", help="Show it again so often; Ctrl-C."),
    ] = 0,
    times: Annotated[
        int, typer.Option("--times", min=0, metavar="N", help="With --watch: so often in all.")
    ] = 0,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show the queue: what runs, and what waits, in the order it will be served."""
    wanted = JobFilter(
        user=user, account=account, state=state, classes=classes, columns=columns, limit=limit
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina.questions import show_queue

        return await show_queue(session, wanted)

    if not again_s:
        run(go, as_json, socket, zone)
    if as_json:
        raise InputError("--watch shows tables, not --json", hint="ask again from your program")
    watch(go, socket, zone, interval_s=max(again_s, WATCH_MIN_S), times=times or None)


@app.command("history")
def history(
    user: UserOption = "",
    account: AccountFilter = "",
    state: StateOption = "",
    classes: ClassOption = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Ended then or later.")
    ] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Ended before.")] = "",
    columns: ColumnsOption = "",
    limit: RowsOption = 100,
    reservations: Annotated[
        bool, typer.Option("--reservations", help="Reservations instead of jobs.")
    ] = False,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show jobs, or reservations, that are over, cancelled or expired; the latest first."""
    wanted = JobFilter(
        user=user, account=account, state=state, classes=classes, columns=columns, limit=limit
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina.past_reservations import show_past_reservations
        from local_sched.catalina.questions import show_history

        if reservations:
            return await show_past_reservations(session, wanted, since=since, until=until)
        return await show_history(session, wanted, since=since, until=until)

    run(go, as_json, socket, zone)


@app.command("show-bf")
def show_bf(as_json: JsonOption = False, socket: SocketOption = "", zone: ZoneOption = "") -> None:
    """Show the backfill windows: what could start now without delaying anybody."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.questions import show_backfill

        return await show_backfill(session)

    run(go, as_json, socket, zone)


@app.command("show-nodes")
def show_nodes(
    as_json: JsonOption = False, socket: SocketOption = "", zone: ZoneOption = ""
) -> None:
    """Show what the nodes do, and as whom the site knows you."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina import questions

        return await questions.show_nodes(session)

    run(go, as_json, socket, zone)


@app.command("show-available")
def show_available(
    account: Annotated[str, typer.Option("--account", help="Default: your own.")] = "",
    start: Annotated[
        str, typer.Option("--start", metavar="TIME", help="Where the window begins; default: now.")
    ] = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show what is left of the limits on reservations."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina import questions

        return await questions.show_available(session, account, start)

    run(go, as_json, socket, zone)


@app.command("estimate")
def estimate(
    nodes: Annotated[int, typer.Option("--nodes", min=1, metavar="N", help="Nodes.")] = 1,
    duration: Annotated[
        str, typer.Option("--duration", metavar="LENGTH", help="The job's limit: 3600 or 1h.")
    ] = "1h",
    features: FeaturesOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Say when a job would start if it were submitted now."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.questions import show_estimate

        return await show_estimate(session, nodes, duration, features)

    run(go, as_json, socket, zone)


@app.command("why")
def why(
    job: JobArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Say why a job is not running, or how it ended."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.questions import show_why

        return await show_why(session, job)

    run(go, as_json, socket, zone)


@app.command("priority")
def priority(
    job: Annotated[str, typer.Argument(metavar="JOB", help="One job, term by term.")] = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show the priorities of what waits, term by term."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.questions import show_priority

        return await show_priority(session, job)

    run(go, as_json, socket, zone)
