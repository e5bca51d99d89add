"""Groups of managers: what a manager has promised as one leg, and what its sites hold of it.

A manager's leg of a trip is looked at as any leg (``trip_checkers``, ``begin_checkers``). Here its
parts are: all of them are kept as long as it is, and none is kept without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import ReservationEvent, next_state
from gridtravel.manager.book.events import (
    GroupCommitted,
    GroupEnded,
    GroupHeld,
    Part,
    PartRenewed,
)
from gridtravel.manager.core import CODEC
from gridtravel.simulator.checks.site_ledger import DONE, HELD, Promise, SiteLedger

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import TripRef
    from gridtravel.gridio.journal.contract import Record
    from gridtravel.simulator.checks.checked_world import CheckedWorld
    from gridtravel.simulator.kernel.event_log import EventLog, Timekeeper

GROUPED: Final = "the parts of a group are kept as the group is, or not"


class GroupLedger(SiteLedger):
    """A manager's: its groups as promises."""

    def __init__(self, site: str, nodes: int, event_log: EventLog, loop: Timekeeper) -> None:
        super().__init__(site, nodes, event_log, loop)
        self.parts: dict[str, tuple[Part, ...]] = {}
        """By group, as its children were asked for them."""

    def written(self, records: Sequence[Record]) -> None:
        """See ``SiteLedger``."""
        for record in records:
            match CODEC.decode(record):
                case GroupHeld(reservation=reservation, parts=parts):
                    self.parts[reservation.reservation_id] = parts
                    promise = Promise(reservation, reservation.state)
                    promise.history.append((self._loop.time(), reservation.state))
                    self.promises[reservation.reservation_id] = promise
                case PartRenewed(group_id=group_id, lost=lost, part=part):
                    others = [each for each in self.parts[group_id] if each.key != lost.key]
                    self.parts[group_id] = (*others, part)
                case GroupCommitted(group_id=group_id):
                    self._change(group_id, ReservationEvent.COMMIT)
                case GroupEnded(group_id=group_id, event=event):
                    self._change(group_id, event)

    def _change(self, group_id: str, event: ReservationEvent) -> None:
        promise = self.promises[group_id]
        promise.state = next_state(promise.state, event)
        promise.history.append((self._loop.time(), promise.state))

    def note_runs(self, world: CheckedWorld) -> None:
        """A group begins when all its parts have begun; a manager writes down nothing of it."""
        for group_id, parts in self.parts.items():
            promise = self.promises[group_id]
            trip = promise.reservation.request.trip
            begun = [_promise_of(world, part) for part in parts]
            if trip is not None and all(each and trip.instance in each.runs for each in begun):
                latest = max(each.runs[trip.instance] for each in begun if each is not None)
                promise.runs[trip.instance] = latest


def check_groups(world: CheckedWorld, manager: str, ledger: GroupLedger) -> None:
    """Every part of a kept group is kept, of no other group is any, and none is left of what a
    manager asked for and never held.
    """
    known: set[tuple[str, str]] = set()
    for group_id, parts in ledger.parts.items():
        group = ledger.promises[group_id]
        is_kept = group.state in DONE
        for part in parts:
            promise = _promise_of(world, part)
            known.add((part.child, part.reservation_id))
            if is_kept != (promise is not None and promise.state in DONE):
                state = "never held" if promise is None else promise.state.value
                text = f"{manager}: {group_id} is {group.state.value}, {part.child} {state}"
                world.event_log.broken(GROUPED, text, *_about(group))
    for site in world.sites.values():
        for _, promise in site.ledger.of_trips():
            trip = promise.reservation.request.trip
            key = (site.name, promise.reservation.reservation_id)
            if (
                trip is not None
                and _is_part(trip, manager, site.name)
                and key not in known
                and promise.state in (*DONE, HELD)
            ):
                text = f"{site.name}: {key[1]} is {promise.state.value} for no group of {manager}"
                world.event_log.broken(GROUPED, text, *_about(promise))


def _is_part(trip: TripRef, manager: str, site: str) -> bool:
    """True when a site holds it for the manager's leg."""
    of_manager = any(each.leg == trip.leg and each.site == manager for each in trip.legs)
    return of_manager and site != manager


def _promise_of(world: CheckedWorld, part: Part) -> Promise | None:
    return world.sites[part.child].ledger.promises.get(part.reservation_id)


def _about(promise: Promise) -> list[str]:
    trip = promise.reservation.request.trip
    return [trip.trip_id] if trip is not None else [promise.reservation.reservation_id]
