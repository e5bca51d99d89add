"""What a job must be to be taken, whether it is submitted or comes with the hold of a leg."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    PassingTerms,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.local_sched.admission.admit import admit, refuse_job

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore
    from gridtravel.local_sched.scheduling.jobs import Job


def accepted(core: AgentCore, spec: JobSpec, owner: str) -> Job | Decline:
    """The job as the scheduler will have it, or what its limits say."""
    clock = core.clock
    answer = admit(core.scheduler, spec, owner, core.jobs.next_id, clock.now(), clock.now_precise())
    return _said_by(core, answer) if isinstance(answer, Decline) else answer


def refuse_into(core: AgentCore, spec: JobSpec, reservation: Reservation) -> Decline | None:
    """Why a job is not taken into a reservation that it names; ``None``: it is."""
    refusal = refuse_inside(spec, reservation)
    if reservation.state is not ReservationState.COMMITTED:
        told = f"reservation {spec.reservation_id} is {reservation.state}"
        refusal = Decline(rule=DeclineRule.STATE, message=told)
    return None if refusal is None else _said_by(core, refusal)


def refuse_with_hold(
    core: AgentCore, spec: JobSpec, owner: str, hold: Reservation
) -> Decline | None:
    """Why a job may not come with ``hold``, which is about to be granted; ``None``: it may."""
    refusal = refuse_inside(spec, hold) or refuse_job(core.scheduler, spec, owner, core.clock.now())
    if refusal is not None:
        return _said_by(core, refusal)
    missing = set(spec.features) - core.scheduler.pools[hold.resource_class].features
    if not missing:
        return None
    told = f"the nodes of its reservation do not have {', '.join(sorted(missing))}"
    return _said_by(core, Decline(rule=DeclineRule.FEATURES, message=told))


def refuse_shared(core: AgentCore, request: ReservationRequest) -> Decline | None:
    """Why nothing is reserved where only shared nodes have the features; ``None``: others have
    them, or none.
    """
    wanted = set(request.features)
    if any(wanted.issubset(each.features) for each in core.calendar.classes.values()):
        return None
    shared = next(core.scheduler.shared.of_features(request.features), None)
    if shared is None:
        return None
    told = (
        f"the nodes of {shared.name} are shared by jobs, and none is promised whole at a time;"
        " submit a job with a deadline instead"
    )
    return _said_by(core, Decline(rule=DeclineRule.FEATURES, message=told))


def price_of(core: AgentCore, job: Job) -> int:
    """The most that a job may cost, in millicredits: what its policy agreed, else its limit by the
    tariff. One in a reservation is paid for by that.
    """
    if job.bound_to:
        return 0
    if job.terms is not None:
        return job.terms.price_millicredits
    tariff = core.calendar.tariff
    one = tariff.unit_price_millicredits(job.class_name, job.submitted_at, job.limit_s)
    return one * job.nodes


def refuse_price(core: AgentCore, spec: JobSpec, millicredits: int) -> Decline | None:
    """Why a job is not taken at this price; ``None``: its budget allows it. Where accounts do not
    pay a tariff is only told, and a policy has asked for the budget before.
    """
    budget = spec.budget_millicredits
    if budget is None or millicredits <= budget or not core.cashier.collects:
        return None
    told = f"it may cost {millicredits} millicredits, its budget is {budget}"
    passing: tuple[PassingTerms, ...] = ()
    if spec.deadline is not None:
        passing = (PassingTerms(deadline=spec.deadline, budget_millicredits=millicredits),)
    return _said_by(core, Decline(rule=DeclineRule.BUDGET, message=told, passing=passing))


def refuse_inside(spec: JobSpec, reservation: Reservation) -> Decline | None:
    """Why a job does not fit into its reservation; ``None``: it does."""
    if spec.nodes > reservation.nodes:
        message = f"the job wants {spec.nodes} nodes, its reservation has {reservation.nodes}"
        return Decline(rule=DeclineRule.TOO_LARGE, message=message, nodes_now=reservation.nodes)
    duration_s = reservation.interval.duration_s
    if spec.limit_s > duration_s:
        message = (
            f"the job's limit of {spec.limit_s} s is longer than its reservation of {duration_s} s"
        )
        return Decline(rule=DeclineRule.LIMIT_DURATION, message=message)
    return None


def _said_by(core: AgentCore, refusal: Decline) -> Decline:
    site = core.calendar.site
    return replace(refusal, site=site, message=f"{site}: {refusal.message}")
