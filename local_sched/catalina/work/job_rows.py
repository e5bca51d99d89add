"""The queue and the past as tables: rows as the site's questions answer them, columns as one likes.

A column is a name that people type (``--columns``) and a way to write it. The first lists are what
is shown without asking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import (
    clock_text,
    count_text,
    credits_text,
    span_text,
    table,
    zone_text,
)

if TYPE_CHECKING:
    from rich.table import Table

Row = Mapping[str, Any]
_Cell = Callable[[Row, Session, Instant], str]

RUNNING_COLUMNS: Final = ("job", "user", "account", "nodes", "limit", "start", "remaining", "state")
WAITING_COLUMNS: Final = ("job", "user", "account", "nodes", "limit", "start", "reason")
PAST_COLUMNS: Final = ("job", "user", "account", "nodes", "start", "run", "state", "exit")
RIGHT: Final = (
    "nodes",
    "limit",
    "remaining",
    "run",
    "wait",
    "exit",
    "price",
    "priority",
    "xfactor",
    "position",
)
FOLDED: Final = ("user", "account", "name", "reason", "reservations", "on")


def _text(key: str) -> _Cell:
    def cell(row: Row, session: Session, now: Instant) -> str:
        value = row.get(key)
        return "-" if value is None else str(value)

    return cell


def _moment(*keys: str) -> _Cell:
    """The first of the instants that is known."""

    def cell(row: Row, session: Session, now: Instant) -> str:
        return clock_text(next((row[key] for key in keys if row.get(key)), None), session)

    return cell


def _remaining(row: Row, session: Session, now: Instant) -> str:
    ends_by = row.get("ends_by")
    return "-" if ends_by is None else span_text(max(ends_by - now, 0))


def _wait(row: Row, session: Session, now: Instant) -> str:
    return span_text(max((row.get("started_at") or now) - row["submitted_at"], 0))


def _run(row: Row, session: Session, now: Instant) -> str:
    started = row.get("started_at")
    return "-" if started is None else span_text(max((row.get("ended_at") or now) - started, 0))


def _limit(row: Row, session: Session, now: Instant) -> str:
    return span_text(row["limit_s"])


def _priority(row: Row, session: Session, now: Instant) -> str:
    value = row.get("priority")
    return "-" if value is None else f"{value:.1f}"


def _price(row: Row, session: Session, now: Instant) -> str:
    value = row.get("price")
    return "-" if value is None else credits_text(value)


def _shares(row: Row, session: Session, now: Instant) -> str:
    """Of each node in per cent; nothing where the nodes are the job's own."""
    return ", ".join(f"{share:.0%}" for share in row.get("shares") or ())


def _reservations(row: Row, session: Session, now: Instant) -> str:
    listed = list(row.get("reservations") or ())
    more = (row.get("reservations_total") or 0) - len(listed)
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


def _names(row: Row, session: Session, now: Instant) -> str:
    listed = list(row.get("node_names") or ())
    more = row["nodes"] - len(listed) if listed else 0
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")


COLUMNS: Final[Mapping[str, _Cell]] = {
    "job": _text("job"),
    "name": _text("name"),
    "user": _text("owner"),
    "account": _text("account"),
    "class": _text("class"),
    "nodes": _text("nodes"),
    "on": _names,
    "limit": _limit,
    "state": _text("state"),
    "start": _moment("started_at", "planned_start"),
    "end": _moment("ended_at", "ends_by"),
    "remaining": _remaining,
    "deadline": _moment("deadline"),
    "price": _price,
    "share": _shares,
    "submitted": _moment("submitted_at"),
    "wait": _wait,
    "run": _run,
    "exit": _text("exit_code"),
    "position": _text("position"),
    "priority": _priority,
    "xfactor": _text("expansion_factor"),
    "reservations": _reservations,
    "reason": _text("reason"),
}


def read_columns(text: str) -> tuple[str, ...]:
    """Names with commas between them; ``all`` for each there is, empty for the usual ones."""
    words = tuple(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))
    if words == ("all",):
        return tuple(COLUMNS)
    for each in words:
        if each not in COLUMNS:
            raise InputError(f"no column {each[:40]!r}", hint=f"columns: {', '.join(COLUMNS)}, all")
    return words


def job_table(
    title: str, rows: Sequence[Row], columns: Sequence[str], session: Session, now: Instant
) -> Table:
    """Some jobs."""
    cells = [[COLUMNS[name](row, session, now) for name in columns] for row in rows]
    return table(title, columns, cells, right=RIGHT, folded=FOLDED)


def queue_tables(answer: Mapping[str, Any], columns: Sequence[str], session: Session) -> list[Any]:
    """What runs and what waits, each in its own table; one table with columns of one's own."""
    rows: list[Row] = list(answer["jobs"])
    now: Instant = answer["as_of"]
    site, zone = session.description.site, zone_text(session)
    mode = "" if answer["mode"] == "running" else f"; the site is {answer['mode']}"
    if not rows:
        return [f"{site}: no such jobs{mode}"]
    if columns:
        return [
            job_table(
                f"{site}: {count_text(len(rows), 'job')}{mode}, times in {zone}",
                rows,
                columns,
                session,
                now,
            )
        ]
    waiting = [row for row in rows if row["state"] == JobState.QUEUED]
    started = [row for row in rows if row["state"] != JobState.QUEUED]
    shown: list[Any] = []
    if started:
        used = sum(row["nodes"] for row in started)
        title = (
            f"{site}: {count_text(len(started), 'job')} on {count_text(used, 'node')}, times in"
            f" {zone}{mode}"
        )
        shown.append(job_table(title, started, RUNNING_COLUMNS, session, now))
    if waiting:
        title = f"{site}: {count_text(len(waiting), 'job')} waiting, in order{mode}"
        shown += [""] if started else []
        shown.append(job_table(title, waiting, WAITING_COLUMNS, session, now))
    return shown
