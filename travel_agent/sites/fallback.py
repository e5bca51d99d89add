"""One site by whichever of several ways leads there: gRPC first, the SSH login when that is shut.

The way is chosen at the first call, by a question that has no effect, and kept until it fails. A
call that finds its way shut is asked again by another one; every verb is idempotent, so that is
safe. What a site answers, also that it is unavailable or forbids something, is an answer and no
reason to try another way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, TypeVar

from gridtravel.gridcore.errors import DeadlineError, GridError, NotAuthorisedError
from gridtravel.gridcore.ports import CalendarPort, SitePort
from gridtravel.gridio.sites.connections import (
    ClockSkew,
    IdentityNotProvenError,
    SiteConnection,
    TransportName,
    UnreachableError,
)
from gridtravel.gridio.sites.forwarding import Call, ForwardingCalendar, ForwardingSite

T = TypeVar("T")

CHOOSE_WITHIN_S: Final = 5.0
"""How long a way may take to answer before the next one is tried: a firewall that swallows what it
does not like never answers at all. The last way has its own patience.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to the site."""

    name: TransportName
    connect: Callable[[], SiteConnection]
    """Makes the connection; a fault in doing so (no certificate yet) is a shut door as well."""


class FallbackSite:
    """A ``SiteConnection`` by the first of ``ways`` that leads there."""

    def __init__(
        self, site: str, ways: Sequence[Way], *, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """``tell``: is told in one line, once, when it is not the first way."""
        assert ways, "there is at least one way"
        self._site_name = site
        self._ways = tuple(ways)
        self._tell = tell
        self._has_told = False
        self._chosen: SiteConnection | None = None
        self._retired: list[SiteConnection] = []
        """Connections that failed; streams over them may not have noticed yet."""
        self._choosing: asyncio.Future[SiteConnection] | None = None
        self.calendar: CalendarPort = FallbackCalendar(self)
        self.site: SitePort = FallbackSitePort(self)

    @property
    def transport(self) -> TransportName:
        """The way that is used; before the first call the one that will be tried first."""
        return self._chosen.transport if self._chosen is not None else self._ways[0].name

    @property
    def endpoint(self) -> str:
        """Where the way leads that is used; before the first call the site's name."""
        return self._chosen.endpoint if self._chosen is not None else self._site_name

    def skew_s(self) -> ClockSkew | None:
        """As measured on the way that is used."""
        return self._chosen.skew_s() if self._chosen is not None else None

    async def close(self) -> None:
        """End every connection that was made."""
        if self._choosing is not None:
            self._choosing.cancel()
            await asyncio.gather(self._choosing, return_exceptions=True)
        made = [*self._retired, *([self._chosen] if self._chosen is not None else [])]
        self._retired, self._chosen = [], None
        await asyncio.gather(*(each.close() for each in made))

    # -- for the ports -----------------------------------------------------------------------------

    async def ask(self, question: Callable[[SiteConnection], Awaitable[T]]) -> T:
        """Ask by the way in use; when it turns out to be shut, once more by whichever is open."""
        connection = await self._way()
        try:
            return await question(connection)
        except (UnreachableError, IdentityNotProvenError):
            self._give_up(connection)
            return await question(await self._way())

    async def tell_once(self, question: Callable[[SiteConnection], Awaitable[T]]) -> T:
        """The same for words that saying uses up: the next call finds another way."""
        connection = await self._way()
        try:
            return await question(connection)
        except (UnreachableError, IdentityNotProvenError):
            self._give_up(connection)
            raise

    async def listen(
        self, question: Callable[[SiteConnection], AsyncIterator[T]]
    ) -> AsyncIterator[T]:
        """A stream, asked for again by another way only while nothing has come of it."""
        for is_last_try in (False, True):
            connection = await self._way()
            has_begun = False
            try:
                async with aclosing(question(connection)) as items:  # type: ignore[type-var]
                    async for item in items:
                        has_begun = True
                        yield item
                return
            except (UnreachableError, IdentityNotProvenError):
                self._give_up(connection)
                if has_begun or is_last_try:
                    raise

    # -- choosing ----------------------------------------------------------------------------------

    def _give_up(self, connection: SiteConnection) -> None:
        """``connection`` failed; somebody else may have noticed before."""
        if self._chosen is connection:
            self._chosen = None
            self._retired.append(connection)

    async def _way(self) -> SiteConnection:
        """The connection to use. Callers at the same time share one choice."""
        if self._chosen is not None:
            return self._chosen
        if self._choosing is None:
            self._choosing = asyncio.ensure_future(self._choose())
            self._choosing.add_done_callback(self._has_chosen)
        return await asyncio.shield(self._choosing)

    def _has_chosen(self, choosing: asyncio.Future[SiteConnection]) -> None:
        self._choosing = None
        if not choosing.cancelled():
            choosing.exception()  # Whoever waits is told; nobody may be waiting any more.

    async def _choose(self) -> SiteConnection:
        shut: list[tuple[Way, GridError]] = []
        for way in self._ways:
            try:
                connection = way.connect()
            except GridError as fault:
                shut.append((way, fault))
                continue
            is_last = way is self._ways[-1]
            problem = await self._try(connection, None if is_last else CHOOSE_WITHIN_S)
            if problem is None:
                self._chosen = connection
                self._say(shut, way)
                return connection
            shut.append((way, problem))
        raise self._all_shut(shut)

    @staticmethod
    async def _try(connection: SiteConnection, within_s: float | None) -> GridError | None:
        """Why ``connection`` leads nowhere; ``None``: it leads to the site, whatever that says."""
        is_good = False
        try:
            async with asyncio.timeout(within_s):
                await connection.calendar.describe()
            is_good = True
        except (UnreachableError, IdentityNotProvenError, DeadlineError) as fault:
            return fault
        except TimeoutError:
            return UnreachableError(f"{connection.endpoint} does not answer")
        except GridError as fault:
            # Over SSH a daemon that is down, or a login that may not ask it, is found out here.
            is_good = connection.transport != "ssh"
            return None if is_good else fault
        finally:
            if not is_good:
                await connection.close()
        return None

    def _say(self, shut: list[tuple[Way, GridError]], way: Way) -> None:
        if shut and not self._has_told:
            self._has_told = True
            reasons = "; ".join(f"{each.name}: {fault.message}" for each, fault in shut)
            self._tell(
                f"{self._site_name} is reached by {way.name}, because its door is shut to {reasons}"
            )

    def _all_shut(self, shut: list[tuple[Way, GridError]]) -> GridError:
        (_, last) = shut[-1]
        if len(shut) == 1:
            return last
        reasons = "; ".join(f"by {way.name}: {fault.message}" for way, fault in shut)
        is_about_us = all(isinstance(fault, NotAuthorisedError) for _, fault in shut)
        kind = IdentityNotProvenError if is_about_us else UnreachableError
        return kind(f"{self._site_name} cannot be reached; {reasons}", hint=last.hint)


