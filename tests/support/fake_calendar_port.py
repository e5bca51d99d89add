"""The calendar port of the fake site, for one caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    SummaryDelta,
    delta_between,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import (
    NotAuthorisedError,
)
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import (
    ClassDescription,
    SiteDescription,
)
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.registers import register_of
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion

if TYPE_CHECKING:
    from tests.support.fake_services import FakeSite


class FakeCalendarPort:
    """``CalendarPort`` of one caller."""

    def __init__(self, site: FakeSite, caller: Caller) -> None:
        self._site = site
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """What the site is."""
        calendar = self._site.calendar
        return SiteDescription(
            site=calendar.site,
            is_manager=False,
            classes=tuple(
                ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
                for each in calendar.classes.values()
            ),
            time_zone="Europe/London",
            time_precise=self._site.clock.now_precise(),
            lead_s=calendar.rules.lead_s,
            hold_ttl_max_s=calendar.rules.hold_ttl_max_s,
            horizon_s=calendar.rules.horizon_s,
            millicredits_per_node_hour=0,
            software="fake",
            login=self._caller.login,
            card=self._site.card,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """Look."""
        now = self._site.clock.now()
        return [self._site.calendar.inquire(request, now) for request in requests]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """Hold, with what is to run. A refusal brings a fresh summary."""
        owner = self._owner(request)
        now = self._site.clock.now()
        if request.trip is not None:
            self._site.registers.open(register_of(request.trip, owner))
        answer, events = self._site.calendar.decide_reserve(request, owner, ttl_s, now)
        await self._site.carry_out(events)
        if isinstance(answer, Decline):
            return replace(answer, summary=self._site.summary())
        if job is not None:
            self._site.held_jobs[answer.reservation_id] = job
        return self._site.with_job(answer)

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """Promise, and queue what came with the hold."""
        now = self._site.clock.now()
        owner = self._caller.owner
        answer, events = self._site.calendar.decide_commit(reservation_id, owner, now)
        await self._site.carry_out(events)
        if isinstance(answer, Decline):
            return answer
        self._site.bind_held_job(reservation_id, answer, dict(manifest.contacts))
        return self._site.with_job(answer)

    async def release(self, reservation_id: str) -> None:
        """Undo."""
        now = self._site.clock.now()
        owner = self._caller.owner
        await self._site.carry_out(self._site.calendar.decide_release(reservation_id, owner, now))

    async def release_request(self, request_id: str) -> None:
        """Undo what may yet come."""
        now = self._site.clock.now()
        owner = self._caller.owner
        await self._site.carry_out(
            self._site.calendar.decide_release_request(request_id, owner, now)
        )

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """Change."""
        now = self._site.clock.now()
        owner = self._owner(request)
        answer, events = self._site.calendar.decide_amend(reservation_id, request, owner, now)
        await self._site.carry_out(events)
        return answer

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """An acceptor with nothing but a memory."""
        return await self._site.acceptor.vote(question, self._caller)

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """The newest state each time the reader is ready."""
        site = self._site
        site.subscribers += 1
        try:
            told = site.summary()
            yield told
            while True:
                version = told.version
                await site.changed(partial(self._has_moved_on, version))
                fresh = site.summary()
                delta = delta_between(told, fresh)
                told = fresh
                yield delta
        finally:
            site.subscribers -= 1

    def _has_moved_on(self, version: CalendarVersion) -> bool:
        return self._site.calendar.version != version

    def _owner(self, request: ReservationRequest) -> str:
        if not self._caller.login:
            raise NotAuthorisedError("you have no login here", hint="ask for one")
        if not self._caller.may_charge(request.account):
            raise NotAuthorisedError(f"you may not charge {request.account}", hint="")
        return self._caller.owner
