"""One site with several ways: which is taken, when it is left, what is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import cast

import pytest

from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import (
    ConflictError,
    DeadlineError,
    GridError,
    NotAuthorisedError,
    UnavailableError,
)
from gridtravel.gridcore.ports import CalendarPort, OutputChunk, SiteDescription, SitePort
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import (
    ClockSkew,
    IdentityNotProvenError,
    SiteConnection,
    TransportName,
    UnreachableError,
)
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.travel_agent.sites import fallback
from gridtravel.travel_agent.sites.fallback import FallbackSite, Way
from tests.support.fake_services import FakeSite

Fault = Callable[[], GridError | None]


class GuardedCalendar:
    """The calendar behind a door that may be shut."""

    def __init__(self, port: CalendarPort, connection: GuardedConnection) -> None:
        self._port = port
        self._connection = connection

    async def describe(self) -> SiteDescription:
        """As the site says, when the door is open."""
        await self._connection.pass_door()
        return await self._port.describe()

    async def release(self, reservation_id: str) -> None:
        """As the site does, when the door is open."""
        await self._connection.pass_door()
        await self._port.release(reservation_id)


class GuardedSitePort:
    """The site behind a door that may be shut, also in the middle of a stream."""

    def __init__(self, port: SitePort, connection: GuardedConnection) -> None:
        self._port = port
        self._connection = connection

    async def follow_output(
        self, job_id: str, stream: str, offset: int
    ) -> AsyncIterator[OutputChunk]:
        """Two pieces, if the door stays open."""
        for number in range(2):
            await self._connection.pass_door()
            yield OutputChunk(offset=offset + number, content=b"x")


class GuardedConnection:
    """A connection with a door that the test opens and shuts."""

    def __init__(self, name: TransportName, inner: SiteConnection) -> None:
        self.name = name
        self.fault: GridError | None = None
        self.is_silent = False
        self.calls = 0
        self.closed = 0
        self.calendar = GuardedCalendar(inner.calendar, self)
        self.site = GuardedSitePort(inner.site, self)

    @property
    def way(self) -> Way:
        """It, as one of several."""
        return Way(name=self.name, connect=lambda: cast(SiteConnection, self))

    @property
    def transport(self) -> TransportName:
        """Its name."""
        return self.name

    @property
    def endpoint(self) -> str:
        """Its name and more."""
        return f"{self.name}:lab"

    def skew_s(self) -> ClockSkew | None:
        """Never measured."""
        return None

    async def close(self) -> None:
        """Count."""
        self.closed += 1

    async def pass_door(self) -> None:
        """Raise when it is shut; wait for ever when nobody answers."""
        self.calls += 1
        if self.is_silent:
            await asyncio.Event().wait()
        if self.fault is not None:
            raise self.fault


class Doors:
    """A site with two doors and what was said of them."""

    def __init__(self, folder: Path) -> None:
        site = FakeSite(ManualClock(1_000_000), folder)
        inner = InprocSite(site, Caller(subject="login:ada", login="ada"))
        self.grpc = GuardedConnection("grpc", inner)
        self.ssh = GuardedConnection("ssh", inner)
        self.said: list[str] = []
        self.both = FallbackSite(
            "lab",
            [self.grpc.way, self.ssh.way],
            tell=self.said.append,
        )

    @property
    def way(self) -> str:
        """Which door is in use."""
        return self.both.transport


@pytest.fixture
def doors(tmp_path: Path) -> Doors:
    """Both doors are open."""
    return Doors(tmp_path)


async def test_first_way_is_kept_while_it_works(doors: Doors) -> None:
    """An open gRPC door needs no login, and there is nothing to say."""
    assert (doors.both.transport, doors.both.endpoint) == ("grpc", "lab")
    assert (await doors.both.calendar.describe()).site == "lab"
    await doors.both.calendar.release("lab.1")
    assert (doors.both.transport, doors.both.endpoint) == ("grpc", "grpc:lab")
    assert doors.ssh.calls == 0
    assert doors.said == []
    await doors.both.close()
    await doors.both.close()
    assert doors.grpc.closed == 1


@pytest.mark.parametrize(
    "fault",
    [
        UnreachableError("nothing listens"),
        IdentityNotProvenError("the certificate has expired", hint=""),
        DeadlineError("no answer in time"),
    ],
)
async def test_shut_door(doors: Doors, fault: GridError) -> None:
    """Another way is taken, kept, and said once, with the reason."""
    doors.grpc.fault = fault
    for _ in range(3):
        await doors.both.calendar.release("lab.1")
    assert doors.way == "ssh"
    assert doors.grpc.calls == 1
    assert len(doors.said) == 1
    assert fault.message in doors.said[0]
    assert doors.grpc.closed == 1
    await doors.both.close()
    assert doors.ssh.closed == 1


async def test_door_that_does_not_answer(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall that swallows everything costs a bounded time, once."""
    monkeypatch.setattr(fallback, "CHOOSE_WITHIN_S", 0.0)
    doors.grpc.is_silent = True
    await doors.both.calendar.release("lab.1")
    assert doors.way == "ssh"


