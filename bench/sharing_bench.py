"""What an offer on shared nodes costs, by the number of nodes and of the jobs on them.

A node has three tasks. A job asks for one node; half of the offers are refused, and say what would
pass. Processor time, since other programs may be running.
"""

from __future__ import annotations

import math
import time
from itertools import pairwise

from bench.figures import Figure
from gridtravel.local_sched.admission.registry import SHARING, policy_named
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.sharing.shared_class import SharedClass

SIZES = (1_000, 10_000, 100_000)
TASKS = 3
OFFERS = 3
GROWTH_MOST = 2.0
"""An offer on ten times the nodes may cost this much more than ten times the time: it leaves the
caches of the processor."""


def a_job(number: int, work_s: float, deadline: float) -> PolicyJob:
    """One node, any price."""
    return PolicyJob(
        job_id=str(number),
        nodes=1,
        limit_s=1,
        estimate_s=work_s,
        submitted_at=0.0,
        sequence=number,
        deadline=deadline,
    )


def filled(name: str, nodes: int) -> SharedClass:
    """A class with ``TASKS`` jobs on each of its nodes."""
    policy = policy_named(name).sharing
    assert policy is not None
    shared = SharedClass("shared", [str(number) for number in range(nodes)], policy)
    for number in range(nodes * TASKS):
        terms = Admitted(node_numbers=(number % nodes,))
        shared.join(a_job(number, 100.0 + number % 7, 1_000.0 + number % 11), terms, 0.0)
    return shared


def offer_s(shared: SharedClass, deadline: float) -> float:
    """Processor seconds of one offer, the least of ``OFFERS``."""
    least_s = math.inf
    for number in range(OFFERS):
        job = a_job(len(shared.jobs) + number, 100.0, deadline)
        begun_s = time.process_time()
        shared.offer(job, 1.0 + number)
        least_s = min(least_s, time.process_time() - begun_s)
    return least_s


def measure() -> list[Figure]:
    """Milliseconds of an offer, and how they grow with the nodes."""
    figures = []
    for name in SHARING:
        for what, deadline in (("admitted", 2_000.0), ("refused", 101.0)):
            took = []
            for nodes in SIZES:
                took.append(offer_s(filled(name, nodes), deadline))
                label = f"{name}, offer {what}, {nodes:,} nodes"
                figures.append(Figure(name=label, value=took[-1] * 1e3, unit="ms"))
            growth = max(after / before / 10 for before, after in pairwise(took))
            figures.append(
                Figure(
                    name=f"{name}, offer {what}: growth over ten times the nodes, by ten",
                    value=growth,
                    unit="times",
                    must=GROWTH_MOST,
                )
            )
    return figures


if __name__ == "__main__":
    from bench.figures import show

    show(measure())
