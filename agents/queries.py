"""The site's read-only questions over the wire (docs/queries.md): names, arguments, JSON-like
answers.

The answers come from ``local_sched.queries``; here only words become numbers and values become
JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from agents import limit_questions, queue_questions, reservation_questions
from agents.question_words import number, only, texts, word
from agents.receiving import LEG_QUESTION, leg_for
from agents.shortage_questions import shortages
from gridcore.callers import Caller, Role
from gridcore.errors import InputError
from local_sched.queries import Explanation, backfill_windows, estimate, why

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent


def answer_query(
    agent: NodeAgent, caller: Caller, name: str, arguments: Mapping[str, str]
) -> object:
    """The answer to one question; ``InputError`` names the questions and arguments there are."""
    question = QUESTIONS.get(name)
    if question is None:
        known = ", ".join(sorted(QUESTIONS))
        raise InputError(f"the site cannot answer {name[:60]!r}", hint=f"it answers: {known}")
    return question(agent, caller, arguments)


def _why(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments, "job")
    job_id = word(arguments, "job")
    view = agent.jobs.get(job_id, None if caller.role is Role.ADMIN else caller.owner)
    if job_id not in agent.scheduler.waiting:
        # What became of it is journaled; the scheduler's memory begins with the daemon's start.
        return asdict(Explanation(job_id=job_id, state=view.state, reason=view.reason))
    return asdict(why(agent.scheduler, job_id, agent.clock.now()))


def _estimate(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments, "nodes", "duration_s", "features")
    nodes, limit_s = number(arguments, "nodes"), number(arguments, "duration_s")
    features = frozenset(texts(arguments, "features"))
    now = agent.clock.now()
    starts = {
        name: estimate(agent.scheduler, name, nodes, limit_s, now)
        for name, each in agent.calendar.classes.items()
        if features.issubset(each.features)
    }
    return {"as_of": now, "starts": starts}


def _backfill(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments)
    now = agent.clock.now()
    return {
        "as_of": now,
        "windows": [
            asdict(window)
            for name in agent.calendar.classes
            for window in backfill_windows(agent.scheduler, name, now)
        ],
    }


def _leg(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    only(arguments, "trip", "leg")
    return leg_for(agent, caller, word(arguments, "trip"), word(arguments, "leg"))


QUESTIONS: Final[Mapping[str, Callable[[NodeAgent, Caller, Mapping[str, str]], object]]] = {
    "why": _why,
    "estimate": _estimate,
    "backfill": _backfill,
    "queue": queue_questions.queue,
    "history": queue_questions.history,
    "priority": queue_questions.priority,
    "bindings": queue_questions.bindings,
    "past": reservation_questions.past,
    "standing": reservation_questions.standing,
    "nodes": queue_questions.nodes,
    "quota": limit_questions.quota,
    "shortages": shortages,
    LEG_QUESTION: _leg,
}
