"""Reservations of particular nodes at a particular time, for administrators (Catalina's set_res).

The calendar counts such a reservation like any other; ``node_drains`` keeps jobs off the nodes.
Running jobs keep their limits, so it is refused where one of them may still be on a named node when
it would begin. Waiting jobs make way, as they do for other reservations of the site."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Decline, DeclineRule, ReservationRequest
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.local_sched.reservations.system import SystemDecision
from gridtravel.local_sched.reservations.user_reservations import SYSTEM_OWNER
from gridtravel.local_sched.scheduling.node_drains import NodeDrain, bits
from gridtravel.local_sched.scheduling.pool import ResourcePool
from gridtravel.local_sched.scheduling.scheduler import LocalScheduler

TOLD_MAX: Final = 8
"""Nodes or jobs that a refusal names; of more it gives the number."""


def fixed_request(
    request_id: str, names: Sequence[str], start: Instant, end: Instant, email: str = ""
) -> ReservationRequest:
    """The request behind a reservation of named nodes: their number, at exactly this time."""
    if end <= start:
        raise InputError("the reservation ends before it starts", hint="give a later end")
    return ReservationRequest(
        request_id=request_id,
        account=SYSTEM_OWNER,
        nodes_min=len(names),
        nodes_max=len(names),
        duration_s=end - start,
        earliest_start=start,
        latest_end=end,
        notify_email=email,
    )


def decide_fixed_nodes(
    calendar: Calendar,
    scheduler: LocalScheduler,
    names: Sequence[str],
    request: ReservationRequest,
    now: Instant,
    *,
    is_dry_run: bool = False,
) -> SystemDecision:
    """The reservation of exactly these nodes, or a ``Decline`` that names what is in its way.

    The events must be applied and ``scheduler.drain_nodes`` be called before anything else is asked
    of the scheduler: planned starts are given up here."""
    scheduler.end_drains(now)
    pool = _pool_of(scheduler, names)
    known = calendar.find_request(SYSTEM_OWNER, request.request_id)
    if known is None:
        refusal = _refuse(calendar.site, pool, scheduler, names, request, now)
        if refusal is not None:
            return SystemDecision(refusal)
    availability = {}
    for name, each in scheduler.pools.items():
        availability[name] = each.availability_without_queue(now)
        if each is not pool:
            availability[name] = AvailabilityProfile(0, now)
    answer, events = calendar.decide_reserve(
        request, SYSTEM_OWNER, None, now, availability=availability
    )
    if isinstance(answer, Decline) or not events:
        return SystemDecision(answer)
    drain = pool.drain_for(answer, names, scheduler.longest_limit_s)
    steps = _steps_of(calendar, scheduler, pool, drain, now)
    refusal = _refuse_drain(calendar, pool, steps, drain.start)
    if refusal is not None:
        return SystemDecision(refusal)
    if is_dry_run:
        return SystemDecision(answer)
    displaced = pool.displace(answer.nodes, answer.start, answer.end)
    for step in steps:
        displaced += pool.displace(min(step.wanted, step.availability), step.at, step.until)
    displaced.sort(key=lambda job: job.sequence)
    return SystemDecision(answer, events, tuple(displaced))


def _pool_of(scheduler: LocalScheduler, names: Sequence[str]) -> ResourcePool:
    """The class that all the nodes are of; a refusal names the node that is not."""
    if not names or len(set(names)) != len(names):
        raise InputError("no node is named, or one is named twice", hint="name each node once")
    found: dict[str, ResourcePool] = {}
    for name in names:
        for pool in scheduler.pools.values():
            if pool.nodes is not None and name in pool.nodes.names:
                found[pool.name] = pool
                break
        else:
            if scheduler.shared.class_of_node(name) is not None:
                raise InputError(
                    f"{name} is shared by jobs, and is promised to nobody whole",
                    hint="to keep jobs off it: catalina node-down, with --jobs notify",
                )
            classes = ", ".join(
                f"{pool.nodes.names[0]} to {pool.nodes.names[-1]}"
                for pool in scheduler.pools.values()
                if pool.nodes is not None
            )
            raise NotFoundError(f"no node is called {name[:80]!r}", hint=f"nodes: {classes}")
    if len(found) > 1:
        raise InputError(
            f"the nodes are of several classes: {', '.join(found)}",
            hint="make one reservation for each class",
        )
    return next(iter(found.values()))


def _refuse(
    site: str,
    pool: ResourcePool,
    scheduler: LocalScheduler,
    names: Sequence[str],
    request: ReservationRequest,
    now: Instant,
) -> Decline | None:
    """What is on the nodes themselves: other reservations of them, and running jobs."""
    assert pool.nodes is not None, "they have names"
    start, end = request.earliest_start, request.latest_end
    if start < now:
        message = f"{site}: the start lies {now - start} s back"
        return Decline(rule=DeclineRule.WINDOW_PAST, message=message, earliest=now, site=site)
    mask = 0
    for name in names:
        mask |= pool.nodes.bit_of(name)
    for other in pool.drains:
        common = other.mask & mask
        if common and other.start < end and start < other.end:
            message = (
                f"{site}: {_listed(pool.nodes.named(common))} reserved already, by"
                f" {other.reservation_id}"
            )
            return Decline(rule=DeclineRule.NO_ROOM, message=message, earliest=other.end, site=site)
    late = [
        job
        for job in scheduler.running.values()
        if job.class_name == pool.name and job.node_mask & mask and job.booked_until > start
    ]
    if not late:
        return None
    used = 0
    for job in late:
        used |= job.node_mask & mask
    message = (
        f"{site}: jobs may still run then on {_listed(pool.nodes.named(used))}:"
        f" {_listed([job.job_id for job in late])}"
    )
    free_at = max(job.booked_until for job in late)
    return Decline(rule=DeclineRule.NO_ROOM, message=message, earliest=free_at, site=site)


def _refuse_drain(
    calendar: Calendar, pool: ResourcePool, steps: Sequence[DrainStep], start: Instant
) -> Decline | None:
    """A reservation that goes on when the new one starts must have found other nodes by then. Where
    it leaves less than the drain needs, no names can be promised for it.
    """
    across = [
        each
        for each in calendar.live()
        if each.resource_class == pool.name
        and each.start < start < each.end
        and each.reservation_id not in pool.drains
    ]
    for step in steps:
        found = [each for each in across if each.start < step.until]
        if step.availability < step.wanted and found:
            message = (
                f"{calendar.site}: {_listed([each.reservation_id for each in found])} would lack"
                " nodes that stay free throughout; reserve after the end, or other nodes"
            )
            return Decline(
                rule=DeclineRule.NO_ROOM,
                message=message,
                earliest=max(each.end for each in found),
                site=calendar.site,
            )
    return None


class DrainStep(NamedTuple):
    """A stretch before the start: nodes that are to drain in it, and nodes that the queue leaves or
    could leave.
    """

    at: Instant
    until: Instant
    wanted: int
    availability: int


def _steps_of(
    calendar: Calendar,
    scheduler: LocalScheduler,
    pool: ResourcePool,
    drain: NodeDrain,
    now: Instant,
) -> list[DrainStep]:
    """From when each node is idle, as steps."""
    assert pool.nodes is not None, "they have names"
    earliest = max(now, drain.drain_from)
    idle_from = {
        node: max(earliest, pool.drains.ends_before(drain, node))
        for node in bits(drain.mask & ~pool.nodes.down)
    }
    for job in scheduler.running.values():
        if job.class_name == pool.name:
            for node in bits(job.node_mask & drain.mask & ~pool.nodes.down):
                idle_from[node] = max(idle_from[node], job.booked_until)
    availability = pool.availability_without_queue(now)
    edges = {*idle_from.values(), *availability.times, *(each.start for each in calendar.live())}
    moments = sorted(each for each in edges if earliest <= each < drain.start)
    return [
        DrainStep(
            at,
            until,
            sum(1 for each in idle_from.values() if each <= at),
            availability.min_free(at, until),
        )
        for at, until in pairwise([*moments, drain.start])
    ]


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - TOLD_MAX} more" if len(words) > TOLD_MAX else ""
    return ", ".join(words[:TOLD_MAX]) + more
