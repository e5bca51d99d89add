"""An administrator's orders about the site itself (docs/catalina.md): its mode, its nodes, and
reservations of its own; and what anybody may order about his own waiting jobs.

Each may be said twice; the second time changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from agents.access import require_login
from agents.agent_events import AgentEvent, JobBoosted, JobHeld, JobStruck
from agents.question_words import only, word
from agents.restart import class_of_node
from agents.site_events import ModeChanged, NodeChanged
from agents.site_reservations import cancel_standing, create_standing, reserve_nodes
from agents.upkeep_rules import NodeFailureRule
from gridcore.callers import Caller, Role
from gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from gridcore.reservations import Decline, Reservation, ReservationRequest
from local_sched.scheduler_config import SchedulerMode
from local_sched.system_reservations import decide_system_reservation
from local_sched.user_reservations import SYSTEM_OWNER

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent

_POINTS: Final = re.compile(r"-?[0-9]{1,9}")
_WHAT_FOLLOWS: Final[Mapping[NodeFailureRule, str]] = {
    NodeFailureRule.NOTIFY: "The job was left running; look whether it still works.",
    NodeFailureRule.REQUEUE: "The job is stopped and runs again from the start, in its old rank.",
    NodeFailureRule.CANCEL: "The job is cancelled.",
}


async def carry_out(
    agent: NodeAgent, caller: Caller, name: str, arguments: Mapping[str, str]
) -> object:
    """Carry out one order; ``NotAuthorisedError`` for whoever may not give it, ``InputError`` names
    the orders there are.
    """
    if name in ORDERS_ABOUT_JOBS:
        return await ORDERS_ABOUT_JOBS[name](agent, caller, arguments)
    require_admin(caller, f"give the order {name[:40]!r}")
    order = ORDERS.get(name)
    if order is None:
        known = ", ".join(sorted([*ORDERS, *ORDERS_ABOUT_JOBS]))
        raise InputError(f"the site has no order {name[:60]!r}", hint=f"it has: {known}")
    return await order(agent, arguments)


def require_admin(caller: Caller, verb: str) -> None:
    """Refuse everybody but the site's administrators."""
    require_login(caller, verb)
    if caller.role is not Role.ADMIN:
        raise NotAuthorisedError(
            f"{caller.login} does not look after this site and may not {verb}",
            hint="administrators are the logins of [site] admins in its configuration",
        )


async def set_system_reservation(
    agent: NodeAgent, caller: Caller, request: ReservationRequest, *, is_dry_run: bool
) -> Reservation | Decline:
    """A reservation of the site itself, such as maintenance: running jobs drain around it, waiting
    ones make way and are told.
    """
    require_admin(caller, f"reserve on the account {SYSTEM_OWNER!r}")
    if request.trip is not None or request.replaces is not None or request.beneficiary:
        raise InputError("a reservation of the site is no leg of a trip and replaces nothing")
    calendar, now = agent.calendar, agent.clock.now()
    calendar.advance(now)
    if is_dry_run:
        pools = agent.scheduler.pools
        room = {name: pool.room_without_queue(now) for name, pool in pools.items()}
        return calendar.decide_reserve(request, SYSTEM_OWNER, None, now, room=room)[0]
    decision = decide_system_reservation(calendar, agent.scheduler, request, now)
    ticket = agent.record(decision.events)
    for job in decision.displaced:
        agent.tell_job_displaced(job.job_id)
    await ticket.durable()
    return decision.answer


