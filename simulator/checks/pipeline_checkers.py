"""Pipelines as wholes: which stages a trip has, whether they keep their order, and what a failed
stage takes with it.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.simulator.checks.site_ledger import DONE

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import CheckedSite, CheckedWorld
    from gridtravel.simulator.checks.site_ledger import JobEntry, Promise

ORDERED: Final = "a stage runs after the one before it has ended well"
Legs = list[tuple["CheckedSite", "Promise"]]


def stages_of(world: CheckedWorld) -> dict[str, tuple[str, ...]]:
    """Names of the stages of each pipeline that a laptop knows, in order."""
    found: dict[str, tuple[str, ...]] = {}
    for laptop in world.laptops.values():
        for trip_id, story in laptop.stories().items():
            asked = json.loads(story.metajob_json) if story.metajob_json else {}
            if asked.get("stages"):
                found[trip_id] = tuple(each["name"] for each in asked["stages"])
    return found


def is_a_chain(stages: tuple[str, ...], kept: Legs) -> bool:
    """Every stage is there once, and none begins before the one before it ends."""
    by_name = {_leg(promise): promise.reservation for _, promise in kept}
    if len(by_name) < len(kept) or set(by_name) != set(stages):
        return False
    chain = [by_name[name] for name in stages]
    return all(before.end <= after.start for before, after in pairwise(chain))


def lost_by_failure(lost: Legs) -> bool:
    """True when each of these legs was let go because its own job had failed without starting."""
    return bool(lost) and all(_failed_before_its_start(*each) for each in lost)


def check_order(
    world: CheckedWorld,
    trip_id: str,
    stages: tuple[str, ...],
    legs: Legs,
    lying: frozenset[str] = frozenset(),
) -> None:
    """No job of a stage starts before that of the stage before has ended with success. ``lying``:
    stages at sites that lie, which may say that theirs has.
    """
    jobs: dict[str, list[JobEntry]] = {}
    for site, promise in legs:
        key = promise.reservation.reservation_id
        if promise.state in DONE or promise.state is ReservationState.RELEASED:
            inside = [each for each in site.ledger.jobs.values() if each.reservation_id == key]
            jobs.setdefault(_leg(promise), []).extend(inside)
    for before, stage in pairwise(stages):
        for job in jobs.get(stage, ()) if before not in lying else ():
            if job.started_s is None:
                continue
            done = [
                each
                for each in jobs.get(before, ())
                if each.over is not None
                and each.over.state is JobState.COMPLETED
                and each.over_s is not None
                and each.over_s <= job.started_s
            ]
            if not done:
                world.event_log.broken(
                    ORDERED, f"{trip_id}: {stage} began, {before} had not ended well", trip_id
                )


def _failed_before_its_start(site: CheckedSite, promise: Promise) -> bool:
    key = promise.reservation.reservation_id
    inside = [each for each in site.ledger.jobs.values() if each.reservation_id == key]
    return promise.state is ReservationState.RELEASED and any(
        each.started_s is None and each.over is not None and each.over.state is JobState.FAILED
        for each in inside
    )


def _leg(promise: Promise) -> str:
    trip = promise.reservation.request.trip
    assert trip is not None, "only legs of trips are here"
    return trip.leg
