"""``set-res``, ``modify-res``, ``cancel-res``, the bindings, ``show-res`` and ``show-windows``."""

from __future__ import annotations

from typing import Annotated

import typer

from gridtravel.gridio.cli_frame import Without
from gridtravel.local_sched.catalina.options import (
    CommonOptions,
    DryRunOption,
    JobArgument,
    JobsArgument,
    ReservationArgument,
    ReservationsArgument,
)
from gridtravel.local_sched.catalina.shell import command, run
from gridtravel.local_sched.catalina.work import reservations as work
from gridtravel.local_sched.catalina.work.reservation_requests import ReservationWords


@command("set-res")
def set_res(
    words: ReservationWords, *, dry_run: DryRunOption = False, common: CommonOptions
) -> None:
    """Reserve nodes, at the earliest start that delays nobody's job."""
    run(common, lambda session: work.set_reservation(session, words, dry_run=dry_run))


@command("modify-res")
def modify_res(
    reservation: ReservationArgument,
    words: ReservationWords,
    *,
    dry_run: DryRunOption = False,
    common: CommonOptions,
) -> None:
    """Change a reservation in one step; it stays as it is unless the change is granted.

    What is not named stays; without a window its start stays as well. --features takes the place
    of those it has.
    """
    run(
        common,
        lambda session: work.modify_reservation(session, reservation, words, dry_run=dry_run),
    )


@command("cancel-res")
def cancel_res(reservations: ReservationsArgument, common: CommonOptions) -> None:
    """Cancel reservations, and stop what runs in them; goes on past single errors."""
    run(common, lambda session: work.cancel_reservations(session, reservations))


@command("bind-res")
def bind_res(reservation: ReservationArgument, jobs: JobsArgument, common: CommonOptions) -> None:
    """Keep a reservation for some jobs: only they may use it."""
    _bind_res(reservation, jobs, common, undo=False)


@command("unbind-res")
def unbind_res(reservation: ReservationArgument, jobs: JobsArgument, common: CommonOptions) -> None:
    """Undo bind-res; after the last one the reservation is its owner's again."""
    _bind_res(reservation, jobs, common, undo=True)


@command("bind-job")
def bind_job(job: JobArgument, reservations: ReservationsArgument, common: CommonOptions) -> None:
    """Let a waiting job run in one of these reservations and nowhere else."""
    _bind_job(job, reservations, common, undo=False)


@command("unbind-job")
def unbind_job(job: JobArgument, reservations: ReservationsArgument, common: CommonOptions) -> None:
    """Undo bind-job; after the last one the job is in the open queue."""
    _bind_job(job, reservations, common, undo=True)


@command("show-res")
def show_res(
    *,
    reservations: Annotated[
        list[str] | None, typer.Argument(metavar="RES", help="Show all about these.")
    ] = None,
    user: Annotated[str, typer.Option("--user", help="Of this user.")] = "",
    account: Annotated[str, typer.Option("--account", help="Charged to this account.")] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Yours alone.")] = False,
    over: Annotated[
        bool, typer.Option("--over", help="Also those that are over, cancelled or expired.")
    ] = False,
    common: CommonOptions,
) -> None:
    """Show reservations: when, how many nodes, whose, kept for which jobs."""
    run(
        common,
        lambda session: work.show_reservations(
            session, reservations or (), user=user, account=account, mine=mine, over=over
        ),
    )


@command("show-windows")
def show_windows(
    words: Annotated[ReservationWords, Without("email", "request_id")],
    common: CommonOptions,
) -> None:
    """Show where a reservation of this shape would be granted now."""
    run(common, lambda session: work.show_windows(session, words))


def _bind_res(reservation: str, jobs: list[str], common: CommonOptions, *, undo: bool) -> None:
    run(common, lambda session: work.bind_reservation(session, reservation, jobs, undo=undo))


def _bind_job(job: str, reservations: list[str], common: CommonOptions, *, undo: bool) -> None:
    run(common, lambda session: work.bind_job(session, job, reservations, undo=undo))
