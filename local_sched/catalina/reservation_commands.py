"""``set-res``, ``modify-res``, ``cancel-res``, the bindings, ``show-res`` and ``show-windows``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from local_sched.catalina.reservation_requests import ReservationWords
from local_sched.catalina.shell import (
    AccountOption,
    DryRunOption,
    EarliestOption,
    FeaturesOption,
    JsonOption,
    LatestOption,
    RequestOption,
    SocketOption,
    ZoneOption,
    app,
    run,
)

if TYPE_CHECKING:
    from local_sched.catalina.answers import Answer
    from local_sched.catalina.session import Session

NodesOption = Annotated[
    int | None, typer.Option("--nodes", min=1, metavar="N", help="Exactly so many nodes.")
]
MaxNodesOption = Annotated[
    int | None,
    typer.Option("--maxnodes", min=1, metavar="N", help="As many as there are, up to N."),
]
DurationOption = Annotated[
    str, typer.Option("--duration", metavar="LENGTH", help="3600, 1h30m or 01:30:00.")
]
EmailOption = Annotated[
    str | None,
    typer.Option("--email", metavar="ADDRESS", help="Told of failures; NONOTIFY: nobody."),
]
ReservationArgument = Annotated[str, typer.Argument(metavar="RES", help="Id of a reservation.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id of a job.")]
ReservationsArgument = Annotated[
    list[str], typer.Argument(metavar="RES1,RES2", help="Ids, with commas or spaces between them.")
]
JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB1,JOB2", help="Ids, with commas or spaces between them.")
]


@app.command("set-res")
def set_res(
    nodes: NodesOption = None,
    maxnodes: MaxNodesOption = None,
    duration: DurationOption = "",
    earliest_start: EarliestOption = "",
    latest_end: LatestOption = "",
    account: AccountOption = "",
    email: EmailOption = None,
    features: FeaturesOption = "",
    dry_run: DryRunOption = False,
    request_id: RequestOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Reserve nodes, at the earliest start that delays nobody's job."""
    words = ReservationWords(
        account=account,
        nodes=nodes,
        maxnodes=maxnodes,
        duration=duration,
        earliest_start=earliest_start,
        latest_end=latest_end,
        email=email,
        features=features,
        request_id=request_id,
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina.reservations import set_reservation

        return await set_reservation(session, words, dry_run=dry_run)

    run(go, as_json, socket, zone)


@app.command("modify-res")
def modify_res(
    reservation: ReservationArgument,
    nodes: NodesOption = None,
    maxnodes: MaxNodesOption = None,
    duration: DurationOption = "",
    earliest_start: EarliestOption = "",
    latest_end: LatestOption = "",
    account: AccountOption = "",
    email: EmailOption = None,
    features: Annotated[
        str | None, typer.Option("--features", metavar="A,B", help="In place of those it has.")
    ] = None,
    dry_run: DryRunOption = False,
    request_id: RequestOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Change a reservation in one step; it stays as it is unless the change is granted.

    What is not named stays. Without a window its start stays as well.
    """
    words = ReservationWords(
        account=account,
        nodes=nodes,
        maxnodes=maxnodes,
        duration=duration,
        earliest_start=earliest_start,
        latest_end=latest_end,
        email=email,
        features=features,
        request_id=request_id,
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina.reservations import modify_reservation

        return await modify_reservation(session, reservation, words, dry_run=dry_run)

    run(go, as_json, socket, zone)


@app.command("cancel-res")
def cancel_res(
    reservations: ReservationsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Cancel reservations, and stop what runs in them; goes on past single errors."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.reservations import cancel_reservations

        return await cancel_reservations(session, reservations)

    run(go, as_json, socket, zone)


@app.command("bind-res")
def bind_res(
    reservation: ReservationArgument,
    jobs: JobsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Keep a reservation for some jobs: only they may use it."""
    _bind_res(reservation, jobs, as_json, socket, zone, undo=False)


@app.command("unbind-res")
def unbind_res(
    reservation: ReservationArgument,
    jobs: JobsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Undo bind-res; after the last one the reservation is its owner's again."""
    _bind_res(reservation, jobs, as_json, socket, zone, undo=True)


@app.command("bind-job")
def bind_job(
    job: JobArgument,
    reservations: ReservationsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Let a waiting job run in one of these reservations and nowhere else."""
    _bind_job(job, reservations, as_json, socket, zone, undo=False)


@app.command("unbind-job")
def unbind_job(
    job: JobArgument,
    reservations: ReservationsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Undo bind-job; after the last one the job is in the open queue."""
    _bind_job(job, reservations, as_json, socket, zone, undo=True)


@app.command("show-res")
def show_res(
    reservations: Annotated[
        list[str] | None, typer.Argument(metavar="RES", help="Show all about these.")
    ] = None,
    user: Annotated[str, typer.Option("--user", help="Of this user.")] = "",
    account: Annotated[str, typer.Option("--account", help="Charged to this account.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Yours alone.")] = False,
    over: Annotated[
        bool, typer.Option("--over", help="Also those that are over, cancelled or expired.")
    ] = False,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show reservations: when, how many nodes, whose, kept for which jobs."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina.reservations import show_reservations

        return await show_reservations(
            session, reservations or (), user=user, account=account, mine=mine, over=over
        )

    run(go, as_json, socket, zone)


@app.command("show-windows")
def show_windows(
    nodes: NodesOption = None,
    maxnodes: MaxNodesOption = None,
    duration: DurationOption = "",
    earliest_start: EarliestOption = "",
    latest_end: LatestOption = "",
    account: AccountOption = "",
    features: FeaturesOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Show where a reservation of this shape would be granted now."""
    words = ReservationWords(
        account=account,
        nodes=nodes,
        maxnodes=maxnodes,
        duration=duration,
        earliest_start=earliest_start,
        latest_end=latest_end,
        features=features,
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina import reservations

        return await reservations.show_windows(session, words)

    run(go, as_json, socket, zone)


def _bind_res(
    reservation: str, jobs: list[str], as_json: bool, socket: str, zone: str, *, undo: bool
) -> None:
    async def go(session: Session) -> Answer:
        from local_sched.catalina.reservations import bind_reservation

        return await bind_reservation(session, reservation, jobs, undo=undo)

    run(go, as_json, socket, zone)


def _bind_job(
    job: str, reservations: list[str], as_json: bool, socket: str, zone: str, *, undo: bool
) -> None:
    async def go(session: Session) -> Answer:
        from local_sched.catalina import reservations as work

        return await work.bind_job(session, job, reservations, undo=undo)

    run(go, as_json, socket, zone)
