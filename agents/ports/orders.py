"""An administrator's orders about the site itself (docs/catalina.md): its mode, its nodes, and
reservations of its own; and what anybody may order about his own waiting jobs.

Each may be said twice; the second time changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from gridtravel.agents.jobs.restart import class_of_node
from gridtravel.agents.journal.events import (
    AgentEvent,
    JobBoosted,
    JobHeld,
    JobOnFailedNode,
    ModeChanged,
    NodeChanged,
)
from gridtravel.agents.maintenance_rules import NodeFailureRule
from gridtravel.agents.ports import accounts
from gridtravel.agents.ports.access import require_login
from gridtravel.agents.ports.arguments import only, word
from gridtravel.agents.ports.site_reservations import (
    cancel_standing,
    create_standing,
    reserve_nodes,
)
from gridtravel.agents.ports.submissions import refuse_shared
from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from gridtravel.local_sched.reservations.system import decide_system_reservation
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.scheduling.config import SchedulerMode

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

_POINTS: Final = re.compile(r"-?[0-9]{1,9}")
_WHAT_FOLLOWS: Final[Mapping[NodeFailureRule, str]] = {
    NodeFailureRule.NOTIFY: "The job was left running; look whether it still works.",
    NodeFailureRule.REQUEUE: "The job is stopped and runs again from the start, in its old rank.",
    NodeFailureRule.CANCEL: "The job is cancelled.",
}


async def carry_out(
    core: AgentCore, caller: Caller, name: str, arguments: Mapping[str, str]
) -> object:
    """Carry out one order; ``NotAuthorisedError`` for whoever may not give it, ``InputError`` names
    the orders there are.
    """
    if name in ORDERS_ABOUT_JOBS:
        return await ORDERS_ABOUT_JOBS[name](core, caller, arguments)
    require_admin(caller, f"give the order {name[:40]!r}")
    order = ORDERS.get(name)
    if order is None:
        known = ", ".join(sorted([*ORDERS, *ORDERS_ABOUT_JOBS]))
        raise InputError(f"the site has no order {name[:60]!r}", hint=f"it has: {known}")
    return await order(core, arguments)


def require_admin(caller: Caller, verb: str) -> None:
    """Refuse everybody but the site's administrators."""
    require_login(caller, verb)
    if caller.role is not Role.ADMIN:
        raise NotAuthorisedError(
            f"{caller.login} does not look after this site and may not {verb}",
            hint="administrators are the logins of [site] admins in its configuration",
        )


async def set_system_reservation(
    core: AgentCore, caller: Caller, request: ReservationRequest, *, is_dry_run: bool
) -> Reservation | Decline:
    """A reservation of the site itself, such as maintenance: running jobs drain around it, waiting
    ones make way and are told.
    """
    require_admin(caller, f"reserve on the account {SYSTEM_OWNER!r}")
    if request.trip is not None or request.replaces is not None or request.beneficiary:
        raise InputError("a reservation of the site is no leg of a trip and replaces nothing")
    refusal = refuse_shared(core, request)
    if refusal is not None:
        return refusal
    calendar, now = core.calendar, core.clock.now()
    core.follow_clock(now)
    if is_dry_run:
        pools = core.scheduler.pools
        availability = {name: pool.availability_without_queue(now) for name, pool in pools.items()}
        return calendar.decide_reserve(request, SYSTEM_OWNER, None, now, availability=availability)[
            0
        ]
    decision = decide_system_reservation(calendar, core.scheduler, request, now)
    ticket = core.record(decision.events)
    for job in decision.displaced:
        core.tell_job_displaced(job.job_id)
    await ticket.durable()
    return decision.answer


async def _set_mode(core: AgentCore, arguments: Mapping[str, str]) -> object:
    only(arguments, "mode")
    wanted = word(arguments, "mode")
    try:
        mode = SchedulerMode(wanted)
    except ValueError:
        known = ", ".join(SchedulerMode)
        raise InputError(f"{wanted[:40]!r} is no mode", hint=f"modes: {known}") from None
    before = core.state.mode
    events = [] if mode is before else [ModeChanged(mode=mode, at=core.clock.now())]
    ticket = core.record(events)
    core.scheduler.mode = mode
    await ticket.durable()
    return {"mode": mode.value, "before": before.value}


async def _node_down(core: AgentCore, arguments: Mapping[str, str]) -> object:
    only(arguments, "node", "jobs")
    name = word(arguments, "node")
    class_name = _class_of(core, name)
    rule, now = _rule_for_jobs(core, arguments), core.clock.now()
    hit = [job.job_id for job in core.scheduler.node_down(class_name, name, now)]
    if rule is NodeFailureRule.REQUEUE and class_name in core.scheduler.shared:
        rule = NodeFailureRule.CANCEL  # it was admitted to this node, and cannot wait for another
    # Those that were admitted to a shared node and have not started there.
    admitted = [each for each in hit if each in core.scheduler.waiting]
    known = core.jobs.on_failed_node
    on_failed_node = [each for each in hit if each not in known and each not in admitted]
    events: list[AgentEvent] = []
    if name not in core.state.nodes_down:
        events.append(NodeChanged(name=name, is_down=True, at=now))
    events += [
        JobOnFailedNode(job_id=each, node_name=name, rule=rule, at=now) for each in on_failed_node
    ]
    ticket = core.record(events)
    for each in on_failed_node:
        core.tell_job_owner(each, f"was hit: node {name} failed", _WHAT_FOLLOWS[rule])
    if rule is not NodeFailureRule.NOTIFY:
        await core.runner.drop_waiting(admitted, f"cancelled: node {name} failed")
    await ticket.durable()
    for each in on_failed_node:
        if each in core.jobs.on_failed_node:
            core.runner.stop_on_failed_node(each)
    return {"node": name, "class": class_name, "state": "down", "rule": rule.value, "jobs": hit}


