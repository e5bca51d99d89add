"""A calendar manager over children in one process, in virtual time, with a network that a test can
spoil.

The children are real calendars behind the real port; each keeps its events as a journal would, and
can die and come back. The manager is the production class on a simulated disk.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from gridcore.calendar_events import CalendarEvent
from gridcore.calendar_rules import CalendarRules, ResourceClass
from gridcore.calendars import Calendar
from gridcore.callers import Caller, Role
from gridcore.errors import NotAuthorisedError, UnavailableError
from gridcore.ladders import EXACT, SlotLadder
from gridcore.ports import CalendarPort, ClassDescription, SiteDescription, SitePort
from gridcore.reservations import (
    Availability,
    Decline,
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.summarising import summarise
from gridcore.tariffs import FlatTariff
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion
from gridio.connections import ClockSkew, SiteConnection, TransportName
from gridio.ids import SeededIds
from gridio.journal_memory import Disk, MemoryJournal, WriteHook
from gridio.publishing import CalendarPublisher
from manager.calendar_manager import CalendarManager, ManagerParts
from manager.children import Child
from manager.composite_calendar import ManagerRules
from manager.shadows import KeeperRules
from tests.builders import a_request
from tests.virtual_time import START, LoopClock

T = TypeVar("T")

ADA = Caller(subject="/O=grid/OU=users/CN=ada", login="ada", accounts=("ada", "physics"))
BOB = Caller(subject="/O=grid/OU=users/CN=bob", login="bob", accounts=("bob", "physics"))
TOP = Caller(subject="/O=grid/OU=managers/CN=top", role=Role.MANAGER)
NORTH = Caller(subject="/O=grid/OU=managers/CN=north", role=Role.MANAGER)
STRANGER = Caller(subject="/O=grid/OU=users/CN=eve")

CHILD_RULES = CalendarRules(
    horizon_s=20_000,
    hold_ttl_min_s=2,
    hold_ttl_max_s=60,
    hold_margin_s=1,
    tombstone_s=600,
)
MANAGER_RULES = ManagerRules(calendar=replace(CHILD_RULES, tombstone_s=600), commit_margin_s=5)
SOON: int = START + 100
"""A start that leaves enough time for every hold."""


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

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        """Hold; a refusal brings a fresh summary."""
        now = self._site.clock.now()
        owner = self._caller.owner
        answer, events = self._site.calendar.decide_reserve(request, owner, ttl_s, now)
        self._site.carry_out(events)
        if isinstance(answer, Decline):
            return replace(answer, summary=self._site.summary())
        return answer

    async def commit(self, reservation_id: str) -> Reservation | Decline:
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
            raise NotAuthorisedError("mapped to nobody")
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


Spoiler = Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Carries one call: (child, verb, the call itself)."""


