"""What a refused job may ask for instead, and then gets, all else as it is.

Three kinds of terms are tried: the same deadline at a larger budget, another deadline at the same
budget, and where neither passes the earliest possible deadline at its price. Deadlines are named
in whole seconds and budgets in thousandths of a credit, rounded up, as ledgers count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import ceil, floor, inf, isinf
from typing import Final, Protocol

from gridtravel.gridcore.booking.reservations import DURATION_LIMIT_S, Decline
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, WouldPass
from gridtravel.local_sched.policies.shared_nodes import SharedNode

Span = tuple[float, float]
"""From one time to deadline (D) to another, both possible; the last may be infinite."""

MARGIN_S: Final = 1e-3
"""A whole second nearer than this to the edge of a span is left out, for the roundings."""

LONGEST_S: Final = float(DURATION_LIMIT_S)
"""No deadline further off is named: it would be one in name only."""


class Seller(Protocol):
    """A policy that can say when a job would be possible, and for how much."""

    def admit(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> Admitted | Decline:
        """As in ``SharingPolicy``."""
        ...

    def spans(self, node: SharedNode, job: PolicyJob, now: float) -> Sequence[Span]:
        """Times to deadline at which the node could take the job within its budget, as if it were
        ours to choose; they do not overlap.
        """
        ...

    def least_price(self, nodes: Sequence[SharedNode], job: PolicyJob, now: float) -> float | None:
        """The smallest budget that passes at the job's deadline; ``None``: none does."""
        ...


def passing_terms(
    seller: Seller, nodes: Sequence[SharedNode], job: PolicyJob, now: float
) -> tuple[WouldPass, ...]:
    """Terms that pass at this moment, verified by asking; empty: there are none."""
    nodes_up = [node for node in nodes if node.is_up]
    if job.nodes > len(nodes_up):
        return ()
    dearer = _at_a_price(seller, nodes, job, now)
    later = _at_another_time(seller, nodes_up, job, now)
    found = [each for each in (dearer, later) if _passes(seller, nodes, each, now)]
    if not found:
        in_time = _at_another_time(seller, nodes_up, replace(job, budget=None), now)
        both = in_time and _at_a_price(seller, nodes, in_time, now, names_budget=True)
        found = [both] if _passes(seller, nodes, both, now) else []
    return tuple(
        WouldPass(deadline=each.deadline, budget=each.budget)
        for each in found
        if each is not None and each.deadline is not None
    )


def _passes(seller: Seller, nodes: Sequence[SharedNode], job: PolicyJob | None, now: float) -> bool:
    return job is not None and isinstance(seller.admit(nodes, job, now), Admitted)


def _at_a_price(
    seller: Seller,
    nodes: Sequence[SharedNode],
    job: PolicyJob,
    now: float,
    *,
    names_budget: bool = False,
) -> PolicyJob | None:
    if job.budget is None and not names_budget:
        return None
    if job.deadline is None or job.deadline <= now or job.patience_s <= 0:
        return None
    price = seller.least_price(nodes, job, now)
    return None if price is None else replace(job, budget=ceil(price * 1000) / 1000)


def _at_another_time(
    seller: Seller, nodes_up: Sequence[SharedNode], job: PolicyJob, now: float
) -> PolicyJob | None:
    spans_by_node = [seller.spans(node, job, now) for node in nodes_up]
    earliest = max(job.submitted_at, now) + MARGIN_S
    deadline = common_deadline(spans_by_node, job.nodes, job.submitted_at, earliest)
    return None if deadline is None else replace(job, deadline=deadline)


def common_deadline(
    spans_by_node: Iterable[Sequence[Span]], nodes: int, submitted_at: float, earliest: float
) -> float | None:
    """The first whole second from ``earliest`` on that lies, counted from ``submitted_at``, in a
    span of so many nodes; ``None``: there is none.
    """
    edges: list[tuple[float, int]] = []
    for spans in spans_by_node:
        last_before = -inf
        for start_s, end_s in sorted(spans):
            if start_s > LONGEST_S:
                continue
            first = max(ceil(submitted_at + start_s + MARGIN_S), ceil(earliest), last_before + 1)
            last = end_s if isinf(end_s) else floor(submitted_at + end_s - MARGIN_S)
            if first <= last:
                edges += [(first, -1), (last, 1)]
                last_before = last
    count = 0
    # At one second those that begin count before those that end: both edges are within.
    for at, edge in sorted(edges):
        count -= edge
        if count >= nodes:
            return float(at)
    return None


def solve(span: Span, conditions: Iterable[tuple[float, float]]) -> Sequence[Span]:
    """The part of a span in which slope x D >= bound for each (slope, bound); one span or none."""
    start_s, end_s = span
    for slope, bound in conditions:
        if slope > 0:
            start_s = max(start_s, bound / slope)
        elif slope < 0:
            end_s = min(end_s, bound / slope)
        elif bound > 0:
            return ()
    return ((start_s, end_s),) if start_s <= end_s else ()
