"""QoPS (Islam, Balaji, Sadayappan, Panda 2003 and 2004): deadlines on whole nodes, kept.

A job is admitted when some order of the queue lets it and everybody admitted before end in time
(slides, "The Basic QoPS Algorithm"): it is put first; a job that would be late becomes *critical*
and goes to the front, at most ``reorderings`` times; then the new job is put second, third, fifth
and so on, at last behind all. Whoever misses his deadline in no such order stays out, unless ending
a restartable job makes room for both (``kills``), and is told the deadline that would pass, found
by binary search and made looser by ``slack``.

An admission comes with the plan that proves it, a start for every waiting job. The queue takes the
plan over and moves nobody behind his start, so what was admitted stays in time as long as jobs keep
their limits; early ends only move starts forward.

Instants and lengths are in the queue's unit. Resource charge: nodes x estimate; QoS charge: the
slowdown usual in the job's category, over the slowdown that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, isfinite
from typing import Final

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.policies.policy import (
    Admitted,
    PolicyJob,
    QueueView,
    Refused,
    WouldPass,
)

Plan = Mapping[str, Instant]
"""A start for every waiting job, by id."""

WIDE_ABOVE: Final = 8
LONG_ABOVE_S: Final = 3600
"""Categories of jobs (slides): more nodes than this are wide, a longer run is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Qops:
    """A ``QueuePolicy``."""

    reorderings: float = 3
    """Critical jobs moved to the front for each position of the new job (k)."""
    feedback: float = 4
    """Steps of the binary search for a deadline that passes (N)."""
    slack: float = 1.0
    """Factor of the span from arrival to the deadline that is offered instead (SF)."""
    kill_candidates: float = 0
    """Running restartable jobs whose end is tried for a new job, least work lost first."""
    kill_grace: float = 0
    """Time until the nodes of a job that is ended are free, in the queue's unit."""
    relaxed: float = 86_400
    """Span within which a job without a deadline ends at the latest, in the queue's unit ..."""
    relaxed_factor: float = 2.0
    """... or so many times the span it could have on arrival, where that is longer (R)."""
    resource_price: float = 1.0
    """Credits for a node and unit of time."""
    urgency_price: float = 0.0
    """Credits for a QoS charge of 1."""
    slowdown_short: float = 1.0
    slowdown_long: float = 1.0
    slowdown_short_wide: float = 1.0
    slowdown_long_wide: float = 1.0
    """Slowdown usual here in each category, by the site's own records."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not (isfinite(value) and value >= 0):
                raise InputError(f"{name} must be a number, at least 0: {value}")
        if self.slack < 1:
            raise InputError(f"slack makes a deadline looser, so it is at least 1: {self.slack}")

    # -- the three questions -----------------------------------------------------------------------

    def admit(self, view: QueueView, job: PolicyJob) -> Admitted | Decline:
        """As asked; else by ending another; else what would pass."""
        if job.nodes > view.capacity:
            told = f"{job.nodes} nodes were asked for, {view.capacity} is all there is"
            return Decline(rule=DeclineRule.TOO_LARGE, message=told, nodes_now=view.capacity)
        price = self._price(job)
        if job.budget is not None and price > job.budget:
            told = f"it costs {price:.3f} credits, its budget is {job.budget:.3f}"
            passing = (WouldPass(deadline=_deadline(job), budget=price),)
            return Refused(rule=DeclineRule.BUDGET, message=told, would_pass=passing)
        asked = job if job.deadline is not None else self._relaxed(view, job)
        plan = self._search(view, asked)
        if plan is not None:
            return self._admitted(asked, plan, price)
        for victim in self._victims(view):
            found = self._search(_without(view, victim, self.kill_grace), asked)
            if found is not None:
                return self._admitted(
                    asked, found, price, kills=((victim.job_id, view.now + ceil(self.kill_grace)),)
                )
        return self._refuse(view, asked, price)

    def prioritise(self, view: QueueView) -> Sequence[str] | None:
        """By their starts, which an admission has dealt: the queue keeps to them."""
        del view
        return None

    def gives_up(self, job: PolicyJob, now: Instant) -> str:
        """Who was admitted is served."""
        del job, now
        return ""

    # -- the search --------------------------------------------------------------------------------

    def _search(self, view: QueueView, job: PolicyJob) -> Plan | None:
        """The basic algorithm; at last the new job where it disturbs nobody."""
        others = sorted(view.waiting, key=_as_planned)
        for position in _positions(len(others)):
            plan = self._reordered(view, [*others[:position], job, *others[position:]])
            if plan is not None:
                return plan
        undisturbed = _undisturbed(view, job)
        if undisturbed is None or not all(_keeps(undisturbed, each) for each in (*others, job)):
            return None
        return undisturbed

    def _reordered(self, view: QueueView, order: list[PolicyJob]) -> Plan | None:
        """The plan in this order, critical jobs moved to the front; ``None``: one stays late."""
        for _ in range(int(self.reorderings) + 1):
            plan, late = _planned(view, order)
            if late is None:
                return plan
            if order[0] is late:
                return None
            order = [late, *(each for each in order if each is not late)]
        return None

    def _victims(self, view: QueueView) -> list[PolicyJob]:
        """Running jobs that may be ended, least work lost first."""
        able = [each for each in view.running if each.is_restartable]
        able.sort(key=lambda each: (each.nodes * (view.now - (each.started_at or 0)), each.job_id))
        return able[: int(self.kill_candidates)]

    # -- answers -----------------------------------------------------------------------------------

    def _admitted(
        self, job: PolicyJob, plan: Plan, price: float, kills: tuple[tuple[str, Instant], ...] = ()
    ) -> Admitted:
        return Admitted(price=price, deadline=job.deadline, plan=tuple(plan.items()), kills=kills)

    def _refuse(self, view: QueueView, job: PolicyJob, price: float) -> Decline:
        """Binary search between the deadline that was asked for and one that is certain."""
        certain = _undisturbed(view, job)
        told = "it cannot be finished by its deadline without making others late"
        if certain is None:
            return Refused(rule=DeclineRule.DEADLINE, message=told)
        infeasible, feasible = _deadline(job), certain[job.job_id] + _length(job)
        for _ in range(int(self.feedback)):
            middle = ceil((infeasible + feasible) / 2)
            if self._search(view, replace(job, deadline=middle)) is None:
                infeasible = middle
            else:
                feasible = middle
        offered = ceil(job.submitted_at + (feasible - job.submitted_at) * self.slack)
        if self._search(view, replace(job, deadline=offered)) is None:
            offered = feasible
        budget = None if job.budget is None else max(job.budget, price)
        return Refused(
            rule=DeclineRule.DEADLINE,
            message=f"{told}; {offered} would pass",
            would_pass=(WouldPass(deadline=offered, budget=budget),),
        )

    def _relaxed(self, view: QueueView, job: PolicyJob) -> PolicyJob:
        """A job without a deadline gets a loose one, so that it does not starve."""
        certain = _undisturbed(view, job)
        span = self.relaxed
        if certain is not None:
            end = certain[job.job_id] + _length(job)
            span = max(span, self.relaxed_factor * (end - job.submitted_at))
        return replace(job, deadline=ceil(job.submitted_at + span))

    def _price(self, job: PolicyJob) -> float:
        """The resource charge, and for a job with a deadline the QoS charge."""
        resource = self.resource_price * job.nodes * job.work_s
        if job.deadline is None:
            return resource
        usual = {
            (False, False): self.slowdown_short,
            (True, False): self.slowdown_long,
            (False, True): self.slowdown_short_wide,
            (True, True): self.slowdown_long_wide,
        }[job.work_s > LONG_ABOVE_S, job.nodes > WIDE_ABOVE]
        # Both spans in the queue's unit, which need not be seconds.
        return resource + self.urgency_price * usual * job.limit_s / max(job.patience_s, 1e-9)


def _planned(
    view: QueueView, order: Sequence[PolicyJob]
) -> tuple[dict[str, Instant], PolicyJob | None]:
    """A start for each job, in this order, as early as it fits; the first that would be late."""
    room = view.availability()
    plan: dict[str, Instant] = {}
    for job in order:
        length = _length(job)
        start = room.earliest_fit(job.nodes, length, view.now)
        if start is None or (job.deadline is not None and start + length > job.deadline):
            return plan, job
        room.book(job.nodes, start, start + length)
        plan[job.job_id] = start
    return plan, None


def _undisturbed(view: QueueView, job: PolicyJob) -> dict[str, Instant] | None:
    """The others where they are, and the new job as early as that leaves room; ``None``: never."""
    room, plan = view.availability(), {}
    length = _length(job)
    for each in sorted(view.waiting, key=_as_planned):
        start = each.planned_start
        if start is None or start < view.now:
            start = room.earliest_fit(each.nodes, _length(each), view.now)
        if start is None:
            continue
        room.book(each.nodes, start, start + _length(each))
        plan[each.job_id] = start
    start = room.earliest_fit(job.nodes, length, view.now)
    return None if start is None else {**plan, job.job_id: start}


def _keeps(plan: Plan, job: PolicyJob) -> bool:
    start = plan.get(job.job_id)
    return job.deadline is None or (start is not None and start + _length(job) <= job.deadline)


def _without(view: QueueView, victim: PolicyJob, grace: float) -> QueueView:
    """The view as it is when ``victim`` is ended: its nodes come free, and it waits again."""
    room: AvailabilityProfile = view.availability()
    free_from = view.now + ceil(grace)
    end = victim.booked_until
    if end is not None and end > free_from:
        room.unbook(victim.nodes, free_from, int(end))
    again = replace(victim, started_at=None, planned_start=None, booked_until=None)
    return replace(
        view,
        waiting=(*view.waiting, again),
        running=tuple(each for each in view.running if each.job_id != victim.job_id),
        room_steps=tuple(room.steps()),
    )


def _positions(others: int) -> Iterator[int]:
    """Where the new job is tried: 0, 1, 2, 4, 8 and so on, and behind all."""
    yield 0
    position = 1
    while position < others:
        yield position
        position *= 2
    if others:
        yield others


def _as_planned(job: PolicyJob) -> tuple[float, int]:
    start = float("inf") if job.planned_start is None else job.planned_start
    return start, job.sequence


def _length(job: PolicyJob) -> Instant:
    return job.limit_s


def _deadline(job: PolicyJob) -> Instant:
    assert job.deadline is not None, "relaxed jobs have one"
    return int(job.deadline)
