"""What ``catalina`` asks without changing anything. Each function is one command; none prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.gridio.cli_frame import EXIT_DECLINED
from gridtravel.local_sched.catalina.answers import Answer
from gridtravel.local_sched.catalina.json_forms import moment, with_texts
from gridtravel.local_sched.catalina.options import (
    AccountFilter,
    ClassOption,
    ColumnsOption,
    RowsOption,
    StateOption,
    UserOption,
)
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import (
    backfill_table,
    count_text,
    nodes_table,
    span_text,
    table,
    zone_text,
)
from gridtravel.local_sched.catalina.words import (
    read_account,
    read_features,
    read_ids,
    read_length,
    read_time,
    read_user,
)
from gridtravel.local_sched.catalina.work.job_rows import (
    PAST_COLUMNS,
    job_table,
    queue_tables,
    read_columns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """The options of a list of jobs as they were written; empty: any."""

    user: UserOption = ""
    account: AccountFilter = ""
    state: StateOption = ""
    classes: ClassOption = ""
    columns: ColumnsOption = ""
    limit: RowsOption = 1000

    def arguments(self) -> dict[str, str]:
        """For the site's question."""
        wanted = {
            "user": read_user(self.user),
            "account": read_account(self.account),
            "state": self.state,
            "class": self.classes,
            "limit": str(self.limit),
        }
        return {name: text for name, text in wanted.items() if text}


async def show_queue(session: Session, wanted: JobFilter) -> Answer:
    """``show-q``: what runs and what waits, in the order it will be served."""
    columns = read_columns(wanted.columns)
    answer = await ask(session, "queue", wanted.arguments())
    return Answer(
        as_object=with_texts(answer),
        shown=queue_tables(answer, columns, session),
        notes=_cut_note(answer),
    )


async def show_history(session: Session, wanted: JobFilter, *, since: str, until: str) -> Answer:
    """``history``: jobs that are over, the latest first."""
    notes: list[str] = []
    columns = read_columns(wanted.columns) or PAST_COLUMNS
    arguments = wanted.arguments() | read_period(session, since, until, notes)
    answer = await ask(session, "history", arguments)
    title = f"{session.description.site}: jobs that are over, times in {zone_text(session)}"
    rows = list(answer["jobs"])
    shown = [job_table(title, rows, columns, session, answer["as_of"])] if rows else ["no jobs"]
    return Answer(as_object=with_texts(answer), shown=shown, notes=[*notes, *_cut_note(answer)])


def read_period(session: Session, since: str, until: str, notes: list[str]) -> dict[str, str]:
    """The bounds that were given, for the site's question."""
    given = {name: text for name, text in (("since", since), ("until", until)) if text}
    return {name: str(read_time(session, text, notes)) for name, text in given.items()}


async def show_backfill(session: Session) -> Answer:
    """``show-bf``: what could start now without moving anybody's place."""
    answer = await ask(session, "backfill", {})
    windows = list(answer["windows"])
    shown = [backfill_table(windows, session)] if windows else ["nothing is free now"]
    return Answer(as_object=with_texts(answer), shown=shown)


async def show_estimate(session: Session, nodes: int, duration: str, features: str) -> Answer:
    """``estimate``: when a job would start that was submitted now; it is not."""
    duration_s = read_length(duration, "duration")
    arguments = {"nodes": str(nodes), "duration_s": str(duration_s)}
    if wanted := read_features(features):
        arguments["features"] = ",".join(wanted)
    answer = await ask(session, "estimate", arguments)
    starts: dict[str, int | None] = dict(answer["starts"])
    possible = sorted((at, name) for name, at in starts.items() if at is not None)
    as_object = {
        "nodes": nodes,
        "duration_s": duration_s,
        "start": moment(possible[0][0]) if possible else None,
        "starts": {name: moment(at) for name, at in starts.items()},
    }
    if not possible:
        told = "declined: no class of nodes can ever run it"
        hint = "  see what there is: catalina show-nodes"
        return Answer(as_object=as_object, shown=[told, hint], exit_code=EXIT_DECLINED)
    lines = [
        f"{name}: {format_in_zone(at, session.zone)}  (in {span_text(max(at - session.now, 0))})"
        for at, name in possible
    ]
    return Answer(as_object=as_object, shown=lines)


async def show_why(session: Session, job_id: str) -> Answer:
    """``why``: the reason a job is not running, and when it will."""
    (wanted,) = read_ids([job_id], "job")
    answer = await ask(session, "why", {"job": wanted})
    planned, terms = answer["planned_start"], dict(answer["priority_terms"])
    lines = [f"job {wanted}: {answer['state']}"]
    if answer["reason"]:
        lines.append(f"  {answer['reason']}")
    if planned is not None:
        word = "promised" if answer["is_promised"] else "expected"
        lines.append(f"  its start is {word} for {format_in_zone(planned, session.zone)}")
        before = answer["jobs_before"]
        lines.append(f"  {count_text(before, 'job')} in line before it")
    if terms:
        lines.append(f"  priority {sum(terms.values()):.1f}; see: catalina priority {wanted}")
    return Answer(as_object=with_texts(answer), shown=lines)


