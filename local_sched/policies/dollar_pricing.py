"""Prices by what is left of a node, and whom they let in: equations 3 to 6, Algorithm 1 of Libra+$.

Yeo and Buyya, "Pricing for Utility-driven Resource Management and Allocation in Clusters". The
price of a unit of a resource on a node is P = alpha PBase + beta PUtil with PUtil = RESMax /
RESFree x PBase, from the arrival to the deadline of the job (D). Units are seconds of processor
time, and megabytes of memory and disk for as long as they are held.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final, NamedTuple

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.policies.passing_terms import Span, passing_terms
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, WouldPass
from gridtravel.local_sched.policies.shared_nodes import (
    NEVER,
    SharedNode,
    has_space,
    refuse_at_sight,
    refuse_by_budget,
    refuse_by_deadline,
)

LEAST_ROOM: Final = 1e-6
"""Part of a resource that a node must have left to be eligible: prices stay finite."""
ORDER_STEPS: Final = 10
"""Nodes are put in order by their room in whole tenths of a second, and by number."""

AbleNode = tuple[int, int, float]
"""Room in whole tenths of a second, number and exact room of a node that can finish a job."""


def utilisation_price(most: float, free: float, base: float) -> float:
    """PUtil, equation 4: what a unit costs by how little is left of it."""
    return most / free * base


@dataclass(frozen=True, slots=True, kw_only=True)
class DollarPolicy(ABC):
    """Admission by Algorithm 1; which nodes can finish a job, and with how much room, is left to
    the policies.
    """

    beta: float
    """Weight of the price by utilisation."""
    alpha: float = 1.0
    """Weight of the base price."""
    processor_price: float = 1.0
    """PBase in credits for a second of processor time."""
    memory_price: float = 0.0
    """PBase in credits for a megabyte of memory."""
    disk_price: float = 0.0
    """PBase in credits for a megabyte of disk."""

    def __post_init__(self) -> None:
        prices = self.beta, self.alpha, self.processor_price, self.memory_price, self.disk_price
        if not all(isfinite(each) and each >= 0 for each in prices):
            raise InputError("a price must be a number, at least 0: a site pays no user")

    @abstractmethod
    def room_s(self, node: SharedNode, job: PolicyJob, now: float) -> float:
        """RESFree of processor time, the job's own already deducted; 0 or less: the node cannot
        finish the job.
        """

    @abstractmethod
    def room_spans(
        self, node: SharedNode, job: PolicyJob, now: float, least: float
    ) -> Sequence[Span]:
        """Times to deadline D at which ``room_s`` is at least ``least`` x D; no overlaps."""

    def admit(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Admitted | Decline:
        """Algorithm 1: lines 9 to 16, then 17 to 34."""
        refusal = refuse_at_sight(nodes, job, now)
        if refusal is not None:
            return refusal
        able = self.able(nodes, job, now)
        if len(able) < job.nodes:
            return refuse_by_deadline(job, len(able))
        able.sort()
        return self.choose(nodes, job, able)

    def able(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> list[AbleNode]:
        """The nodes that can finish the job before its deadline (lines 9 to 13)."""
        least_s = LEAST_ROOM * job.patience_s
        needs_space = job.memory_mb or job.disk_mb
        room_s = self.room_s
        found = []
        for node in nodes:
            if node.is_up:
                room = room_s(node, job, now)
                if room > least_s and (not needs_space or _space_lasts(node, job)):
                    found.append((round(room * ORDER_STEPS), node.number, room))
        return found

    def choose(
        self, nodes: Sequence[SharedNode], job: PolicyJob, able: Sequence[AbleNode]
    ) -> Admitted | Decline:
        """The fullest nodes that the budget pays for (lines 18 to 34), ``able`` being in order; the
        job costs what the dearest of them does.
        """
        budget = NEVER if job.budget is None else job.budget
        taken: list[int] = []
        price = 0.0
        for _, number, room in able:
            cost = self.cost(nodes[number], job, room)
            if cost <= budget:
                taken.append(number)
                price = max(price, cost)
                if len(taken) == job.nodes:
                    return Admitted(price=price, deadline=job.deadline, node_numbers=tuple(taken))
        return refuse_by_budget(job, len(taken))

    def cost(self, node: SharedNode, job: PolicyJob, room_s: float) -> float:
        """What the job costs on a node: its units of each resource times their price (eq. 3)."""
        patience_s = job.patience_s
        cost = job.work_s * self._price(patience_s, room_s, self.processor_price)
        for space, base in zip(_spaces(node, job), self._space_prices, strict=True):
            if space.units and base:
                free = space.free(patience_s)
                cost += space.units * self._price(space.most * patience_s, free, base)
        return cost

    @property
    def _space_prices(self) -> tuple[float, float]:
        return self.memory_price, self.disk_price

    def _price(self, most: float, free: float, base: float) -> float:
        """P of equation 3; a resource that has no end has its base price by use too."""
        used = base if free == NEVER else utilisation_price(most, free, base)
        return self.alpha * base + self.beta * used

    # --- what would pass ---

    def would_pass(
        self, nodes: Sequence[SharedNode], job: PolicyJob, now: float
    ) -> tuple[WouldPass, ...]:
        """As in ``SharingPolicy``."""
        return passing_terms(self, nodes, job, now)

    def least_price(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> float | None:
        """What the cheapest nodes cost that can finish the job."""
        costs = sorted(
            self.cost(nodes[number], job, room) for _, number, room in self.able(nodes, job, now)
        )
        return costs[job.nodes - 1] if len(costs) >= job.nodes else None

    def spans(self, node: SharedNode, job: PolicyJob, now: float) -> Sequence[Span]:
        """By room and price. Where memory or disk have a price, none is named for a budget: the sum
        of the prices has no simple inverse.
        """
        if not has_space(node, job):
            return ()
        least = LEAST_ROOM * 1.1
        if job.budget is not None:
            if job.memory_mb * self.memory_price or job.disk_mb * self.disk_price:
                return ()
            # work x PBase x (alpha + beta D / room) <= budget
            for_use = job.budget - self.alpha * self.processor_price * job.work_s
            if for_use < 0:
                return ()
            dear = self.beta * self.processor_price * job.work_s
            if dear > 0:
                least = max(least, dear / for_use if for_use > 0 else NEVER)
        if least >= 1:
            return ()
        first_s = 0.0
        for space in _spaces(node, job):
            if space.units and space.most < NEVER:
                lasting = (1 - 1.1 * LEAST_ROOM) * space.most - space.units
                if lasting <= 0:
                    return ()
                first_s = max(first_s, space.committed / lasting)
        return [
            (max(start_s, first_s), end_s)
            for start_s, end_s in self.room_spans(node, job, now, least)
            if end_s >= first_s
        ]


class _Space(NamedTuple):
    """Memory or disk of a node, as one more job finds it."""

    units: float
    """What the job needs of it."""
    most: float
    committed: float
    """What the tasks there hold: units x D of each, for as long as it is on the node."""

    def free(self, patience_s: float) -> float:
        """RESFree until the job's deadline, its own part deducted."""
        return (self.most - self.units) * patience_s - self.committed


def _spaces(node: SharedNode, job: PolicyJob) -> tuple[_Space, _Space]:
    """Memory, disk."""
    memory = disk = 0.0
    for task in node.tasks:
        memory += task.memory_mb * task.patience_s
        disk += task.disk_mb * task.patience_s
    return (
        _Space(job.memory_mb, node.memory_mb, memory),
        _Space(job.disk_mb, node.disk_mb, disk),
    )


def _space_lasts(node: SharedNode, job: PolicyJob) -> bool:
    """True when memory and disk are free now, and RESFree of both is above its least."""
    return has_space(node, job) and all(
        not space.units
        or space.free(job.patience_s) > LEAST_ROOM * space.most * job.patience_s
        or space.most == NEVER
        for space in _spaces(node, job)
    )
