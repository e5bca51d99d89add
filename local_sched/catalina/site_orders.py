"""What an administrator orders: the site's mode, and which nodes are down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridcore.errors import GridError
from local_sched.catalina.answers import Answer
from local_sched.catalina.session import Session

_JOBS_FOLLOW = {
    "notify": "they go on, and their owners are told",
    "requeue": "they are stopped and run again from the start",
    "cancel": "they are cancelled",
}


async def set_mode(session: Session, mode: str) -> Answer:
    """``set-mode``."""
    answer = await _order(session, "set-mode", {"mode": mode})
    line = f"the site is {answer['mode']}"
    if answer["before"] == answer["mode"]:
        line += " already"
    return Answer(as_object=answer, shown=[line])


async def node_down(session: Session, node: str, jobs: str) -> Answer:
    """``node-down``: out of the plan at once; the jobs on it by the site's rule, or as ``jobs``
    says.
    """
    arguments = {"node": node, "jobs": jobs} if jobs else {"node": node}
    answer = await _order(session, "node-down", arguments)
    shown = [f"node {answer['node']} is down"]
    if answer["jobs"]:
        told = _JOBS_FOLLOW.get(str(answer["rule"]), str(answer["rule"]))
        shown.append(f"jobs on it: {', '.join(answer['jobs'])}; {told}")
    return Answer(as_object=answer, shown=shown)


async def node_up(session: Session, node: str) -> Answer:
    """``node-up``."""
    answer = await _order(session, "node-up", {"node": node})
    line = f"node {answer['node']} is up"
    return Answer(as_object=answer, shown=[line if answer["was_down"] else f"{line} already"])


async def _order(session: Session, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    answer = await session.site.order(name, arguments)
    if not isinstance(answer, dict):
        raise GridError(f"the site's answer to {name} is not understood")
    return answer
