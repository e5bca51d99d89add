"""The baselines of Libra+$ (section VII.B): backfilling that does not run what is late already.

Whoever asks is admitted at its price, E x PBase, and nothing is promised. A waiting job leaves the
queue once its deadline is over, so that it does not delay others. Order and backfill rule are those
of the queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import Admitted, PolicyJob, QueueView


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineBackfill:
    """A ``QueuePolicy``."""

    def admit(self, view: QueueView, job: PolicyJob) -> Admitted | Decline:
        """Everybody. What it costs is earned only when the job ends in time."""
        return Admitted(price=job.work_s, deadline=job.deadline)

    def prioritise(self, view: QueueView) -> Sequence[str] | None:
        """In the queue's own order."""
        return None

    def gives_up(self, job: PolicyJob, now: Instant) -> str:
        """A job whose deadline is before now would be run for nothing."""
        if job.deadline is not None and job.deadline < now:
            return "its deadline is over"
        return ""
