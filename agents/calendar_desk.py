"""The calendar protocol at a node, for one caller (``gridcore.ports.CalendarPort``).

Each verb: who may ask, what the calendar decides, journal and apply, wait for the disk, answer. A
repeated request waits for the disk as well, since the first answer may still be on its way there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agents.access import account_of, came_through, require_login
from gridcore.callers import Caller, Role
from gridcore.errors import NotAuthorisedError
from gridcore.ports import ClassDescription, SiteDescription
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
)
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion
from local_sched.limited_booking import decide_amend_within_limits, inquire_within_limits
from local_sched.user_reservations import decide_reserve_within_limits

if TYPE_CHECKING:
    from agents.node_agent import NodeAgent

SOFTWARE = "gridtravel 0.1.0"


class CalendarDesk:
    """One caller at the agent's calendar."""

    def __init__(self, agent: NodeAgent, caller: Caller) -> None:
        self._agent = agent
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """See ``CalendarPort``."""
        agent, calendar = self._agent, self._agent.calendar
        return SiteDescription(
            site=calendar.site,
            is_manager=False,
            classes=tuple(
                ClassDescription(name=each.name, nodes=each.nodes, features=each.features)
                for each in calendar.classes.values()
            ),
            time_zone=agent.parts.time_zone,
            time_precise=agent.clock.now_precise(),
            lead_s=calendar.rules.lead_s,
            hold_ttl_max_s=calendar.rules.hold_ttl_max_s,
            horizon_s=calendar.rules.horizon_s,
            millicredits_per_node_hour=calendar.tariff.unit_price_millicredits(
                next(iter(calendar.classes)), agent.clock.now(), 3600
            ),
            software=SOFTWARE,
            login=self._caller.login,
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``."""
        agent, now = self._agent, self._agent.clock.now()
        asked = [self._mine(request) for request in requests]
        limits = agent.parts.limits
        accounts = dict.fromkeys(each.account for each in asked)
        rooms = {account: agent.room(now, account) for account in accounts}
        is_admin = self._caller.role is Role.ADMIN
        return [
            inquire_within_limits(
                agent.calendar,
                limits,
                each,
                now,
                by=None if is_admin else self._owner(each),
                room=rooms[each.account],
            )
            for each in asked
        ]

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """See ``CalendarPort``."""
        return await self._book(request, ttl_s)

    async def set_at_once(
        self, request: ReservationRequest, *, is_dry_run: bool
    ) -> Reservation | Decline:
        """A reservation in one step, for a caller with nobody else to wait for."""
        return await self._book(request, None, is_dry_run=is_dry_run)

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        """See ``CalendarPort``. A hold whose trip is decided by acceptors does not expire by
        itself, so its commit is never too late while it is held.
        """
        agent, now = self._agent, self._agent.clock.now()
        hold = agent.calendar.get(reservation_id, self._by(reservation_id))
        if agent.trips.must_ask(hold):
            answer, events = agent.calendar.decide_late_commit(reservation_id, now)
        else:
            answer, events = agent.calendar.decide_commit(reservation_id, None, now)
        await agent.record(events).durable()
        return answer

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """See ``CalendarPort``. For sites of the grid, and for travellers known here."""
        if self._caller.role is Role.USER:
            require_login(self._caller, "vote on trips")
        return await self._agent.trips.vote(question)

    async def release(self, reservation_id: str) -> None:
        """See ``CalendarPort``."""
        agent = self._agent
        events = agent.calendar.decide_release(
            reservation_id, self._by(reservation_id), agent.clock.now()
        )
        await agent.record(events).durable()
        if events:
            await agent.runner.reservation_ended(reservation_id)

    async def release_request(self, request_id: str) -> None:
        """See ``CalendarPort``."""
        agent = self._agent
        owner = self._owner_of_request(request_id)
        known = agent.calendar.find_request(owner, request_id)
        events = agent.calendar.decide_release_request(request_id, owner, agent.clock.now())
        await agent.record(events).durable()
        if events and known is not None:
            await agent.runner.reservation_ended(known.reservation_id)

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        agent, now = self._agent, self._agent.clock.now()
        by = self._by(reservation_id)
        old = agent.calendar.get(reservation_id, by)
        if reservation_id in agent.state.fixed:
            message = f"{old.site}: {reservation_id} is of particular nodes; reserve anew instead"
            return Decline(rule=DeclineRule.STATE, message=message, site=old.site)
        asked = self._mine(request, has_account=request.account == old.request.account)
        answer, events = decide_amend_within_limits(
            agent.calendar,
            agent.parts.limits,
            reservation_id,
            asked,
            by,
            now,
            room=agent.room(now, asked.account),
        )
        await agent.record(events).durable()
        return answer

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """See ``CalendarPort``."""
        async for news in self._agent.publisher.subscribe():
            yield news

    # -- inside ------------------------------------------------------------------------------------

    async def _book(
        self, request: ReservationRequest, ttl_s: int | None, *, is_dry_run: bool = False
    ) -> Reservation | Decline:
        agent, now = self._agent, self._agent.clock.now()
        asked = self._mine(request)
        owner = self._owner(asked)
        if (self._caller.owner, asked.request_id) in agent.calendar.buried:
            owner = self._caller.owner  # a manager undid it before it came
        contact = agent.parts.contacts.pick(agent.calendar.unordered_live()) if asked.trip else ""
        answer, events = decide_reserve_within_limits(
            agent.calendar,
            agent.parts.limits,
            asked,
            owner,
            ttl_s,
            now,
            room=agent.room(now, asked.account),
            contact=contact,
        )
        if is_dry_run:
            return answer
        await agent.record(events).durable()
        return answer

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
        account = request.account if has_account else account_of(self._caller, request.account)
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
        beneficiary = self._agent.beneficiary(request.beneficiary)
        return replace(request, account=account_of(beneficiary, request.account))

    def _owner(self, request: ReservationRequest) -> str:
        if request.beneficiary:
            return self._agent.beneficiary(request.beneficiary).owner
        return self._caller.owner

    def _by(self, reservation_id: str) -> str | None:
        """On whose authority this caller touches a reservation; ``None``: the calendar's master. A
        manager touches what came through it, and nothing else.
        """
        if self._caller.role is Role.MANAGER:
            known = self._agent.calendar.reservations.get(reservation_id)
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
            for each in self._agent.calendar.reservations.values()
            if each.request.request_id == request_id and came_through(each.request, self._caller)
        )
        return next(made, self._caller.owner)
