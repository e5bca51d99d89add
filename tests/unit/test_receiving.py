"""A site that takes over files for a job of its own: when it waits, gives up, and for whom."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest

from gridtravel.agents.jobs.runner import JobRunner
from gridtravel.agents.trips.handover import LEG_QUESTION
from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import GridError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.handovers import HandedFile
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus
from gridtravel.local_sched.scheduling.jobs import WaitReason
from gridtravel.local_sched.scheduling.reservation_jobs import START_SLACK_S
from tests.support.cards import card_of
from tests.support.maintenance_world import KENNETH
from tests.support.two_sites import (
    EVE,
    HANDOVER,
    NOW,
    SECOND_START,
    a_chain,
    a_grant,
    once,
    received,
    two_sites,
)

OTHER = "0" * 64
"""The checksum of no file here."""


def arrived(folder: Path) -> list[Path]:
    """Whole files in any folder of the receiving site."""
    files = [path for path in folder.glob("right/*/**/*") if path.is_file()]
    return [path for path in files if path.suffix != PART_SUFFIX]


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
        (
            {"site": "elsewhere", "card": card_of("elsewhere")},
            "no trip that elsewhere takes part in",
        ),
        (
            {"files": (HandedFile(source="field.dat", destination="../out"),)},
            "is not a path within an area",
        ),
    ],
)
async def test_what_can_never_arrive_fails_atonce(
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


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (
            FileStatus(path="elsewhere", size_bytes=1, sha256="0" * 64),
            "the site offers 'elsewhere'",
        ),
        (FileStatus(path="field.dat/../../x", size_bytes=1, sha256="0" * 64), "the site offers"),
        (FileStatus(path="field.dat", size_bytes=2000), "the site offers 'field.dat'"),
        (
            FileStatus(path="field.dat", size_bytes=10, sha256="0" * 64),
            "longer than the 10 bytes",
        ),
        (FileStatus(path="field.dat", size_bytes=2000, sha256="0" * 64), "arrived damaged"),
    ],
)
async def test_a_site_that_lies_harms_nobody(tmp_path: Path, file: FileStatus, reason: str) -> None:
    """Other paths than were asked for, no checksum, more bytes than said, another content: nothing
    of it is taken, the daemon lives on, and the job fails with the reason.
    """
    async with two_sites(tmp_path) as grid:

        async def lie(*_: object, **__: object) -> list[FileStatus]:
            return [file]

        _, second = await a_chain(grid)
        grid.lies["list_files"] = lie
        await grid.pass_time(SECOND_START + START_SLACK_S + 3)
        view = grid.right.view(second)
        assert view.state is JobState.FAILED
        assert reason in view.reason
        assert arrived(tmp_path) == []


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
        await grid.job("left", kept, attempt=2, gives=a_grant())
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
        behind = replace(HANDOVER, leg="second", site="right", card=card_of("right"), files=())
        job = await grid.job("left", third, handover=behind)
        await grid.pass_time(NOW + 50)
        await grid.left.desk().cancel_job(first)
        await grid.pass_time(NOW + 90)
        assert grid.left.view(job).reason == "stage second at right ended as FAILED"
        assert not list(grid.right.agent.calendar.live())
        assert not [each for each in grid.left.agent.calendar.live() if each.start > NOW + 40]


async def test_a_restart_goes_on_and_forgets_nothing(tmp_path: Path) -> None:
    """A crash while it waits: it still waits afterwards and gets its files. A crash when it has
    them: nobody asks again, also when the journal was compacted meanwhile.
    """
    async with two_sites(tmp_path) as grid, asyncio.TaskGroup() as group:
        _, second = await a_chain(grid)
        await grid.right.restart()
        grid.right.agent.handover_receiver.open(group)
        await grid.pass_time(NOW + 110)
        assert received(grid, tmp_path) == b"42" * 1000
        assert not grid.right.agent.jobs.awaiting
        asked = grid.connections
        assert await grid.right.agent.compact()
        await grid.right.restart()
        grid.right.agent.handover_receiver.open(group)
        await grid.pass_time(SECOND_START + 1)
        assert grid.right.view(second).state is JobState.RUNNING
        assert grid.connections == asked


async def test_a_crash_between_failing_and_letting_go_leaves_no_leg_behind(tmp_path: Path) -> None:
    """The job's failure was journaled, the release of its leg was not: the next start does it."""
    async with two_sites(tmp_path) as grid, asyncio.TaskGroup() as group:
        _, second = await a_chain(grid)
        with patch.object(JobRunner, "release_leg", AsyncMock()):
            await grid.right.agent.runner.give_up(second, "it cannot be")
        assert grid.right.agent.calendar.live()
        await grid.right.restart()
        grid.right.agent.handover_receiver.open(group)
        await grid.pass_time(NOW + 5)
        assert not grid.right.agent.calendar.live()


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
            await friend.put_file(area, "field.dat", once(b"no"), mode=0o600, sha256="")
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


async def test_a_site_reads_only_what_a_handover_names(tmp_path: Path) -> None:
    """A site of the trip that lies, and comes for more: the whole folder, other files, a way out of
    what was named, or files that were named to another site.
    """
    async with two_sites(tmp_path) as grid:
        first, _ = await a_chain(grid)
        (kept,) = grid.left.agent.calendar.reservations.values()
        area = kept.reservation_id
        await grid.write("left", kept, "secret.dat", b"key")
        await grid.write("left", kept, "field.dat.old/x", b"key")
        lying = Caller(subject="site:right", role=Role.SITE, site="right")
        port = grid.left.agent.site_port(lying)
        for path in ("", ".", "secret.dat", "field.dat/../secret.dat", "field.dat.old/x", "/"):
            with pytest.raises(NotAuthorisedError):
                await port.list_files(area, path, with_checksums=True)
            with pytest.raises(NotAuthorisedError):
                await anext(port.get_file(area, path, 0))
        assert grid.left.view(first).spec.gives == a_grant()
        third = await grid.leg("left", "third", NOW + 300)
        await grid.job("left", third, gives=a_grant(site="left"))
        await grid.write("left", third, "field.dat", b"42")
        with pytest.raises(NotAuthorisedError):
            await port.list_files(third.reservation_id, "field.dat", with_checksums=True)


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
        await grid.job("right", first, gives=a_grant(site="right"))
        here = replace(HANDOVER, site="right", endpoint="")
        job = await grid.job("right", second, handover=here)
        await grid.pass_time(SECOND_START + 1)
        assert grid.right.view(job).state is JobState.RUNNING
        target = tmp_path / "right" / second.reservation_id / "in/field.dat"
        assert target.read_bytes() == b"here"
        assert grid.connections == 0


async def test_a_stage_that_waits_says_for_what(tmp_path: Path) -> None:
    """To whoever looks at it and to whoever asks why; what its owner holds beside that is on hold,
    and waits for the stage before again when it is let go.
    """
    async with two_sites(tmp_path) as grid:
        _, second = await a_chain(grid)
        grid.is_cut = True
        await grid.pass_time(SECOND_START + 2)
        port = grid.right.agent.site_port(KENNETH)

        async def reasons() -> set[object]:
            explained = cast(dict[str, object], await port.query("why", {"job": second}))
            (view,) = await port.jobs(job_ids=[second])
            return {explained["reason"], view.reason}

        assert await reasons() == {str(WaitReason.HANDOVER)}
        await port.order("hold-job", {"job": second})
        assert await reasons() == {str(WaitReason.HELD)}
        await port.order("release-job", {"job": second})
        assert await reasons() == {str(WaitReason.HANDOVER)}