@dataclass
class Network:
    """Counts every call, and carries it; a test may put its own carrier in its place."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    carry: Spoiler | None = None

    def count(self, *verbs: str) -> int:
        """Calls of these verbs, or of all."""
        return sum(n for (_, verb), n in self.calls.items() if not verbs or verb in verbs)

    async def call(self, child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """One question and its answer."""
        self.calls[child, verb] += 1
        if self.carry is None:
            return await work()
        return await self.carry(child, verb, work)


class WorldConnection:
    """A ``SiteConnection`` over the ``Network``; down while the site is."""

    def __init__(
        self, services: Any, caller: Caller, network: Network, *, is_up: Callable[[], bool]
    ) -> None:
        self._services = services
        self._caller = caller
        self._network = network
        self._is_up = is_up
        self.name: str = services.name

    @property
    def calendar(self) -> CalendarPort:
        """Through the network."""
        return _NetworkPort(self)

    @property
    def site(self) -> SitePort:
        """None here."""
        raise AssertionError("a manager submits nothing")

    @property
    def transport(self) -> TransportName:
        """Of this test."""
        return "inproc"

    @property
    def endpoint(self) -> str:
        """Of this test."""
        return f"inproc:{self.name}"

    def skew_s(self) -> ClockSkew | None:
        """Not measured."""
        return None

    async def close(self) -> None:
        """Nothing to end."""

    def port(self) -> CalendarPort:
        """The real port, while the site is up."""
        if not self._is_up():
            raise UnavailableError(f"{self.name} is down")
        found: CalendarPort = self._services.calendar_port(self._caller)
        return found

    async def call(self, verb: str, work: Callable[[CalendarPort], Awaitable[Any]]) -> Any:
        """One call of the port."""

        async def at_the_site() -> Any:
            return await work(self.port())

        return await self._network.call(self.name, verb, at_the_site)


class _NetworkPort:
    def __init__(self, connection: WorldConnection) -> None:
        self._connection = connection

    async def describe(self) -> SiteDescription:
        answer: SiteDescription = await self._connection.call("describe", lambda p: p.describe())
        return answer

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        answer: list[Availability | Decline] = await self._connection.call(
            "inquire", lambda p: p.inquire(requests)
        )
        return answer

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        answer: Reservation | Decline = await self._connection.call(
            "reserve", lambda p: p.reserve(request, ttl_s=ttl_s)
        )
        return answer

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        answer: Reservation | Decline = await self._connection.call(
            "commit", lambda p: p.commit(reservation_id)
        )
        return answer

    async def release(self, reservation_id: str) -> None:
        await self._connection.call("release", lambda p: p.release(reservation_id))

    async def release_request(self, request_id: str) -> None:
        await self._connection.call("release_request", lambda p: p.release_request(request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        raise AssertionError("a manager amends by holds that replace")

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        answer: AcceptorAnswer = await self._connection.call("vote", lambda p: p.vote(question))
        return answer

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        async for news in self._connection.port().subscribe():
            self._connection.port()
            yield news


class World:
    """A manager ``north`` over the sites given, in virtual time."""

    def __init__(
        self,
        sites: Sequence[ChildSite],
        *,
        disk: Disk | None = None,
        on_write: WriteHook | None = None,
        keeper_rules: KeeperRules | None = None,
        ladder: SlotLadder = EXACT,
        name: str = "north",
        extra_children: Sequence[tuple[CalendarManager, Network]] = (),
        connect: Callable[[str, str], SiteConnection] | None = None,
    ) -> None:
        self.connect = connect or _no_way
        self.name = name
        self.sites = {each.name: each for each in sites}
        self.network = Network()
        self.clock = LoopClock()
        self.disk = disk or Disk()
        self.on_write = on_write
        self.keeper_rules = keeper_rules or KeeperRules()
        self.ladder = ladder
        self.extra_children = extra_children
        self.runs = 0
        self.is_up = True
        self._task: asyncio.Task[None] | None = None
        self._site_time: asyncio.Task[None] | None = None
        self.manager = self._make()

    @property
    def ada(self) -> CalendarPort:
        """The manager's calendar for a user."""
        return self.manager.calendar_port(ADA)

    @property
    def bob(self) -> CalendarPort:
        """And for another one."""
        return self.manager.calendar_port(BOB)

    def start(self) -> None:
        """Let the manager run."""
        self._task = asyncio.create_task(self.manager.run())
        if self._site_time is None:
            self._site_time = asyncio.create_task(self._pass_site_time())

    async def crash(self) -> None:
        """The manager dies: what waits for the disk is lost, no errand goes on."""
        self.manager.parts.journal.crash()  # type: ignore[attr-defined]
        self.is_up = False
        await self.stop()

    async def stop(self) -> None:
        """End the manager's tasks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def close(self) -> None:
        """End everything."""
        await self.stop()
        if self._site_time is not None:
            self._site_time.cancel()
            await asyncio.gather(self._site_time, return_exceptions=True)

    async def _pass_site_time(self) -> None:
        while True:
            await self.passes(1)
            for site in self.sites.values():
                if site.is_up:
                    site.sweep()

    def revive(self) -> None:
        """A new manager from what is on the disk."""
        self.runs += 1
        self.is_up = True
        self.manager = self._make()
        self.manager.replay()
        self.start()

    async def passes(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep_until(self.clock.now_precise() + seconds)

    def validate(self) -> None:
        """No calendar and no book contradicts itself."""
        self.manager.book.validate()
        for site in self.sites.values():
            site.calendar.validate()

    def assert_whole_or_absent(self) -> None:
        """Once quiet: committed parts at the children are exactly those of committed groups, and
        nothing is held or owed.
        """
        self.validate()
        book = self.manager.book
        promised = {
            (part.child, part.reservation_id)
            for group in book.live()
            if group.reservation.state is ReservationState.COMMITTED
            for part in group.parts
            if part.child in self.sites
        }
        kept = {
            (site.name, each.reservation_id)
            for site in self.sites.values()
            for each in site.of_manager(ReservationState.COMMITTED)
        }
        held = [
            each for site in self.sites.values() for each in site.of_manager(ReservationState.HELD)
        ]
        assert kept == promised, (kept, promised)
        assert not held, held
        assert not book.owed, book.owed
        assert not book.asked, book.asked

    def _make(self) -> CalendarManager:
        caller = Caller(subject=f"/O=grid/OU=managers/CN={self.name}", role=Role.MANAGER)
        children = [
            Child(
                each.name,
                WorldConnection(each, caller, self.network, is_up=partial(getattr, each, "is_up")),
                is_manager=False,
                answer_within_s=3.0,
            )
            for each in self.sites.values()
        ]
        for below, network in self.extra_children:
            services = _Named(below)
            connection = WorldConnection(services, caller, network, is_up=lambda: True)
            children.append(Child(services.name, connection, is_manager=True, answer_within_s=6.0))
        return CalendarManager(
            ManagerParts(
                name=self.name,
                children=children,
                journal=MemoryJournal(self.disk, on_write=self.on_write),
                clock=self.clock,
                ids=SeededIds(self.runs),
                rules=MANAGER_RULES,
                ladder=self.ladder,
                published_horizon_s=20_000,
                subject_of=lambda caller: caller.subject,
                connect=self.connect,
                keeper_rules=self.keeper_rules,
            )
        )


class _Named:
    def __init__(self, below: CalendarManager) -> None:
        self.name = below.parts.name
        self._below = below

    def calendar_port(self, caller: Caller) -> CalendarPort:
        return self._below.calendar_port(caller)


def _no_way(name: str, endpoint: str) -> SiteConnection:
    raise UnavailableError(f"no way to {name}")


@asynccontextmanager
async def a_world(*sites: ChildSite, **options: Any) -> AsyncIterator[World]:
    """A running world whose shadows are in step."""
    world = World(sites, **options)
    world.start()
    await world.passes(0.5)
    try:
        yield world
    finally:
        await world.close()


def a_wish(request_id: str = "wish-1", **others: Any) -> ReservationRequest:
    """Six nodes for a minute, at ``SOON``."""
    chosen: dict[str, Any] = {"nodes": 6, "duration_s": 60, "start": SOON}
    if "earliest" in others:
        del chosen["start"]
    return a_request(request_id, **(chosen | others))


async def held(port: CalendarPort, request: ReservationRequest, *, ttl_s: int = 20) -> Reservation:
    """A granted hold; a refusal fails the test."""
    answer = await port.reserve(request, ttl_s=ttl_s)
    assert isinstance(answer, Reservation), answer
    assert answer.state is ReservationState.HELD
    return answer


async def booked(port: CalendarPort, request: ReservationRequest) -> Reservation:
    """A committed reservation; a refusal fails the test."""
    hold = await held(port, request)
    answer = await port.commit(hold.reservation_id)
    assert isinstance(answer, Reservation), answer
    assert answer.state is ReservationState.COMMITTED
    return answer


def unreliable(seed: int, *, loss: float = 0.1, doubles: float = 0.1) -> Spoiler:
    """Loses questions and answers, is slow, and delivers some calls twice, the second time late."""
    chance = random.Random(seed)
    late: list[asyncio.Task[Any]] = []

    async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
        clock = LoopClock()
        await clock.sleep_until(clock.now_precise() + chance.random() * 0.2)
        fate = chance.random()
        if fate < loss / 2:
            raise UnavailableError(f"{verb} to {child} was lost")
        if chance.random() < doubles and verb not in ("describe", "inquire"):
            late.append(asyncio.create_task(again(chance.random() * 40, work)))
        answer = await work()
        if fate < loss:
            raise UnavailableError(f"the answer of {child} to {verb} was lost")
        await clock.sleep_until(clock.now_precise() + chance.random() * 0.2)
        return answer

    async def again(delay_s: float, work: Callable[[], Awaitable[Any]]) -> None:
        clock = LoopClock()
        await clock.sleep_until(clock.now_precise() + delay_s)
        await asyncio.gather(_as_task(work), return_exceptions=True)

    async def _as_task(work: Callable[[], Awaitable[Any]]) -> None:
        await work()

    return carry
