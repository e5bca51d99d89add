"""A site that takes over files for a job of its own: when it waits, gives up, and for whom."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agents.receiving import LEG_QUESTION
from gridcore.callers import Caller, Role
from gridcore.errors import GridError, NotAuthorisedError, NotFoundError, UnavailableError
from gridcore.handovers import HandedFile, Handover
from gridcore.jobs import JobSpec, JobState, JobView
from gridcore.ports import OutputChunk
from gridcore.reservations import Reservation, ReservationState, TripRef
from gridio.clock import ManualClock
from gridio.connections import SiteConnection
from gridio.inproc import InprocSite
from local_sched.reservation_jobs import START_SLACK_S
from tests.upkeep_world import KENNETH, UpkeepWorld, a_wish

NOW = 1_000
FIRST_END = NOW + 100
SECOND_START = NOW + 130
EVE = Caller(subject="login:eve", login="eve", accounts=("eve",))


class TwoSites:
    """Sites ``left`` and ``right`` with one clock, and a way from one to the other."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(NOW)
        self.worlds = {
            name: UpkeepWorld(
                folder / name, name=name, clock=self.clock, connect=self._connector(name)
            )
            for name in ("left", "right")
        }
        self.left, self.right = self.worlds["left"], self.worlds["right"]
        self.is_cut = False
        """Nobody reaches another site."""
        self.connections = 0
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
            world.agent.receiving.open(group)
            await world.start()

    async def pass_time(self, until: int) -> None:
        """In steps of five seconds, at both sites."""
        while self.clock.now() < until:
            self.clock.advance(min(5, until - self.clock.now()))
            for _ in range(5):
                for world in self.worlds.values():
                    await world.agent.tick()
                # Files are read in threads.
                await asyncio.sleep(0.001)  # noqa: TID251 - lets a thread finish, measures nothing
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
        await port.put_file(kept.reservation_id, path, _once(content), mode=0o640, sha256="")


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
        if not self._grid.is_cut:
            return getattr(self._port, verb)

        async def refuse(*_: object, **__: object) -> None:
            raise UnavailableError("the line is cut")

        return refuse


async def _once(content: bytes) -> AsyncIterator[OutputChunk]:
    yield OutputChunk(offset=0, content=content)


@asynccontextmanager
async def two_sites(folder: Path) -> AsyncIterator[TwoSites]:
    """Both serve; what they do in the background ends with the test."""
    grid = TwoSites(folder)
    async with asyncio.TaskGroup() as group:
        await grid.go(group)
        yield grid
        for world in grid.worlds.values():
            await world.stop()
        for task in asyncio.all_tasks():
            if task.get_name() == "handover":
                task.cancel()


HANDOVER = Handover(
    leg="first",
    site="left",
    endpoint="left:7101",
    files=(HandedFile(source="field.dat", destination="in/field.dat"),),
)


async def a_chain(grid: TwoSites, handover: Handover = HANDOVER) -> tuple[str, str]:
    """Two stages of a trip with a job each; their ids."""
    first = await grid.leg("left", "first", NOW + 40)
    second = await grid.leg("right", "second", SECOND_START)
    grid.left.runs["1.left"] = 20
    await grid.write("left", first, "field.dat", b"42" * 1000)
    return await grid.job("left", first), await grid.job(
        "right", second, handover=handover, leg_before="first"
    )


def received(grid: TwoSites, folder: Path) -> bytes:
    """What lies in the second stage's folder."""
    (kept,) = grid.right.agent.calendar.reservations.values()
    return (folder / "right" / kept.reservation_id / "in/field.dat").read_bytes()


async def test_files_come_when_the_stage_before_has_ended_and_the_job_starts_on_time(
    tmp_path: Path,
) -> None:
    """While it waits it says for what; the files are there before its reserved start, and it starts
    then and not before.
    """
    async with two_sites(tmp_path) as grid:
        first, second = await a_chain(grid)
        await grid.pass_time(NOW + 50)
        assert grid.left.view(first).state is JobState.RUNNING
        assert "stage before" in grid.right.view(second).reason
        await grid.pass_time(SECOND_START - 1)
        assert grid.left.view(first).state is JobState.COMPLETED
        assert received(grid, tmp_path) == b"42" * 1000
        assert grid.right.view(second).state is JobState.QUEUED
        await grid.pass_time(SECOND_START)
        assert grid.right.view(second).started_at == SECOND_START
        grid.right.agent.jobs.validate()


