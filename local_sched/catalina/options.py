"""The options and arguments that several commands take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from gridtravel.gridio.cli_frame import JsonOption
from gridtravel.local_sched.catalina.session import DEFAULT_SOCKET, SOCKET_VARIABLE, ZONE_VARIABLE

SocketOption = Annotated[
    str,
    typer.Option(
        "--socket",
        metavar="PATH",
        help=f"The agent's socket; default: ${SOCKET_VARIABLE}, else {DEFAULT_SOCKET}.",
    ),
]
ZoneOption = Annotated[
    str,
    typer.Option(
        "--zone",
        metavar="NAME",
        help=f"Zone of times without one; default: ${ZONE_VARIABLE}, else the site's own.",
    ),
]
AccountOption = Annotated[str, typer.Option("--account", help="Account to charge.")]
FeaturesOption = Annotated[
    str, typer.Option("--features", metavar="A,B", help="Every node must have all of these.")
]
AnyFeaturesOption = Annotated[
    str | None, typer.Option("--features", metavar="A,B", help="Every node must have all of these.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be granted; change nothing.")
]
RequestOption = Annotated[
    str,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="Saying the same request with the same id again books nothing more.",
    ),
]
EarliestOption = Annotated[
    str,
    typer.Option(
        "--earliest-start",
        metavar="TIME",
        help="07:00_11/09/2004, 2004-11-09T07:00, 'tomorrow 07:00', +2h; default: now.",
    ),
]
LatestOption = Annotated[
    str,
    typer.Option(
        "--latest-end", metavar="TIME", help="When it must be over; default: the site's horizon."
    ),
]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """What every command takes."""

    as_json: JsonOption = False
    socket: SocketOption = ""
    zone: ZoneOption = ""