class FallbackCalendar(ForwardingCalendar):
    """``CalendarPort`` by whichever way is open."""

    def __init__(self, ways: FallbackSite) -> None:
        self._ways = ways

    async def ask(self, call: Call[CalendarPort, Awaitable[T]]) -> T:
        """See ``Forwarding``."""
        return await self._ways.ask(lambda to: call.at(to.calendar))

    def listen(self, call: Call[CalendarPort, AsyncIterator[T]]) -> AsyncIterator[T]:
        """See ``Forwarding``."""
        return self._ways.listen(lambda to: call.at(to.calendar))


class FallbackSitePort(ForwardingSite):
    """``SitePort`` by whichever way is open."""

    def __init__(self, ways: FallbackSite) -> None:
        self._ways = ways

    async def ask(self, call: Call[SitePort, Awaitable[T]]) -> T:
        """See ``Forwarding``."""
        return await self._ways.ask(lambda to: call.at(to.site))

    def listen(self, call: Call[SitePort, AsyncIterator[T]]) -> AsyncIterator[T]:
        """See ``Forwarding``."""
        return self._ways.listen(lambda to: call.at(to.site))

    async def tell(self, call: Call[SitePort, Awaitable[T]]) -> T:
        """See ``Forwarding``."""
        return await self._ways.tell_once(lambda to: call.at(to.site))
