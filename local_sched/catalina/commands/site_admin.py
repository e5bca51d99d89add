"""``create-system-res``, ``node-down``, ``node-up`` and ``set-mode``: for the site's
administrators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from gridtravel.gridio.cli_frame import Without
from gridtravel.local_sched.catalina.options import CommonOptions, DryRunOption
from gridtravel.local_sched.catalina.shell import command, run
from gridtravel.local_sched.catalina.work import reservations, site_orders
from gridtravel.local_sched.catalina.work.reservation_requests import ReservationWords

SYSTEM_ACCOUNT = "system"
"""What is charged to it is the site's own."""
NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name of a node: its class, a dash, its number.")
]


@command("create-system-res")
def create_system_res(
    words: Annotated[ReservationWords, Without("account")],
    *,
    dry_run: DryRunOption = False,
    common: CommonOptions,
) -> None:
    """Reserve nodes for the site itself (maintenance): running jobs drain, waiting ones make way.

    For administrators. No limits apply.
    """
    owned = replace(words, account=SYSTEM_ACCOUNT)
    run(common, lambda session: reservations.set_reservation(session, owned, dry_run=dry_run))


@command("node-down")
def node_down(
    node: NodeArgument,
    *,
    jobs: Annotated[
        str,
        typer.Option(
            "--jobs", metavar="RULE", help="notify (they go on: the node drains), requeue, cancel."
        ),
    ] = "",
    common: CommonOptions,
) -> None:
    """Take a failed node out of the plan; the jobs on it are told, requeued or cancelled.

    For administrators. Which of the three: --jobs, else [queue] on_node_failure of the site's
    configuration.
    """
    run(common, lambda session: site_orders.node_down(session, node, jobs))


@command("node-up")
def node_up(node: NodeArgument, common: CommonOptions) -> None:
    """Put a node that was down back into the plan. For administrators."""
    run(common, lambda session: site_orders.node_up(session, node))


@command("set-mode")
def set_mode(
    mode: Annotated[
        str, typer.Argument(metavar="MODE", help="running, suspended (nothing starts) or stopped.")
    ],
    common: CommonOptions,
) -> None:
    """Let the site run, start nothing (suspended), or take no jobs either (stopped).

    For administrators. Running jobs go on in every mode.
    """
    run(common, lambda session: site_orders.set_mode(session, mode))
