"""An agent of a simulated tree: a production calendar behind the production port, without jobs.

It keeps its events as a journal would, and can die and come back. Managers are honoured as agents
do; a tree has no trips, so nobody votes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from typing import Final

from gridtravel.gridcore.booking.calendar_events import CalendarEvent
from gridtravel.gridcore.booking.calendar_rules import CalendarRules, FlatTariff, ResourceClass
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationEvent,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.booking.summarising import summarise
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import CalendarPort, ClassDescription, SiteDescription
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.gridio.sites.publishing import COALESCE_S, CalendarPublisher
from gridtravel.gridio.system.clock import Clock

SITE_RULES: Final = CalendarRules(
    horizon_s=9_000, hold_ttl_min_s=2, hold_ttl_max_s=60, hold_margin_s=1, tombstone_s=600
)
PUBLISHED: Final = SlotLadder.parse("15x60, 8x600, *x3600")
"""What the agents and managers of a tree publish."""
HEARTBEAT_S: Final = 90.0
"""Agents without news are heard of this often, just within what their managers take for silence:
most of a run in virtual time would otherwise be heartbeats.
"""


class TreeSite:
    """One agent. ``stale_s``: how long its changes are held back before they are published."""

    def __init__(self, name: str, nodes: int, clock: Clock, *, stale_s: float = COALESCE_S) -> None:
        self.name = name
        self.nodes = nodes
        self.clock = clock
        self.is_up = True
        self._stale_s = stale_s
        self._events: list[CalendarEvent] = []
        self._lives = 0
        self.calendar = self._fresh()
        self.publisher = self._publisher()

    def restart(self) -> None:
        """Come back from the journal, in a new epoch; every subscription was lost meanwhile."""
        self._lives += 1
        self.calendar = self._fresh()
        for event in self._events:
            self.calendar.apply(event)
        self.calendar.validate()
        self.publisher = self._publisher()
        self.is_up = True

    def carry_out(self, events: Iterable[CalendarEvent]) -> None:
        """Journal and apply."""
        done = list(events)
        for event in done:
            self.calendar.apply(event)
            self._events.append(event)
        if done:
            self.publisher.changed()

    def sweep(self) -> None:
        """Let go of holds whose lifetime is over, complete what has ended."""
        now, calendar = self.clock.now(), self.calendar
        for hold in calendar.due_holds(now):
            expire = ReservationEvent.EXPIRE
            self.carry_out(calendar.decide_release(hold.reservation_id, None, now, event=expire))
        self.carry_out(calendar.decide_sweep(now))

    def summary(self) -> CalendarSummary:
        """As published."""
        return summarise(self.calendar, PUBLISHED, self.clock.now(), horizon_s=SITE_RULES.horizon_s)

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """For one caller."""
        return _TreePort(self, caller)

    def _publisher(self) -> CalendarPublisher:
        return CalendarPublisher(
            self.summary, self.clock, coalesce_s=self._stale_s, heartbeat_s=HEARTBEAT_S
        )

    def _fresh(self) -> Calendar:
        return Calendar(
            self.name,
            (ResourceClass(name="node", nodes=self.nodes),),
            rules=SITE_RULES,
            tariff=FlatTariff(0),
            epoch=f"epoch-{self._lives}",
            origin=self.clock.now(),
        )


class _TreePort:
    """``CalendarPort`` of one caller at a ``TreeSite``."""

    def __init__(self, site: TreeSite, caller: Caller) -> None:
        self._site = site
        self._caller = caller

    async def describe(self) -> SiteDescription:
        site = self._site
        return SiteDescription(
            site=site.name,
            is_manager=False,
            classes=(ClassDescription(name="node", nodes=site.nodes),),
            time_zone="UTC",
            time_precise=site.clock.now_precise(),
            lead_s=SITE_RULES.lead_s,
            hold_ttl_max_s=SITE_RULES.hold_ttl_max_s,
            horizon_s=SITE_RULES.horizon_s,
            millicredits_per_node_hour=0,
            software="simulated",
            login=self._caller.login,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        now = self._site.clock.now()
        return [self._site.calendar.inquire(each, now) for each in requests]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        site = self._site
        answer, events = site.calendar.decide_reserve(
            request, self._caller.owner, ttl_s, site.clock.now()
        )
        site.carry_out(events)
        if isinstance(answer, Decline):
            return replace(answer, summary=site.summary())
        return answer

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        site = self._site
        answer, events = site.calendar.decide_commit(
            reservation_id, self._caller.owner, site.clock.now()
        )
        site.carry_out(events)
        return answer

    async def release(self, reservation_id: str) -> None:
        now, owner = self._site.clock.now(), self._caller.owner
        self._site.carry_out(self._site.calendar.decide_release(reservation_id, owner, now))

    async def release_request(self, request_id: str) -> None:
        now, owner = self._site.clock.now(), self._caller.owner
        self._site.carry_out(self._site.calendar.decide_release_request(request_id, owner, now))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        raise UnavailableError("managers change by holds that replace")

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        raise UnavailableError("no acceptor here")

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        async for news in self._site.publisher.subscribe():
            yield news
