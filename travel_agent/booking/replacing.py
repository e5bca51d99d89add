"""The machines of a booked trip, as the search for its change sees them: what the trip itself has
there counts as free, and what is held there replaces it.

Searches and holds know nothing of it: a connection like any other adds ``replaces`` to what they
ask.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridcore.trips.itineraries import Leg
from gridtravel.gridio.sites.connections import ClockSkew, SiteConnection, TransportName
from gridtravel.gridio.sites.forwarding import Call, ForwardingCalendar
from gridtravel.travel_agent.sites.destinations import Destination

T = TypeVar("T")


def replacing(
    destinations: Mapping[str, Destination], trip_id: str, legs: Sequence[Leg]
) -> dict[str, Destination]:
    """These destinations, where each leg is replaced that is at the same machine as before."""
    return {
        machine: replace(
            destination,
            connection=ReplacingConnection(
                destination.connection,
                {
                    f"{trip_id}.{leg.name}.": leg.reservation_id
                    for leg in legs
                    if leg.machine == machine and leg.reservation_id is not None
                },
            ),
        )
        for machine, destination in destinations.items()
    }


class ReplacingConnection:
    """A ``SiteConnection`` whose calendar adds what is replaced."""

    def __init__(self, inner: SiteConnection, replaced: Mapping[str, str]) -> None:
        """``replaced``: beginning of a request's id -> the reservation that it is about; a trip's
        requests begin with its id and the leg's name.
        """
        self._inner = inner
        self.calendar: CalendarPort = ReplacingCalendar(inner.calendar, replaced)

    @property
    def site(self) -> SitePort:
        """The site for its own users."""
        return self._inner.site

    @property
    def transport(self) -> TransportName:
        """What carries the calls."""
        return self._inner.transport

    @property
    def endpoint(self) -> str:
        """Where it leads."""
        return self._inner.endpoint

    def skew_s(self) -> ClockSkew | None:
        """As measured."""
        return self._inner.skew_s()

    async def close(self) -> None:
        """The office closes it."""


class ReplacingCalendar(ForwardingCalendar):
    """A ``CalendarPort``; see the module."""

    def __init__(self, inner: CalendarPort, replaced: Mapping[str, str]) -> None:
        self._inner = inner
        # The longest beginning first: a leg may be named as another one with more behind it.
        self._replaced = dict(sorted(replaced.items(), key=lambda each: -len(each[0])))

    def _about(self, request: ReservationRequest) -> ReservationRequest:
        for beginning, reservation_id in self._replaced.items():
            if request.request_id.startswith(beginning):
                return replace(request, replaces=reservation_id)
        return request

    async def ask(self, call: Call[CalendarPort, Awaitable[T]]) -> T:
        """See ``Forwarding``."""
        return await call.at(self._inner)

    def listen(self, call: Call[CalendarPort, AsyncIterator[T]]) -> AsyncIterator[T]:
        """See ``Forwarding``."""
        return call.at(self._inner)

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``."""
        return await super().inquire([self._about(each) for each in requests])

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await super().reserve(self._about(request), ttl_s=ttl_s, job=job)