async def show_priority(session: Session, job_id: str) -> Answer:
    """``priority``: what the rank of waiting jobs is made of."""
    arguments = {"job": read_ids([job_id], "job")[0]} if job_id else {}
    answer = await ask(session, "priority", arguments)
    jobs = [each for each in answer["jobs"] if each["terms"]]
    if not jobs:
        orders = ", ".join(f"{name}: {order}" for name, order in answer["orders"].items())
        told = f"no waiting job has a priority (order of the queue: {orders})"
        return Answer(as_object=with_texts(answer), shown=[told])
    if job_id:
        shown = _term_lines(jobs[0])
    else:
        names = [name for name in jobs[0]["terms"] if any(each["terms"].get(name) for each in jobs)]
        rows = [
            (
                str(each["job"]),
                f"{each['priority']:.1f}",
                *(f"{each['terms'].get(name, 0.0):.1f}" for name in names),
            )
            for each in jobs
        ]
        columns = ["job", "priority", *(name.replace("_", " ") for name in names)]
        title = f"{session.description.site}: priorities of what waits, highest first"
        shown = [table(title, columns, rows, right=columns[1:])]
    return Answer(as_object=with_texts(answer), shown=shown, notes=_cut_note(answer))


async def show_nodes(session: Session) -> Answer:
    """``show-nodes``: what the nodes do, what the site is, and as whom the caller is known."""
    answer = await ask(session, "nodes", {})
    site = session.description
    as_object = {
        "site": site.site,
        "time_zone": site.time_zone,
        "horizon_s": site.horizon_s,
        "price_per_node_hour": site.millicredits_per_node_hour,
        "login": site.login or None,
        "software": site.software,
        **with_texts(answer),
    }
    lines = [
        f"you are {site.login or 'nobody'}; reservations up to {span_text(site.horizon_s)} ahead;"
        f" {site.millicredits_per_node_hour / 1000:.3f} a node and hour"
    ]
    down = [str(each["node"]) for each in answer.get("down", [])]
    if down:
        lines.append(f"down: {', '.join(down)}")
    title = f"{site.site} ({site.time_zone}), the scheduler is {answer['mode']}"
    return Answer(as_object=as_object, shown=[nodes_table(answer["classes"], title), *lines])


async def show_available(session: Session, account: str, start: str) -> Answer:
    """``show-available``: what is left of the site's limits on reservations."""
    notes: list[str] = []
    arguments = {}
    if account:
        arguments["account"] = read_account(account)
    if start:
        arguments["start"] = str(read_time(session, start, notes))
    answer = await ask(session, "quota", arguments)
    most, left = answer["window_node_seconds_max"], answer["window_node_seconds_left"]
    longest_s = answer["duration_max_s"]
    rows = [
        ("reservations", f"{answer['reservations']} of {_most(answer['reservations_max'])}"),
        ("nodes of one", _most(answer["nodes_max"])),
        ("length of one", span_text(longest_s)),
    ]
    shown: list[Any] = [
        table(f"account {answer['account']} at {session.description.site}", ("what", "most"), rows)
    ]
    at = format_in_zone(answer["start"], session.zone)
    if most is None:
        shown.append("all users together: no limit")
    else:
        shown.append(
            f"all users together, in the {span_text(answer['window_s'])} from {at}:\n"
            f"  {left} of {most} node-seconds are left ({span_text(left)} on one node)"
        )
    return Answer(as_object=with_texts(answer), shown=shown, notes=notes)


def _most(value: int | None) -> str:
    return "any number" if value is None else str(value)


def _term_lines(job: Mapping[str, Any]) -> list[Any]:
    rows = [(name.replace("_", " "), f"{value:.3f}") for name, value in job["terms"].items()]
    rows.append(("priority", f"{job['priority']:.3f}"))
    title = f"job {job['job']}, {job['position']} in line for class {job['class']}"
    return [table(title, ("term", "points"), rows, right=("points",))]


async def ask(session: Session, question: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """One question; the site's answer to it."""
    answer = await session.site.query(question, arguments)
    if not isinstance(answer, dict):
        raise GridError(
            f"the site's answer to {question!r} cannot be read",
            hint="the site's agent is of another version: ask whoever runs it",
        )
    return answer


def _cut_note(answer: Mapping[str, Any]) -> list[str]:
    left_out = answer["total"] - len(answer["jobs"])
    return [f"{left_out} more; --limit shows more of them"] if left_out > 0 else []
