"""Libra (Sherwani, Ali, Lotia, Hayat, Buyya 2004): shares by deadline, a price without a market.

Cost = alpha E + beta E/D, refused above the budget; every node is asked, and the least loaded take
the job. E/D has no unit. The cost is not multiplied by the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.policies.passing_terms import Span, passing_terms, solve
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, WouldPass
from gridtravel.local_sched.policies.proportional_share import (
    Control,
    need_of_all,
    next_change_of_need,
    proportional_rates,
)
from gridtravel.local_sched.policies.shared_nodes import (
    FULL,
    NEVER,
    SharedNode,
    has_space,
    refuse_at_sight,
    refuse_by_budget,
    refuse_by_deadline,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Libra:
    """A ``SharingPolicy``."""

    control: Control = Control.FAIR
    work_price: float = 1.0
    """Credits for a second of the estimate (alpha)."""
    urgency_price: float = 1.0
    """Credits for E/D (beta): who can wait pays less."""

    def __post_init__(self) -> None:
        if not all(isfinite(each) and each >= 0 for each in (self.work_price, self.urgency_price)):
            raise InputError("a price must be a number, at least 0: a site pays no user")

    def admit(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Admitted | Decline:
        """First the budget, then the nodes, as the paper has it."""
        refusal = refuse_at_sight(nodes, job, now)
        if refusal is not None:
            return refusal
        price = self._price(job)
        if job.budget is not None and price > job.budget:
            return refuse_by_budget(job)
        able = self._able(nodes, job, now)
        if len(able) < job.nodes:
            return refuse_by_deadline(job, len(able))
        able.sort()
        return Admitted(
            price=price,
            deadline=job.deadline,
            node_numbers=tuple(number for _, number in able[: job.nodes]),
        )

    def _price(self, job: PolicyJob) -> float:
        return self.work_price * job.work_s + self.urgency_price * (job.work_s / job.patience_s)

    def _able(
        self, nodes: Sequence[SharedNode], job: PolicyJob, now: float
    ) -> list[tuple[int, int]]:
        """Load and number of the nodes that can finish the job. The load is in whole millionths:
        unrounded, a difference of 1e-12 would exchange equal nodes.
        """
        need = job.work_s / job.patience_s
        able = []
        for node in nodes:
            if node.is_up:
                load = need_of_all(node, now)
                if need + load <= FULL and has_space(node, job):
                    able.append((round(load * 1e6), node.number))
        return able

    def would_pass(
        self, nodes: Sequence[SharedNode], job: PolicyJob, now: float
    ) -> tuple[WouldPass, ...]:
        """As in ``SharingPolicy``."""
        return passing_terms(self, nodes, job, now)

    def spans(self, node: SharedNode, job: PolicyJob, now: float) -> Sequence[Span]:
        """E/D <= what the needs leave, and the cost within the budget: from some D on."""
        if not has_space(node, job):
            return ()
        conditions = [(FULL - need_of_all(node, now), job.work_s)]
        if job.budget is not None:
            for_urgency = job.budget - self.work_price * job.work_s
            conditions.append((for_urgency, self.urgency_price * job.work_s))
        return solve((0.0, NEVER), conditions)

    def least_price(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> float | None:
        """The price hangs on the job alone."""
        return self._price(job) if len(self._able(nodes, job, now)) >= job.nodes else None

    def rates(self, node: SharedNode, now: float) -> Sequence[float]:
        """Algorithm 2 of Libra+$."""
        return proportional_rates(node, now, self.control)

    def next_change(self, node: SharedNode, now: float) -> float:
        """An estimate used up or a deadline passed."""
        return next_change_of_need(node, now)
