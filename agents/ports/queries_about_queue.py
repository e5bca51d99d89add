"""Questions about the queue, the past and the nodes: one row a job, compact, a bounded number of
them (``docs/queries.md``).

What belongs to others is shown without who they are, as the lists of the service itself show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gridtravel.agents.ports.access import is_mine
from gridtravel.agents.ports.arguments import number_or, only, text_or_none, texts
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobState, JobView
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.queries import node_counts, service_order

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore
    from gridtravel.local_sched.scheduling.queries import QueueEntry

ROWS_DEFAULT: Final = 1_000
ROWS_MAX: Final = 5_000
"""Rows of one answer; with the longest names they stay below the 4 MiB of a message."""
BINDINGS_SHOWN: Final = 8
NAMES_SHOWN: Final = 32
"""Nodes of a job that are named; how many it has is told beside it."""
SOMEBODY: Final = "somebody"
HIDDEN: Final = "hidden"

_Filter = Callable[[JobView], bool]


def queue(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Everything that runs, then everything that waits in the order it would be served."""
    only(arguments, "user", "account", "state", "class", "limit")
    wanted = _filter(core, caller, arguments)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    now = core.clock.now()
    entries = {entry.job.job_id: entry for entry in service_order(core.scheduler, now)}
    active = core.jobs.active()
    started = [view for view in active if view.job_id not in entries]
    started.sort(key=lambda view: (core.jobs.booked_until.get(view.job_id, 0), view.job_id))
    by_id = {view.job_id: view for view in active}
    ordered = started + [by_id[job_id] for job_id in entries if job_id in by_id]
    found = [view for view in ordered if wanted(view)]
    return {
        "as_of": now,
        "mode": core.scheduler.mode.value,
        "total": len(found),
        "jobs": [
            _queue_row(core, caller, view, entries.get(view.job_id), now) for view in found[:most]
        ],
    }


