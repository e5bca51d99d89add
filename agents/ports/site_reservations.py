"""Orders about the site's own reservations: of named nodes, and standing ones made at run time.

Wishes come as words (docs/queries.md); what they mean is decided in ``local_sched``. Each may be
said twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from gridtravel.agents.journal.events import (
    AccessGiven,
    AgentEvent,
    NodesFixed,
    StandingDeclared,
    StandingWithdrawn,
)
from gridtravel.agents.ports.arguments import number, number_or, only, text_or_none, texts, word
from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridcore.number_text import is_count
from gridtravel.local_sched.reservations.fixed_nodes import decide_fixed_nodes, fixed_request
from gridtravel.local_sched.reservations.standing import (
    REQUEST_PREFIX,
    StandingReservation,
    StartRule,
)
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

_ACCESS = ("users", "accounts", "qualities_of_service", "limit_max_s")


async def reserve_nodes(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """Exactly these nodes, from start to end (Catalina's set_res)."""
    only(arguments, "nodes", "start", "end", "request_id", "email", "dry_run", *_ACCESS)
    names = tuple(sorted(texts(arguments, "nodes"), key=_by_number))
    request = fixed_request(
        word(arguments, "request_id"),
        names,
        number(arguments, "start"),
        number(arguments, "end"),
        text_or_none(arguments, "email") or "",
    )
    is_dry_run = arguments.get("dry_run", "") == "yes"
    access = _access(arguments)
    calendar, now = core.calendar, core.clock.now()
    core.follow_clock(now)
    decision = decide_fixed_nodes(
        calendar, core.scheduler, names, request, now, is_dry_run=is_dry_run
    )
    answer = decision.answer
    if isinstance(answer, Decline):
        return _decline(answer)
    key = answer.reservation_id
    if not is_dry_run:
        events: list[AgentEvent] = list(decision.events)
        if events:
            events.append(NodesFixed(reservation_id=key, node_names=names))
            if access != AccessRule():
                events.append(AccessGiven(reservation_id=key, access=access))
        elif core.state.fixed.get(key) != names:
            raise InputError(
                f"request id {request.request_id!r} was used for another request",
                hint="use a new id for each request",
            )
        ticket = core.record(events)
        core.scheduler.drain_nodes(answer, names, now)
        if key in core.state.access:
            core.scheduler.reservation_jobs.open_to(key, core.state.access[key])
        for job in decision.displaced:
            core.tell_job_displaced(job.job_id)
        await ticket.durable()
    return {
        "granted": True,
        "reservation": key,
        "class": answer.resource_class,
        "nodes": answer.nodes,
        "node_names": list(names),
        "start": answer.start,
        "end": answer.end,
        "displaced": [job.job_id for job in decision.displaced],
    }


async def create_standing(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """A recurring reservation of the site, until it is cancelled (create_standing_res)."""
    own = ("name", "start", "time_zone", "duration_s", "nodes", "depth", "account", "features")
    only(arguments, *own, *_ACCESS)
    now = core.clock.now()
    rule = StandingReservation(
        name=text_or_none(arguments, "name") or _free_name(core),
        start_rule=StartRule(
            text=word(arguments, "start"),
            zone=text_or_none(arguments, "time_zone") or core.parts.time_zone,
        ),
        duration_s=number(arguments, "duration_s"),
        nodes=number(arguments, "nodes"),
        depth=number_or(arguments, "depth", 7, 400),
        account=text_or_none(arguments, "account") or SYSTEM_OWNER,
        features=tuple(sorted(set(texts(arguments, "features")))),
        access=_access(arguments),
        serial=now,
    )
    _check_rule(core, rule, now)
    before = core.state.standing.get(rule.name)
    is_new = before is None or replace(before, serial=now) != rule
    ticket = core.record([StandingDeclared(rule=rule, at=now)] if is_new else [])
    core.maintenance.standing_changed(now)
    await core.record([]).durable()
    await ticket.durable()
    return {"name": rule.name, "was_there": not is_new, "instances": _instances(core, rule.name)}


async def cancel_standing(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """No more instances, and those ahead are taken back; one that runs goes on."""
    only(arguments, "name")
    name, now = word(arguments, "name"), core.clock.now()
    if name not in core.state.standing:
        if any(each.name == name for each in core.maintenance.standing()):
            raise ConflictError(
                f"the standing reservation {name[:64]!r} is said in the site's configuration",
                hint="take it out there and start the agent anew, or cancel single instances",
            )
        known = ", ".join(core.state.standing) or "none"
        raise NotFoundError(
            f"no standing reservation is called {name[:64]!r}", hint=f"made by order: {known}"
        )
    ahead = [each.reservation_id for each in _live_instances(core, name) if each.start > now]
    ticket = core.record([StandingWithdrawn(name=name, at=now)])
    core.maintenance.standing_changed(now)
    await ticket.durable()
    await core.record([]).durable()
    return {"name": name, "taken_back": ahead, "instances": _instances(core, name)}


def _check_rule(core: AgentCore, rule: StandingReservation, now: int) -> None:
    """What a rule alone cannot know: the site's nodes, its horizon, and its configuration."""
    if any(each.name == rule.name for each in core.parts.maintenance.standing):
        raise ConflictError(
            f"the standing reservation {rule.name!r} is said in the site's configuration",
            hint="take another name, or change it there",
        )
    rule.check_here(core.calendar.classes.values(), core.calendar.rules.horizon_s, now)


def _free_name(core: AgentCore) -> str:
    taken = {each.name for each in core.maintenance.standing()}
    return next(name for number in count(1) if (name := f"standing-{number}") not in taken)


def _live_instances(core: AgentCore, name: str) -> list[Reservation]:
    prefix = f"{REQUEST_PREFIX}{name}/"
    return [
        each
        for each in core.calendar.live()
        if each.owner == SYSTEM_OWNER and each.request.request_id.startswith(prefix)
    ]


def _instances(core: AgentCore, name: str) -> list[dict[str, object]]:
    return [
        {"reservation": each.reservation_id, "start": each.start, "nodes": each.nodes}
        for each in _live_instances(core, name)
    ]


def _access(arguments: Mapping[str, str]) -> AccessRule:
    limit = number(arguments, "limit_max_s") if "limit_max_s" in arguments else None
    return AccessRule(
        owners=texts(arguments, "users"),
        accounts=texts(arguments, "accounts"),
        qualities_of_service=texts(arguments, "qualities_of_service"),
        limit_max_s=limit,
    )


def _decline(refusal: Decline) -> dict[str, object]:
    return {
        "granted": False,
        "rule": refusal.rule.value,
        "message": refusal.message,
        "earliest": refusal.earliest,
        "nodes_now": refusal.nodes_now,
    }


def _by_number(name: str) -> tuple[str, int]:
    """``thin-2`` before ``thin-10``."""
    stem, _, last = name.rpartition("-")
    return (stem, int(last)) if is_count(last) else (name, 0)
