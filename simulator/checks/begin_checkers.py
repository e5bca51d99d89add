"""Begun together: of the legs of one start each begins, or none does (docs/protocol.md).

A leg begins when its site has stored that it runs. One that does not is forgiven only by what the
world itself has written down: its site was gone, cut off or heard no majority of the acceptors from
``CHECK_BEFORE_S`` before its start to the last second in which it may begin. What is forgiven is
counted by its reason, never silently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import Begin, ReservationState, TripRef
from gridtravel.gridcore.trips.registers import CHECK_BEFORE_S
from gridtravel.gridio.sites.trip_participation import BEGIN_WITHIN_S
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN

if TYPE_CHECKING:
    from gridtravel.simulator.checks.checked_world import CheckedSite, CheckedWorld
    from gridtravel.simulator.checks.site_ledger import Promise

TOGETHER: Final = "the legs of one start begin together"
LATE: Final = "a leg begins in time"
SLACK_S: Final = 5.0
"""For what stands on a slow disk later than it was decided."""


@dataclass(slots=True)
class CommonStart:
    """The legs of one attempt that start at one second."""

    trip: TripRef
    start: int
    begun: list[tuple[CheckedSite, Promise]] = field(default_factory=list)
    not_begun: list[tuple[CheckedSite, Promise | None]] = field(default_factory=list)
    """``None``: the leg was never held in this attempt."""


def start_s(site: CheckedSite, start: int, at_s: float | None = None) -> float:
    """Virtual second of an instant by a site's clock as that is set at ``at_s`` (now)."""
    return start - WORLD_BEGIN - site.clock.offset_s(at_s)


def check_begun(
    world: CheckedWorld, trip_id: str, *, undone_s: float | None, may_be_called_off: bool
) -> None:
    """Look at every start of a trip. Where it was undone before, from ``undone_s`` on, or a lying
    party may have called it off, none need begin; but not some without the others.
    """
    for start in _starts_of(world, trip_id):
        last_s = max(start_s(site, start.start) for site in world.sites.values()) + BEGIN_WITHIN_S
        is_undone = undone_s is not None and undone_s <= last_s
        if start.begun or not (is_undone or may_be_called_off):
            _check_start(world, start, undone_s)


def unheard_at_start(world: CheckedWorld, site: CheckedSite, trip: TripRef, start: int) -> str:
    """Why a leg's site may not have learned whether it runs; empty: it should have."""
    begins_s = start_s(site, start, start - WORLD_BEGIN)
    acceptors = [each.site for each in trip.acceptors]
    return world.why_unheard(
        site.name, acceptors, begins_s - CHECK_BEFORE_S, begins_s + BEGIN_WITHIN_S
    )


def was_not_ready(site: CheckedSite, promise: Promise) -> bool:
    """True when not all inputs of the leg's job had come at its start, by its site's disk: then
    nobody said that it was ready, and none of its start may begin.
    """
    begins_s = start_s(site, promise.reservation.start)
    return any(promise.arrived.get(path, begins_s) >= begins_s for path in promise.wants)


def ended_by(leg: Promise, undone_s: float | None) -> bool:
    """True for a leg that was released when its trip was being undone."""
    released_s = leg.since(ReservationState.RELEASED)
    return undone_s is not None and released_s is not None and undone_s <= released_s


