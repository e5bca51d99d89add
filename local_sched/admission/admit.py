"""What is checked before a job is accepted; a refusal is a ``Decline`` that says what would pass.

Nothing here changes anything: the shell journals the acceptance before the scheduler is told.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, PassingTerms
from gridtravel.gridcore.jobs.job import JobSpec, JobTerms
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.timing.timetext import format_utc
from gridtravel.local_sched.policies.policy import Admitted, Refused
from gridtravel.local_sched.scheduling.compression import FAR
from gridtravel.local_sched.scheduling.config import SchedulerMode
from gridtravel.local_sched.scheduling.eligibility import Allowance
from gridtravel.local_sched.scheduling.jobs import MILLI, Job
from gridtravel.local_sched.scheduling.policy_views import policy_job, queue_view
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler
from gridtravel.local_sched.scheduling.usage import Usage

NEEDS_DEADLINE: Final = (
    "its nodes are shared by jobs with deadlines: it must say one, and wait neither for a"
    " reservation nor in a race"
)
ROUNDING_MILLICREDITS: Final = 1e-6
"""What a price in floating point may be above whole millicredits without costing another one."""


def admit(
    scheduler: LocalScheduler,
    spec: JobSpec,
    owner: str,
    job_id: str,
    now: Instant,
    moment: float | None = None,
) -> Job | Decline:
    """The job, ready for ``submit``, or the rule that refuses it.

    The policy of its class is asked last. A job that goes into a reservation is paid for and
    promised by that, so no policy is asked. One with a deadline goes where nodes are shared, if
    such nodes have its features: nobody else promises deadlines for them. ``moment``: ``now`` to
    its fraction, from which its time counts there."""
    refusal = _refuse_length(scheduler, spec) or _past_deadline(spec, now)
    if refusal is not None:
        return refusal
    if _may_share(spec) and any(scheduler.shared.of_features(spec.features)):
        refusal = _over_caps(scheduler, spec, owner) or _refuse_service(scheduler, spec, owner)
        at = float(now) if moment is None else moment
        return refusal or _admit_to_shared(scheduler, spec, owner, job_id, now, at)
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
            return _with_passing_terms(answer)
        return _on_terms(job, answer, spec, float(now))
    return job


def _may_share(spec: JobSpec) -> bool:
    """True for a job that can say at once where it runs and by when it is over."""
    return spec.deadline is not None and not spec.reservation_id and spec.race is None


def _admit_to_shared(
    scheduler: LocalScheduler,
    spec: JobSpec,
    owner: str,
    job_id: str,
    now: Instant,
    moment: float,
) -> Job | Decline:
    """The job on the terms of the cheapest class that admits it, the first of equals; else what the
    first class says.
    """
    if scheduler.mode is not SchedulerMode.RUNNING:
        told = "the site starts no jobs at the moment, and on shared nodes nobody waits"
        return _refuse(DeclineRule.SUSPENDED, told)
    refusals: list[Decline] = []
    offers: list[tuple[float, Job]] = []
    for shared in scheduler.shared.of_features(spec.features):
        job = Job(job_id, spec.nodes, spec.limit_s, now, owner, spec.account, shared.name, spec)
        over = Allowance(scheduler.config.limits, scheduler.usage).take(job)
        if over is not None:
            return _refuse(DeclineRule.LIMIT_NODES, f"{over}, and on shared nodes nobody waits")
        asked = replace(policy_job(job), submitted_at=moment, sequence=scheduler.next_sequence)
        answer = shared.offer(asked, moment)
        if isinstance(answer, Decline):
            refusals.append(_with_passing_terms(answer))
            continue
        agreed = _on_terms(job, answer, spec, moment)
        if isinstance(agreed, Decline):
            refusals.append(agreed)
            continue
        offers.append((answer.price, agreed))
    if not offers:
        return refusals[0]
    return min(offers, key=lambda offer: offer[0])[1]


def _with_passing_terms(refusal: Decline) -> Decline:
    """What a policy says would pass, in whole seconds and millicredits: later, and more."""
    if not isinstance(refusal, Refused):
        return refusal
    passing = tuple(
        PassingTerms(
            deadline=math.ceil(each.deadline),
            budget_millicredits=None if each.budget is None else math.ceil(each.budget * MILLI),
        )
        for each in refusal.would_pass
    )
    return Decline(
        rule=refusal.rule,
        message=refusal.message,
        nodes_now=refusal.nodes_now,
        passing=passing,
    )


def _on_terms(job: Job, answer: Admitted, spec: JobSpec, agreed_at: float) -> Job | Decline:
    """The job as it was agreed; nobody pays above his budget, whatever a policy thinks of it."""
    terms = terms_of(answer, agreed_at)
    budget = spec.budget_millicredits
    if budget is not None and terms.price_millicredits > budget:
        told = f"its price is {terms.price_millicredits} millicredits, its budget {budget}"
        passing: tuple[PassingTerms, ...] = ()
        if spec.deadline is not None:
            passing = (
                PassingTerms(deadline=spec.deadline, budget_millicredits=terms.price_millicredits),
            )
        return Decline(rule=DeclineRule.BUDGET, message=told, passing=passing)
    job.terms, job.deadline = terms, terms.deadline
    job.plan, job.kills = answer.plan, answer.kills
    return job


def terms_of(answer: Admitted, agreed_at: float) -> JobTerms:
    """What a policy's yes binds the site to. The price is rounded up to whole millicredits, in
    which the budget was said, so one that is within the budget stays within it.
    """
    price = math.ceil(answer.price * MILLI - ROUNDING_MILLICREDITS)
    return JobTerms(
        agreed_at=agreed_at,
        price_millicredits=price,
        deadline=None if answer.deadline is None else math.floor(answer.deadline),
        node_numbers=answer.node_numbers,
    )


def refuse_job(
    scheduler: LocalScheduler, spec: JobSpec, owner: str, now: Instant
) -> Decline | None:
    """The rule that refuses a job wherever it would run; ``None``: there is none."""
    return (
        _refuse_length(scheduler, spec)
        or _past_deadline(spec, now)
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
    if not pools and any(scheduler.shared.of_features(spec.features)):
        return _refuse(DeclineRule.DEADLINE, NEEDS_DEADLINE)
    if not pools:
        found = {each for pool in scheduler.pools.values() for each in pool.features}
        found |= {each for one in scheduler.shared.classes.values() for each in one.features}
        known = sorted(found)
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


def _past_deadline(spec: JobSpec, now: Instant) -> Decline | None:
    if spec.deadline is None or spec.deadline > now:
        return None
    told = f"the deadline {format_utc(spec.deadline)} is over, it is {format_utc(now)} now"
    return _refuse(DeclineRule.DEADLINE, told)


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