def history(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Jobs that are over, the latest end first."""
    only(arguments, "user", "account", "state", "class", "since", "until", "limit")
    wanted = _filter(core, caller, arguments)
    now = core.clock.now()
    since = number_or(arguments, "since", 0, now)
    until = number_or(arguments, "until", now + 1, now + 1)
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    found = [
        view
        for view in core.jobs.views.values()
        if view.state.is_over and since <= (view.ended_at or 0) < until and wanted(view)
    ]
    found.sort(key=lambda view: (view.ended_at or 0, view.job_id), reverse=True)
    return {
        "as_of": now,
        "total": len(found),
        "jobs": [
            {
                **_row(core, caller, view),
                "ended_at": view.ended_at,
                "exit_code": view.exit_code,
                "reason": view.reason if is_mine(caller, view.owner) else "",
            }
            for view in found[:most]
        ],
    }


def priority(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """The priority of what waits, term by term, highest first (Catalina's query_priority)."""
    only(arguments, "job", "limit")
    job_id = text_or_none(arguments, "job")
    most = number_or(arguments, "limit", ROWS_DEFAULT, ROWS_MAX)
    now = core.clock.now()
    entries = service_order(core.scheduler, now)
    if job_id is not None:
        core.jobs.get(job_id, None)
        entries = [entry for entry in entries if entry.job.job_id == job_id]
        if not entries:
            raise NotFoundError(
                f"job {job_id} does not wait, so it has no priority any more",
                hint="see what became of it: catalina history",
            )
    orders = {name: pool.queue.order.name for name, pool in core.scheduler.pools.items()}
    return {
        "as_of": now,
        "orders": orders,
        "total": len(entries),
        "jobs": [
            {
                "job": entry.job.job_id,
                "class": entry.job.class_name,
                "position": entry.position,
                "priority": entry.priority,
                "terms": dict(entry.terms),
            }
            for entry in entries[:most]
        ],
    }


def bindings(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """Which jobs the caller's reservations are kept for, where the caller's jobs must run, and
    which of the site's own reservations are of particular nodes.
    """
    only(arguments)
    is_admin = caller.role is Role.ADMIN
    reservations = core.calendar.reservations
    return {
        "reservations": {
            key: list(jobs)
            for key, jobs in core.jobs.bound_jobs.items()
            if key in reservations and (is_admin or reservations[key].owner == caller.owner)
        },
        "jobs": {
            key: list(bound)
            for key, bound in core.jobs.bound_reservations.items()
            if key in core.jobs.views and is_mine(caller, core.jobs.views[key].owner)
        },
        "node_names": {
            key: list(names) for key, names in core.state.fixed.items() if key in reservations
        },
    }


def nodes(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What the nodes do, class by class."""
    only(arguments)
    now = core.clock.now()
    counts = {each.resource_class: each for each in node_counts(core.scheduler, now)}
    return {
        "as_of": now,
        "mode": SchedulerMode(core.scheduler.mode).value,
        "classes": [
            {
                **asdict(count),
                "features": sorted(_features_of(core, name)),
                "is_shared": name in core.scheduler.shared,
            }
            for name, count in counts.items()
        ],
        "down": [{"node": name, "since": since} for name, since in core.state.nodes_down.items()],
    }


def _features_of(core: AgentCore, class_name: str) -> Iterable[str]:
    shared = core.scheduler.shared.classes.get(class_name)
    return core.calendar.classes[class_name].features if shared is None else shared.features


def _queue_row(
    core: AgentCore, caller: Caller, view: JobView, entry: QueueEntry | None, now: int
) -> dict[str, Any]:
    row = _row(core, caller, view)
    spec = view.spec
    bound: tuple[str, ...] = ()
    if is_mine(caller, view.owner):
        inside = core.jobs.runs_inside.get(view.job_id)
        bound = (inside,) if inside else core.jobs.bound_reservations.get(view.job_id, ())
    row |= {
        "planned_start": None,
        "ends_by": core.jobs.booked_until.get(view.job_id),
        "position": None,
        "priority": None,
        "expansion_factor": round(
            ((view.started_at or now) - view.submitted_at + spec.limit_s) / spec.limit_s, 3
        ),
        "reservations": list(bound[:BINDINGS_SHOWN]),
        "reservations_total": len(bound),
        "reason": "",
    }
    if entry is not None:
        row |= {
            "class": entry.job.class_name,
            "planned_start": entry.job.planned_start,
            "position": entry.position or None,
            "priority": entry.priority,
            "reason": entry.reason.value if is_mine(caller, view.owner) else "",
        }
    return row


def _row(core: AgentCore, caller: Caller, view: JobView) -> dict[str, Any]:
    """What every list of jobs has."""
    mine = is_mine(caller, view.owner)
    spec, terms = view.spec, view.terms
    deadline = spec.deadline if terms is None else terms.deadline
    return {
        "job": view.job_id,
        "name": spec.name if mine else HIDDEN,
        "owner": view.owner if mine else SOMEBODY,
        "account": spec.account if mine else HIDDEN,
        "class": _class_of(core, view),
        "nodes": spec.nodes,
        "node_names": list(view.node_names[:NAMES_SHOWN]) if mine else [],
        "shares": list(_shares_of(core, view)[:NAMES_SHOWN]) if mine else [],
        "limit_s": spec.limit_s,
        "deadline": deadline if mine else None,
        "price": terms.price_millicredits if mine and terms is not None else None,
        "state": view.state.value,
        "submitted_at": view.submitted_at,
        "started_at": view.started_at,
    }


def _shares_of(core: AgentCore, view: JobView) -> tuple[float, ...]:
    job = core.scheduler.running.get(view.job_id)
    if job is None or job.class_name not in core.scheduler.shared:
        return ()
    return core.scheduler.shared.shares_of(job)


def _class_of(core: AgentCore, view: JobView) -> str | None:
    job = core.scheduler.running.get(view.job_id) or core.scheduler.finished.get(view.job_id)
    return core.jobs.classes.get(view.job_id) if job is None else job.class_name


def _filter(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> _Filter:
    """Jobs of a user, an account, a class, in some states. Whose others' jobs are is not shown, so
    asking for a user or an account by name finds none of them either.
    """
    user, account = text_or_none(arguments, "user"), text_or_none(arguments, "account")
    states = _states(texts(arguments, "state"))
    classes = texts(arguments, "class")
    known_classes = (*core.calendar.classes, *core.scheduler.shared.classes)
    for name in classes:
        if name not in known_classes:
            known = ", ".join(known_classes)
            raise InputError(f"no resource class {name[:40]!r}", hint=f"known: {known}")
    waiting = core.scheduler.waiting

    def fits(view: JobView) -> bool:
        if (user is not None or account is not None) and not is_mine(caller, view.owner):
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
        return (job.class_name if job else _class_of(core, view)) in classes

    return fits


def _states(words: tuple[str, ...]) -> tuple[JobState, ...]:
    try:
        return tuple(JobState(each.upper()) for each in words)
    except ValueError:
        known = ", ".join(state.value for state in JobState)
        raise InputError(
            f"no state of a job is called {', '.join(words)[:60]!r}", hint=f"known: {known}"
        ) from None
