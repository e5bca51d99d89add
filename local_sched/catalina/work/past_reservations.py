"""``history --reservations``: reservations that are over, cancelled, expired or replaced."""

from __future__ import annotations

from gridtravel.local_sched.catalina.answers import Answer
from gridtravel.local_sched.catalina.json_forms import with_texts
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import (
    clock_text,
    count_text,
    span_text,
    table,
    zone_text,
)
from gridtravel.local_sched.catalina.work.questions import JobFilter, ask, read_period

COLUMNS = ("reservation", "state", "nodes", "start", "end", "ended", "user", "account")


async def show_past_reservations(
    session: Session, wanted: JobFilter, *, since: str, until: str
) -> Answer:
    """The latest end first; how long the site remembers is told beside it."""
    notes: list[str] = []
    arguments = wanted.arguments() | read_period(session, since, until, notes)
    if wanted.columns:
        notes.append("--columns are for jobs")
    answer = await ask(session, "past", arguments)
    rows = [
        (
            str(each["reservation"]),
            str(each["state"]),
            str(each["nodes"]),
            clock_text(each["start"], session),
            clock_text(each["end"], session),
            clock_text(each["ended_at"], session),
            str(each["owner"]),
            str(each["account"]),
        )
        for each in answer["reservations"]
    ]
    many = count_text(answer["total"], "reservation")
    title = f"{session.description.site}: {many} over, times in {zone_text(session)}"
    left_out = answer["total"] - len(rows)
    if left_out:
        notes.append(f"{left_out} more; --limit shows more of them")
    notes.append(f"the site remembers them for {span_text(answer['remembered_s'])}")
    shown = [
        table(title, COLUMNS, rows, right=("nodes",), folded=("user", "account"))
        if rows
        else "no reservations"
    ]
    return Answer(as_object=with_texts(answer), shown=shown, notes=notes)
