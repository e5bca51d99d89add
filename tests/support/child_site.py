"""A child of a calendar manager under test: a real calendar behind the real port, which keeps its
events as a journal would, and can die and come back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.errors import NotAuthorisedError, UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import CalendarPort, ClassDescription, SiteDescription
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.gridio.sites.publishing import CalendarPublisher
from tests.support.builders import a_request
from tests.support.virtual_time import START, LoopClock

CHILD_RULES = CalendarRules(
    horizon_s=20_000,
    hold_ttl_min_s=2,
    hold_ttl_max_s=60,
    hold_margin_s=1,
    tombstone_s=600,
)


class ChildSite:
    """An agent's calendar, without jobs."""

    def __init__(
        self,
        name: str,
        nodes: int | Sequence[ResourceClass] = 4,
        *,
        hourly: int = 0,
        clock: LoopClock | None = None,
        ladder: SlotLadder = EXACT,
    ) -> None:
        one_class = [ResourceClass(name="node", nodes=nodes)] if isinstance(nodes, int) else nodes
        self.name = name
        self.classes = tuple(one_class)
        self.hourly = hourly
        self.clock = clock or LoopClock()
        self.ladder = ladder
        self.events: list[CalendarEvent] = []
        self.starts = 0
        self.is_up = True
        self.announces = name
        """What it says its name is."""
        self.knows_request_ids = True
        """False: it refuses to release by a request's id, as a site that maps a manager to nobody.
        """
        self.spoil_summary: Callable[[CalendarSummary], CalendarSummary] | None = None
        self.calendar = self._fresh()
        self.publisher = CalendarPublisher(self.summary, self.clock)

    def restart(self) -> None:
        """Come back from the journal, in a new epoch; every subscription was lost meanwhile."""
        self.starts += 1
        self.calendar = self._fresh()
        for event in self.events:
            self.calendar.apply(event)
        self.calendar.validate()
        self.publisher = CalendarPublisher(self.summary, self.clock)
        self.is_up = True

    def carry_out(self, events: Iterable[CalendarEvent]) -> None:
        """Journal and apply."""
        done = list(events)
        for event in done:
            self.calendar.apply(event)
            self.events.append(event)
        if done:
            self.publisher.changed()

    def sweep(self) -> None:
        """Let go of holds whose lifetime is over, complete what has ended."""
        now, calendar = self.clock.now(), self.calendar
        for hold in calendar.due_holds(now):
            expire = ReservationEvent.EXPIRE
            trip = hold.request.trip
            if trip is None or not trip.acceptors or hold.start <= now:
                self.carry_out(
                    calendar.decide_release(hold.reservation_id, None, now, event=expire)
                )
        self.carry_out(calendar.decide_sweep(now))

    def book(self, nodes: int, start: int, end: int) -> Reservation:
        """A job of the site's own."""
        request = a_request(
            f"own-{len(self.events)}", nodes=nodes, start=start, duration_s=end - start
        )
        now = self.clock.now()
        answer, events = self.calendar.decide_reserve(request, "site", None, now)
        assert isinstance(answer, Reservation), answer
        self.carry_out(events)
        return answer

    def summary(self) -> CalendarSummary:
        """As published."""
        made = summarise(self.calendar, self.ladder, self.clock.now(), horizon_s=20_000)
        return self.spoil_summary(made) if self.spoil_summary else made

    def of_manager(self, *states: ReservationState) -> list[Reservation]:
        """What managers booked here, in these states."""
        return [
            each
            for each in self.calendar.reservations.values()
            if each.request.beneficiary and each.state in states
        ]

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """For one caller."""
        return ChildPort(self, caller)

    def _fresh(self) -> Calendar:
        return Calendar(
            self.name,
            self.classes,
            rules=CHILD_RULES,
            tariff=FlatTariff(self.hourly),
            epoch=f"epoch-{self.starts}",
            origin=START,
        )


class ChildPort:
    """``CalendarPort`` of one caller at a ``ChildSite``; managers are honoured as agents do."""

    def __init__(self, site: ChildSite, caller: Caller) -> None:
        self._site = site
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """What it says of itself."""
        site = self._site
        return SiteDescription(
            site=site.announces,
            is_manager=False,
            classes=tuple(
                ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
                for each in site.classes
            ),
            time_zone="UTC",
            time_precise=site.clock.now_precise(),
            lead_s=CHILD_RULES.lead_s,
            hold_ttl_max_s=CHILD_RULES.hold_ttl_max_s,
            horizon_s=CHILD_RULES.horizon_s,
            millicredits_per_node_hour=site.hourly,
            software="test",
            login=self._caller.login,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        now = self._site.clock.now()
        return [self._site.calendar.inquire(each, now) for each in requests]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """Hold; a refusal brings a fresh summary."""
        now = self._site.clock.now()
        owner = self._caller.owner
        answer, events = self._site.calendar.decide_reserve(request, owner, ttl_s, now)
        self._site.carry_out(events)
        if isinstance(answer, Decline):
            return replace(answer, summary=self._site.summary())
        return answer

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """Promise."""
        now = self._site.clock.now()
        calendar = self._site.calendar
        hold = calendar.get(reservation_id, self._caller.owner)
        if hold.request.trip is not None and hold.request.trip.acceptors:
            answer, events = calendar.decide_late_commit(reservation_id, now)
        else:
            answer, events = calendar.decide_commit(reservation_id, self._caller.owner, now)
        self._site.carry_out(events)
        return answer

    async def release(self, reservation_id: str) -> None:
        """Undo."""
        now = self._site.clock.now()
        owner = self._caller.owner
        self._site.carry_out(self._site.calendar.decide_release(reservation_id, owner, now))

    async def release_request(self, request_id: str) -> None:
        """Undo what may yet come."""
        if not self._site.knows_request_ids:
            raise NotAuthorisedError("mapped to nobody", hint="")
        now = self._site.clock.now()
        owner = self._caller.owner
        self._site.carry_out(self._site.calendar.decide_release_request(request_id, owner, now))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """Managers change by holds."""
        raise AssertionError("a manager amends by holds that replace")

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """Not an acceptor."""
        raise UnavailableError("no acceptor here")

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """The published calendar."""
        async for news in self._site.publisher.subscribe():
            yield news
