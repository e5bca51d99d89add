"""``create-system-res``, ``node-down``, ``node-up`` and ``set-mode``: for the site's
administrators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from local_sched.catalina.reservation_commands import (
    DurationOption,
    EmailOption,
    MaxNodesOption,
    NodesOption,
)
from local_sched.catalina.reservation_requests import ReservationWords
from local_sched.catalina.shell import (
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

SYSTEM_ACCOUNT = "system"
"""What is charged to it is the site's own."""
NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name of a node: its class, a dash, its number.")
]


@app.command("create-system-res")
def create_system_res(
    nodes: NodesOption = None,
    maxnodes: MaxNodesOption = None,
    duration: DurationOption = "",
    earliest_start: EarliestOption = "",
    latest_end: LatestOption = "",
    email: EmailOption = None,
    features: FeaturesOption = "",
    dry_run: DryRunOption = False,
    request_id: RequestOption = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Reserve nodes for the site itself (maintenance): running jobs drain, waiting ones make way.

    For administrators. No limits apply.
    """
    words = ReservationWords(
        account=SYSTEM_ACCOUNT,
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


@app.command("node-down")
def node_down(
    node: NodeArgument,
    jobs: Annotated[
        str,
        typer.Option(
            "--jobs", metavar="RULE", help="notify (they go on: the node drains), requeue, cancel."
        ),
    ] = "",
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Take a failed node out of the plan; the jobs on it are told, requeued or cancelled.

    For administrators. Which of the three: --jobs, else [queue] on_node_failure of the site's
    configuration.
    """

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_orders

        return await site_orders.node_down(session, node, jobs)

    run(go, as_json, socket, zone)


@app.command("node-up")
def node_up(
    node: NodeArgument,
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Put a node that was down back into the plan. For administrators."""

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_orders

        return await site_orders.node_up(session, node)

    run(go, as_json, socket, zone)


@app.command("set-mode")
def set_mode(
    mode: Annotated[
        str, typer.Argument(metavar="MODE", help="running, suspended (nothing starts) or stopped.")
    ],
    as_json: JsonOption = False,
    socket: SocketOption = "",
    zone: ZoneOption = "",
) -> None:
    """Let the site run, start nothing (suspended), or take no jobs either (stopped).

    For administrators. Running jobs go on in every mode.
    """

    async def go(session: Session) -> Answer:
        from local_sched.catalina import site_orders

        return await site_orders.set_mode(session, mode)

    run(go, as_json, socket, zone)
