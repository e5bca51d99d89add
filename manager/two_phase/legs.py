"""A manager's part in trips: its groups as legs (``gridio.sites.trip_participation``).

A leg at a manager is held at several children, and each of them learns the trip with its hold: they
find out its outcome by themselves, also when the manager is gone. The manager does the same for its
group, so that all of them come to the same end. It keeps no outcome for others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationEvent,
    ReservationState,
)
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridio.journal.contract import Ticket
from gridtravel.gridio.system.clock import Clock
from gridtravel.manager.book.decisions import CompositeCalendar
from gridtravel.manager.book.events import GroupDecided, GroupEnded, ManagerEvent

log = logging.getLogger(__name__)

Connect = Callable[[str, str], CalendarPort]
"""The calendar of an acceptor, by its name and endpoint; kept for life."""


class GroupLegs:
    """A manager's book as a participant needs it (``LegBook``)."""

    def __init__(
        self,
        book: CompositeCalendar,
        clock: Clock,
        *,
        record: Callable[[Sequence[ManagerEvent], bool], Ticket],
        carry_on: Callable[[], None],
    ) -> None:
        """``carry_on``: sees to it that whatever was decided or is owed comes to its end."""
        self._book = book
        self._clock = clock
        self._record = record
        self._carry_on = carry_on
        self._runs: dict[str, str] = {}
        """Group -> the attempt in which it runs. Nothing is launched here, so after a restart it is
        asked again.
        """

    @property
    def site(self) -> str:
        """See ``LegBook``."""
        return self._book.site

    def leg(self, reservation_id: str) -> Reservation | None:
        """See ``LegBook``."""
        group = self._book.groups.get(reservation_id)
        return None if group is None else group.reservation

    def is_open(self, reservation_id: str) -> bool:
        """See ``LegBook``."""
        group = self._book.groups.get(reservation_id)
        is_held = group is not None and group.reservation.state is ReservationState.HELD
        return group is not None and is_held and not group.is_decided

    def undecided_until(self, hold: Reservation) -> Instant:
        """See ``LegBook``."""
        return hold.start

    def replacement_of(self, reservation_id: str) -> Reservation | None:
        """See ``LegBook``. Legs at a manager do not change with their trip."""
        return None

    def is_ready(self, reservation_id: str) -> bool:
        """See ``LegBook``. What is committed the children have confirmed; no jobs belong to it."""
        return True

    def runs(self, reservation_id: str) -> bool:
        """See ``LegBook``."""
        leg = self.leg(reservation_id)
        trip = None if leg is None else leg.request.trip
        return trip is not None and self._runs.get(reservation_id) == trip.instance

    async def commit(self, reservation_id: str, manifest: Manifest) -> None:
        """See ``LegBook``. No jobs belong to it that the manifest could matter to."""
        decided = GroupDecided(group_id=reservation_id, at=self._clock.now())
        await self._record([decided], True).durable()
        self._carry_on()

    async def end(self, reservation_id: str, event: ReservationEvent, reason: str = "") -> None:
        """See ``LegBook``."""
        leg, now = self.leg(reservation_id), self._clock.now()
        if leg is None or not leg.state.is_live:
            return
        if event is ReservationEvent.RELEASE:
            events = self._book.decide_release(reservation_id, None, now)
        else:
            events = (GroupEnded(group_id=reservation_id, event=event, at=now),)
        await self._record(events, True).durable()
        self._carry_on()

    async def durable(self) -> None:
        """See ``LegBook``."""
        await self._record((), True).durable()

    async def note_runs(self, reservation_id: str) -> None:
        """See ``LegBook``."""
        self._runs = {key: each for key, each in self._runs.items() if key in self._book.groups}
        leg = self.leg(reservation_id)
        if leg is not None and leg.request.trip is not None:
            self._runs[reservation_id] = leg.request.trip.instance
