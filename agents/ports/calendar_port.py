"""The calendar protocol at a node, for one caller (``gridcore.ports.CalendarPort``).

Each verb: who may ask, what the calendar decides, journal and apply, wait for the disk, answer. A
repeated request waits for the disk as well, since the first answer may still be on its way there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gridtravel.agents.journal.events import AgentEvent, HeldJobKept, TripRegistered
from gridtravel.agents.ports.access import account_of, came_through, require_login
from gridtravel.agents.ports.submissions import refuse_shared, refuse_with_hold
from gridtravel.agents.quote_desk import QUOTES_MAX
from gridtravel.gridcore.booking.quotes import Quote
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import ClassDescription, SiteDescription
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.registers import register_of
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.local_sched.reservations.user_reservations import (
    decide_amend_within_limits,
    decide_reserve_within_limits,
    inquire_within_limits,
)

if TYPE_CHECKING:
    from gridtravel.agents.core import AgentCore

SOFTWARE = "gridtravel 0.1.0"


class CalendarEndpoint:
    """One caller at the agent's calendar."""

    def __init__(self, core: AgentCore, caller: Caller) -> None:
        self._core = core
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """See ``CalendarPort``."""
        core, calendar = self._core, self._core.calendar
        return SiteDescription(
            site=calendar.site,
            is_manager=False,
            classes=tuple(
                ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
                for each in calendar.classes.values()
            ),
            time_zone=core.parts.time_zone,
            time_precise=core.clock.now_precise(),
            lead_s=calendar.rules.lead_s,
            hold_ttl_max_s=calendar.rules.hold_ttl_max_s,
            horizon_s=calendar.rules.horizon_s,
            millicredits_per_node_hour=calendar.tariff.unit_price_millicredits(
                next(iter(calendar.classes), ""), core.clock.now(), 3600
            ),
            software=SOFTWARE,
            login=self._caller.login,
            card=core.parts.own_card(),
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``."""
        core, now = self._core, self._core.clock.now()
        asked = [self._mine(request) for request in requests]
        limits = core.parts.limits
        accounts = dict.fromkeys(each.account for each in asked)
        availabilities = {account: core.availability(now, account) for account in accounts}
        is_admin = self._caller.role is Role.ADMIN
        answers = [
            refuse_shared(core, each)
            or inquire_within_limits(
                core.calendar,
                limits,
                each,
                now,
                by=None if is_admin else self._owner(each),
                availability=availabilities[each.account],
            )
            for each in asked
        ]
        return self._quoted(asked, answers, now)

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await self._book(request, ttl_s, job=job)

    async def set_at_once(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """A reservation in one step, for a caller with nobody else to wait for."""
        return await self._book(request, None, is_dry_run=is_dry_run)

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """See ``CalendarPort``. A hold whose trip is decided by acceptors does not expire by
        itself, so its commit is never too late while it is held.
        """
        core, now = self._core, self._core.clock.now()
        hold = core.calendar.get(reservation_id, self._by(reservation_id))
        if core.trips.participant.must_ask(hold):
            answer, events = core.calendar.decide_late_commit(reservation_id, now)
        else:
            answer, events = core.calendar.decide_commit(reservation_id, None, now)
        await core.record(events, manifest=manifest).durable()
        return answer if isinstance(answer, Decline) else core.shown(answer)

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """See ``CalendarPort``."""
        return await self._core.trips.vote(question, self._caller)

    async def release(self, reservation_id: str) -> None:
        """See ``CalendarPort``."""
        core = self._core
        events = core.calendar.decide_release(
            reservation_id, self._by(reservation_id), core.clock.now()
        )
        await core.record(events).durable()
        if events:
            await core.runner.reservation_ended(reservation_id)

    async def release_request(self, request_id: str) -> None:
        """See ``CalendarPort``."""
        core = self._core
        owner = self._owner_of_request(request_id)
        known = core.calendar.find_request(owner, request_id)
        events = core.calendar.decide_release_request(request_id, owner, core.clock.now())
        await core.record(events).durable()
        if events and known is not None:
            await core.runner.reservation_ended(known.reservation_id)

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        core, now = self._core, self._core.clock.now()
        by = self._by(reservation_id)
        old = core.calendar.get(reservation_id, by)
        if reservation_id in core.state.fixed:
            message = f"{old.site}: {reservation_id} is of particular nodes; reserve anew instead"
            return Decline(rule=DeclineRule.STATE, message=message, site=old.site)
        asked = self._mine(request, has_account=request.account == old.request.account)
        if asked.trip is not None:
            core.neighbours.check(asked.trip.acceptors, now)
        quote = self._quote_of(asked, old.owner)
        if isinstance(quote, Decline):
            return quote
        answer, events = decide_amend_within_limits(
            core.calendar,
            core.parts.limits,
            reservation_id,
            asked,
            by,
            now,
            availability=core.availability(now, asked.account),
            quote=quote,
        )
        if events and isinstance(answer, Reservation):
            poor = core.cashier.hold(answer, now)
            if poor is not None:
                return poor
        await core.record(events).durable()
        return answer

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """See ``CalendarPort``."""
        async for news in self._core.publisher.subscribe():
            yield news

    # -- inside ------------------------------------------------------------------------------------

    async def _book(
        self,
        request: ReservationRequest,
        ttl_s: int | None,
        *,
        job: HeldJob | None = None,
        is_dry_run: bool = False,
    ) -> Reservation | Decline:
        core, now = self._core, self._core.clock.now()
        asked = self._mine(request)
        refusal = refuse_shared(core, asked)
        if refusal is not None:
            return refusal
        held_job = None if job is None else self._own_job(job)
        owner = self._owner(asked)
        self._check_acceptors(asked, owner, now)
        if (self._caller.owner, asked.request_id) in core.calendar.tombstoned:
            owner = self._caller.owner  # a manager undid it before it came
        registering: tuple[TripRegistered, ...] = ()
        if asked.trip is not None:
            named = core.trips.registering(register_of(asked.trip, owner), now)
            if isinstance(named, Decline):
                return named
            registering = named
        contact = core.parts.port_pool.pick(core.calendar.unordered_live()) if asked.trip else ""
        quote = self._quote_of(asked, owner)
        if isinstance(quote, Decline):
            return quote
        answer, events = decide_reserve_within_limits(
            core.calendar,
            core.parts.limits,
            asked,
            owner,
            ttl_s,
            now,
            availability=core.availability(now, asked.account),
            contact=contact,
            quote=quote,
        )
        if is_dry_run:
            return answer
        if isinstance(answer, Decline):
            await core.record((*registering, *events) if events else ()).durable()
            return answer
        with_job: list[AgentEvent] = []
        if not events:
            self._check_same_job(answer, held_job)
        elif held_job is not None:
            if held_job.spec.handover is not None:
                core.neighbours.check([held_job.spec.handover], now)
            refusal = refuse_with_hold(core, held_job.spec, owner, answer)
            if refusal is not None:
                return refusal
            with_job = [HeldJobKept(reservation_id=answer.reservation_id, job=held_job)]
        if events and (poor := core.cashier.hold(answer, now)) is not None:
            return poor
        await core.record((*registering, *events, *with_job) if events else ()).durable()
        return core.shown(answer)

    def _quoted(
        self,
        asked: Sequence[ReservationRequest],
        answers: Sequence[Availability | Decline],
        now: Instant,
    ) -> list[Availability | Decline]:
        """The answers as this caller gets them. A manager gets no quotes: what it offers is made of
        many offers, and it asks more often than it books.
        """
        if self._caller.role is Role.MANAGER:
            return list(answers)
        desk, left = self._core.quote_desk, QUOTES_MAX
        told: list[Availability | Decline] = []
        for request, answer in zip(asked, answers, strict=True):
            if isinstance(answer, Availability):
                owner = self._owner(request)
                told.append(desk.quoted(request, owner, answer, now, quotes_max=left))
                left = max(0, left - len(answer.offers))
            else:
                told.append(answer)
        return told

    def _quote_of(self, request: ReservationRequest, owner: str) -> Quote | Decline | None:
        """What came with a request; a request that is said again is answered as before, whatever
        has become of its quote.
        """
        if self._core.calendar.find_request(owner, request.request_id) is not None:
            return None
        return self._core.quote_desk.read(request.quote)

    def _own_job(self, job: HeldJob) -> HeldJob:
        """The job that comes with a hold, on an account that the caller may charge."""
        if self._caller.role is Role.MANAGER:
            raise NotAuthorisedError(
                f"{self._caller.subject} is a manager here, and runs no programs for anybody",
                hint="book time through the manager, and run the program at the sites",
            )
        account = account_of(self._caller, job.spec.account, is_paid=self._core.cashier.collects)
        return HeldJob(spec=replace(job.spec, account=account))

    def _check_same_job(self, hold: Reservation, job: HeldJob | None) -> None:
        """A request that is said again brings the job that it brought."""
        if hold.state is not ReservationState.HELD:
            return
        if self._core.jobs.legs.held.get(hold.reservation_id) != job:
            raise InputError(
                f"request id {hold.request.request_id!r} was used with another job",
                hint="use a new id for each request",
            )

    def _mine(
        self, request: ReservationRequest, *, has_account: bool = False
    ) -> ReservationRequest:
        """The request as this caller may make it: a proven login, an account it may charge.
        ``has_account``: the account is charged already, so that an administrator may change what
        others have booked.
        """
        if self._caller.role is Role.MANAGER:
            return self._for_beneficiary(request)
        require_login(self._caller, "reserve")
        account = (
            request.account
            if has_account
            else account_of(self._caller, request.account, is_paid=self._core.cashier.collects)
        )
        return replace(request, account=account, beneficiary="")

    def _for_beneficiary(self, request: ReservationRequest) -> ReservationRequest:
        """What a manager asks for somebody whom this site knows, on an account that this one may
        charge here. Where the choice of the account is the site's, it is the beneficiary's own.
        """
        if not request.beneficiary:
            raise NotAuthorisedError(
                f"{self._caller.subject} is a manager here, and books only for somebody",
                hint="name the beneficiary",
            )
        if not came_through(request, self._caller):
            raise NotAuthorisedError(
                f"{self._caller.subject} asks as if it were another manager",
                hint="the request must name it among those that it came through",
            )
        beneficiary = self._core.beneficiary(request.beneficiary)
        return replace(
            request,
            account=account_of(beneficiary, request.account, is_paid=self._core.cashier.collects),
        )

    def _check_acceptors(self, request: ReservationRequest, owner: str, now: Instant) -> None:
        """Refuse a leg whose trip is kept by sites that no card proves; what is said again is
        answered as before.
        """
        core, trip = self._core, request.trip
        if trip is not None and core.calendar.find_request(owner, request.request_id) is None:
            core.neighbours.check(trip.acceptors, now)

    def _owner(self, request: ReservationRequest) -> str:
        if request.beneficiary:
            return self._core.beneficiary(request.beneficiary).owner
        return self._caller.owner

    def _by(self, reservation_id: str) -> str | None:
        """On whose authority this caller touches a reservation; ``None``: the calendar's master. A
        manager touches what came through it, and nothing else.
        """
        if self._caller.role is Role.MANAGER:
            known = self._core.calendar.reservations.get(reservation_id)
            is_ours = known is not None and came_through(known.request, self._caller)
            return None if is_ours else self._caller.owner
        owner = require_login(self._caller, "change a reservation")
        return None if self._caller.role is Role.ADMIN else owner

    def _owner_of_request(self, request_id: str) -> str:
        """Under whose name a request of this caller is kept: a manager's under its beneficiary's,
        and one that has not come yet under the manager's own.
        """
        if self._caller.role is not Role.MANAGER:
            return require_login(self._caller, "release")
        made = (
            each.owner
            for each in self._core.calendar.reservations.values()
            if each.request.request_id == request_id and came_through(each.request, self._caller)
        )
        return next(made, self._caller.owner)
