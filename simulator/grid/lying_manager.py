"""A calendar manager that lies, over some of a world's sites, in its own name and in its users'.

It is the production manager, so its children are asked, held and committed as by any; and beside
that it says to its callers and its children what it likes. It claims nodes that it has not, says
committed what is not, commits and lets go, books for somebody who did not ask, under their trips
and their requests. The sites below it believe it about for whom it asks (``@manager`` in their
grid-mapfiles), which is the most that a manager can have. docs/protocol.md, section 1 ("Trust").
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast

from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Offer,
    Reservation,
    ReservationRequest,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.booking.summaries import CalendarVersion
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.manifests import NO_CONTACTS, Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    TRAVELLERS_FIRST,
    AcceptorAnswer,
    Ballot,
    Outcome,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.journal.contract import JournalFailed
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.port import ManagerEndpoint
from gridtravel.manager.shadows.children import Child
from gridtravel.simulator.grid.liars import (
    CALM_PAUSE_MOST_S,
    LIE_TTL_S,
    LIES_FOR_S,
    PAUSE_MOST_S,
    Liar,
)
from gridtravel.simulator.grid.simulated_site import CLASS_NAME, LADDER, subject_of_laptop
from gridtravel.simulator.kernel.network_wire import SimulatedConnection
from gridtravel.simulator.kernel.processes import SimulatedProcess, first_fault
from gridtravel.simulator.kernel.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from gridtravel.gridcore.ports import SiteServices
    from gridtravel.gridio.sites.connections import SiteConnection
    from gridtravel.simulator.grid.world_frame import LiarsFrame

FALSE_ANSWERS: Final = 0.25
"""Share of its answers that it makes up."""
CHILD_WITHIN_S: Final = 3.0
"""How long it waits for a child."""
RESTART_AFTER_FAULT_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPlan:
    """A manager, and the sites below it."""

    name: str
    children: tuple[str, ...]


class LyingManager:
    """One manager of a world, over all its lives. Nobody checks its books."""

    def __init__(self, plan: ManagerPlan, frame: LiarsFrame) -> None:
        self.plan = plan
        self.name = plan.name
        self.chance = frame.chance.child(f"lies of {plan.name}")
        self.frame = frame
        self.starts = 0
        self.manager: _FalseManager | None = None
        self.passed: list[tuple[str, str]] = []
        """(site, reservation): what it was granted in others' names."""
        self.told: dict[str, Reservation] = {}
        """By its id: what it has made up."""
        self._clock = VirtualClock(frame.loop)
        self._caller = Caller(subject=f"/O=grid/OU=managers/CN={self.name}", role=Role.MANAGER)
        self._disk = Disk(ids=SeededIds(self.chance.number()))
        self._ids = SeededIds(self.chance.number())
        self._journal: MemoryJournal | None = None
        self._life: SimulatedProcess | None = None
        self._asked = 0

    # -- as a host ---------------------------------------------------------------------------------

    @property
    def clock(self) -> VirtualClock:
        """Its own, which is right."""
        return self._clock

    @property
    def life(self) -> SimulatedProcess | None:
        """Its life, if it lives."""
        return self._life if self._life is not None and self._life.is_alive else None

    def services(self) -> SiteServices | None:
        """The manager, once it serves. It has a calendar only, which the wire sees for itself."""
        return cast("SiteServices | None", self.manager)

    def acknowledged(self, method: str, question: Any, answer: Any) -> None:
        """What it says binds nobody."""

    # -- lives -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the daemon, if it is down."""
        if self.life is not None or self.frame.loop.is_ending:
            return
        self.starts += 1
        self._life = SimulatedProcess(self.name, on_death=lambda: None)
        self.frame.event_log.tell(self.name, "starts (start {})", self.starts)
        self._life.start(self._run(self._life), "daemon")

    def crash(self, *, is_power_cut: bool = False) -> None:
        """The daemon dies here and now."""
        if self.life is None:
            return
        self.life.end()
        self.manager = None
        if self._journal is not None:
            self._journal.crash()

    async def _run(self, life: SimulatedProcess) -> None:
        """One life of the daemon (``manager.daemon``, without files and sockets), and its lies."""
        try:
            self._journal = MemoryJournal(self._disk)
            manager = _FalseManager(self._parts(life, self._journal), self)
            manager.replay()
            async with asyncio.TaskGroup() as group:
                group.create_task(manager.run())
                group.create_task(self._lie(life))
                self.manager = manager
        except* JournalFailed as faults:
            self.frame.event_log.tell(self.name, "ends: {}", faults.exceptions[0])
        except* Exception as faults:
            self.frame.event_log.broken(
                "no defects", f"{self.name} ends by {first_fault(faults)}", self.name
            )
        self.crash()
        self.frame.restart_later(self, RESTART_AFTER_FAULT_S)

    def _parts(self, life: SimulatedProcess, journal: MemoryJournal) -> ManagerParts:
        def connect(site: str, endpoint: str = "") -> SiteConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, site, self._caller)

        rules = CalendarRules()
        return ManagerParts(
            name=self.name,
            children=[
                Child(each, connect(each), is_manager=False, answer_within_s=CHILD_WITHIN_S)
                for each in self.plan.children
            ],
            journal=journal,
            clock=self.clock,
            ids=self._ids,
            rules=ManagerRules(calendar=rules),
            ladder=LADDER,
            published_horizon_s=rules.horizon_s,
            subject_of=lambda caller: caller.subject,
            connect=connect,
            cards=self.frame.cards,
        )

    # -- lies that nobody asked for ----------------------------------------------------------------

    async def _lie(self, life: SimulatedProcess) -> None:
        def way(site: str) -> SimulatedConnection:
            return SimulatedConnection(self.frame.network, life, self.clock, site, self._caller)

        liar = Liar(self.frame, self.name, self.chance, way)
        while (second := self.frame.loop.time()) < LIES_FOR_S:
            trip = liar.trip()
            if trip is not None:
                await self._lie_about(liar, trip)
            most_s = PAUSE_MOST_S if second < self.frame.storm_s else CALM_PAUSE_MOST_S
            pause_s = self.chance.seconds(0.05, most_s)
            await self.clock.sleep_until(self.clock.now_precise() + pause_s)

    async def _lie_about(self, liar: Liar, trip: TripRef) -> None:
        own = [each.leg for each in trip.legs if each.site == self.name]
        match self.chance.whole(1, 6):
            case 1 if own:
                await liar.hold_ready(trip, own[0])
            case 2 | 3:
                await self._book_for_somebody(liar, trip)
            case 4:
                await self._end_or_commit(liar)
            case 5:
                await self._touch(liar, liar.site_of(trip))
            case _:
                await liar.vote(trip)

    async def _book_for_somebody(self, liar: Liar, trip: TripRef) -> None:
        """A hold in the name of somebody who did not ask, under a trip of theirs or of nobody,
        where it has a leg or where it has none; sometimes under a request of theirs.
        """
        chance, site = self.chance, liar.site_of(trip)
        known = self.frame.known_reservations(site)
        of_trip = [
            each
            for each in known
            if each.request.trip is not None and each.request.trip.trip_id == trip.trip_id
        ]
        owner = chance.one_of([each.owner for each in of_trip or known] or ["user1"])
        self._asked += 1
        request_id = f"{self.name}-{self._asked}"
        if of_trip and chance.happens(0.3):
            request_id = chance.one_of(of_trip).request.request_id
        named = chance.one_of(
            [
                trip,
                replace(trip, participants=(*trip.participants, self.name)),
                replace(trip, attempt=trip.attempt + 1),
                None,
            ]
        )
        start = max([each.start for each in trip.legs], default=0)
        start = max(start, self.clock.now() + 20)
        duration_s = chance.whole(20, 120)
        request = ReservationRequest(
            request_id=request_id,
            account="default",
            nodes_min=1,
            nodes_max=1,
            duration_s=duration_s,
            earliest_start=start,
            latest_end=start + duration_s + chance.one_of([0, 600]),
            trip=named,
            beneficiary=subject_of_laptop(owner),
            via=(self.name,),
        )

        async def reserve(way: SimulatedConnection) -> None:
            answer = await way.calendar.reserve(request, ttl_s=LIE_TTL_S)
            if isinstance(answer, Reservation):
                self.passed.append((site, answer.reservation_id))
                if chance.happens(0.4):
                    await way.calendar.commit(answer.reservation_id)

        await liar.say(site, reserve)

    async def _end_or_commit(self, liar: Liar) -> None:
        """Of what it was granted in others' names: commit, let go, or one after the other."""
        if not self.passed:
            return
        site, key = self.chance.one_of(self.passed)
        if self.chance.happens(0.7):
            await liar.say(site, lambda way: way.calendar.commit(key))
        if self.chance.happens(0.5):
            await liar.say(site, lambda way: way.calendar.release(key))

    async def _touch(self, liar: Liar, site: str) -> None:
        """Commit, release or bury what did not come through it."""
        found = self.frame.known_reservations(site)
        if not found:
            return
        target = self.chance.one_of(found)
        match self.chance.whole(1, 3):
            case 1:
                await liar.say(site, lambda way: way.calendar.commit(target.reservation_id))
            case 2:
                await liar.say(site, lambda way: way.calendar.release(target.reservation_id))
            case _:
                request_id = target.request.request_id
                await liar.say(site, lambda way: way.calendar.release_request(request_id))


