"""A job that comes with a hold at a site that has only a batch system: it is queued in the
reservation at once, and its wrapper begins with the commit's mark and its inputs, or never.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Begin,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import Companion, JobState, JobView
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridio.batch.job_files import TOGETHER_WITHIN_S
from gridtravel.gridio.batch.systems import reservation_name
from gridtravel.gridio.sites.trip_participation import BEGIN_WITHIN_S
from tests.support.batch_worlds import SITE, BatchWorld, a_spec, chunks, fake_world
from tests.support.fake_gridengine import FakeGridEngine

MANIFEST = Manifest(contacts=(("left", "lab:21000"), ("right", "west:21001")))
RIGHT = Companion(leg="right", site="west", nodes=1)
INPUT = InputFile(path="in/a b", size_bytes=3, sha256="ab" * 32)


@pytest.fixture(params=["here", "ssh"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BatchWorld]:
    """The same batch system behind each way."""
    user = request.getfixturevalue("ssh_user") if request.param == "ssh" else None
    async with fake_world(tmp_path, user) as made:
        yield made


@pytest.fixture
def engine(world: BatchWorld) -> FakeGridEngine:
    """The batch system itself."""
    assert world.fake is not None
    return world.fake


async def hold(
    world: BatchWorld, *, begin: Begin = Begin.TOGETHER, **others: Any
) -> Reservation | Decline:
    """A leg of a trip with a job that leaves in its area what it is told of its companions."""
    command = ("/bin/sh", "-c", 'echo "$GRID_COMPANIONS" >> ran')
    chosen: dict[str, Any] = {"argv": command, "companions": (RIGHT,)}
    job = HeldJob(spec=a_spec("", "r1.job", **(chosen | others)))
    trip = TripRef(trip_id="trip-1", leg="left", participants=(SITE, "west"), begin=begin)
    request = replace(world.request("r1", earliest_start=world.soon // 60 * 60 + 60), trip=trip)
    return await world.connection.calendar.reserve(request, ttl_s=30, job=job)


async def held(world: BatchWorld, **others: Any) -> Reservation:
    """The same; a refusal fails the test."""
    answer = await hold(world, **others)
    assert isinstance(answer, Reservation), answer
    return answer


async def commit(world: BatchWorld, hold: Reservation) -> Reservation:
    """Its commit, which says where its companion is."""
    answer = await world.connection.calendar.commit(hold.reservation_id, manifest=MANIFEST)
    assert isinstance(answer, Reservation), answer
    return answer


async def ran(world: BatchWorld, hold: Reservation) -> str:
    """What the job left in its area; empty: it has not run."""
    site = world.connection.site
    try:
        read = site.get_file(hold.reservation_id, "ran", 0)
        return b"".join([each.content async for each in read]).decode()
    except NotFoundError:
        return ""


async def the_job(world: BatchWorld) -> JobView:
    """The only one."""
    (job,) = await world.connection.site.jobs()
    return job


async def test_a_job_is_queued_with_its_hold(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Once, before anything is committed; the commit names it and tells it of its companions. Both
    said again are answered the same.
    """
    calendar, site = world.connection.calendar, world.connection.site
    hold = await held(world)
    assert (hold.state, hold.job_id) == (ReservationState.HELD, "")
    assert len(engine.state()["jobs"]) == 1
    assert await held(world) == hold
    assert len(engine.state()["jobs"]) == 1
    kept = await commit(world, hold)
    assert kept.job_id
    assert await calendar.commit(hold.reservation_id) == kept
    assert await held(world) == kept
    job = await the_job(world)
    assert (job.job_id, job.state) == (kept.job_id, JobState.QUEUED)
    assert job.spec.companions == (replace(RIGHT, contact="west:21001"),)
    assert [each.job_id for each in await site.reservations(everybody=False)] == [kept.job_id]
    engine.set_clock(hold.start)
    engine.run_jobs()
    (told,) = json.loads(await ran(world, hold))
    assert told == {"leg": "right", "site": "west", "nodes": 1, "contact": "west:21001"}
    assert (await the_job(world)).state is JobState.COMPLETED
    assert engine.clock == hold.start


@pytest.mark.parametrize(
    ("begin", "within_s"),
    [(Begin.TOGETHER, TOGETHER_WITHIN_S), (Begin.EACH, BEGIN_WITHIN_S)],
)
async def test_a_job_without_its_commit_runs_nothing(
    world: BatchWorld, engine: FakeGridEngine, begin: Begin, within_s: int
) -> None:
    """Its wrapper looks once a second for as long as the mark may come, then ends and says so; no
    commit is taken any more.
    """
    hold = await held(world, begin=begin)
    engine.set_clock(hold.start)
    engine.run_jobs()
    assert engine.clock == hold.start + within_s
    late = await world.connection.calendar.commit(hold.reservation_id, manifest=MANIFEST)
    assert isinstance(late, Decline)
    assert late.rule is DeclineRule.STATE
    assert "begun without its commit" in late.message
    job = await the_job(world)
    assert (job.state, job.started_at) == (JobState.CANCELLED, None)
    assert "never committed" in job.reason
    (listed,) = await world.connection.site.reservations(everybody=False)
    assert listed.job_id == job.job_id
    assert await ran(world, hold) == ""


