"""``reserve-nodes``, the standing reservations and ``boost-job``, for administrators; ``hold-job``
and ``release-job``, for everybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from local_sched.catalina.reservation_commands import DurationOption, JobArgument, JobsArgument
from local_sched.catalina.shell import (
    DryRunOption,
    FeaturesOption,
    JsonOption,
    RequestOption,
    SocketOption,
    ZoneOption,
    app,
    run,
)
from local_sched.catalina.site_reservations import AccessWords, StandingWords

if TYPE_CHECKING:
    from local_sched.catalina.answers import Answer
    from local_sched.catalina.session import Session

UsersOption = Annotated[
    str, typer.Option("--users", metavar="A,B", help="Jobs of these users may use it.")
]
AccountsOption = Annotated[
    str, typer.Option("--accounts", metavar="A,B", help="And jobs of these accounts.")
]
ServicesOption = Annotated[
    str, typer.Option("--qos", metavar="A,B", help="And jobs of these qualities of service.")
]
LimitMaxOption = Annotated[
    str, typer.Option("--limit-max", metavar="LENGTH", help="But no job with a longer limit.")
]


@app.command("reserve-nodes")
def reserve_nodes(
    nodes: Annotated[
        list[str],
        typer.Argument(metavar="NODE1,NODE2", help="Names, with commas or spaces between them."),
    ],
    start: Annotated[str, typer.Option("--start", metavar="TIME", help="Default: now.")] = "",
    end: Annotated[str, typer.Option("--end", metavar="TIME", help="Or --duration.")] = "",
    duration: DurationOption = "",
    users: UsersOption = "",
    accounts: AccountsOption = "",
    services: ServicesOption = "",
    limit_max: LimitMaxOption = "",
    email: Annotated[
        str, typer.Option("--email", metavar="ADDRESS", help="Told of failures.")
    ] = "",
    dry_run: DryRunOption = False,
    request_id: RequestOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Reserve particular nodes for the site itself, at exactly this time.

    For administrators. Running jobs keep their limits; jobs that would be in the way get other
    nodes.
    """
    access = AccessWords(users=users, accounts=accounts, services=services, limit_max=limit_max)

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_reservations as work

        window = work.WindowWords(start=start, end=end, duration=duration)
        return await work.reserve_nodes(
            session, nodes, window, access, email=email, request_id=request_id, dry_run=dry_run
        )

    run(go, as_json, socket, zone)


@app.command("create-standing-res")
def create_standing_res(
    start: Annotated[
        str,
        typer.Option(
            "--start", metavar="RULE", help="Minute hour day month weekday, as cron writes it."
        ),
    ] = "",
    duration: DurationOption = "",
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, metavar="N", help="Fewer where fewer are free.")
    ] = 1,
    name: Annotated[str, typer.Option("--name", help="Default: one that is free.")] = "",
    depth: Annotated[
        int, typer.Option("--depth", min=1, max=400, metavar="N", help="Instances made ahead.")
    ] = 7,
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="NAME", help="Of the rule; default: the site's.")
    ] = "",
    account: Annotated[str, typer.Option("--account", help="Default: the site's own.")] = "",
    features: FeaturesOption = "",
    users: UsersOption = "",
    accounts: AccountsOption = "",
    services: ServicesOption = "",
    limit_max: LimitMaxOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Reserve nodes for the site again and again, in local time. For administrators.

    Said again with the same name it replaces the rule.
    """
    words = StandingWords(
        name=name,
        start=start,
        time_zone=time_zone,
        duration=duration,
        nodes=nodes,
        depth=depth,
        account=account,
        features=features,
        access=AccessWords(users=users, accounts=accounts, services=services, limit_max=limit_max),
    )

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_reservations

        return await site_reservations.create_standing(session, words)

    run(go, as_json, socket, zone)


@app.command("cancel-standing-res")
def cancel_standing_res(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME1,NAME2", help="With commas or spaces between.")
    ],
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Take standing reservations back with all instances ahead; one that runs goes on.

    For administrators.
    """

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_reservations

        return await site_reservations.cancel_standing(session, names)

    run(go, as_json, socket, zone)


@app.command("show-standing-res")
def show_standing_res(
    as_json: JsonOption = False, socket: SocketOption = "", zone: ZoneOption = ""
) -> None:
    """Show standing reservations: their rules, whom they admit, and their next instances."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_reservations

        return await site_reservations.show_standing(session)

    run(go, as_json, socket, zone)


@app.command("hold-job")
def hold_job(
    jobs: JobsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Put waiting jobs on hold: they give up their places and block nobody."""
    _hold(jobs, as_json, socket, zone, undo=False)


@app.command("release-job")
def release_job(
    jobs: JobsArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Let held jobs go, in the rank they had."""
    _hold(jobs, as_json, socket, zone, undo=True)


@app.command("boost-job")
def boost_job(
    job: JobArgument,
    points: Annotated[
        int, typer.Option("--points", min=-(10**9), max=10**9, help="In place of those it has.")
    ] = 0,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Give a waiting job points of your own. For administrators, where the order is by priority."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_orders

        return await site_orders.boost_job(session, job, points)

    run(go, as_json, socket, zone)


def _hold(jobs: list[str], as_json: bool, socket: str, zone: str, *, undo: bool) -> None:
    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_orders

        return await site_orders.hold_jobs(session, jobs, undo=undo)

    run(go, as_json, socket, zone)
