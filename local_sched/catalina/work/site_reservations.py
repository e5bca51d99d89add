"""What an administrator does with reservations of the site: of named nodes, and standing ones. Each
function is one command; none prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, check_id
from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_in_zone
from gridtravel.gridio.cli_frame import code_of
from gridtravel.local_sched.catalina.answers import Answer, error_object
from gridtravel.local_sched.catalina.json_forms import with_texts
from gridtravel.local_sched.catalina.options import DurationOption, FeaturesOption
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.tables import (
    clock_text,
    count_text,
    span_text,
    table,
    zone_text,
)
from gridtravel.local_sched.catalina.words import (
    read_account,
    read_email,
    read_features,
    read_ids,
    read_length,
    read_time,
    read_user,
)
from gridtravel.local_sched.catalina.work.reservations import declined
from gridtravel.local_sched.catalina.work.site_orders import give

NODES_SHOWN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessWords:
    """Whose jobs may use the reservation, as it was written; empty: those bound to it by name."""

    users: Annotated[
        str, typer.Option("--users", metavar="A,B", help="Jobs of these users may use it.")
    ] = ""
    accounts: Annotated[
        str, typer.Option("--accounts", metavar="A,B", help="And jobs of these accounts.")
    ] = ""
    services: Annotated[
        str, typer.Option("--qos", metavar="A,B", help="And jobs of these qualities of service.")
    ] = ""
    limit_max: Annotated[
        str, typer.Option("--limit-max", metavar="LENGTH", help="But no job with a longer limit.")
    ] = ""

    def arguments(self) -> dict[str, str]:
        """For the site's order."""
        users = [read_user(each.strip()) for each in self.users.split(",")]
        accounts = [read_account(each.strip()) for each in self.accounts.split(",")]
        found = {
            "users": ",".join(filter(None, users)),
            "accounts": ",".join(filter(None, accounts)),
            "qualities_of_service": ",".join(read_features(self.services)),
        }
        if self.limit_max:
            found["limit_max_s"] = str(read_length(self.limit_max, "longest limit"))
        return {name: text for name, text in found.items() if text}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowWords:
    """A fixed time: from, and to or how long."""

    start: Annotated[str, typer.Option("--start", metavar="TIME", help="Default: now.")] = ""
    end: Annotated[str, typer.Option("--end", metavar="TIME", help="Or --duration.")] = ""
    duration: DurationOption = ""

    def read(self, session: Session, notes: list[str]) -> tuple[Instant, Instant]:
        """From and to."""
        start = read_time(session, self.start, notes) if self.start else session.now
        if bool(self.end) == bool(self.duration):
            raise InputError(
                "until when?", hint="give --end TIME or --duration LENGTH, one of them"
            )
        if self.end:
            return start, read_time(session, self.end, notes)
        return start, start + read_length(self.duration, "duration")


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingWords:
    """A recurring reservation as it was written."""

    start: Annotated[
        str,
        typer.Option(
            "--start", metavar="RULE", help="Minute hour day month weekday, as cron writes it."
        ),
    ] = ""
    duration: DurationOption = ""
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, metavar="N", help="Fewer where fewer are free.")
    ] = 1
    name: Annotated[str, typer.Option("--name", help="Default: one that is free.")] = ""
    depth: Annotated[
        int, typer.Option("--depth", min=1, max=400, metavar="N", help="Instances made ahead.")
    ] = 7
    time_zone: Annotated[
        str, typer.Option("--time-zone", metavar="NAME", help="Of the rule; default: the site's.")
    ] = ""
    account: Annotated[str, typer.Option("--account", help="Default: the site's own.")] = ""
    features: FeaturesOption = ""
    access: AccessWords = field(default_factory=AccessWords)

    def arguments(self) -> dict[str, str]:
        """For the site's order."""
        if not self.start:
            raise InputError("when does it start?", hint="--start '0 8 * * 1-5': weekdays at 08:00")
        if not self.duration:
            raise InputError("for how long?", hint="--duration 1h, or --duration 3600")
        if self.name:
            check_id("name of a standing reservation", self.name)
        found = {
            "name": self.name,
            "start": self.start,
            "time_zone": self.time_zone,
            "duration_s": str(read_length(self.duration, "duration")),
            "nodes": str(self.nodes),
            "depth": str(self.depth),
            "account": read_account(self.account),
            "features": ",".join(read_features(self.features)),
            **self.access.arguments(),
        }
        return {name: text for name, text in found.items() if text}


