"""Libra+$ with a posted price: what a job pays does not hang on what it would have paid.

In Libra+$ the budget chooses the nodes: who declares more gets fuller and dearer ones, so that it
pays to declare little. Here a job has the price of the emptiest nodes that could take it, whatever
its budget, which only says yes or no. It is placed on the fullest, as in Algorithm 1, so that wide
and urgent jobs still find room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.local_sched.policies.dollar_pricing import AbleNode
from gridtravel.local_sched.policies.libra_dollar import LibraDollar
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.policies.shared_nodes import SharedNode, refuse_by_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraPosted(LibraDollar):
    """A ``SharingPolicy``."""

    def choose(
        self, nodes: Sequence[SharedNode], job: PolicyJob, able: Sequence[AbleNode]
    ) -> Admitted | Decline:
        """The fullest nodes at the price of the emptiest."""
        costs = sorted(self.cost(nodes[number], job, room) for _, number, room in able)
        price = costs[job.nodes - 1]
        if job.budget is not None and price > job.budget:
            return refuse_by_budget(job)
        numbers = tuple(number for _, number, _ in able[: job.nodes])
        return Admitted(price=price, deadline=job.deadline, node_numbers=numbers)
