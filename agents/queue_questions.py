"""Questions about the queue, the past and the nodes: one row a job, compact, a bounded number of
them (``docs/queries.md``).

What belongs to others is shown without who they are, as the lists of the service itself show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from agents.question_words import number_or, only, text_or_none, texts
from gridcore.callers import Caller, Role
from gridcore.errors import InputError, NotFoundError
from gridcore.jobs import JobState, JobView
from local_sched.queries import node_counts, service_order
from local_sched.scheduler_config import SchedulerMode

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent
    from local_sched.queries import QueuePlace

ROWS_DEFAULT: Final = 1_000
ROWS_MAX: Final = 5_000
"""Rows of one answer; with the longest names they stay below the 4 MiB of a message."""
BINDINGS_SHOWN: Final = 8
NAMES_SHOWN: Final = 32
"""Nodes of a job that are named; how many it has is told beside it."""
SOMEBODY: Final = "somebody"
HIDDEN: Final = "hidden"

_Filter = Callable[[JobView], bool]


def queue(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Everything that runs, then everything that waits in the order it would be served."""
    only(arguments, "user", "account", "state", "class", "limit")
    wanted = _filter(agent, caller, arguments)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    now = agent.clock.now()
    places = {place.job.job_id: place for place in service_order(agent.scheduler, now)}
    active = agent.jobs.active()
    started = [view for view in active if view.job_id not in places]
    started.sort(key=lambda view: (agent.jobs.room_until.get(view.job_id, 0), view.job_id))
    by_id = {view.job_id: view for view in active}
    ordered = started + [by_id[job_id] for job_id in places if job_id in by_id]
    found = [view for view in ordered if wanted(view)]
    return {
        "as_of": now,
        "mode": agent.scheduler.mode.value,
        "total": len(found),
        "jobs": [
            _queue_row(agent, caller, view, places.get(view.job_id), now) for view in found[:most]
        ],
    }


