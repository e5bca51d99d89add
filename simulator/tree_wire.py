"""The network of a simulated tree: counts every message, and loses, delays and doubles some.

Each message is charged to the booking on whose behalf it is sent, also when managers send it on in
tasks of their own (a contextvar, which tasks inherit).
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gridcore.callers import Caller
from gridcore.errors import GridError, UnavailableError
from gridcore.ports import CalendarPort, SiteDescription, SitePort
from gridcore.reservations import Availability, Decline, Reservation, ReservationRequest
from gridcore.summaries import CalendarSummary, SummaryDelta
from gridcore.trip_consensus import AcceptorAnswer, VoteQuestion
from gridio.clock import Clock
from gridio.connections import ClockSkew, TransportName


@dataclass(slots=True)
class Cost:
    """What one booking cost in messages."""

    calls: Counter[str] = field(default_factory=Counter)
    """By verb; a question and its answer are one."""
    refused_holds: int = 0

    @property
    def messages(self) -> int:
        """All of them."""
        return self.calls.total()


BOOKING: Final[contextvars.ContextVar[Cost | None]] = contextvars.ContextVar(
    "booking", default=None
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeWeather:
    """What the network does to a message."""

    loss: float = 0.0
    """Share of questions and of answers that are lost, each half of it."""
    doubles: float = 0.0
    """Share of calls that arrive once more, up to ``late_s`` later."""
    late_s: float = 40.0
    delay_s: float = 0.02
    """Most that a message takes one way."""


class Host(Protocol):
    """Whoever can be called."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def is_up(self) -> bool:
        """False while it is dead."""
        ...

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """Its calendar as it stands now."""
        ...


class TreeWire:
    """Carries the calls of a whole tree."""

    def __init__(self, chance: random.Random, clock: Clock, weather: TreeWeather) -> None:
        self.weather = weather
        self.calls: Counter[str] = Counter()
        self.news = 0
        """Summaries and changes that were sent to parents."""
        self._chance = chance
        self._clock = clock
        self._late: dict[asyncio.Task[None], None] = {}

    async def carry(
        self, host: Host, caller: Caller, verb: str, work: Callable[[CalendarPort], Awaitable[Any]]
    ) -> Any:
        """One question and its answer."""
        self.calls[verb] += 1
        cost = BOOKING.get()
        if cost is not None:
            cost.calls[verb] += 1
        fate, weather = self._chance.random(), self.weather
        await self._pause(self._chance.random() * weather.delay_s)
        if fate < weather.loss / 2:
            raise UnavailableError(f"{verb} to {host.name} was lost")
        if self._chance.random() < weather.doubles and verb not in ("describe", "inquire"):
            late = asyncio.create_task(self._again(host, caller, work))
            self._late[late] = None
            late.add_done_callback(lambda task: self._late.pop(task, None))
        answer = await work(_port(host, caller))
        if not host.is_up or fate < weather.loss:
            raise UnavailableError(f"the answer of {host.name} to {verb} was lost")
        if cost is not None and verb == "reserve" and isinstance(answer, Decline):
            cost.refused_holds += 1
        await self._pause(self._chance.random() * weather.delay_s)
        return answer

    async def _again(
        self, host: Host, caller: Caller, work: Callable[[CalendarPort], Awaitable[Any]]
    ) -> None:
        await self._pause(self._chance.random() * self.weather.late_s)
        try:
            await work(_port(host, caller))
        except GridError:
            self.calls["late and refused"] += 1

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now_precise() + seconds)


class TreeConnection:
    """A ``SiteConnection`` over the wire, as ``caller``."""

    def __init__(self, host: Host, caller: Caller, wire: TreeWire) -> None:
        self._host = host
        self._port = _WirePort(host, caller, wire)

    @property
    def name(self) -> str:
        """Of the other side."""
        return self._host.name

    @property
    def calendar(self) -> CalendarPort:
        """Through the wire."""
        return self._port

    @property
    def site(self) -> SitePort:
        """None in a tree of calendars."""
        raise UnavailableError("a tree of calendars runs no jobs")

    @property
    def transport(self) -> TransportName:
        """Within this process."""
        return "inproc"

    @property
    def endpoint(self) -> str:
        """A name is enough."""
        return f"inproc:{self._host.name}"

    def skew_s(self) -> ClockSkew | None:
        """Not measured."""
        return None

    async def close(self) -> None:
        """Nothing to end."""


class _WirePort:
    def __init__(self, host: Host, caller: Caller, wire: TreeWire) -> None:
        self._host = host
        self._caller = caller
        self._wire = wire

    async def _call(self, verb: str, work: Callable[[CalendarPort], Awaitable[Any]]) -> Any:
        return await self._wire.carry(self._host, self._caller, verb, work)

    async def describe(self) -> SiteDescription:
        answer: SiteDescription = await self._call("describe", lambda p: p.describe())
        return answer

    async def inquire(self, requests: Sequence[ReservationRequest]) -> list[Availability | Decline]:
        answer: list[Availability | Decline] = await self._call(
            "inquire", lambda p: p.inquire(requests)
        )
        return answer

    async def reserve(self, request: ReservationRequest, *, ttl_s: int) -> Reservation | Decline:
        answer: Reservation | Decline = await self._call(
            "reserve", lambda p: p.reserve(request, ttl_s=ttl_s)
        )
        return answer

    async def commit(self, reservation_id: str) -> Reservation | Decline:
        answer: Reservation | Decline = await self._call(
            "commit", lambda p: p.commit(reservation_id)
        )
        return answer

    async def release(self, reservation_id: str) -> None:
        await self._call("release", lambda p: p.release(reservation_id))

    async def release_request(self, request_id: str) -> None:
        await self._call("release_request", lambda p: p.release_request(request_id))

    async def amend(
        self, reservation_id: str, request: ReservationRequest
    ) -> Reservation | Decline:
        answer: Reservation | Decline = await self._call(
            "amend", lambda p: p.amend(reservation_id, request)
        )
        return answer

    async def vote(self, question: VoteQuestion) -> AcceptorAnswer:
        answer: AcceptorAnswer = await self._call("vote", lambda p: p.vote(question))
        return answer

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        async for news in _port(self._host, self._caller).subscribe():
            if not self._host.is_up:
                raise UnavailableError(f"{self._host.name} is down")
            self._wire.news += 1
            yield news


def _port(host: Host, caller: Caller) -> CalendarPort:
    if not host.is_up:
        raise UnavailableError(f"{host.name} is down")
    return host.calendar_port(caller)
