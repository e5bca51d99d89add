"""One workload, one policy of the registry: who is accepted, at what price, when does it end?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.admission.registry import SitePolicy, policy_named
from gridtravel.simulator.economy.queue_world import QueueWorld
from gridtravel.simulator.economy.shared_world import SharedWorld
from gridtravel.simulator.economy.workload import Decision, EconomyJob


def decide(jobs: Sequence[EconomyJob], policy: SitePolicy, procs: int) -> list[Decision]:
    """What becomes of each job on a machine of ``procs`` processors; ``jobs`` in order of
    submission.
    """
    if procs < 1:
        raise InputError(f"a machine has at least 1 processor, not {procs}")
    if policy.sharing is not None:
        return SharedWorld(jobs, procs, policy.sharing).run()
    return QueueWorld(jobs, procs, policy).run()


def policy_with_prices(name: str, settings: Mapping[str, object]) -> SitePolicy:
    """A policy of the registry that goes by deadlines and names prices; ``InputError`` for another:
    it would ignore what the workload says.
    """
    policy = policy_named(name, settings)
    if policy.sharing is None and policy.queue is None:
        raise InputError(
            f"{name} knows no deadlines and no prices", hint="gurlab replay serves plain queues"
        )
    return policy
