"""The network of a simulated tree: counts every message, and loses, delays and doubles some.

Each message is charged to the booking on whose behalf it is sent, also when managers send it on in
tasks of their own (a contextvar, which tasks inherit).
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from gridtravel.gridcore.booking.reservations import Decline
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.gridio.sites.forwarding import Call, ForwardingCalendar
from gridtravel.gridio.system.clock import Clock

T = TypeVar("T")


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
class TreeConditions:
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

    def __init__(self, chance: random.Random, clock: Clock, conditions: TreeConditions) -> None:
        self.conditions = conditions
        self.calls: Counter[str] = Counter()
        self.news = 0
        """Summaries and changes that were sent to parents."""
        self._chance = chance
        self._clock = clock
        self._late: dict[asyncio.Task[None], None] = {}

    async def carry(self, host: Host, caller: Caller, call: Call[CalendarPort, Awaitable[T]]) -> T:
        """One question and its answer."""
        verb = call.verb
        self.calls[verb] += 1
        cost = BOOKING.get()
        if cost is not None:
            cost.calls[verb] += 1
        fate, conditions = self._chance.random(), self.conditions
        await self._pause(self._chance.random() * conditions.delay_s)
        if fate < conditions.loss / 2:
            raise UnavailableError(f"{verb} to {host.name} was lost")
        if self._chance.random() < conditions.doubles and verb not in ("describe", "inquire"):
            late = asyncio.create_task(self._again(host, caller, call))
            self._late[late] = None
            late.add_done_callback(lambda task: self._late.pop(task, None))
        answer = await call.at(_port(host, caller))
        if not host.is_up or fate < conditions.loss:
            raise UnavailableError(f"the answer of {host.name} to {verb} was lost")
        if cost is not None and verb == "reserve" and isinstance(answer, Decline):
            cost.refused_holds += 1
        await self._pause(self._chance.random() * conditions.delay_s)
        return answer

    async def _again(
        self, host: Host, caller: Caller, call: Call[CalendarPort, Awaitable[T]]
    ) -> None:
        await self._pause(self._chance.random() * self.conditions.late_s)
        try:
            await call.at(_port(host, caller))
        except GridError:
            self.calls["late and refused"] += 1

    async def _pause(self, seconds: float) -> None:
        await self._clock.sleep_until(self._clock.now_precise() + seconds)


class TreeConnection:
    """A ``SiteConnection`` over the wire, as ``caller``."""

    def __init__(self, host: Host, caller: Caller, wire: TreeWire) -> None:
        self.name = host.name
        self.calendar: CalendarPort = _WirePort(host, caller, wire)
        self.transport: TransportName = "inproc"
        self.endpoint = f"inproc:{host.name}"

    @property
    def site(self) -> SitePort:
        """None in a tree of calendars."""
        raise UnavailableError("a tree of calendars runs no jobs")

    def skew_s(self) -> ClockSkew | None:
        """Not measured."""
        return None

    async def close(self) -> None:
        """Nothing to end."""


class _WirePort(ForwardingCalendar):
    def __init__(self, host: Host, caller: Caller, wire: TreeWire) -> None:
        self._host = host
        self._caller = caller
        self._wire = wire

    async def ask(self, call: Call[CalendarPort, Awaitable[T]]) -> T:
        return await self._wire.carry(self._host, self._caller, call)

    async def listen(self, call: Call[CalendarPort, AsyncIterator[T]]) -> AsyncIterator[T]:
        async for news in call.at(_port(self._host, self._caller)):
            if not self._host.is_up:
                raise UnavailableError(f"{self._host.name} is down")
            self._wire.news += 1
            yield news


def _port(host: Host, caller: Caller) -> CalendarPort:
    if not host.is_up:
        raise UnavailableError(f"{host.name} is down")
    return host.calendar_port(caller)
