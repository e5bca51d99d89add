"""Jobs and classes for tests of nodes that several jobs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gridtravel.local_sched.policies.policy import Admitted, PolicyJob
from gridtravel.local_sched.policies.shared_nodes import SharingPolicy
from gridtravel.local_sched.sharing.shared_class import SharedClass


def a_job(
    name: str = "a", work_s: float = 10, deadline: float | None = 100, **others: Any
) -> PolicyJob:
    """One node for ten seconds of processor time within the first hundred seconds."""
    chosen: dict[str, Any] = {"nodes": 1, "submitted_at": 0.0, "sequence": ord(name[0]) - 96}
    return PolicyJob(
        job_id=name, limit_s=1, estimate_s=work_s, deadline=deadline, **{**chosen, **others}
    )


def a_class(policy: SharingPolicy, nodes: int = 1, **others: Any) -> SharedClass:
    """Nodes n0, n1, ..."""
    return SharedClass("shared", [f"n{number}" for number in range(nodes)], policy, **others)


def let_in(shared: SharedClass, job: PolicyJob, now: float = 0.0) -> Admitted:
    """Offer a job and let it join; it must be admitted."""
    terms = shared.offer(job, now)
    assert isinstance(terms, Admitted), terms
    shared.join(job, terms, now)
    shared.validate()
    return terms


def rates_of(shared: SharedClass) -> Mapping[str, list[float]]:
    """The rates of each job's tasks, in order of their nodes."""
    return {
        job_id: [task.rate for _, task in sorted(one.tasks.items())]
        for job_id, one in shared.jobs.items()
    }