def _check_start(world: CheckedWorld, start: CommonStart, undone_s: float | None) -> None:
    for site, promise in start.begun:
        late_s = start_s(site, start.start) + BEGIN_WITHIN_S + SLACK_S
        if promise.runs[start.trip.instance] > late_s and not unheard_at_start(
            world, site, start.trip, start.start
        ):
            world.event_log.broken(
                LATE,
                f"{site.name}: {promise.reservation.reservation_id} began late",
                start.trip.trip_id,
            )
    if not start.not_begun:
        world.event_log.counts["begun together"] += 1
        return
    excuses = {
        site.name: _why_not_begun(world, start, site, promise) for site, promise in start.not_begun
    }
    if start.begun and all(_was_ended_at_its_start(*each, undone_s) for each in start.not_begun):
        world.event_log.counts["did not begin, alone: ended by its user"] += 1
        return
    if not start.begun and any(each and was_not_ready(at, each) for at, each in start.not_begun):
        world.event_log.counts["did not begin, none: a leg was not ready"] += 1
        return
    # Where some began, each of the others needs its own reason; where none did, one is enough.
    # And none begins beside a leg that was never committed: nobody can have said that it is ready.
    is_excused = any(excuses.values())
    if start.begun:
        is_excused = all(excuses.values()) and all(map(_was_committed, start.not_begun))
    if is_excused:
        for reason in excuses.values():
            if reason:
                what = "alone" if start.begun else "with all"
                world.event_log.counts[f"did not begin, {what}: {reason}"] += 1
        return
    there = ", ".join(f"{site.name} began" for site, _ in start.begun) or "nobody began"
    missing = ", ".join(
        f"{site.name} did not ({excuses[site.name] or _state(promise)})"
        for site, promise in start.not_begun
    )
    world.event_log.broken(
        TOGETHER, f"{start.trip.instance}: {there}; {missing}", start.trip.trip_id
    )


def _why_not_begun(
    world: CheckedWorld, start: CommonStart, site: CheckedSite, promise: Promise | None
) -> str:
    """A withdrawn leg has a reason if its site heard nobody while it was in doubt; any other, if it
    heard nobody when it should have begun.
    """
    if promise is not None and promise.withdrawn_s is not None:
        expires_at = promise.reservation.hold_expires_at or 0
        doubt_s = start_s(site, expires_at, promise.withdrawn_s)
        acceptors = [each.site for each in start.trip.acceptors]
        reason = world.why_unheard(site.name, acceptors, doubt_s, promise.withdrawn_s)
        return reason and f"withdrawn, {reason}"
    return unheard_at_start(world, site, start.trip, start.start)


def _starts_of(world: CheckedWorld, trip_id: str) -> list[CommonStart]:
    """Of the attempts of which any leg was committed: those that were decided."""
    found: dict[tuple[str, int], CommonStart] = {}
    for site in world.sites.values():
        for each_id, promise in site.ledger.of_trips():
            trip = promise.reservation.request.trip
            if (
                each_id != trip_id
                or trip is None
                or promise.state is ReservationState.SUPERSEDED  # its leg has its form now
                or trip.begin is not Begin.TOGETHER
                or not trip.acceptors
                or promise.is_of(world.liars)
            ):
                continue
            key = trip.instance, promise.reservation.start
            start = found.setdefault(key, CommonStart(trip, promise.reservation.start))
            is_begun = trip.instance in promise.runs
            if site.name in world.liars:
                continue
            if is_begun:
                start.begun.append((site, promise))
            else:
                start.not_begun.append((site, promise))
    for start in found.values():
        seen = {site.name for site, _ in (*start.begun, *start.not_begun)}
        for leg in start.trip.legs:
            if leg.site not in seen | world.liars and leg.start == start.start:
                start.not_begun.append((world.sites[leg.site], None))
    decided = [each for each in found.values() if _was_decided(each)]
    newest = max((each.trip.attempt for each in decided), default=0)
    return [each for each in decided if each.begun or each.trip.attempt == newest]


def _was_decided(start: CommonStart) -> bool:
    """False for an attempt that came to nothing."""
    legs = [each for _, each in (*start.begun, *start.not_begun) if each is not None]
    return any(each.was(ReservationState.COMMITTED) for each in legs)


def _was_committed(leg: tuple[CheckedSite, Promise | None]) -> bool:
    promise = leg[1]
    return promise is not None and promise.was(ReservationState.COMMITTED)


def _was_ended_at_its_start(
    site: CheckedSite, promise: Promise | None, undone_s: float | None
) -> bool:
    """By its user, when others had learned that the trip runs."""
    if promise is None or not ended_by(promise, undone_s):
        return False
    released_s = promise.since(ReservationState.RELEASED) or 0.0
    return released_s >= start_s(site, promise.reservation.start) - CHECK_BEFORE_S


def _state(promise: Promise | None) -> str:
    return "never held" if promise is None else promise.state.value
