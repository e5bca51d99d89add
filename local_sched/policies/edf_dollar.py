"""Earliest deadline first with the prices of Libra+$: a node runs one task at a time, and promises
what fits before each deadline.

Admission is by demand bound: for every deadline d, the work due by d fits before d. A task past its
estimate keeps its turn until its deadline; one past its deadline runs when nothing else can, and
its work counts no more, since it is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.local_sched.policies.dollar_pricing import DollarPolicy
from gridtravel.local_sched.policies.passing_terms import Span, solve
from gridtravel.local_sched.policies.policy import PolicyJob
from gridtravel.local_sched.policies.shared_nodes import (
    FULL,
    NEVER,
    SETTLED_S,
    SharedNode,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdfDollar(DollarPolicy):
    """A ``SharingPolicy``."""

    beta: float = 0.3

    def room_s(self, node: SharedNode, job: PolicyJob, now: float) -> float:
        """RESFree: the least slack, at the job's deadline and after it."""
        assert job.deadline is not None
        ours, work_s = job.deadline, job.work_s
        due_s = due_by_ours_s = 0.0
        room_s = NEVER
        for deadline, left_s in _by_deadline(node, now):
            due_s += left_s
            time_s = deadline - now
            if deadline >= ours:
                if deadline == ours:
                    due_by_ours_s = due_s
                slack_s = time_s - due_s - work_s
                if due_s + work_s > time_s * FULL:
                    return 0.0
                if slack_s < room_s:
                    room_s = slack_s
            else:
                due_by_ours_s = due_s
                if due_s > time_s * FULL:
                    return 0.0
        time_s = ours - now
        if due_by_ours_s + work_s > time_s * FULL:
            return 0.0
        return min(room_s, time_s - due_by_ours_s - work_s)

    def room_spans(
        self, node: SharedNode, job: PolicyJob, now: float, least: float
    ) -> Sequence[Span]:
        """Between two deadlines of tasks: by the work due before, and by the slack after."""
        waited_s = now - job.submitted_at
        due_s = 0.0
        points: list[tuple[float, float]] = []
        for deadline, left_s in _by_deadline(node, now):
            due_s += left_s
            if due_s > (deadline - now) * FULL:
                return ()
            points.append((deadline - job.submitted_at, due_s))
        found: list[Span] = []
        slack_s = end_s = NEVER
        # From the last gap to the first, so that the slack after each is known.
        for start_s, before_s in [*reversed(points), (0.0, 0.0)]:
            conditions = [(1 - least, waited_s + before_s + job.work_s)]
            if slack_s < NEVER:
                conditions.append((-least, job.work_s - slack_s))
            found += solve((start_s, end_s), conditions)
            slack_s = min(slack_s, start_s - waited_s - before_s)
            end_s = start_s
        return found

    def rates(self, node: SharedNode, now: float) -> Sequence[float]:
        """All of the node to the earliest deadline that is not over, of several the first job's."""
        first = min(
            node.tasks, key=lambda task: (task.deadline <= now, task.deadline), default=None
        )
        return [1.0 if task is first else 0.0 for task in node.tasks]

    def next_change(self, node: SharedNode, now: float) -> float:
        """The deadline of the task that runs, where others wait behind it."""
        if len(node.tasks) < 2:
            return NEVER
        return min((task.deadline for task in node.tasks if task.deadline > now), default=NEVER)


def _by_deadline(node: SharedNode, now: float) -> list[tuple[float, float]]:
    """Deadline and estimate left of the tasks whose deadline is not over, earliest first."""
    found = []
    for task in node.tasks:
        if task.deadline > now:
            left_s = task.estimate_s - task.received_s
            found.append((task.deadline, left_s if left_s > SETTLED_S else 0.0))
    found.sort()
    return found