async def _set_mode(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    only(arguments, "mode")
    wanted = word(arguments, "mode")
    try:
        mode = SchedulerMode(wanted)
    except ValueError:
        known = ", ".join(SchedulerMode)
        raise InputError(f"{wanted[:40]!r} is no mode", hint=f"modes: {known}") from None
    before = agent.state.mode
    events = [] if mode is before else [ModeChanged(mode=mode, at=agent.clock.now())]
    ticket = agent.record(events)
    agent.scheduler.mode = mode
    await ticket.durable()
    return {"mode": mode.value, "before": before.value}


async def _node_down(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    only(arguments, "node", "jobs")
    name = word(arguments, "node")
    class_name = _class_of(agent, name)
    rule, now = _rule_for_jobs(agent, arguments), agent.clock.now()
    hit = [job.job_id for job in agent.scheduler.node_down(class_name, name, now)]
    struck = [each for each in hit if each not in agent.jobs.struck]
    events: list[AgentEvent] = []
    if name not in agent.state.nodes_down:
        events.append(NodeChanged(name=name, is_down=True, at=now))
    events += [JobStruck(job_id=each, node_name=name, rule=rule, at=now) for each in struck]
    ticket = agent.record(events)
    for each in struck:
        agent.tell_job_owner(each, f"was hit: node {name} failed", _WHAT_FOLLOWS[rule])
    await ticket.durable()
    for each in struck:
        if each in agent.jobs.struck:
            agent.runner.stop_struck(each)
    return {"node": name, "class": class_name, "state": "down", "rule": rule.value, "jobs": hit}


def _rule_for_jobs(agent: NodeAgent, arguments: Mapping[str, str]) -> NodeFailureRule:
    """The site's rule for jobs on failed nodes, or the one that the order names."""
    named = arguments.get("jobs", "")
    if not named:
        return agent.parts.upkeep.on_node_failure
    try:
        return NodeFailureRule(named)
    except ValueError:
        known = ", ".join(NodeFailureRule)
        raise InputError(
            f"{named[:40]!r} is nothing that jobs on a failed node can be", hint=f"one of: {known}"
        ) from None


async def _node_up(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    only(arguments, "node")
    name = word(arguments, "node")
    class_name = _class_of(agent, name)
    now, was_down = agent.clock.now(), name in agent.state.nodes_down
    events = [NodeChanged(name=name, is_down=False, at=now)] if was_down else []
    ticket = agent.record(events)
    agent.scheduler.node_up(class_name, name, now)
    await ticket.durable()
    return {"node": name, "class": class_name, "state": "up", "was_down": was_down}


def _class_of(agent: NodeAgent, name: str) -> str:
    class_name = class_of_node(agent.scheduler, name)
    if class_name is None:
        classes = ", ".join(
            f"{each.name}-0 to {each.name}-{each.nodes - 1}"
            for each in agent.calendar.classes.values()
        )
        raise NotFoundError(f"no node is called {name[:80]!r}", hint=f"nodes: {classes}")
    return class_name


async def _boost_job(agent: NodeAgent, arguments: Mapping[str, str]) -> object:
    """Points of the term ``administrator`` of a waiting job's priority (Catalina's local admin)."""
    only(arguments, "job", "points")
    job_id, text = word(arguments, "job"), word(arguments, "points")
    if not _POINTS.fullmatch(text):
        raise InputError(f"{text[:40]!r} are no points", hint="a whole number, perhaps with a -")
    agent.jobs.get(job_id, None)
    job = agent.scheduler.waiting.get(job_id)
    if job is None:
        raise ConflictError(f"job {job_id} does not wait any more, so its priority says nothing")
    points, before = int(text), agent.jobs.boosts.get(job_id, 0)
    events: list[AgentEvent] = []
    if points != before:
        events.append(JobBoosted(job_id=job_id, points=points, at=agent.clock.now()))
    ticket = agent.record(events)
    job.priority_boost = points
    await ticket.durable()
    return {"job": job_id, "points": points, "before": before}


async def _hold_job(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    return await _set_hold(agent, caller, arguments, is_held=True)


async def _release_job(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    return await _set_hold(agent, caller, arguments, is_held=False)


async def _set_hold(
    agent: NodeAgent, caller: Caller, arguments: Mapping[str, str], *, is_held: bool
) -> object:
    """A job on hold gives up its place and blocks nobody. What an administrator holds only an
    administrator lets go.
    """
    only(arguments, "job")
    owner, is_admin = require_login(caller, "hold jobs"), caller.role is Role.ADMIN
    job_id = word(arguments, "job")
    agent.jobs.get(job_id, None if is_admin else owner)
    if job_id not in agent.scheduler.waiting:
        raise ConflictError(
            f"job {job_id} does not wait any more, so it cannot be held or let go",
            hint=f"end it with: catalina del-job {job_id}",
        )
    by_admin = agent.jobs.held.get(job_id)
    if by_admin and not is_admin:
        raise NotAuthorisedError(f"an administrator holds job {job_id}, and only one lets it go")
    was_held = by_admin is not None
    events: list[AgentEvent] = []
    if was_held != is_held or (is_held and is_admin and not by_admin):
        now = agent.clock.now()
        events = [JobHeld(job_id=job_id, is_held=is_held, by_admin=is_admin, at=now)]
    ticket = agent.record(events)
    agent.scheduler.hold(job_id, is_held=is_held or job_id in agent.jobs.awaiting)
    await ticket.durable()
    return {"job": job_id, "is_held": is_held, "was_held": was_held}


ORDERS_ABOUT_JOBS: Final[
    Mapping[str, Callable[[NodeAgent, Caller, Mapping[str, str]], Awaitable[object]]]
] = {"hold-job": _hold_job, "release-job": _release_job}

ORDERS: Final[Mapping[str, Callable[[NodeAgent, Mapping[str, str]], Awaitable[object]]]] = {
    "set-mode": _set_mode,
    "node-down": _node_down,
    "node-up": _node_up,
    "reserve-nodes": reserve_nodes,
    "create-standing": create_standing,
    "cancel-standing": cancel_standing,
    "boost-job": _boost_job,
}
