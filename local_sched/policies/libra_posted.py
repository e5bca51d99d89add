"""Libra+$ with a posted price: what a job pays does not hang on what it would have paid.

In Libra+$ the budget chooses the nodes: who declares more gets fuller and dearer ones, so that it
pays to declare little. Here the emptiest nodes are taken, as if there were no budget, and the
declared budget only says yes or no to their price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.local_sched.policies.dollar_pricing import AbleNode
from gridtravel.local_sched.policies.libra_dollar import LibraDollar
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.policies.shared_nodes import NEVER, SharedNode, refuse_by_budget


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraPosted(LibraDollar):
    """A ``SharingPolicy``."""

    def choose(
        self, nodes: Sequence[SharedNode], job: PolicyJob, able: Sequence[AbleNode]
    ) -> Admitted | Decline:
        """The nodes with the most room, by number where that is equal; the dearest is the price."""
        emptiest = sorted(able, key=lambda each: (-each[0], each[1]))[: job.nodes]
        price = max(self.cost(nodes[number], job, room) for _, number, room in emptiest)
        if price > (NEVER if job.budget is None else job.budget):
            return refuse_by_budget(job)
        numbers = tuple(number for _, number, _ in emptiest)
        return Admitted(price=price, deadline=job.deadline, node_numbers=numbers)
