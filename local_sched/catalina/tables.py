"""Tables and lines for people, in the session's zone; they fit 80 columns.

Ids and times are never broken over lines, so that ``grep`` finds whole rows; reasons are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, Offer, Reservation
from gridtravel.gridcore.timing.durations import format_duration
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.local_sched.catalina.session import Session

if TYPE_CHECKING:
    from rich.table import Table

DAY_S: Final = 86_400
JOBS_SHOWN: Final = 5
SENTENCE_WIDTH: Final = {"reason": 16}
"""Columns of words that would be a ladder of single ones otherwise."""


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[str] = (),
    folded: Sequence[str] = (),
) -> Table:
    """A plain table: ``right`` are numbers, ``folded`` columns may take several lines and give way;
    the others are as wide as they must be.
    """
    from rich.cells import cell_len
    from rich.table import Table

    listed = list(rows)
    made = Table(title=title, box=None, padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        needed = max(map(cell_len, name.split()))
        widest = max([needed, *(cell_len(row[place]) for row in listed)])
        if name in folded:
            widest = min(widest, max(needed, SENTENCE_WIDTH.get(name, 0)))
        made.add_column(
            name,
            header_style="",
            justify="right" if name in right else "left",
            overflow="fold",
            min_width=widest,
        )
    for row in listed:
        made.add_row(*row)
    return made


def clock_text(instant: Instant | None, session: Session) -> str:
    """Month, day and time of day; the zone stands in the title."""
    return "-" if instant is None else format_in_zone(instant, session.zone)[5:16]


def zone_text(session: Session) -> str:
    """Where the clocks are that the times are of."""
    return session.zone.key or "UTC"


def span_text(duration_s: int | None) -> str:
    """A length of time without more than its two largest units: ``3d4h``, ``2h30m``, ``45s``."""
    if duration_s is None:
        return "unlimited"
    for unit_s in (DAY_S, 3600, 60):
        if duration_s >= unit_s:
            below_s = {DAY_S: 3600, 3600: 60, 60: 1}[unit_s]
            return format_duration(duration_s - duration_s % below_s)
    return format_duration(duration_s)


def count_text(count: int, noun: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def credits_text(millicredits: int) -> str:
    """A price for people."""
    return f"{millicredits / 1000:.3f}"


def reservations_table(
    found: Sequence[Reservation], session: Session, bound: Mapping[str, Sequence[str]]
) -> Table:
    """All of them, by start."""
    rows = [
        (
            each.reservation_id,
            each.phase(session.now),
            str(each.nodes),
            clock_text(each.start, session),
            clock_text(each.end, session),
            each.owner,
            each.request.account,
            _jobs_text(bound.get(each.reservation_id, ())),
        )
        for each in found
    ]
    many = count_text(len(found), "reservation")
    title = f"{session.description.site}: {many}, times in {zone_text(session)}"
    columns = ("reservation", "state", "nodes", "start", "end", "user", "account", "jobs")
    count = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    shown = [row[:count] for row in rows]
    return table(
        title, columns[:count], shown, right=("nodes",), folded=("user", "account", "jobs")
    )


def reservation_lines(reservation: Reservation, session: Session, jobs: Sequence[str]) -> list[str]:
    """Everything about one; the first line names it and its state."""
    request = reservation.request
    span = span_text(reservation.interval.duration_s)
    lines = [
        f"reservation {reservation.reservation_id}  {reservation.phase(session.now)}",
        f"  nodes    {reservation.nodes} of class {reservation.resource_class}",
        f"  start    {format_in_zone(reservation.start, session.zone)}  (@{reservation.start})",
        f"  end      {format_in_zone(reservation.end, session.zone)}  ({span} later)",
        f"  account  {request.account}, price {credits_text(reservation.price_millicredits)}",
        f"  user     {reservation.owner}",
    ]
    if request.features:
        lines.append(f"  features {', '.join(request.features)}")
    if request.notify_email:
        lines.append(f"  mail     {request.notify_email}")
    if request.trip is not None:
        lines.append(f"  trip     {request.trip.trip_id}, leg {request.trip.leg}")
    if reservation.hold_expires_at is not None:
        until = format_in_zone(reservation.hold_expires_at, session.zone)
        lines.append(f"  held     until {until}")
    if jobs:
        lines.append(f"  jobs     {', '.join(jobs)}")
    return lines


def decline_lines(decline: Decline, session: Session) -> list[str]:
    """A refusal: why, and what would pass."""
    lines = [f"declined: {decline.message}"]
    if decline.earliest is not None:
        lines.append(f"  it would work from {format_in_zone(decline.earliest, session.zone)}")
    if decline.nodes_now:
        nodes = count_text(decline.nodes_now, "node")
        is_limit = decline.rule in (DeclineRule.LIMIT_NODES, DeclineRule.LIMIT_NODE_SECONDS)
        within = "the limit allows" if is_limit else "within the window there is room for"
        lines.append(f"  {within} {nodes}")
    for each in decline.passing:
        line = f"  a deadline of {format_in_zone(each.deadline, session.zone)} would pass now"
        if each.budget_millicredits is not None:
            line += f" with a budget of {credits_text(each.budget_millicredits)}"
        lines.append(line)
    return lines


def offers_table(offers: Sequence[Offer], session: Session) -> Table:
    """Windows of starts."""
    rows = [
        (
            format_in_zone(each.start, session.zone)[:16],
            format_in_zone(each.start_until - 1, session.zone)[:16],
            str(each.nodes),
            each.resource_class,
            credits_text(each.unit_price_millicredits),
        )
        for each in offers
    ]
    return table(
        f"possible starts at {session.description.site}, times in {zone_text(session)}",
        ("first start", "last start", "nodes", "class", "price a node"),
        rows,
        right=("nodes", "price a node"),
    )


def backfill_table(windows: Sequence[Mapping[str, Any]], session: Session) -> Table:
    """What fits now."""
    rows = [
        (str(each["nodes"]), span_text(each["duration_s"]), str(each["resource_class"]))
        for each in windows
    ]
    return table(
        f"backfill windows at {session.description.site} now",
        ("nodes", "for", "class"),
        rows,
        right=("nodes", "for"),
    )


def nodes_table(classes: Sequence[Mapping[str, Any]], title: str) -> Table:
    """What the nodes do."""
    columns = ("class", "nodes", "busy", "idle", "reserved", "down", "features")
    rows = [
        (
            str(each["resource_class"]),
            *(str(each[name]) for name in columns[1:-1]),
            ", ".join(each["features"]),
        )
        for each in classes
    ]
    return table(title, columns, rows, right=columns[1:-1], folded=("features",))


def _jobs_text(jobs: Sequence[str]) -> str:
    more = f" and {len(jobs) - JOBS_SHOWN} more" if len(jobs) > JOBS_SHOWN else ""
    return ", ".join(jobs[:JOBS_SHOWN]) + more
