"""``account`` and ``accounts``, for everybody; ``grant`` and ``refund``, for administrators."""

from __future__ import annotations

from typing import Annotated

import typer

from gridtravel.local_sched.catalina.options import CommonOptions, RequestOption
from gridtravel.local_sched.catalina.shell import command, run
from gridtravel.local_sched.catalina.work import accounts

CreditsArgument = Annotated[
    str, typer.Argument(metavar="CREDITS", help="Credits, with up to three decimals.")
]
NoteOption = Annotated[str, typer.Option("--note", help="Why, for the statement.")]


@command("account")
def account(
    *,
    name: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Default: your own.")] = "",
    lines: Annotated[
        int, typer.Option("--lines", min=1, max=10_000, metavar="N", help="Last entries shown.")
    ] = 20,
    common: CommonOptions,
) -> None:
    """Show what an account has, what is held of it, and where its credits went."""
    run(common, lambda session: accounts.show_account(session, name, lines))


@command("accounts")
def all_accounts(common: CommonOptions) -> None:
    """Show what your accounts have; to administrators, what all have."""
    run(common, accounts.show_accounts)


@command("grant")
def grant(
    name: Annotated[str, typer.Argument(metavar="ACCOUNT", help="Who gets them.")],
    amount: CreditsArgument,
    *,
    note: NoteOption = "",
    request_id: RequestOption = "",
    common: CommonOptions,
) -> None:
    """Give an account credits. For administrators.

    With a minus (`grant -- ACCOUNT -5`) they are taken back, of what is available.
    """
    run(
        common,
        lambda session: accounts.grant(session, name, amount, note=note, request_id=request_id),
    )


@command("refund")
def refund(
    reference: Annotated[
        str, typer.Argument(metavar="FOR", help="What was paid for, as in the statement.")
    ],
    amount: CreditsArgument,
    *,
    note: NoteOption = "",
    request_id: RequestOption = "",
    common: CommonOptions,
) -> None:
    """Give back what was paid for a job or a reservation, or a part of it. For administrators."""
    run(
        common,
        lambda session: accounts.refund(
            session, reference, amount, note=note, request_id=request_id
        ),
    )
