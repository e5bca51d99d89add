"""Orders about the site's own reservations: of named nodes, and standing ones made at run time.

Wishes come as words (docs/queries.md); what they mean is decided in ``local_sched``. Each may be
said twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from agents.agent_events import AgentEvent
from agents.question_words import number, number_or, only, text_or_none, texts, word
from agents.site_events import AccessGiven, NodesFixed, StandingDeclared, StandingWithdrawn
from gridcore.errors import ConflictError, InputError, NotFoundError
from gridcore.reservations import Decline, Reservation
from local_sched.fixed_nodes import decide_fixed_nodes, drain_nodes, fixed_request
from local_sched.reservation_jobs import AccessRule
from local_sched.standing_reservations import REQUEST_PREFIX, StandingReservation, StartRule
from local_sched.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent

_ACCESS = ("users", "accounts", "qualities_of_service", "limit_max_s")


async def reserve_nodes(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
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
    calendar, now = agent.calendar, agent.clock.now()
    calendar.advance(now)
    decision = decide_fixed_nodes(
        calendar, agent.scheduler, names, request, now, is_dry_run=is_dry_run
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
        elif agent.state.fixed.get(key) != names:
            raise InputError(
                f"request id {request.request_id!r} was used for another request",
                hint="use a new id for each request",
            )
        ticket = agent.record(events)
        drain_nodes(agent.scheduler, answer, names, now)
        if key in agent.state.access:
            agent.scheduler.reservation_jobs.open_to(key, agent.state.access[key])
        for job in decision.displaced:
            agent.tell_job_displaced(job.job_id)
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


async def create_standing(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    """A recurring reservation of the site, until it is cancelled (create_standing_res)."""
    own = ("name", "start", "time_zone", "duration_s", "nodes", "depth", "account", "features")
    only(arguments, *own, *_ACCESS)
    now = agent.clock.now()
    rule = StandingReservation(
        name=text_or_none(arguments, "name") or _free_name(agent),
        start_rule=StartRule(
            text=word(arguments, "start"),
            zone=text_or_none(arguments, "time_zone") or agent.parts.time_zone,
        ),
        duration_s=number(arguments, "duration_s"),
        nodes=number(arguments, "nodes"),
        depth=number_or(arguments, "depth", 7, 400),
        account=text_or_none(arguments, "account") or SYSTEM_OWNER,
        features=tuple(sorted(set(texts(arguments, "features")))),
        access=_access(arguments),
        serial=now,
    )
    _check_rule(agent, rule, now)
    before = agent.state.standing.get(rule.name)
    is_new = before is None or replace(before, serial=now) != rule
    ticket = agent.record([StandingDeclared(rule=rule, at=now)] if is_new else [])
    agent.upkeep.standing_changed(now)
    await agent.record([]).durable()
    await ticket.durable()
    return {"name": rule.name, "was_there": not is_new, "instances": _instances(agent, rule.name)}


async def cancel_standing(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    """No more instances, and those ahead are taken back; one that runs goes on."""
    only(arguments, "name")
    name, now = word(arguments, "name"), agent.clock.now()
    if name not in agent.state.standing:
        if any(each.name == name for each in agent.upkeep.standing()):
            raise ConflictError(
                f"the standing reservation {name[:64]!r} is said in the site's configuration",
                hint="take it out there and start the agent anew, or cancel single instances",
            )
        known = ", ".join(agent.state.standing) or "none"
        raise NotFoundError(
            f"no standing reservation is called {name[:64]!r}", hint=f"made by order: {known}"
        )
    ahead = [each.reservation_id for each in _live_instances(agent, name) if each.start > now]
    ticket = agent.record([StandingWithdrawn(name=name, at=now)])
    agent.upkeep.standing_changed(now)
    await ticket.durable()
    await agent.record([]).durable()
    return {"name": name, "taken_back": ahead, "instances": _instances(agent, name)}


def _check_rule(agent: NodeAgent, rule: StandingReservation, now: int) -> None:
    """What a rule alone cannot know: the site's nodes, its horizon, and its configuration."""
    if any(each.name == rule.name for each in agent.parts.upkeep.standing):
        raise ConflictError(
            f"the standing reservation {rule.name!r} is said in the site's configuration",
            hint="take another name, or change it there",
        )
    classes = [
        each for each in agent.calendar.classes.values() if set(rule.features) <= set(each.features)
    ]
    most = max((each.nodes for each in classes), default=0)
    if rule.nodes > most:
        raise InputError(f"{rule.nodes} nodes were asked for, {most} with these features there are")
    if next(rule.start_rule.starts(now), None) is None:
        raise InputError(f"no day fits the start rule {rule.start_rule.text[:60]!r}")
    if rule.duration_s > agent.calendar.rules.horizon_s:
        raise InputError(
            f"{rule.duration_s} s are longer than anything may be booked here:"
            f" {agent.calendar.rules.horizon_s} s"
        )


def _free_name(agent: NodeAgent) -> str:
    taken = {each.name for each in agent.upkeep.standing()}
    return next(name for number in count(1) if (name := f"standing-{number}") not in taken)


def _live_instances(agent: NodeAgent, name: str) -> list[Reservation]:
    prefix = f"{REQUEST_PREFIX}{name}/"
    return [
        each
        for each in agent.calendar.live()
        if each.owner == SYSTEM_OWNER and each.request.request_id.startswith(prefix)
    ]


def _instances(agent: NodeAgent, name: str) -> list[dict[str, object]]:
    return [
        {"reservation": each.reservation_id, "start": each.start, "nodes": each.nodes}
        for each in _live_instances(agent, name)
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
    return (stem, int(last)) if last.isdecimal() else (name, 0)