async def test_credential_that_is_missing(doors: Doors) -> None:
    """Without a certificate there is still the login."""

    def refuse() -> SiteConnection:
        raise NotAuthorisedError("there is no credential", hint="")

    both = FallbackSite(
        "lab",
        [Way(name="grpc", connect=refuse), doors.ssh.way],
        tell=doors.said.append,
    )
    await both.calendar.describe()
    assert "no credential" in doors.said[0]


@pytest.mark.parametrize(
    "fault",
    [
        UnavailableError("the children are out"),
        ConflictError("no", hint=""),
        NotAuthorisedError("not you", hint=""),
    ],
)
async def test_answers_are_no_shut_doors(doors: Doors, fault: GridError) -> None:
    """What the site itself says is passed on, and no other way is tried."""
    await doors.both.calendar.describe()
    doors.grpc.fault = fault
    with pytest.raises(type(fault), match=fault.message):
        await doors.both.calendar.release("lab.1")
    assert doors.ssh.calls == 0
    assert doors.way == "grpc"


async def test_door_that_shuts_later(doors: Doors) -> None:
    """The call that finds it shut is asked again by the other way; and back, when that is shut."""
    await doors.both.calendar.describe()
    doors.grpc.fault = UnreachableError("gone")
    await doors.both.calendar.release("lab.1")
    assert doors.way == "ssh"
    doors.grpc.fault, doors.ssh.fault = None, UnreachableError("gone too")
    await doors.both.calendar.release("lab.1")
    assert doors.way == "grpc"
    assert len(doors.said) == 1


async def test_every_door_shut(doors: Doors) -> None:
    """Both reasons are told; it works again when one opens. Only when nobody believes us is it a
    matter of who we are.
    """
    doors.grpc.fault = IdentityNotProvenError("the certificate has expired", hint="")
    doors.ssh.fault = UnreachableError("connection refused", hint="check host and port")
    with pytest.raises(UnreachableError, match=r"expired.*refused") as caught:
        await doors.both.calendar.describe()
    assert caught.value.hint == "check host and port"
    doors.ssh.fault = IdentityNotProvenError("the key was refused", hint="")
    with pytest.raises(IdentityNotProvenError, match=r"expired.*refused"):
        await doors.both.calendar.describe()
    doors.ssh.fault = None
    assert (await doors.both.calendar.describe()).site == "lab"


async def test_many_callers_choose_once(doors: Doors) -> None:
    """Calls at the same time share one choice, also when one of them is given up."""
    doors.grpc.fault = UnreachableError("nothing listens")
    calls = [asyncio.ensure_future(doors.both.calendar.release("lab.1")) for _ in range(5)]
    await asyncio.gather(asyncio.ensure_future(doors.both.calendar.describe()))
    calls[0].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert doors.grpc.calls == 1
    assert len(doors.said) == 1


async def test_stream_moves_only_before_it_begins(doors: Doors) -> None:
    """A stream that has said something is not begun again behind its reader's back."""
    await doors.both.calendar.describe()
    doors.grpc.fault = UnreachableError("gone")
    follow = doors.both.site.follow_output
    assert len([each async for each in follow("job.1", "stdout", 0)]) == 2
    assert doors.way == "ssh"
    stream = follow("job.1", "stdout", 0)
    await anext(stream)
    doors.ssh.fault, doors.grpc.fault = UnreachableError("gone"), None
    with pytest.raises(UnreachableError):
        await anext(stream)
    assert (await doors.both.calendar.describe()).site == "lab"
    assert doors.way == "grpc"
