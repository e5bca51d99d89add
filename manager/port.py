"""The calendar protocol at a manager, for one caller (``gridcore.ports.CalendarPort``).

A caller is mapped by the manager's own grid-mapfile and touches its own groups only. Towards the
children the manager names the caller's subject as the beneficiary; a manager that calls on behalf
of somebody passes that one on, and is itself the owner of the group here. Whether the beneficiary
may have the nodes is for each owner to say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.quotes import GIVES_NONE, refuse_quote
from gridtravel.gridcore.booking.reservations import (
    ID_LENGTH_MAX,
    Availability,
    Decline,
    Reservation,
    ReservationRequest,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.ports import SiteDescription
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import AcceptorAnswer, VoteQuestion
from gridtravel.manager.book.trade import trader
from gridtravel.manager.search.inquiry import ChildRequest
from gridtravel.manager.shadows.children import Child, Standing
from gridtravel.manager.shadows.roll_up import describe_classes

if TYPE_CHECKING:
    from gridtravel.manager.core import ManagerCore

SOFTWARE: Final = "gridtravel 0.1.0"
DEFAULT_ACCOUNT: Final = "default"
"""The account named by a request that leaves the choice to the sites."""


class ManagerEndpoint:
    """One caller at the manager's calendar."""

    def __init__(self, manager: ManagerCore, caller: Caller) -> None:
        self._manager = manager
        self._caller = caller

    async def describe(self) -> SiteDescription:
        """See ``CalendarPort``. ``children`` says which of them is lost or isolated, and why."""
        manager = self._manager
        keeper, rules = manager.keeper, manager.book.rules
        known = [
            each.description
            for each in keeper.children.values()
            if each.description is not None and each.standing is not Standing.ISOLATED
        ]
        ttl_max_s = min((each.hold_ttl_max_s for each in known), default=0)
        return SiteDescription(
            site=manager.parts.name,
            is_manager=True,
            classes=describe_classes(each.classes for each in known),
            time_zone=manager.parts.time_zone,
            time_precise=manager.clock.now_precise(),
            lead_s=manager.inquirer.lead_s,
            hold_ttl_max_s=max(
                rules.calendar.hold_ttl_min_s,
                min(rules.calendar.hold_ttl_max_s, ttl_max_s - rules.commit_margin_s),
            ),
            horizon_s=min(
                rules.calendar.horizon_s, max((each.horizon_s for each in known), default=0)
            ),
            millicredits_per_node_hour=max(
                (each.millicredits_per_node_hour for each in known), default=0
            ),
            software=SOFTWARE,
            login=self._caller.login,
            children=tuple(entry for each in keeper.children.values() for entry in _entries(each)),
            trade=manager.book.trade.accounts() if self._is_known else (),
        )

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        """See ``CalendarPort``."""
        manager, owner = self._manager, self._owner("inquire")
        answers: dict[int, Availability | Decline] = {}
        wants: dict[int, ChildRequest] = {}
        for position, request in enumerate(requests):
            want = self._want(self._on_credit(request, owner), owner)
            if isinstance(want, Decline):
                answers[position] = want
            else:
                wants[position] = want
        version = manager.own_summary.version
        asked = list(wants.values())
        found = await manager.inquirer.answer(asked, version)
        if manager.escalator is not None:
            found = await manager.escalator.better(asked, found, version)
        answers.update(zip(wants, found, strict=True))
        return [answers[position] for position in range(len(requests))]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: HeldJob | None = None
    ) -> Reservation | Decline:
        """See ``CalendarPort``. A manager books time at its sites and runs no programs."""
        owner = self._owner("reserve")
        if job is not None:
            raise InputError(
                f"{self._manager.parts.name} is a manager and runs no job",
                hint="reserve time alone, or name the sites themselves",
            )
        asked = self._mine(request)
        known = self._manager.book.find_request(owner, asked.request_id)
        if known is None and asked.quote:
            return refuse_quote(self._manager.parts.name, GIVES_NONE)
        if known is None and asked.trip is not None:
            self._manager.neighbours.check(asked.trip.acceptors, self._manager.clock.now())
        want = ChildRequest(request=asked) if known is not None else self._want(request, owner)
        if isinstance(want, Decline):
            return want
        return await self._manager.coordinator.reserve(want, owner, ttl_s)

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """See ``CalendarPort``. Its legs have no jobs that the manifest could matter to."""
        return await self._manager.coordinator.commit(reservation_id, self._by("commit"))

    async def release(self, reservation_id: str) -> None:
        """See ``CalendarPort``."""
        await self._manager.coordinator.release(reservation_id, self._by("release"))

    async def release_request(self, request_id: str) -> None:
        """See ``CalendarPort``."""
        await self._manager.coordinator.release_request(request_id, self._owner("release"))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        """See ``CalendarPort``."""
        if request.replaces is not None:
            raise InputError("an amended request replaces nothing else", hint="leave it out")
        if request.quote:
            return refuse_quote(self._manager.parts.name, GIVES_NONE)
        by = self._by("amend")
        group = self._manager.book.get(reservation_id, by)
        if request.trip is not None:
            self._manager.neighbours.check(request.trip.acceptors, self._manager.clock.now())
        want = ChildRequest(
            request=self._mine(request),
            replaces={part.child: part.reservation_id for part in group.parts},
        )
        return await self._manager.coordinator.amend(reservation_id, want, by)

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """See ``CalendarPort``. A manager keeps no trip's outcome."""
        raise NotFoundError(
            f"{self._manager.parts.name} is a manager and keeps no outcome: {question.instance}",
            hint="ask one of the trip's sites",
        )

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """See ``CalendarPort``."""
        async for news in self._manager.publisher.subscribe():
            yield news

    # -- inside ------------------------------------------------------------------------------------

    def _want(self, request: ReservationRequest, owner: str) -> ChildRequest | Decline:
        """The request as the children are to hear it."""
        asked = self._mine(request)
        refusal = self._refuse_debtor(asked, owner)
        if refusal is not None:
            return refusal
        if asked.replaces is None:
            return ChildRequest(request=asked)
        book = self._manager.book
        refusal = book.refuse_replacing(asked.replaces, owner, "replace")
        if refusal is not None:
            return refusal
        parts = book.groups[asked.replaces].parts
        return ChildRequest(
            request=asked, replaces={part.child: part.reservation_id for part in parts}
        )

    def _debtor(self, owner: str) -> str | None:
        """The child that asks. The parent is not limited: for whom it asks is its own affair, and
        it keeps the accounts of its children itself.
        """
        name = trader(owner, self._manager.parts.name)
        return name if name in self._manager.keeper.children else None

    def _refuse_debtor(self, request: ReservationRequest, owner: str) -> Decline | None:
        """What the balance of trade says of a child's request."""
        debtor = self._debtor(owner)
        return None if debtor is None else self._manager.book.refuse_debtor(request, debtor)

    def _on_credit(self, request: ReservationRequest, owner: str) -> ReservationRequest:
        """An inquiry for no more nodes than the asker's debt allows, if that is enough at all."""
        debtor = self._debtor(owner)
        credit_node_s = None if debtor is None else self._manager.book.credit_node_s(debtor)
        if credit_node_s is None:
            return request
        nodes = credit_node_s // request.duration_s
        if not request.nodes_min <= nodes < request.nodes_max:
            return request
        return replace(request, nodes_max=nodes)

    def _mine(self, request: ReservationRequest) -> ReservationRequest:
        """The request as this caller may make it."""
        caller, account = self._caller, request.account
        if account != DEFAULT_ACCOUNT and not caller.may_charge(account):
            raise NotAuthorisedError(
                f"{caller.login} may not charge the account {account!r}",
                hint=f"yours here: {', '.join(caller.accounts)}",
            )
        if caller.role is Role.MANAGER and request.beneficiary:
            request.through(self._manager.parts.name)
            return request
        return replace(request, beneficiary=self._manager.parts.subject_of(caller), via=())

    def _owner(self, verb: str) -> str:
        """The name under which this caller's groups are kept. A manager has no login and needs
        none: it is known by its subject.
        """
        caller = self._caller
        if not caller.login and caller.role is not Role.MANAGER:
            raise NotAuthorisedError(
                f"{caller.subject} is known here, but mapped to no account, and may not {verb}",
                hint="ask the manager for an entry in its grid-mapfile",
            )
        return caller.owner

    @property
    def _is_known(self) -> bool:
        return bool(self._caller.login) or self._caller.role is Role.MANAGER

    def _by(self, verb: str) -> str | None:
        """On whose authority this caller touches a group; ``None``: the manager's own master."""
        owner = self._owner(verb)
        return None if self._caller.role is Role.ADMIN else owner


def _entries(child: Child) -> list[str]:
    """A child in a description, and after it what is below it."""
    if child.standing is not Standing.IN_STEP:
        reason = "".join(each if each.isprintable() else " " for each in child.reason)
        remark = f"{child.name} ({child.standing.value}: {reason})"
        if not child.reason:
            remark = f"{child.name} ({child.standing.value})"
        return [remark if len(remark) <= ID_LENGTH_MAX else f"{remark[: ID_LENGTH_MAX - 2]}…)"]
    below = child.description.children if child.description is not None else ()
    paths = (f"{child.name}/{entry}" for entry in below)
    return [child.name, *(path[:ID_LENGTH_MAX] for path in paths)]