class _FalseManager(CalendarManager):
    """The production manager, with doors of its own."""

    def __init__(self, parts: ManagerParts, liar: LyingManager) -> None:
        super().__init__(parts)
        self._liar = liar

    def calendar_port(self, caller: Caller) -> ManagerEndpoint:
        """See ``CalendarManager``."""
        return _LyingEndpoint(self, caller, self._liar)


class _LyingEndpoint(ManagerEndpoint):
    """Answers truly, or as it likes; what it has really done is another matter."""

    def __init__(self, manager: CalendarManager, caller: Caller, liar: LyingManager) -> None:
        super().__init__(manager, caller)
        self._liar = liar
        self._chance = liar.chance

    async def inquire(
        self,
        requests: Sequence[ReservationRequest],
    ) -> list[Availability | Decline]:
        """Nodes that it has not, or none although it has; always room while no child answers."""
        try:
            answers = await super().inquire(requests)
        except UnavailableError:
            return [self._false_room(request) for request in requests]
        return [
            self._false_room(request) if self._lies() else answer
            for request, answer in zip(requests, answers, strict=True)
        ]

    async def reserve(
        self, request: ReservationRequest, *, ttl_s: int, job: Any = None
    ) -> Reservation | Decline:
        """A hold that is none; a refusal of what is held; a hold that is let go at once."""
        if not self._lies():
            try:
                answer = await super().reserve(request, ttl_s=ttl_s, job=job)
            except UnavailableError:
                return self._false_reservation(request, ReservationState.HELD)
            if isinstance(answer, Reservation) or self._chance.happens(0.5):
                return answer
        if self._chance.happens(0.4):
            return self._false_reservation(request, ReservationState.HELD)
        answer = await super().reserve(request, ttl_s=ttl_s, job=job)
        if isinstance(answer, Reservation) and self._chance.happens(0.5):
            await super().release(answer.reservation_id)
            return answer
        return self._refusal()

    async def commit(
        self, reservation_id: str, *, manifest: Manifest = NO_CONTACTS
    ) -> Reservation | Decline:
        """Committed, and it is not; not, and it is; committed, and let go."""
        group = self._liar.manager and self._liar.manager.book.groups.get(reservation_id)
        if not self._lies() and group is not None:
            return await super().commit(reservation_id, manifest=manifest)
        held = self._liar.told.get(reservation_id) or (group.reservation if group else None)
        if held is None or self._chance.happens(0.2):
            return self._refusal()
        committed = replace(held, state=ReservationState.COMMITTED, hold_expires_at=None)
        if group is not None and self._chance.happens(0.5):
            await super().commit(reservation_id, manifest=manifest)
            await super().release(reservation_id)
        return committed

    async def release(self, reservation_id: str) -> None:
        """Done, and it is not."""
        if not self._lies():
            await super().release(reservation_id)

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        """As if it kept outcomes, another one each time."""
        ballot = self._chance.one_of([TRAVELLERS_FIRST, Ballot(7, "anybody:1:1")])
        voted = Vote(ballot=ballot, outcome=self._chance.one_of(list(Outcome)))
        return AcceptorAnswer(
            acceptor=self._chance.one_of([self._liar.name, *self._liar.plan.children]),
            is_granted=self._chance.happens(0.7),
            promised=ballot,
            vote=self._chance.one_of([None, voted]),
        )

    def _lies(self) -> bool:
        return self._chance.happens(FALSE_ANSWERS)

    def _refusal(self) -> Decline:
        return Decline(rule=DeclineRule.NO_ROOM, message="no room", site=self._liar.name)

    def _false_room(self, request: ReservationRequest) -> Availability | Decline:
        if self._chance.happens(0.3):
            return self._refusal()
        start = max(request.earliest_start, self._liar.clock.now() + 10)
        offer = Offer(
            start=start,
            start_until=start + 600,
            nodes=request.nodes_max,
            resource_class=CLASS_NAME,
            unit_price_millicredits=0,
        )
        version = CalendarVersion("made-up", self._chance.whole(1, 1_000))
        return Availability(offers=(offer,), version=version, known_until=start + 600)

    def _false_reservation(
        self, request: ReservationRequest, state: ReservationState
    ) -> Reservation:
        now, number = self._liar.clock.now(), len(self._liar.told) + 1
        start = max(request.earliest_start, now + 10)
        made_up = Reservation(
            reservation_id=f"{self._liar.name}.made-up-{number}",
            site=self._liar.name,
            owner=self._caller.owner,
            request=request,
            resource_class=CLASS_NAME,
            nodes=request.nodes_max,
            interval=Interval(start, start + request.duration_s),
            state=state,
            created_at=now,
            price_millicredits=0,
            hold_expires_at=now + 60,
        )
        self._liar.told[made_up.reservation_id] = made_up
        return made_up
