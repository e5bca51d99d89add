"""The other sites that this one asks about trips: one connection to each, under its own card.

Users bring the names of other sites, as acceptors of a trip and as givers of a pipeline's files,
and a site's card with each. ``Neighbours`` refuses what no card proves when it comes in, and
connects under cards alone. A site of which nobody has brought a card is silent. That happens to
what was journaled before there were cards, and its doubts end as they do with a site that is down.

However many trips name a site, there is one connection to it, kept for life. One that cannot be
made is tried again after pauses that grow.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.sites.connections import (
    IdentityNotProvenError,
    SiteConnection,
    UnreachableError,
)
from gridtravel.gridio.sites.forwarding import Call, ForwardingCalendar, ForwardingSite
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.trust.cards import CardVerifier, SiteCard

log = logging.getLogger(__name__)

PAUSE_FIRST_S: Final = 0.5
PAUSE_MAX_S: Final = 5.0
"""Between two attempts to connect to a site that cannot be reached, doubling. The longest is half
of the time in which a leg asks, before its start, whether its trip was cancelled: a site that comes
back just then is heard.
"""

Connect = Callable[[str, str], SiteConnection]
"""Makes the connection to another site, by its name and endpoint, as this site."""

Port = TypeVar("Port")
T = TypeVar("T")


class Named(Protocol):
    """A site that a user names, and its card: an ``Acceptor``, a ``Handover``."""

    @property
    def site(self) -> str:
        """Its name."""
        ...

    @property
    def card(self) -> str:
        """Where it is reached, as it says itself; empty: nobody knows."""
        ...


class Neighbours:
    """One site's or manager's ways to other sites."""

    def __init__(self, own: str, cards: CardVerifier, connect: Connect, clock: Clock) -> None:
        """``own``: the name of this one, to which no way is needed."""
        self._own = own
        self._cards = cards
        self._connect = connect
        self._clock = clock
        self._ways: dict[str, Neighbour] = {}
        """By name. Only sites with a card have one here, and those of the grid are so many."""

    def check(self, named: Iterable[Named], now: Instant) -> None:
        """Refuse what a user brings unless each other site is named with a card of its own that
        holds now; ``InputError``.
        """
        for each in named:
            if each.site == self._own:
                continue
            try:
                self._cards.verify(each.card, each.site).require_valid(now)
            except InputError as fault:
                raise InputError(
                    f"{self._own} does not ask {each.site}: {fault.message}",
                    hint="say the request again with the card that the site tells of itself"
                    " (gur does so by itself)",
                ) from fault

    def way_to(self, named: Named) -> SiteConnection:
        """The connection to a site, under the latest of its cards that anybody has brought. Without
        any, whatever is asked there is an ``UnavailableError``.
        """
        card = self._verified(named)
        way = self._ways.get(named.site)
        if way is None:
            if card is None:
                log.warning("%s is not asked: nobody has brought its card", named.site)
                return Neighbour(named.site, None, self._connect, self._clock)
            way = self._ways[named.site] = Neighbour(named.site, card, self._connect, self._clock)
        elif card is not None:
            way.hear_of(card)
        return way

    async def close(self) -> None:
        """End all connections."""
        ways = list(self._ways.values())
        self._ways.clear()
        for way in ways:
            await way.close()

    def _verified(self, named: Named) -> SiteCard | None:
        """What was checked when it came in is checked again: a journal may be older than the rule,
        and the grid's authority another one. That a certificate has expired since is no matter.
        """
        if not named.card:
            return None
        try:
            return self._cards.verify(named.card, named.site)
        except InputError as fault:
            log.warning("%s is not asked under this card: %s", named.site, fault)
            return None


@dataclass(slots=True)
class _Line:
    """One connection, for as long as anybody uses it."""

    connection: SiteConnection
    endpoint: str
    users: int = 0
    is_retired: bool = False
    """It is ended with its last user."""


class Neighbour:
    """A ``SiteConnection`` to another site, wherever its latest card says that it is."""

    def __init__(self, name: str, card: SiteCard | None, connect: Connect, clock: Clock) -> None:
        """``card``: ``None`` for one that stays silent."""
        self._name = name
        self._card = card
        self._connect = connect
        self._clock = clock
        self._line: _Line | None = None
        self._pause_s = 0.0
        self._not_before = 0.0
        self._why = ""
        """What the last attempt to connect has found."""
        self.calendar: CalendarPort = _Calendar(self, lambda line: line.connection.calendar)
        self.site: SitePort = _Site(self, lambda line: line.connection.site)
        self.transport: Any = "grpc"

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages."""
        return "" if self._card is None else self._card.endpoint

    def skew_s(self) -> None:
        """Nobody asks a neighbour for its clock."""

    def hear_of(self, card: SiteCard) -> None:
        """A card of the same site: the later one holds, and a site that has moved is tried there
        at once.
        """
        if self._card is None or card.issued_at <= self._card.issued_at:
            return
        if card.endpoint != self._card.endpoint:
            self._pause_s = self._not_before = 0.0
        self._card = card

    async def close(self) -> None:
        """End the connection, also for those who use it; whoever asks later makes another."""
        line, self._line = self._line, None
        if line is not None:
            await line.connection.close()

    @asynccontextmanager
    async def line(self) -> AsyncGenerator[_Line]:
        """The connection for one call. A fault that says that the site cannot be reached ends it
        and begins a pause.
        """
        line = self._open()
        line.users += 1
        try:
            yield line
            if line is self._line:
                self._pause_s = 0.0
        except (UnreachableError, IdentityNotProvenError) as fault:
            if line is self._line:
                self._give_up(line, fault)
            raise
        finally:
            line.users -= 1
            if line.is_retired and line.users == 0:
                await line.connection.close()

    def _open(self) -> _Line:
        """The line to where the site is now."""
        if self._card is None:
            raise UnreachableError(f"{self._name} is not asked: nobody has brought its card")
        if self._line is not None and self._line.endpoint != self._card.endpoint:
            self._retire(self._line)
        if self._line is None:
            wait_s = self._not_before - self._clock.now_precise()
            # A clock that was set back must not make a pause longer than it was.
            if 0 < wait_s <= PAUSE_MAX_S:
                raise UnreachableError(self._why, hint=f"tried again in {wait_s:.1f} s")
            endpoint = self._card.endpoint
            self._line = _Line(self._connect(self._name, endpoint), endpoint)
        return self._line

    def _give_up(self, line: _Line, fault: GridError) -> None:
        """The next attempt has to wait."""
        self._why = fault.message
        self._pause_s = min(max(2 * self._pause_s, PAUSE_FIRST_S), PAUSE_MAX_S)
        self._not_before = self._clock.now_precise() + self._pause_s
        self._retire(line)

    def _retire(self, line: _Line) -> None:
        line.is_retired = True
        self._line = None


class _Way(Generic[Port]):
    """One of the two ports of a neighbour."""

    def __init__(self, neighbour: Neighbour, port_of: Callable[[_Line], Port]) -> None:
        self._neighbour = neighbour
        self._port_of = port_of

    async def ask(self, call: Call[Port, Awaitable[T]]) -> T:
        """See ``Forwarding``."""
        async with self._neighbour.line() as line:
            return await call.at(self._port_of(line))

    async def listen(self, call: Call[Port, AsyncIterator[T]]) -> AsyncIterator[T]:
        """See ``Forwarding``."""
        async with self._neighbour.line() as line:
            answers = cast("AsyncGenerator[T]", call.at(self._port_of(line)))
            async with aclosing(answers):
                async for answer in answers:
                    yield answer


class _Calendar(_Way[CalendarPort], ForwardingCalendar):
    """Its calendar."""


class _Site(_Way[SitePort], ForwardingSite):
    """Its services for the legs of trips."""
