"""What is ordered: the site's mode, which nodes are down, which jobs are on hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.cli_frame import code_of
from gridtravel.local_sched.catalina.answers import Answer, error_object
from gridtravel.local_sched.catalina.session import Session
from gridtravel.local_sched.catalina.words import read_ids

_JOBS_FOLLOW = {
    "notify": "they go on, and their owners are told",
    "requeue": "they are stopped and run again from the start",
    "cancel": "they are cancelled",
}


async def set_mode(session: Session, mode: str) -> Answer:
    """``set-mode``."""
    answer = await give(session, "set-mode", {"mode": mode})
    line = f"the site is {answer['mode']}"
    if answer["before"] == answer["mode"]:
        line += " already"
    return Answer(as_object=answer, shown=[line])


async def node_down(session: Session, node: str, jobs: str) -> Answer:
    """``node-down``: out of the plan at once; the jobs on it by the site's rule, or as ``jobs``
    says.
    """
    arguments = {"node": node, "jobs": jobs} if jobs else {"node": node}
    answer = await give(session, "node-down", arguments)
    shown = [f"node {answer['node']} is down"]
    if answer["jobs"]:
        told = _JOBS_FOLLOW.get(str(answer["rule"]), str(answer["rule"]))
        shown.append(f"jobs on it: {', '.join(answer['jobs'])}; {told}")
    return Answer(as_object=answer, shown=shown)


async def node_up(session: Session, node: str) -> Answer:
    """``node-up``."""
    answer = await give(session, "node-up", {"node": node})
    line = f"node {answer['node']} is up"
    return Answer(as_object=answer, shown=[line if answer["was_down"] else f"{line} already"])


async def boost_job(session: Session, job: str, points: int) -> Answer:
    """``boost-job``: points of an administrator's own."""
    (wanted,) = read_ids([job], "job")
    answer = await give(session, "boost-job", {"job": wanted, "points": str(points)})
    line = f"job {wanted} has {answer['points']} points of an administrator's, {answer['before']}"
    return Answer(as_object=answer, shown=[f"{line} before"])


async def hold_jobs(session: Session, words: Sequence[str], *, undo: bool) -> Answer:
    """``hold-job`` and ``release-job``: each of them, past single errors."""
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    faults: list[GridError] = []
    for job in read_ids(words, "job"):
        try:
            answer = await give(session, "release-job" if undo else "hold-job", {"job": job})
        except GridError as fault:
            faults.append(fault)
            results.append({"job": job, **error_object(fault)})
            continue
        results.append(answer)
        already = " already" if answer["was_held"] == answer["is_held"] else ""
        state = "is on hold" if answer["is_held"] else "is in line"
        lines.append(f"job {job} {state}{already}")
    return Answer(
        as_object={"results": results}, shown=lines, faults=faults, exit_code=code_of(faults)
    )


async def give(session: Session, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
    """One order; the site's answer to it."""
    answer = await session.site.order(name, arguments)
    if not isinstance(answer, dict):
        raise GridError(
            f"the site's answer to {name} is not understood",
            hint="the site's agent is of another version: ask whoever runs it",
        )
    return answer
