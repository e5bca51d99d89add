"""``reserve-nodes``, the standing reservations and ``boost-job``, for administrators; ``hold-job``
and ``release-job``, for everybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from gridtravel.gridio.cli_frame import Without
from gridtravel.local_sched.catalina.options import (
    CommonOptions,
    DryRunOption,
    JobArgument,
    JobsArgument,
    RequestOption,
)
from gridtravel.local_sched.catalina.shell import command, run
from gridtravel.local_sched.catalina.work import site_orders, site_reservations
from gridtravel.local_sched.catalina.work.site_reservations import (
    AccessWords,
    StandingWords,
    WindowWords,
)


@command("reserve-nodes")
def reserve_nodes(
    nodes: Annotated[
        list[str],
        typer.Argument(metavar="NODE1,NODE2", help="Names, with commas or spaces between them."),
    ],
    window: WindowWords,
    access: AccessWords,
    *,
    email: Annotated[
        str, typer.Option("--email", metavar="ADDRESS", help="Told of failures.")
    ] = "",
    dry_run: DryRunOption = False,
    request_id: RequestOption = "",
    common: CommonOptions,
) -> None:
    """Reserve particular nodes for the site itself, at exactly this time.

    For administrators. Running jobs keep their limits; jobs that would be in the way get other
    nodes.
    """
    run(
        common,
        lambda session: site_reservations.reserve_nodes(
            session, nodes, window, access, email=email, request_id=request_id, dry_run=dry_run
        ),
    )


@command("create-standing-res")
def create_standing_res(
    words: Annotated[StandingWords, Without("access")],
    access: AccessWords,
    common: CommonOptions,
) -> None:
    """Reserve nodes for the site again and again, in local time. For administrators.

    Said again with the same name it replaces the rule.
    """
    rule = replace(words, access=access)
    run(common, lambda session: site_reservations.create_standing(session, rule))


@command("cancel-standing-res")
def cancel_standing_res(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME1,NAME2", help="With commas or spaces between.")
    ],
    common: CommonOptions,
) -> None:
    """Take standing reservations back with all instances ahead; one that runs goes on.

    For administrators.
    """
    run(common, lambda session: site_reservations.cancel_standing(session, names))


@command("show-standing-res")
def show_standing_res(common: CommonOptions) -> None:
    """Show standing reservations: their rules, whom they admit, and their next instances."""
    run(common, site_reservations.show_standing)


@command("hold-job")
def hold_job(jobs: JobsArgument, common: CommonOptions) -> None:
    """Put waiting jobs on hold: they give up their places and block nobody."""
    _hold(jobs, common, undo=False)


@command("release-job")
def release_job(jobs: JobsArgument, common: CommonOptions) -> None:
    """Let held jobs go, in the rank they had."""
    _hold(jobs, common, undo=True)


@command("boost-job")
def boost_job(
    job: JobArgument,
    *,
    points: Annotated[
        int, typer.Option("--points", min=-(10**9), max=10**9, help="In place of those it has.")
    ] = 0,
    common: CommonOptions,
) -> None:
    """Give a waiting job points of your own. For administrators, where the order is by priority."""
    run(common, lambda session: site_orders.boost_job(session, job, points))


def _hold(jobs: list[str], common: CommonOptions, *, undo: bool) -> None:
    run(common, lambda session: site_orders.hold_jobs(session, jobs, undo=undo))
