"""The site's read-only questions over the wire (docs/queries.md): names, arguments, JSON-like
answers.

The answers come from ``local_sched.scheduling.queries``; here only words become numbers and values
become JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gridtravel.agents.ports import accounts, queries_about_queue, queries_about_reservations
from gridtravel.agents.ports.access import account_of, require_login, travels_with
from gridtravel.agents.ports.arguments import (
    amount_or_none,
    number,
    only,
    text_or_none,
    texts,
    word,
)
from gridtravel.agents.ports.submissions import accepted, price_of, refuse_price
from gridtravel.agents.trips.handover import LEG_QUESTION
from gridtravel.gridcore.booking.reservations import Decline, ReservationState
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from gridtravel.local_sched.scheduling.queries import Explanation, backfill_windows, estimate, why

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

QUOTE: Final = "quote"
_OF_A_JOB: Final = (
    "nodes",
    "limit_s",
    "features",
    "account",
    "qos",
    "deadline",
    "budget_millicredits",
    "estimate_s",
    "memory_mb",
    "disk_mb",
)


def answer_query(
    core: AgentCore, caller: Caller, name: str, arguments: Mapping[str, str]
) -> object:
    """The answer to one question; ``InputError`` names the questions and arguments there are."""
    question = QUESTIONS.get(name)
    if question is None:
        known = ", ".join(sorted(QUESTIONS))
        raise InputError(f"the site cannot answer {name[:60]!r}", hint=f"it answers: {known}")
    return question(core, caller, arguments)


def _why(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments, "job")
    job_id = word(arguments, "job")
    view = core.jobs.get(job_id, None if caller.role is Role.ADMIN else caller.owner)
    if job_id not in core.scheduler.waiting:
        # What became of it is journaled; the scheduler's memory begins with the daemon's start.
        return asdict(Explanation(job_id=job_id, state=view.state, reason=view.reason))
    return asdict(why(core.scheduler, job_id, core.clock.now()))


def _quote(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """What a job would be told that was submitted now: where it would go and on which terms, or why
    it would be declined. Nothing is kept for it.
    """
    only(arguments, *_OF_A_JOB)
    owner = require_login(caller, "submit jobs")
    account = account_of(
        caller, text_or_none(arguments, "account") or "", is_paid=core.cashier.collects
    )
    spec = JobSpec(
        request_id=QUOTE,
        name=QUOTE,
        account=account,
        nodes=number(arguments, "nodes"),
        limit_s=number(arguments, "limit_s"),
        argv=(QUOTE,),
        features=texts(arguments, "features"),
        quality_of_service=text_or_none(arguments, "qos") or "",
        deadline=amount_or_none(arguments, "deadline"),
        budget_millicredits=amount_or_none(arguments, "budget_millicredits"),
        estimate_s=amount_or_none(arguments, "estimate_s"),
        memory_mb=amount_or_none(arguments, "memory_mb"),
        disk_mb=amount_or_none(arguments, "disk_mb"),
    )
    answer = accepted(core, spec, owner)
    if not isinstance(answer, Decline):
        price = price_of(core, answer)
        answer = refuse_price(core, spec, price) or answer
    now = core.clock.now()
    if isinstance(answer, Decline):
        declined = {
            "rule": answer.rule.value,
            "message": answer.message,
            "would_pass": [
                {"deadline": each.deadline, "budget": each.budget_millicredits}
                for each in answer.passing
            ],
        }
        return {"as_of": now, "declined": declined}
    terms = answer.terms
    return {
        "as_of": now,
        "declined": None,
        "class": answer.class_name,
        "price": price,
        "deadline": None if terms is None else terms.deadline,
        "is_agreed": terms is not None,
    }


def _estimate(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments, "nodes", "duration_s", "features")
    nodes, limit_s = number(arguments, "nodes"), number(arguments, "duration_s")
    features = frozenset(texts(arguments, "features"))
    now = core.clock.now()
    starts = {
        name: estimate(core.scheduler, name, nodes, limit_s, now)
        for name, each in core.calendar.classes.items()
        if features.issubset(each.features)
    }
    return {"as_of": now, "starts": starts}


def _backfill(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments)
    now = core.clock.now()
    return {
        "as_of": now,
        "windows": [
            asdict(window)
            for name in core.calendar.classes
            for window in backfill_windows(core.scheduler, name, now)
        ],
    }


def _leg(core: AgentCore, caller: Caller, arguments: Mapping[str, str]) -> object:
    """The answer to ``LEG_QUESTION``: the leg's reservation and where its latest job stands.

    Whoever may not know gets the same answer as for a leg that does not exist.
    """
    only(arguments, "trip", "leg")
    trip_id, leg = word(arguments, "trip"), word(arguments, "leg")
    legs = [
        each
        for each in core.calendar.reservations.values()
        if each.request.trip is not None
        and (each.request.trip.trip_id, each.request.trip.leg) == (trip_id, leg)
        and (travels_with(caller, each) or caller.role is Role.ADMIN or each.owner == caller.owner)
    ]
    # A leg that was released is another one now, or none; unless it was its own job that failed.
    for kept in reversed(legs):
        area = kept.reservation_id
        state = _job_state(core, area)
        if kept.state in _KEPT or (kept.state is ReservationState.RELEASED and state in _FAILED):
            return {
                "reservation": area,
                "state": None if state is None else state.value,
                "is_over": kept.state is not ReservationState.COMMITTED,
            }
    raise NotFoundError(
        f"{core.calendar.site} has no leg {leg[:64]!r} of such a trip",
        hint="it was never booked there, or is over and forgotten",
    )


def _job_state(core: AgentCore, area: str) -> JobState | None:
    """Where the latest job of a leg stands. One that was cancelled before it began does not count:
    a change of the trip exchanges jobs.
    """
    states = [
        view.state
        for view in core.jobs.views.values()
        if view.spec.reservation_id == area
        and (view.state is not JobState.CANCELLED or view.started_at is not None)
    ]
    return states[-1] if states else None


_KEPT: Final = (ReservationState.COMMITTED, ReservationState.COMPLETED)
_FAILED: Final = (JobState.FAILED, JobState.TIMED_OUT)

QUESTIONS: Final[Mapping[str, Callable[[AgentCore, Caller, Mapping[str, str]], object]]] = {
    "why": _why,
    "estimate": _estimate,
    QUOTE: _quote,
    "backfill": _backfill,
    "queue": queries_about_queue.queue,
    "history": queries_about_queue.history,
    "priority": queries_about_queue.priority,
    "bindings": queries_about_queue.bindings,
    "past": queries_about_reservations.past,
    "standing": queries_about_reservations.standing,
    "nodes": queries_about_queue.nodes,
    "quota": queries_about_reservations.quota,
    "account": accounts.account,
    "accounts": accounts.accounts,
    "shortages": queries_about_reservations.shortages,
    LEG_QUESTION: _leg,
}
