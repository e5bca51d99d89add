"""Step 5 of the cycle: which waiting jobs may be planned at all, and why the others may not.

A job over a cap gives up its planned start and is passed over, so that it blocks nobody; it comes
back into its turn as soon as the cap allows. Nothing is done, and nothing costs time, where no cap
is set and nobody is on hold."""

from __future__ import annotations

from collections.abc import Mapping

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.config import JobLimits
from gridtravel.local_sched.scheduling.jobs import Job, WaitReason
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.usage import Usage, UsageBook


class Allowance:
    """What the caps leave for one cycle: running jobs, and those already passed in this cycle."""

    def __init__(self, limits: JobLimits, usage: UsageBook) -> None:
        self._limits = limits
        self._usage = usage
        self._users: dict[str, tuple[int, int]] = {}
        self._accounts: dict[str, tuple[int, int]] = {}

    def take(self, job: Job) -> WaitReason | None:
        """Count the job in, or say which cap it is over; in the order in which jobs are asked."""
        limits = self._limits
        user = _counted(self._users, self._usage.users, job.owner)
        account = _counted(self._accounts, self._usage.accounts, job.account)
        if _exceeds(
            user, job.nodes, limits.jobs_running_max_per_user, limits.nodes_running_max_per_user
        ):
            return WaitReason.USER_LIMIT
        if _exceeds(
            account,
            job.nodes,
            limits.jobs_running_max_per_account,
            limits.nodes_running_max_per_account,
        ):
            return WaitReason.ACCOUNT_LIMIT
        self._users[job.owner] = user[0] + 1, user[1] + job.nodes
        self._accounts[job.account] = account[0] + 1, account[1] + job.nodes
        return None


def _counted(
    taken: Mapping[str, tuple[int, int]], usage: Mapping[str, Usage], name: str
) -> tuple[int, int]:
    if name in taken:
        return taken[name]
    running = usage.get(name)
    return (0, 0) if running is None else (running.jobs_running, running.nodes_running)


def _exceeds(
    counted: tuple[int, int], nodes: int, jobs_max: int | None, nodes_max: int | None
) -> bool:
    if jobs_max is not None and counted[0] + 1 > jobs_max:
        return True
    return nodes_max is not None and counted[1] + nodes > nodes_max


def sort_out(pool: ResourcePool, allowance: Allowance | None, now: Instant) -> None:
    """Divide a pool's waiting jobs into those to be planned and those to be passed over.

    ``allowance``: the caps, ``None`` where none is set.
    """
    queue, aside = pool.queue, pool.set_aside
    if allowance is None and not aside and not pool.has_new_holds:
        return
    pool.has_new_holds = False
    key = queue.order.key
    everybody = sorted([*queue.jobs, *aside], key=lambda job: key(job, now))
    eligible: list[Job] = []
    passed_over: list[Job] = []
    for job in everybody:
        reason = job.hold_reason or (allowance.take(job) if allowance else None)
        if reason is None:
            eligible.append(job)
        else:
            job.reason = reason
            passed_over.append(job)
    if eligible == queue.jobs:
        return
    was_aside = {job.sequence for job in aside}
    for job in passed_over:
        if job.sequence not in was_aside:
            pool.backfill.drop_planned_start(job)
    back = [job for job in eligible if job.sequence in was_aside]
    for job in back:
        job.reason = WaitReason.NEW
    gone = {job.sequence for job in passed_over}
    queue.jobs = eligible
    queue.arrivals = [job for job in queue.arrivals if job.sequence not in gone] + back
    queue.is_reordered = True
    pool.set_aside = passed_over
