"""What is checked before a job is accepted; a refusal is a ``Decline`` that says what would pass.

Nothing here changes anything: the shell journals the acceptance before the scheduler is told.
"""

from __future__ import annotations

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.jobs import Job
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.usage import Usage


def admit(
    scheduler: LocalScheduler,
    spec: JobSpec,
    owner: str,
    job_id: str,
    now: Instant,
) -> Job | Decline:
    """The job, ready for ``submit``, or the rule that refuses it.

    The policy of its class is asked last. A job that goes into a reservation is paid for and
    promised by that, so no policy is asked."""
    refusal = _refuse_length(scheduler, spec)
    if refusal is not None:
        return refusal
    class_name = choose_class(scheduler, spec, now)
    if isinstance(class_name, Decline):
        return class_name
    refusal = _over_caps(scheduler, spec, owner) or _refuse_service(scheduler, spec, owner)
    if refusal is not None:
        return refusal
    job = Job(job_id, spec.nodes, spec.limit_s, now, owner, spec.account, class_name, spec)
    policy = scheduler.pools[class_name].policy
    if spec.reservation_id:
        job.bound_to = (spec.reservation_id,)
    elif policy is not None:
        answer = policy.admit(
            queue_view(scheduler.pools[class_name], scheduler.running.values(), now),
            policy_job(job),
        )
        if isinstance(answer, Decline):
            return answer
        job.deadline = None if answer.deadline is None else int(answer.deadline)
    return job


def refuse_job(scheduler: LocalScheduler, spec: JobSpec, owner: str) -> Decline | None:
    """The rule that refuses a job wherever it would run; ``None``: there is none."""
    return (
        _refuse_length(scheduler, spec)
        or _over_caps(scheduler, spec, owner)
        or _refuse_service(scheduler, spec, owner)
    )


def choose_class(
    scheduler: LocalScheduler, spec: JobSpec, now: Instant | None = None
) -> str | Decline:
    """The resource class a job waits for: its reservation's, else one with room for it in principle
    and all its features, where it would start first; of several the smallest, then the site's
    order. Without ``now`` nobody asks when it would start."""
    reservation = scheduler.reservation_jobs.book.reservations.get(spec.reservation_id)
    if reservation is not None:
        return reservation.resource_class
    pools = [pool for pool in scheduler.pools.values() if pool.features.issuperset(spec.features)]
    if not pools:
        known = sorted({each for pool in scheduler.pools.values() for each in pool.features})
        told = (
            f"no nodes with all of {', '.join(spec.features)}; known: {', '.join(known) or 'none'}"
        )
        return _refuse(DeclineRule.FEATURES, told)
    fitting = [pool for pool in pools if pool.profile.capacity >= spec.nodes]
    if not fitting:
        largest = max(pool.profile.capacity for pool in pools)
        told = f"{spec.nodes} nodes were asked for, {largest} is all there is"
        return _refuse(DeclineRule.TOO_LARGE, told, nodes_now=largest)
    if now is None or len(fitting) == 1:
        return min(fitting, key=lambda pool: pool.profile.capacity).name

    def first_start(pool: ResourcePool) -> tuple[Instant, int]:
        availability = scheduler.free_after_queue(pool.name, now)
        start = availability.earliest_fit(spec.nodes, spec.limit_s, now)
        return FAR if start is None else start, pool.profile.capacity

    return min(fitting, key=first_start).name


def _refuse_length(scheduler: LocalScheduler, spec: JobSpec) -> Decline | None:
    longest_s = scheduler.config.limits.limit_max_s
    if scheduler.mode is SchedulerMode.STOPPED:
        return _refuse(DeclineRule.SUSPENDED, "the site accepts no jobs at the moment")
    if longest_s is not None and spec.limit_s > longest_s:
        told = f"a limit of {spec.limit_s} s was asked for, {longest_s} s is the most"
        return _refuse(DeclineRule.LIMIT_DURATION, told)
    return None


def _over_caps(scheduler: LocalScheduler, spec: JobSpec, owner: str) -> Decline | None:
    limits = scheduler.config.limits
    if len(scheduler.waiting) >= limits.jobs_waiting_max:
        told = f"{limits.jobs_waiting_max} jobs wait at this site, more are not accepted"
        return _refuse(DeclineRule.LIMIT_JOBS, told)
    nothing = Usage()
    for what, cap, usage, nodes_max in (
        (
            f"user {owner}",
            limits.jobs_waiting_max_per_user,
            scheduler.usage.users.get(owner, nothing),
            limits.nodes_running_max_per_user,
        ),
        (
            f"account {spec.account}",
            limits.jobs_waiting_max_per_account,
            scheduler.usage.accounts.get(spec.account, nothing),
            limits.nodes_running_max_per_account,
        ),
    ):
        if cap is not None and usage.jobs_waiting >= cap:
            told = f"{what} has {usage.jobs_waiting} jobs waiting, {cap} is the most"
            return _refuse(DeclineRule.LIMIT_JOBS, told)
        if nodes_max is not None and spec.nodes > nodes_max:
            told = f"{what} may run on {nodes_max} nodes at a time, {spec.nodes} were asked for"
            return _refuse(DeclineRule.LIMIT_NODES, told, nodes_now=nodes_max)
    return None


def _refuse_service(scheduler: LocalScheduler, spec: JobSpec, owner: str) -> Decline | None:
    services, name = scheduler.config.services, spec.quality_of_service
    if not name or not services:
        return None
    service = services.get(name)
    allowed = [key for key, each in services.items() if key and each.is_for(owner, spec.account)]
    yours = ", ".join(allowed) or "none"
    if service is None:
        told = f"no quality of service is called {name[:60]!r}; yours: {yours}"
        return _refuse(DeclineRule.POLICY, told)
    if not service.is_for(owner, spec.account):
        told = f"the quality of service {name[:60]!r} is not for {owner}; yours: {yours}"
        return _refuse(DeclineRule.ACCOUNT, told)
    return None


def _refuse(rule: DeclineRule, message: str, nodes_now: int = 0) -> Decline:
    return Decline(rule=rule, message=message, nodes_now=nodes_now)
