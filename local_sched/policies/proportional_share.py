"""Shares in proportion to need: what Libra and Libra+$ have in common (Algorithm 2 of Libra+$).

The need of a task is the part of its node that it must have from now on to be over by its deadline:
the estimate that is left over the time that is left. A task past its estimate or its deadline has
the need it came with, until it ends; the papers say nothing of either.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from gridtravel.local_sched.policies.shared_nodes import NEVER, SETTLED_S, SharedNode


class Control(enum.StrEnum):
    """What becomes of the part of a node that nobody needs."""

    FAIR = "fair"
    """It is divided in proportion: the node is busy whenever it has a task."""
    STRICT = "strict"
    """It is idle: a task gets its need and no more."""


def needs(node: SharedNode, now: float) -> list[float]:
    """The need of each task of a node that is up to date."""
    found = []
    for task in node.tasks:
        left_s = task.estimate_s - task.received_s
        time_left_s = task.deadline - now
        if left_s > SETTLED_S and time_left_s > 0:
            found.append(left_s / time_left_s)
        else:
            found.append(task.estimate_s / task.patience_s)
    return found


def need_of_all(node: SharedNode, now: float) -> float:
    """The sum of the needs; an admission asks it of every node, so it makes no list."""
    total = 0.0
    for task in node.tasks:
        left_s = task.estimate_s - task.received_s
        time_left_s = task.deadline - now
        if left_s > SETTLED_S and time_left_s > 0:
            total += left_s / time_left_s
        else:
            total += task.estimate_s / task.patience_s
    return total


def proportional_rates(node: SharedNode, now: float, control: Control) -> Sequence[float]:
    """The needs, divided by their sum: always where ``FAIR``, else where they exceed the node."""
    wanted = needs(node, now)
    total = sum(wanted)
    if control is Control.STRICT and total <= 1:
        return wanted
    return [each / total for each in wanted]


def next_change_of_need(node: SharedNode, now: float) -> float:
    """When the first task uses up its estimate or passes its deadline."""
    first = NEVER
    for task in node.tasks:
        if now < task.deadline < first:
            first = task.deadline
        left_s = task.estimate_s - task.received_s
        if left_s > SETTLED_S and task.rate > 0:
            used_up = now + left_s / task.rate
            if used_up < first:
                first = used_up
    return first
