"""A calendar manager over children in one process, in virtual time.

The manager is the production class on a simulated disk; its children are in ``child_site.py``, the
network that leads to them is in ``manager_network.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteHook
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.shadows.children import Child
from gridtravel.manager.shadows.keeper import KeeperRules
from tests.support.builders import a_request
from tests.support.cards import CARDS
from tests.support.child_site import CHILD_RULES, ChildSite
from tests.support.manager_network import Network, WorldConnection
from tests.support.virtual_time import START, LoopClock

ADA = Caller(subject="/O=grid/OU=users/CN=ada", login="ada", accounts=("ada", "physics"))
BOB = Caller(subject="/O=grid/OU=users/CN=bob", login="bob", accounts=("bob", "physics"))
TOP = Caller(subject="/O=grid/OU=managers/CN=top", role=Role.MANAGER)
NORTH = Caller(subject="/O=grid/OU=managers/CN=north", role=Role.MANAGER)
STRANGER = Caller(subject="/O=grid/OU=users/CN=eve")

MANAGER_RULES = ManagerRules(calendar=replace(CHILD_RULES, tombstone_s=600), commit_margin_s=5)
SOON: int = START + 100
"""A start that leaves enough time for every hold."""


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
        rules: ManagerRules = MANAGER_RULES,
    ) -> None:
        self.rules = rules
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
                rules=self.rules,
                ladder=self.ladder,
                published_horizon_s=20_000,
                subject_of=lambda caller: caller.subject,
                connect=self.connect,
                cards=CARDS,
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
