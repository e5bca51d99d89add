"""Sites that are nothing but their calendars, for the searches of the travel agent.

Each is asked as a traveller asks it, and counts the calls. Nothing takes time unless the test moves
the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridcore.trips.metajobs import MachineRequest, Metajob, UsagePattern
from gridtravel.gridio.system.clock import Clock, ManualClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.travel_agent.local_files import LocalInputs
from gridtravel.travel_agent.log.events import ProbesAsked, TripLogEvent
from gridtravel.travel_agent.log.trip_log import TripLog, TripStory
from gridtravel.travel_agent.sites.destinations import Destination
from gridtravel.travel_agent.trip_context import TripContext

NOW: Final = 1000
OWNER: Final = "/O=test/CN=ada"
Load = Sequence[tuple[int, int, int]]
"""Bookings: nodes, first second, length."""


class PatientClock(ManualClock):
    """Whoever sleeps wakes at once, and it is that late."""

    async def sleep_until(self, instant: float) -> None:
        """See ``Clock``."""
        if instant > self.now_precise():
            self.advance_to(instant)


class CalendarSite:
    """One site: its calendar, and a port to it."""

    def __init__(
        self,
        name: str,
        clock: ManualClock,
        *,
        nodes: int = 4,
        price: int = 0,
        load: Load = (),
        horizon_s: int = 5_000,
        answers_inquiries: bool = True,
    ) -> None:
        self.clock = clock
        self.book = Calendar(
            name,
            [ResourceClass(name="n", nodes=nodes)],
            rules=CalendarRules(horizon_s=horizon_s),
            tariff=FlatTariff(price),
            origin=clock.now(),
        )
        for taken, start, length_s in load:
            if self.book.free["n"].fits(taken, start, start + length_s):
                self.book.free["n"].book(taken, start, start + length_s)
        self.calls: Counter[str] = Counter()
        self.answers_inquiries = answers_inquiries
        self.is_gone = False

    @property
    def calendar(self) -> CalendarSite:
        """The connection's calendar is the site itself."""
        return self

    @property
    def transport(self) -> str:
        """Nothing carries the calls."""
        return "inproc"

    def live(self) -> list[Reservation]:
        """What its book holds now."""
        return list(self.book.live())

    def availability(self, start: int, end: int) -> int:
        """Nodes that are free all the time."""
        return self.book.free["n"].min_free(start, end)

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        self._called("inquire")
        assert self.answers_inquiries, "it can only set and cancel"
        return [self.book.inquire(request, self.clock.now()) for request in requests]

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """Hold."""
        self._called("reserve")
        answer, events = self.book.decide_reserve(request, OWNER, ttl_s, self.clock.now())
        for event in events:
            self.book.apply(event)
        return answer

    async def release(self, reservation_id: str) -> None:
        """Let go."""
        self._called("release")
        for event in self.book.decide_release(reservation_id, OWNER, self.clock.now()):
            self.book.apply(event)

    async def release_request(self, request_id: str) -> None:
        """Let go whatever came of it."""
        self._called("release_request")
        for event in self.book.decide_release_request(request_id, OWNER, self.clock.now()):
            self.book.apply(event)

    async def describe(self) -> SiteDescription:
        """What it is."""
        self._called("describe")
        rules = self.book.rules
        return SiteDescription(
            site=self.book.site,
            is_manager=False,
            classes=(ClassDescription(name="n", nodes=self.book.classes["n"].nodes),),
            time_zone="UTC",
            time_precise=float(self.clock.now()),
            lead_s=rules.lead_s,
            hold_ttl_max_s=rules.hold_ttl_max_s,
            horizon_s=rules.horizon_s,
            millicredits_per_node_hour=0,
            software="",
            login="ada",
        )

    def _called(self, verb: str) -> None:
        self.calls[verb] += 1
        if self.is_gone:
            raise UnavailableError(f"{self.book.site} does not answer")


class LogPage:
    """A trip's log that is kept in a list; nobody reads a story out of it."""

    def __init__(self) -> None:
        self.events: list[TripLogEvent] = []
        self.story = TripStory()

    async def write(self, event: TripLogEvent) -> None:
        """See ``TripLog``."""
        self.events.append(event)

    def announced(self) -> set[str]:
        """Request ids of the test reservations that the log says may exist."""
        last = [each for each in self.events if isinstance(each, ProbesAsked)][-1:]
        return {leg.request_id for each in last for leg in each.legs}


def a_trip(
    shares: Mapping[str, tuple[int, int]],
    nodes_total: int,
    *,
    pattern: UsagePattern = UsagePattern.MULTIPLE,
    **others: Any,
) -> Metajob:
    """``shares``: fewest and most nodes by machine; ten seconds within the next 300."""
    fields: dict[str, Any] = {
        "name": "trip",
        "usage_pattern": pattern,
        "nodes_total": nodes_total,
        "machines": tuple(
            MachineRequest(machine=name, nodes_min=least, nodes_max=most)
            for name, (least, most) in shares.items()
        ),
        "duration_s": 10,
        "earliest_start": NOW + 10,
        "latest_end": NOW + 310,
    }
    return Metajob(**(fields | others))


def a_context(
    metajob: Metajob,
    destinations: Mapping[str, Destination],
    *,
    log: TripLog | None = None,
    clock: Clock | None = None,
    trip_id: str = "trip-1",
) -> TripContext:
    """The trip that somebody looks for."""
    return TripContext(
        trip_id=trip_id,
        metajob=metajob,
        destinations=destinations,
        log=log or LogPage(),
        clock=clock or PatientClock(NOW),
        inputs=LocalInputs(Path()),
        ids=SeededIds(1),
    )


def ways_to(metajob: Metajob, sites: Mapping[str, CalendarSite]) -> dict[str, Destination]:
    """Each machine at the site of its name."""
    return {
        each.machine: Destination(
            request=each,
            connection=sites[each.machine],  # type: ignore[arg-type]  # all that a search uses
            site=each.machine,
            only_sets=not sites[each.machine].answers_inquiries,
        )
        for each in metajob.candidates
    }