def history(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Jobs that are over, the latest end first."""
    only(arguments, "user", "account", "state", "class", "since", "until", "limit")
    wanted = _filter(agent, caller, arguments)
    now = agent.clock.now()
    since = number_or(arguments, "since", 0, now)
    until = number_or(arguments, "until", now + 1, now + 1)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    found = [
        view
        for view in agent.jobs.views.values()
        if view.state.is_over and since <= (view.ended_at or 0) < until and wanted(view)
    ]
    found.sort(key=lambda view: (view.ended_at or 0, view.job_id), reverse=True)
    return {
        "as_of": now,
        "total": len(found),
        "jobs": [
            {
                **_row(agent, caller, view),
                "ended_at": view.ended_at,
                "exit_code": view.exit_code,
                "reason": view.reason if _is_mine(caller, view) else "",
            }
            for view in found[:most]
        ],
    }


def priority(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """The priority of what waits, term by term, highest first (Catalina's query_priority)."""
    only(arguments, "job", "limit")
    job_id = text_or_none(arguments, "job")
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    now = agent.clock.now()
    places = service_order(agent.scheduler, now)
    if job_id is not None:
        agent.jobs.get(job_id, None)
        places = [place for place in places if place.job.job_id == job_id]
        if not places:
            raise NotFoundError(f"job {job_id} does not wait, so it has no priority any more")
    orders = {name: pool.queue.order.name for name, pool in agent.scheduler.pools.items()}
    return {
        "as_of": now,
        "orders": orders,
        "total": len(places),
        "jobs": [
            {
                "job": place.job.job_id,
                "class": place.job.class_name,
                "position": place.position,
                "priority": place.priority,
                "terms": dict(place.terms),
            }
            for place in places[:most]
        ],
    }


def bindings(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Which jobs the caller's reservations are kept for, where the caller's jobs must run, and
    which of the site's own reservations are of particular nodes.
    """
    only(arguments)
    is_admin = caller.role is Role.ADMIN
    reservations = agent.calendar.reservations
    return {
        "reservations": {
            key: list(jobs)
            for key, jobs in agent.jobs.bound_jobs.items()
            if key in reservations and (is_admin or reservations[key].owner == caller.owner)
        },
        "jobs": {
            key: list(bound)
            for key, bound in agent.jobs.bound_reservations.items()
            if key in agent.jobs.views and _is_mine(caller, agent.jobs.views[key])
        },
        "node_names": {
            key: list(names) for key, names in agent.state.fixed.items() if key in reservations
        },
    }


def nodes(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What the nodes do, class by class."""
    only(arguments)
    now = agent.clock.now()
    counts = {each.resource_class: each for each in node_counts(agent.scheduler, now)}
    return {
        "as_of": now,
        "mode": SchedulerMode(agent.scheduler.mode).value,
        "classes": [
            {**asdict(counts[name]), "features": list(each.features)}
            for name, each in agent.calendar.classes.items()
            if name in counts
        ],
        "down": [{"node": name, "since": since} for name, since in agent.state.nodes_down.items()],
    }


def _queue_row(
    agent: NodeAgent, caller: Caller, view: JobView, place: QueuePlace | None, now: int
) -> dict[str, Any]:
    row = _row(agent, caller, view)
    spec = view.spec
    bound: tuple[str, ...] = ()
    if _is_mine(caller, view):
        inside = agent.jobs.runs_inside.get(view.job_id)
        bound = (inside,) if inside else agent.jobs.bound_reservations.get(view.job_id, ())
    row |= {
        "planned_start": None,
        "ends_by": agent.jobs.room_until.get(view.job_id),
        "position": None,
        "priority": None,
        "expansion_factor": round(
            ((view.started_at or now) - view.submitted_at + spec.limit_s) / spec.limit_s, 3
        ),
        "reservations": list(bound[:BINDINGS_SHOWN]),
        "reservations_total": len(bound),
        "reason": "",
    }
    if place is not None:
        row |= {
            "class": place.job.class_name,
            "planned_start": place.job.planned_start,
            "position": place.position or None,
            "priority": place.priority,
            "reason": place.reason.value if _is_mine(caller, view) else "",
        }
    return row


def _row(agent: NodeAgent, caller: Caller, view: JobView) -> dict[str, Any]:
    """What every list of jobs has."""
    is_mine = _is_mine(caller, view)
    return {
        "job": view.job_id,
        "name": view.spec.name if is_mine else HIDDEN,
        "owner": view.owner if is_mine else SOMEBODY,
        "account": view.spec.account if is_mine else HIDDEN,
        "class": _class_of(agent, view),
        "nodes": view.spec.nodes,
        "node_names": list(view.node_names[:NAMES_SHOWN]) if is_mine else [],
        "limit_s": view.spec.limit_s,
        "state": view.state.value,
        "submitted_at": view.submitted_at,
        "started_at": view.started_at,
    }


def _class_of(agent: NodeAgent, view: JobView) -> str | None:
    job = agent.scheduler.running.get(view.job_id) or agent.scheduler.finished.get(view.job_id)
    return agent.jobs.classes.get(view.job_id) if job is None else job.class_name


def _is_mine(caller: Caller, view: JobView) -> bool:
    if caller.role is Role.ADMIN:
        return True
    return bool(caller.login) and view.owner == caller.owner


def _filter(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> _Filter:
    """Jobs of a user, an account, a class, in some states. Whose others' jobs are is not shown, so
    asking for a user or an account by name finds none of them either.
    """
    user, account = text_or_none(arguments, "user"), text_or_none(arguments, "account")
    states = _states(texts(arguments, "state"))
    classes = texts(arguments, "class")
    for name in classes:
        if name not in agent.calendar.classes:
            known = ", ".join(agent.calendar.classes)
            raise InputError(f"no resource class {name[:40]!r}", hint=f"known: {known}")
    waiting = agent.scheduler.waiting

    def fits(view: JobView) -> bool:
        if (user is not None or account is not None) and not _is_mine(caller, view):
            return False
        if user is not None and view.owner != user:
            return False
        if account is not None and view.spec.account != account:
            return False
        if states and view.state not in states:
            return False
        if not classes:
            return True
        job = waiting.get(view.job_id)
        return (job.class_name if job else _class_of(agent, view)) in classes

    return fits


def _states(words: tuple[str, ...]) -> tuple[JobState, ...]:
    try:
        return tuple(JobState(each.upper()) for each in words)
    except ValueError:
        known = ", ".join(state.value for state in JobState)
        raise InputError(
            f"no state of a job is called {', '.join(words)[:60]!r}", hint=f"known: {known}"
        ) from None