async def test_a_commit_is_too_late_at_the_start(world: BatchWorld, engine: FakeGridEngine) -> None:
    """From the first second on, whether the wrapper has looked or not; a second before it counts,
    and a mere reservation, which begins nothing, can be committed later too.
    """
    bare = await world.held("bare", earliest_start=world.soon // 60 * 60 + 60)
    hold = await held(world)
    engine.set_clock(hold.start)
    late = await world.connection.calendar.commit(hold.reservation_id, manifest=MANIFEST)
    assert isinstance(late, Decline)
    assert isinstance(await world.connection.calendar.commit(bare.reservation_id), Reservation)
    engine.set_clock(hold.start - 1)
    assert (await commit(world, hold)).state is ReservationState.COMMITTED


async def test_a_mark_that_is_seen_late_is_seen(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A node may start the job, or see the mark, a little before or after the others."""
    hold = await held(world)
    mark = world.folder / "book" / reservation_name("r1") / "committed"
    engine.set_clock(hold.start, when_slept=f"printf told > {mark}")
    engine.run_jobs()
    assert (await ran(world, hold), engine.clock) == ("told\n", hold.start + 1)


async def test_a_released_leg_begins_nothing(world: BatchWorld, engine: FakeGridEngine) -> None:
    """Its job goes with it; one that the batch system starts all the same ends at once, whether it
    was committed or not.
    """
    hold = await commit(world, await held(world))
    jobs = engine.state()["jobs"]
    await world.connection.calendar.release(hold.reservation_id)
    assert engine.state()["jobs"] == []
    released = await the_job(world)
    assert (released.state, released.reason) == (
        JobState.CANCELLED,
        "its reservation was released",
    )
    engine.change(jobs=jobs)
    engine.set_clock(hold.start - 5)
    engine.run_jobs()
    assert engine.clock == hold.start - 5
    assert await ran(world, hold) == ""
    assert (await the_job(world)).state is JobState.CANCELLED


async def test_a_hold_that_is_let_go_takes_its_job_along(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """Also by its request, when the answer was lost because the far end died right after it had
    queued the job.
    """
    engine.change(dies_after="qsub")
    with pytest.raises(UnavailableError):
        await hold(world)
    assert len(engine.state()["jobs"]) == 1
    await world.connection.calendar.release_request("r1")
    assert (engine.names(), engine.state()["jobs"]) == ([], [])
    again = await hold(world)
    assert isinstance(again, Decline)
    assert again.rule is DeclineRule.FINISHED


async def test_a_job_that_is_refused_holds_nothing(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """What the batch system does not queue, and what nobody could run, is known with the hold."""
    large = await hold(world, nodes=3)
    assert isinstance(large, Decline)
    assert engine.names() == []
    with pytest.raises(InputError):
        await hold(world, environment=(("GRID_SITE", "liar"),))
    assert engine.names() == []


async def test_a_job_waits_for_its_inputs(world: BatchWorld, engine: FakeGridEngine) -> None:
    """It begins when each is there in its size, which a file has only with its last byte."""
    site = world.connection.site
    hold = await commit(world, await held(world, inputs=(INPUT,)))
    area = world.folder / "areas" / hold.reservation_id
    await site.put_file(hold.reservation_id, "in/a b", chunks(b"xy"), mode=0o600, sha256="")
    engine.set_clock(hold.start, when_slept=f"printf xyz > '{area}/in/a b'")
    engine.run_jobs()
    assert engine.clock == hold.start + 1
    assert await ran(world, hold)


async def test_a_job_whose_input_does_not_come_runs_nothing(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """It says which."""
    hold = await commit(world, await held(world, inputs=(INPUT,)))
    engine.set_clock(hold.start)
    engine.run_jobs()
    job = await the_job(world)
    assert (job.state, job.reason) == (JobState.CANCELLED, "its input in/a b is missing")
    assert await ran(world, hold) == ""


async def test_what_the_laptop_brings_is_named(world: BatchWorld, engine: FakeGridEngine) -> None:
    """A stage whose input comes through the laptop waits until it was said which files came; said
    twice it changes nothing, and nothing else can be said then.
    """
    site = world.connection.site
    hold = await held(world, begin=Begin.EACH, relayed_from="first", companions=())
    with pytest.raises(NotFoundError):
        await site.name_inputs(hold.reservation_id, [INPUT])
    await commit(world, hold)
    jobs = engine.state()["jobs"]
    await site.put_file(hold.reservation_id, "in/a b", chunks(b"xyz"), mode=0o600, sha256="")
    view = await site.name_inputs(hold.reservation_id, [INPUT])
    assert (view.spec.inputs, view.spec.relayed_from) == ((INPUT,), "")
    assert await site.name_inputs(hold.reservation_id, [INPUT]) == view
    with pytest.raises(InputError, match="others"):
        await site.name_inputs(hold.reservation_id, [replace(INPUT, path="b")])
    assert engine.state()["jobs"] == jobs
    engine.set_clock(hold.start)
    engine.run_jobs()
    assert engine.clock == hold.start
    assert await ran(world, hold)


async def test_a_stage_whose_input_nobody_names_runs_nothing(
    world: BatchWorld, engine: FakeGridEngine
) -> None:
    """Files that happen to lie there are not taken for it."""
    hold = await commit(world, await held(world, begin=Begin.EACH, relayed_from="first"))
    engine.set_clock(hold.start)
    engine.run_jobs()
    assert (await the_job(world)).reason == "the files of stage first have not come"
    assert await ran(world, hold) == ""
