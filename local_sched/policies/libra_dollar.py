"""Libra+$ (Yeo, Buyya): shares by deadline as Libra, a price that rises as a node fills."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.local_sched.policies.dollar_pricing import DollarPolicy
from gridtravel.local_sched.policies.passing_terms import Span, solve
from gridtravel.local_sched.policies.policy import PolicyJob
from gridtravel.local_sched.policies.proportional_share import (
    Control,
    need_of_all,
    needs,
    next_change_of_need,
    proportional_rates,
)
from gridtravel.local_sched.policies.shared_nodes import FULL, NEVER, SharedNode


class ResFree(enum.StrEnum):
    """What running tasks take from the room of a job (RESFree)."""

    FULL = "full"
    """Their whole estimates: equation 6 to the letter."""
    WINDOW = "window"
    """What they need between the job's arrival and its deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraDollar(DollarPolicy):
    """A ``SharingPolicy``."""

    beta: float = 0.1
    res_free: ResFree = ResFree.FULL
    control: Control = Control.FAIR

    def room_s(self, node: SharedNode, job: PolicyJob, now: float) -> float:
        """RESFree (equation 6), where the needs leave the job's own."""
        patience_s = job.patience_s
        room_s = patience_s - job.work_s
        if self.res_free is ResFree.FULL:
            for task in node.tasks:
                room_s -= task.estimate_s
            # Asked of every node for every job: most full ones are known by now.
            if room_s <= 0:
                return 0.0
        if job.work_s / patience_s + need_of_all(node, now) > FULL:
            return 0.0
        if self.res_free is ResFree.WINDOW:
            assert job.deadline is not None
            for task, need in zip(node.tasks, needs(node, now), strict=True):
                room_s -= need * max(min(task.deadline, job.deadline) - now, 0.0)
        return room_s

    def room_spans(
        self, node: SharedNode, job: PolicyJob, now: float, least: float
    ) -> Sequence[Span]:
        """D - what the tasks take - E >= least D, and E/D <= what their needs leave."""
        wanted = needs(node, now)
        fits = FULL - sum(wanted), job.work_s
        if self.res_free is ResFree.FULL:
            taken_s = sum(task.estimate_s for task in node.tasks)
            return solve((0.0, NEVER), [fits, (1 - least, taken_s + job.work_s)])
        # Between two deadlines of tasks the room is linear in D: those before take what they need
        # until theirs, those after what they need until ours.
        waited_s = now - job.submitted_at
        ends = sorted(
            (task.deadline - job.submitted_at, need)
            for task, need in zip(node.tasks, wanted, strict=True)
            if task.deadline > now
        )
        later = sum(need for _, need in ends)
        earlier_s = 0.0
        found: list[Span] = []
        start_s = 0.0
        for end_s, need in [*ends, (NEVER, 0.0)]:
            room = (1 - later - least, earlier_s + job.work_s - later * waited_s)
            found += solve((start_s, end_s), [fits, room])
            later -= need
            earlier_s += need * (end_s - waited_s) if need else 0.0
            start_s = end_s
        return found

    def rates(self, node: SharedNode, now: float) -> Sequence[float]:
        """Algorithm 2."""
        return proportional_rates(node, now, self.control)

    def next_change(self, node: SharedNode, now: float) -> float:
        """An estimate used up or a deadline passed."""
        return next_change_of_need(node, now)
