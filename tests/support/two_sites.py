"""Two whole agents in virtual time, with a way between them that can be cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gridtravel.gridcore.booking.reservations import Reservation, TripRef
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.jobs.handovers import HandedFile, Handover, HandoverGrant
from gridtravel.gridcore.jobs.job import JobSpec, JobView
from gridtravel.gridcore.ports import OutputChunk
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import ManualClock
from tests.support.cards import card_of
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish

NOW = 1_000
FIRST_END = NOW + 100
SECOND_START = NOW + 130
EVE = Caller(subject="login:eve", login="eve", accounts=("eve",))


class TwoSites:
    """Sites ``left`` and ``right`` with one clock, and a way from one to the other."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(NOW)
        self.worlds = {
            name: MaintenanceWorld(
                folder / name, name=name, clock=self.clock, connect=self._connector(name)
            )
            for name in ("left", "right")
        }
        self.left, self.right = self.worlds["left"], self.worlds["right"]
        self.is_cut = False
        """Nobody reaches another site."""
        self.connections = 0
        self.lies: dict[str, Any] = {}
        """Verb -> what is answered in place of the other site."""
        self._groups: dict[str, asyncio.TaskGroup] = {}

    def _connector(self, asking: str) -> Any:
        def connect(site: str, endpoint: str) -> SiteConnection:
            assert endpoint == f"{site}:7101"
            self.connections += 1
            caller = Caller(subject=f"site:{asking}", role=Role.SITE, site=asking)
            services = _Cuttable(self, site)
            return InprocSite(services, caller, through_codec=True, clock=self.clock, name=site)

        return connect

    async def go(self, group: asyncio.TaskGroup) -> None:
        """Both sites begin to serve."""
        for world in self.worlds.values():
            world.agent.handover_receiver.open(group)
            await world.start()

    async def pass_time(self, until: int) -> None:
        """In steps of five seconds, at both sites."""
        while self.clock.now() < until:
            self.clock.advance(min(5, until - self.clock.now()))
            for _ in range(5):
                for world in self.worlds.values():
                    await world.agent.tick()
                await self.left._turns()

    async def leg(
        self, site: str, name: str, start: int, *, trip: str = "trip-1", by: Caller = KENNETH
    ) -> Reservation:
        """A committed leg of ten or so seconds."""
        ref = TripRef(trip_id=trip, leg=name, participants=("left", "right"))
        wish = replace(a_wish(f"{trip}.{name}", 1, start, 60, account=by.login), trip=ref)
        held = await self.worlds[site].agent.calendar_port(by).reserve(wish, ttl_s=20)
        assert isinstance(held, Reservation), held
        kept = await self.worlds[site].agent.calendar_port(by).commit(held.reservation_id)
        assert isinstance(kept, Reservation)
        return kept

    async def job(
        self,
        site: str,
        kept: Reservation,
        *,
        by: Caller = KENNETH,
        attempt: int = 1,
        **others: Any,
    ) -> str:
        """A job inside a leg."""
        spec = JobSpec(
            request_id=f"{kept.reservation_id}.job.{attempt}",
            name="job",
            account=by.login,
            nodes=1,
            limit_s=60,
            argv=("true",),
            reservation_id=kept.reservation_id,
            **others,
        )
        view = await self.worlds[site].agent.site_port(by).submit(spec)
        assert isinstance(view, JobView), view
        return view.job_id

    async def write(self, site: str, kept: Reservation, path: str, content: bytes) -> None:
        """A file in a leg's folder."""
        port = self.worlds[site].agent.site_port(KENNETH)
        await port.put_file(kept.reservation_id, path, once(content), mode=0o640, sha256="")


class _Cuttable:
    """A site's services while the way is not cut."""

    def __init__(self, grid: TwoSites, site: str) -> None:
        self._grid = grid
        self._site = site

    def calendar_port(self, caller: Caller) -> Any:
        return self._grid.worlds[self._site].agent.calendar_port(caller)

    def site_port(self, caller: Caller) -> Any:
        return _Line(self._grid, self._grid.worlds[self._site].agent.site_port(caller))


class _Line:
    def __init__(self, grid: TwoSites, port: Any) -> None:
        self._grid = grid
        self._port = port

    def __getattr__(self, verb: str) -> Any:
        if verb in self._grid.lies:
            return self._grid.lies[verb]
        if not self._grid.is_cut:
            return getattr(self._port, verb)

        async def refuse(*_: object, **__: object) -> None:
            raise UnavailableError("the line is cut")

        return refuse


async def once(content: bytes) -> AsyncIterator[OutputChunk]:
    """A file's content in one piece."""
    yield OutputChunk(offset=0, content=content)


@asynccontextmanager
async def two_sites(folder: Path) -> AsyncIterator[TwoSites]:
    """Both serve; what they do in the background ends with the test."""
    grid = TwoSites(folder)
    with patch("asyncio.to_thread", _here):
        async with _serving(grid):
            yield grid


async def _here(work: Callable[..., Any], *arguments: Any) -> Any:
    """Files are read and written at once: how long a thread takes must not matter to a test."""
    return work(*arguments)


@asynccontextmanager
async def _serving(grid: TwoSites) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        await grid.go(group)
        yield
        for world in grid.worlds.values():
            await world.stop()
        for task in asyncio.all_tasks():
            if task.get_name() == "handover":
                task.cancel()


HANDOVER = Handover(
    leg="first",
    site="left",
    endpoint="left:7101",
    card=card_of("left"),
    files=(HandedFile(source="field.dat", destination="in/field.dat"),),
)


async def a_chain(grid: TwoSites, handover: Handover = HANDOVER) -> tuple[str, str]:
    """Two stages of a trip with a job each; their ids."""
    first = await grid.leg("left", "first", NOW + 40)
    second = await grid.leg("right", "second", SECOND_START)
    grid.left.runs["1.left"] = 20
    await grid.write("left", first, "field.dat", b"42" * 1000)
    gives = a_grant(handover)
    return await grid.job("left", first, gives=gives), await grid.job(
        "right", second, handover=handover, leg_before="first"
    )


def a_grant(handover: Handover = HANDOVER, *, site: str = "right") -> HandoverGrant:
    """The giver's half of a handover to the second stage."""
    paths = tuple(each.source for each in handover.files)
    return HandoverGrant(leg="second", site=site, paths=paths)


def received(grid: TwoSites, folder: Path) -> bytes:
    """What lies in the second stage's folder."""
    (kept,) = grid.right.agent.calendar.reservations.values()
    return (folder / "right" / kept.reservation_id / "in/field.dat").read_bytes()
