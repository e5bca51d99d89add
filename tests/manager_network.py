"""The network between a calendar manager under test and its children, which a test can spoil."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gridcore.callers import Caller
from gridcore.errors import UnavailableError
from gridcore.ports import CalendarPort, SiteDescription, SitePort
from gridcore.reservations import Availability, Decline, Reservation, ReservationRequest
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion
from gridio.connections import ClockSkew, TransportName
from tests.virtual_time import LoopClock

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
