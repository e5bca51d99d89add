"""The network between a calendar manager under test and its children, which a test can spoil."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationRequest
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.sites.forwarding import Call, ForwardingCalendar
from tests.support.virtual_time import LoopClock

T = TypeVar("T")
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

    async def call(self, call: Call[CalendarPort, Awaitable[T]]) -> T:
        """One call of the port."""

        async def at_the_site() -> T:
            return await call.at(self.port())

        return cast(T, await self._network.call(self.name, call.verb, at_the_site))


class _NetworkPort(ForwardingCalendar):
    def __init__(self, connection: WorldConnection) -> None:
        self._connection = connection

    async def ask(self, call: Call[CalendarPort, Awaitable[T]]) -> T:
        return await self._connection.call(call)

    async def listen(self, call: Call[CalendarPort, AsyncIterator[T]]) -> AsyncIterator[T]:
        async for news in call.at(self._connection.port()):
            self._connection.port()
            yield news

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        raise AssertionError("a manager amends by holds that replace")


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