def _rule_for_jobs(core: AgentCore, arguments: Mapping[str, str]) -> NodeFailureRule:
    """The site's rule for jobs on failed nodes, or the one that the order names."""
    named = arguments.get("jobs", "")
    if not named:
        return core.parts.maintenance.on_node_failure
    try:
        return NodeFailureRule(named)
    except ValueError:
        known = ", ".join(NodeFailureRule)
        raise InputError(
            f"{named[:40]!r} is nothing that jobs on a failed node can be", hint=f"one of: {known}"
        ) from None


async def _node_up(core: AgentCore, arguments: Mapping[str, str]) -> object:
    only(arguments, "node")
    name = word(arguments, "node")
    class_name = _class_of(core, name)
    now, was_down = core.clock.now(), name in core.state.nodes_down
    events = [NodeChanged(name=name, is_down=False, at=now)] if was_down else []
    ticket = core.record(events)
    core.scheduler.node_up(class_name, name, now)
    await ticket.durable()
    return {"node": name, "class": class_name, "state": "up", "was_down": was_down}


def _class_of(core: AgentCore, name: str) -> str:
    class_name = class_of_node(core.scheduler, name)
    if class_name is None:
        shared = core.scheduler.shared.classes.values()
        names = [(each.name, each.nodes) for each in core.calendar.classes.values()]
        names += [(each.name, len(each.nodes)) for each in shared]
        classes = ", ".join(f"{each}-0 to {each}-{nodes - 1}" for each, nodes in names)
        raise NotFoundError(f"no node is called {name[:80]!r}", hint=f"nodes: {classes}")
    return class_name


async def _boost_job(core: AgentCore, arguments: Mapping[str, str]) -> object:
    """Points of the term ``administrator`` of a waiting job's priority (Catalina's local admin)."""
    only(arguments, "job", "points")
    job_id, text = word(arguments, "job"), word(arguments, "points")
    if not _POINTS.fullmatch(text):
        raise InputError(f"{text[:40]!r} are no points", hint="a whole number, perhaps with a -")
    core.jobs.get(job_id, None)
    job = core.scheduler.waiting.get(job_id)
    if job is None or not core.scheduler.is_in_line(job_id):
        raise ConflictError(
            f"job {job_id} does not wait any more, so its priority says nothing",
            hint="see what became of it: catalina history",
        )
    points, before = int(text), core.jobs.boosts.get(job_id, 0)
    events: list[AgentEvent] = []
    if points != before:
        events.append(JobBoosted(job_id=job_id, points=points, at=core.clock.now()))
    ticket = core.record(events)
    job.priority_boost = points
    await ticket.durable()
    return {"job": job_id, "points": points, "before": before}


async def _hold_job(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    return await _set_hold(core, caller, arguments, is_held=True)


async def _release_job(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    return await _set_hold(core, caller, arguments, is_held=False)


async def _set_hold(
    core: AgentCore, caller: Caller, arguments: Mapping[str, str], *, is_held: bool
) -> object:
    """A job on hold gives up its planned start and blocks nobody. What an administrator holds only
    an administrator lets go.
    """
    only(arguments, "job")
    owner, is_admin = require_login(caller, "hold jobs"), caller.role is Role.ADMIN
    job_id = word(arguments, "job")
    core.jobs.get(job_id, None if is_admin else owner)
    if not core.scheduler.is_in_line(job_id):
        raise ConflictError(
            f"job {job_id} does not wait any more, so it cannot be held or let go",
            hint=f"end it with: catalina del-job {job_id}",
        )
    by_admin = core.jobs.held.get(job_id)
    if by_admin and not is_admin:
        raise NotAuthorisedError(
            f"an administrator holds job {job_id}, and only one lets it go",
            hint="ask whoever runs the site",
        )
    was_held = by_admin is not None
    events: list[AgentEvent] = []
    if was_held != is_held or (is_held and is_admin and not by_admin):
        now = core.clock.now()
        events = [JobHeld(job_id=job_id, is_held=is_held, by_admin=is_admin, at=now)]
    ticket = core.record(events)
    core.scheduler.hold(job_id, core.jobs.hold_reason(job_id))
    await ticket.durable()
    return {"job": job_id, "is_held": is_held, "was_held": was_held}


ORDERS_ABOUT_JOBS: Final[
    Mapping[str, Callable[[AgentCore, Caller, Mapping[str, str]], Awaitable[object]]]
] = {"hold-job": _hold_job, "release-job": _release_job}

ORDERS: Final[Mapping[str, Callable[[AgentCore, Mapping[str, str]], Awaitable[object]]]] = {
    "set-mode": _set_mode,
    "node-down": _node_down,
    "node-up": _node_up,
    "reserve-nodes": reserve_nodes,
    "create-standing": create_standing,
    "cancel-standing": cancel_standing,
    "boost-job": _boost_job,
    "grant": accounts.grant,
    "refund": accounts.refund,
}
