"""``account``, ``accounts``, ``grant`` and ``refund``: what the site's accounts have and paid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.local_sched.catalina.answers import Answer
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import clock_text, credits_text, table, zone_text
from gridtravel.local_sched.catalina.words import read_account, read_credits
from gridtravel.local_sched.catalina.work.questions import ask
from gridtravel.local_sched.catalina.work.site_orders import give


async def show_account(session: Session, name: str, lines: int) -> Answer:
    """``account``: what one has available, what is held of it, and its last entries."""
    arguments = {"lines": str(lines)} | ({"account": read_account(name)} if name else {})
    answer = await ask(session, "account", arguments)
    told = (
        f"account {answer['account']}: {credits_text(answer['available'])} credits available,"
        f" {credits_text(answer['held'])} held"
    )
    rows = [_row(line, session) for line in answer["lines"]]
    columns = ("time", "entry", "for", "credits", "available", "note")
    title = f"{session.description.site}: last entries, times in {zone_text(session)}"
    listed = [table(title, columns, rows)] if rows else []
    return Answer(as_object=answer, shown=[told, *listed])


def _row(line: Mapping[str, Any], session: Session) -> tuple[str, ...]:
    return (
        clock_text(line["at"], session),
        line["kind"],
        line["reference"],
        credits_text(line["millicredits"]),
        credits_text(line["available"]),
        line["note"],
    )


async def show_accounts(session: Session) -> Answer:
    """``accounts``: what each has available."""
    answer = await ask(session, "accounts", {})
    kept = answer["accounts"].items()
    rows = [(name, credits_text(millicredits)) for name, millicredits in sorted(kept)]
    title = f"{session.description.site}: credits available"
    shown = [table(title, ("account", "credits"), rows)] if rows else ["no accounts"]
    return Answer(as_object=answer, shown=shown)


async def grant(
    session: Session, account: str, amount: str, *, note: str, request_id: str
) -> Answer:
    """``grant``: credits for an account, or taken back of it."""
    arguments = {
        "account": read_account(account),
        "millicredits": str(read_credits(amount, may_be_negative=True)),
        "note": note,
        "request": _request(session, request_id),
    }
    answer = await give(session, "grant", arguments)
    told = f"account {answer['account']} has {credits_text(answer['available'])} credits available"
    return Answer(as_object=answer, shown=[told])


async def refund(
    session: Session, reference: str, amount: str, *, note: str, request_id: str
) -> Answer:
    """``refund``: what was paid goes back, or a part of it."""
    arguments = {
        "reference": reference,
        "millicredits": str(read_credits(amount, may_be_negative=True)),
        "note": note,
        "request": _request(session, request_id),
    }
    answer = await give(session, "refund", arguments)
    paid = credits_text(answer["charged"])
    told = f"account {answer['account']} has paid {paid} credits for {answer['reference']} now"
    return Answer(as_object=answer, shown=[told])


def _request(session: Session, request_id: str) -> str:
    if request_id:
        check_id("request id", request_id)
    return request_id or session.new_id("catalina")
