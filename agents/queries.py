"""The site's read-only questions over the wire (docs/queries.md): names, arguments, JSON-like
answers.

The answers come from ``local_sched.queries``; here only words become numbers and values become
JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gridcore.callers import Caller, Role
from gridcore.errors import InputError
from local_sched.queries import backfill_windows, estimate, why

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
    job_id = _word(arguments, "job")
    agent.jobs.get(job_id, None if caller.role is Role.ADMIN else caller.owner)
    return asdict(why(agent.scheduler, job_id, agent.clock.now()))


def _estimate(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    nodes, limit_s = _number(arguments, "nodes"), _number(arguments, "duration_s")
    now = agent.clock.now()
    starts = {
        name: estimate(agent.scheduler, name, nodes, limit_s, now)
        for name in agent.calendar.classes
    }
    return {"starts": starts}


def _backfill(agent: NodeAgent, caller: Caller, arguments: Mapping[str, str]) -> object:
    now = agent.clock.now()
    return {
        "windows": [
            asdict(window)
            for name in agent.calendar.classes
            for window in backfill_windows(agent.scheduler, name, now)
        ]
    }


QUESTIONS: Final[Mapping[str, Callable[[NodeAgent, Caller, Mapping[str, str]], object]]] = {
    "why": _why,
    "estimate": _estimate,
    "backfill": _backfill,
}


def _word(arguments: Mapping[str, str], name: str) -> str:
    if name not in arguments:
        raise InputError(f"the question needs the argument {name!r}")
    return arguments[name]


def _number(arguments: Mapping[str, str], name: str) -> int:
    text = _word(arguments, name)
    if not text.isdecimal() or not 0 < int(text) < 1 << 40:
        raise InputError(f"{name} must be a positive whole number: {text[:40]!r}")
    return int(text)
