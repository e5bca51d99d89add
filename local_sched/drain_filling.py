"""Use of nodes that drain for a reservation of named nodes: by jobs that are over before it begins.

The plan leaves these nodes out (``node_drains``), so this comes after it: whoever still waits, in
the order of the queue, may start wholly on idle nodes of a drain if his limit ends in time. He
gives up his place for it and nobody else's changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridcore.node_sets import lowest_bits

if TYPE_CHECKING:
    from gridcore.instants import Instant
    from local_sched.jobs import Job
    from local_sched.resource_pools import ResourcePool


def fill_drains(pool: ResourcePool, now: Instant) -> list[Job]:
    """Jobs that start now on draining nodes: booked, with their nodes, and out of the queue."""
    if pool.nodes is None or not pool.nodes.idle & pool.drains.draining(now):
        return []
    may_overtake = pool.backfill.rule.depth != 0
    started = []
    for job in list(pool.queue.jobs):
        if _start_in_drain(pool, job, now):
            started.append(job)
        elif not may_overtake:
            break
    return started


def _start_in_drain(pool: ResourcePool, job: Job, now: Instant) -> bool:
    names, drains, profile = pool.nodes, pool.drains, pool.profile
    assert names is not None, "only named nodes drain"
    end, planned = now + job.limit_s, job.planned_start
    mask = lowest_bits(
        names.idle & drains.draining(now) & ~drains.barred(now, end),
        job.nodes,
    )
    if mask is None:
        return False
    pool.backfill.give_up_place(job)
    drains.occupied(mask, end, now)
    if not profile.fits(job.nodes, now, end):
        if planned is not None:
            pool.backfill.keep_place(job, planned)
        drains.vacated(mask, now)
        return False
    pool.queue.remove(job)
    profile.book(job.nodes, now, end)
    job.room_until, job.node_mask = end, mask
    names.idle &= ~mask
    return True