async def reserve_nodes(
    session: Session,
    words: Sequence[str],
    window: WindowWords,
    access: AccessWords,
    *,
    email: str,
    request_id: str,
    dry_run: bool,
) -> Answer:
    """``reserve-nodes``: exactly these nodes from then to then."""
    notes: list[str] = []
    start, end = window.read(session, notes)
    if request_id:
        check_id("request id", request_id)
        for known in await session.site.reservations(everybody=True):
            if known.request.request_id == request_id:
                # Said again, "now" is the moment at which it was said first.
                again = window.read(session.earlier(start - known.start), [])
                start, end = again if again == (known.start, known.end) else (start, end)
    arguments = {
        "nodes": ",".join(read_ids(words, "node")),
        "start": str(start),
        "end": str(end),
        "request_id": request_id or session.new_id("catalina"),
        **access.arguments(),
    }
    if address := read_email(email):
        arguments["email"] = address
    if dry_run:
        arguments["dry_run"] = "yes"
    answer = await give(session, "reserve-nodes", arguments)
    if not answer["granted"]:
        return declined(session, _decline(answer, session), notes)
    if dry_run:
        answer["reservation"] = None
    head = "would be granted; nothing was changed"
    lines = [
        head if dry_run else f"reservation {answer['reservation']} is made",
        f"  nodes    {_listed(answer['node_names'])}",
        f"  start    {format_in_zone(answer['start'], session.zone)}  (@{answer['start']})",
        f"  end      {format_in_zone(answer['end'], session.zone)}",
    ]
    if answer["displaced"]:
        lines.append(f"  jobs that make way: {_listed(answer['displaced'])}")
    return Answer(as_object=with_texts(answer), shown=lines, notes=notes)


async def create_standing(session: Session, words: StandingWords) -> Answer:
    """``create-standing-res``: the rule, and its first instances."""
    answer = await give(session, "create-standing", words.arguments())
    told = "is as it was" if answer["was_there"] else "is made"
    lines = [f"standing reservation {answer['name']} {told}"]
    lines += _instance_lines(answer["instances"], session)
    if not answer["instances"]:
        lines.append("  no instance is there yet: no room, or none within the site's horizon")
    return Answer(as_object=with_texts(answer), shown=lines)


async def cancel_standing(session: Session, words: Sequence[str]) -> Answer:
    """``cancel-standing-res``: each of them, past single errors."""
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    faults: list[GridError] = []
    for name in read_ids(words, "standing reservation"):
        try:
            answer = await give(session, "cancel-standing", {"name": name})
        except GridError as fault:
            faults.append(fault)
            results.append({"name": name, "cancelled": False, **error_object(fault)})
            continue
        results.append({"name": name, "cancelled": True, "taken_back": answer["taken_back"]})
        gone = answer["taken_back"]
        lines.append(f"standing reservation {name} is cancelled; instances taken back: {len(gone)}")
        lines += _instance_lines(answer["instances"], session, "goes on")
    return Answer(
        as_object={"results": results}, shown=lines, faults=faults, exit_code=code_of(faults)
    )


async def show_standing(session: Session) -> Answer:
    """``show-standing-res``: rules, whom they admit, and what comes next."""
    answer = await session.site.query("standing", {})
    if not isinstance(answer, dict):
        raise GridError(
            "the site's answer to 'standing' cannot be read",
            hint="the site's agent is of another version: ask whoever runs it",
        )
    rows = [
        (
            str(each["name"]),
            str(each["nodes"]),
            str(each["start_rule"]),
            str(each["time_zone"]),
            span_text(each["duration_s"]),
            _next_text(each["instances"], session),
            _admitted(each),
        )
        for each in answer["standing"]
    ]
    columns = ("name", "nodes", "start", "zone", "for", "next", "open to")
    title = f"{session.description.site}: standing reservations, next start in {zone_text(session)}"
    shown = [
        table(title, columns, rows, right=("nodes",), folded=("zone", "open to"))
        if rows
        else "no standing reservations"
    ]
    return Answer(as_object=with_texts(answer), shown=shown)


def _decline(answer: Mapping[str, Any], session: Session) -> Decline:
    return Decline(
        rule=DeclineRule(answer["rule"]),
        message=str(answer["message"]),
        earliest=answer["earliest"],
        nodes_now=int(answer["nodes_now"]),
        site=session.description.site,
    )


def _instance_lines(
    instances: Sequence[Mapping[str, Any]], session: Session, told: str = ""
) -> list[str]:
    return [
        f"  {each['reservation']}  {format_in_zone(each['start'], session.zone)}"
        f"  {count_text(each['nodes'], 'node')}{f', {told}' if told else ''}"
        for each in instances
    ]


def _next_text(instances: Sequence[Mapping[str, Any]], session: Session) -> str:
    return clock_text(instances[0]["start"], session) if instances else "-"


def _admitted(rule: Mapping[str, Any]) -> str:
    """Users and accounts for those who may know them; else whether the caller is one."""
    names = [*rule.get("users", ()), *rule.get("accounts", ()), *rule["qualities_of_service"]]
    if not names and rule["admits_you"]:
        names = ["everybody"] if "users" in rule else ["you"]
    limit_s = rule["limit_max_s"]
    most = f" up to {span_text(limit_s)}" if limit_s is not None and names else ""
    return (", ".join(names) or "bound jobs") + most


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - NODES_SHOWN} more" if len(words) > NODES_SHOWN else ""
    return ", ".join(words[:NODES_SHOWN]) + more