async def test_a_job_without_its_files_does_not_start(tmp_path: Path) -> None:
    """The line is cut until it could no longer run its full time: it fails and says what it waited
    for; a line that is mended within that time lets it start late.
    """
    async with two_sites(tmp_path) as grid:
        _, second = await a_chain(grid)
        grid.is_cut = True
        await grid.pass_time(SECOND_START + 10)
        assert grid.right.view(second).state is JobState.QUEUED
        grid.is_cut = False
        await grid.pass_time(SECOND_START + 13)
        assert grid.right.view(second).state is JobState.RUNNING
    async with two_sites(tmp_path / "again") as grid:
        _, second = await a_chain(grid)
        grid.is_cut = True
        await grid.pass_time(SECOND_START + START_SLACK_S + 3)
        view = grid.right.view(second)
        assert view.state is JobState.FAILED
        assert view.started_at is None
        assert "too late to start" in view.reason
        assert view.reason.endswith("the line is cut")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"files": (HandedFile(source="other", destination="in"),)}, "left no file 'other'"),
        ({"site": "elsewhere"}, "no trip that elsewhere takes part in"),
        ({"endpoint": ""}, "nobody has said where left is reached"),
        (
            {"files": (HandedFile(source="field.dat", destination="../out"),)},
            "is not a path within an area",
        ),
    ],
)
async def test_what_can_never_arrive_fails_at_once(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    """Nobody waits for the reserved start to hear of it, and no nodes stay reserved for it."""
    async with two_sites(tmp_path) as grid:
        _, second = await a_chain(grid, replace(HANDOVER, **change))
        await grid.pass_time(SECOND_START - 5)
        view = grid.right.view(second)
        assert view.state is JobState.FAILED
        assert reason in view.reason
        (kept,) = grid.right.agent.calendar.reservations.values()
        assert kept.state is ReservationState.RELEASED


async def test_a_failed_stage_fails_the_next(tmp_path: Path) -> None:
    """A stage that was cancelled hands nothing over, whatever it has written."""
    async with two_sites(tmp_path) as grid:
        first, second = await a_chain(grid)
        await grid.pass_time(NOW + 50)
        await grid.left.desk().cancel_job(first)
        await grid.pass_time(NOW + 70)
        view = grid.right.view(second)
        assert (view.state, view.reason) == (
            JobState.FAILED,
            "stage first at left ended as CANCELLED",
        )


async def test_a_job_that_is_exchanged_before_it_began_breaks_nothing(tmp_path: Path) -> None:
    """A change of the trip cancels the first stage's job and queues another in its place: the
    second stage waits for that one.
    """
    async with two_sites(tmp_path) as grid:
        first, second = await a_chain(grid)
        await grid.left.desk().cancel_job(first)
        await grid.pass_time(NOW + 35)
        assert grid.right.view(second).state is JobState.QUEUED
        (kept,) = grid.left.agent.calendar.reservations.values()
        grid.left.runs["2.left"] = 20
        await grid.job("left", kept, attempt=2)
        await grid.pass_time(SECOND_START + 1)
        assert grid.right.view(second).state is JobState.RUNNING


async def test_a_stage_that_ran_nothing_has_nothing_to_hand_over(tmp_path: Path) -> None:
    """When its time is over and no job ever came, nobody waits for one."""
    async with two_sites(tmp_path) as grid:
        await grid.leg("left", "first", NOW + 20)
        second = await grid.leg("right", "second", SECOND_START)
        job = await grid.job("right", second, handover=HANDOVER)
        await grid.pass_time(SECOND_START - 10)
        view = grid.right.view(job)
        assert (view.state, view.reason) == (JobState.FAILED, "stage first at left ran nothing")


async def test_a_failure_goes_down_the_whole_chain(tmp_path: Path) -> None:
    """The third stage hears from the second one's site that it failed, although that leg is
    released by then.
    """
    async with two_sites(tmp_path) as grid:
        first, _ = await a_chain(grid)
        third = await grid.leg("left", "third", SECOND_START + 100)
        behind = replace(HANDOVER, leg="second", site="right", endpoint="right:7101", files=())
        job = await grid.job("left", third, handover=behind)
        await grid.pass_time(NOW + 50)
        await grid.left.desk().cancel_job(first)
        await grid.pass_time(NOW + 90)
        assert grid.left.view(job).reason == "stage second at right ended as FAILED"
        assert not list(grid.right.agent.calendar.live())
        assert not [each for each in grid.left.agent.calendar.live() if each.start > NOW + 40]


async def test_a_restart_goes_on_and_forgets_nothing(tmp_path: Path) -> None:
    """A crash while it waits: it still waits afterwards and gets its files. A crash when it has
    them: nobody asks again.
    """
    async with two_sites(tmp_path) as grid, asyncio.TaskGroup() as group:
        _, second = await a_chain(grid)
        await grid.right.restart()
        grid.right.agent.receiving.open(group)
        await grid.pass_time(NOW + 110)
        assert received(grid, tmp_path) == b"42" * 1000
        assert not grid.right.agent.jobs.awaiting
        asked = grid.connections
        await grid.right.restart()
        grid.right.agent.receiving.open(group)
        assert await grid.right.agent.compact()
        await grid.pass_time(SECOND_START + 1)
        assert grid.right.view(second).state is JobState.RUNNING
        assert grid.connections == asked


async def test_a_cancelled_job_is_no_longer_waited_for(tmp_path: Path) -> None:
    """Nothing is fetched for it, and nobody is left asking."""
    async with two_sites(tmp_path) as grid:
        _, second = await a_chain(grid)
        await grid.pass_time(NOW + 20)
        await grid.right.desk().cancel_job(second)
        await grid.pass_time(SECOND_START)
        assert grid.right.view(second).state is JobState.CANCELLED
        assert not (tmp_path / "right").exists() or not list(
            (tmp_path / "right").rglob("field.dat")
        )
        assert [each for each in asyncio.all_tasks() if each.get_name() == "handover"] == []


async def test_only_a_site_that_travels_with_the_trip_may_read_a_leg(tmp_path: Path) -> None:
    """A participant may list and read the leg's folder and ask where it stands; another site, and a
    user who is not its owner, may neither; nobody but the owner may write.
    """
    async with two_sites(tmp_path) as grid:
        await a_chain(grid)
        (kept,) = grid.left.agent.calendar.reservations.values()
        area, question = kept.reservation_id, {"trip": "trip-1", "leg": "first"}
        friend = grid.left.agent.site_port(
            Caller(subject="site:right", role=Role.SITE, site="right")
        )
        (file,) = await friend.list_files(area, "field.dat", with_checksums=True)
        assert (file.path, file.size_bytes, file.mode) == ("field.dat", 2000, 0o640)
        assert [each.content async for each in friend.get_file(area, "field.dat", 1990)]
        answer = await friend.query(LEG_QUESTION, question)
        assert answer == {"reservation": area, "state": "QUEUED", "is_over": False}
        with pytest.raises(GridError):
            await friend.put_file(area, "field.dat", _once(b"no"), mode=0o600, sha256="")
        strangers = [
            Caller(subject="site:third", role=Role.SITE, site="third"),
            Caller(subject="/CN=right", login="", role=Role.USER),
            EVE,
        ]
        for stranger in strangers:
            port = grid.left.agent.site_port(stranger)
            with pytest.raises(NotAuthorisedError):
                await port.list_files(area, "", with_checksums=False)
            with pytest.raises(NotAuthorisedError):
                await anext(port.get_file(area, "field.dat", 0))
            with pytest.raises(NotFoundError):
                await port.query(LEG_QUESTION, question)


async def test_a_site_fetches_for_nobody_the_files_of_anothers_trip(tmp_path: Path) -> None:
    """Eve travels between the same two sites and names the first stage of kenneth's trip as hers:
    her site asks for the leg of her own trip, which has none of that name, and nothing moves.
    """
    async with two_sites(tmp_path) as grid:
        await a_chain(grid)
        hers = await grid.leg("right", "second", SECOND_START, trip="trip-eve", by=EVE)
        job = await grid.job("right", hers, by=EVE, handover=HANDOVER)
        await grid.pass_time(SECOND_START + START_SLACK_S + 3)
        view = grid.right.view(job)
        assert view.state is JobState.FAILED
        assert "has no leg 'first' of such a trip" in view.reason
        assert not list((tmp_path / "right" / hers.reservation_id).rglob("*.dat"))


async def test_a_stage_at_the_same_site_needs_no_wire(tmp_path: Path) -> None:
    """Files move from one folder of the site to the other."""
    async with two_sites(tmp_path) as grid:
        first = await grid.leg("right", "first", NOW + 40)
        second = await grid.leg("right", "second", SECOND_START)
        grid.right.runs["1.right"] = 20
        await grid.write("right", first, "field.dat", b"here")
        await grid.job("right", first)
        here = replace(HANDOVER, site="right", endpoint="")
        job = await grid.job("right", second, handover=here)
        await grid.pass_time(SECOND_START + 1)
        assert grid.right.view(job).state is JobState.RUNNING
        target = tmp_path / "right" / second.reservation_id / "in/field.dat"
        assert target.read_bytes() == b"here"
        assert grid.connections == 0
