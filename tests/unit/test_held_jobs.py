"""The job of a leg at its site: kept with the hold, bound by the commit, started when all is there.

A whole agent in virtual time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Begin,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.gridcore.jobs.held_jobs import HeldJob
from gridtravel.gridcore.jobs.inputs import InputFile
from gridtravel.gridcore.jobs.job import Companion, JobSpec, JobState
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.local_sched.scheduling.reservation_jobs import START_SLACK_S
from tests.support.maintenance_world import KENNETH, NODES, MaintenanceWorld, a_wish
from tests.support.two_sites import once

NOW = 1_000
START = NOW + 100
EVE = Caller(subject="login:eve", login="eve", accounts=("eve",))
TRIP = TripRef(trip_id="trip-1", leg="lab", participants=("lab", "west"))
MANIFEST = Manifest(contacts=(("lab", "127.0.0.1:21000"), ("west", "west:21001")))


def an_input(path: str = "in.dat", content: bytes = b"42") -> InputFile:
    """What is to lie at a path."""
    sha256 = hashlib.sha256(content).hexdigest()
    return InputFile(path=path, size_bytes=len(content), sha256=sha256)


def a_job(*inputs: InputFile, **others: Any) -> HeldJob:
    """One node for a minute, with one companion."""
    chosen: dict[str, Any] = {
        "request_id": "trip-1.lab.1.job",
        "name": "trip.lab",
        "account": "kenneth",
        "nodes": 1,
        "limit_s": 60,
        "argv": ("true",),
        "companions": (Companion(leg="west", site="west", nodes=2),),
        "inputs": inputs,
    }
    return HeldJob(spec=JobSpec(**(chosen | others)))


@asynccontextmanager
async def a_site(folder: Path) -> AsyncIterator[MaintenanceWorld]:
    """An agent that serves."""

    async def here(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    with patch("asyncio.to_thread", here):
        world = MaintenanceWorld(folder, now=NOW)
        async with asyncio.TaskGroup() as group:
            world.agent.inputs.open(group)
            await world.start()
            yield world
            await world.stop()


async def hold(
    world: MaintenanceWorld, job: HeldJob | None, name: str = "r1", **others: Any
) -> Reservation:
    """A leg, held for kenneth."""
    wish = a_wish(name, 1, START, 60, **({"trip": TRIP} | others))
    found = await world.agent.calendar_port(KENNETH).reserve(wish, ttl_s=20, job=job)
    assert isinstance(found, Reservation), found
    return found


async def commit(world: MaintenanceWorld, held: Reservation) -> Reservation:
    """The same leg, booked."""
    port = world.agent.calendar_port(KENNETH)
    kept = await port.commit(held.reservation_id, manifest=MANIFEST)
    assert isinstance(kept, Reservation), kept
    return kept


async def put(world: MaintenanceWorld, area: str, path: str, content: bytes) -> None:
    """A file from the laptop."""
    await world.desk().put_file(area, path, once(content), mode=0o640, sha256="")


async def test_a_commit_leaves_the_job_bound(tmp_path: Path) -> None:
    """After the commit, whatever becomes of the laptop, the job runs at the leg's start and is told
    where its companions are; also when the site restarts in between, at both times.
    """
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job())
        assert world.agent.jobs.views == {}
        await world.restart()
        kept = await commit(world, held)
        await world.restart()
        view = world.view(kept.job_id)
        assert (view.owner, view.state) == ("kenneth", JobState.QUEUED)
        assert view.spec.companions[0].contact == "west:21001"
        assert view.spec.reservation_id == held.reservation_id
        await world.pass_time(START + 2 - NOW)
        assert world.view(kept.job_id).state is JobState.RUNNING
        again = await world.agent.calendar_port(KENNETH).commit(held.reservation_id)
        assert again == kept


async def test_a_commit_that_was_learned_late_binds_as_well(tmp_path: Path) -> None:
    """A hold past its lifetime whose trip turns out to be committed: its job is there with it."""
    trip = replace(TRIP, acceptors=(Acceptor(site="lab", endpoint="lab:1"),))
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(), trip=trip)
        agent = world.agent
        _, events = agent.calendar.decide_late_commit(held.reservation_id, NOW + 60)
        await agent.record(events, manifest=MANIFEST).durable()
        (view,) = agent.jobs.views.values()
        assert view.spec.companions[0].contact == "west:21001"
        assert agent.jobs.legs.bound[held.reservation_id] == view.job_id


async def test_what_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    """A job goes with its hold: released, expired, or refused."""
    async with a_site(tmp_path) as world:
        released = await hold(world, a_job(), "r1", trip=None)
        await hold(world, a_job(), "r2", trip=None)
        await world.agent.calendar_port(KENNETH).release(released.reservation_id)
        await world.tick(40)
        assert world.agent.jobs.legs.held == {}
        assert await world.agent.compact()
        await world.restart()
        assert (world.agent.jobs.legs.held, world.agent.jobs.views) == ({}, {})


async def test_a_held_job_survives_compaction(tmp_path: Path) -> None:
    """The journal may be rewritten between hold and commit, and after it."""
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(an_input()))
        await put(world, held.reservation_id, "in.dat", b"42")
        assert await world.agent.compact()
        await world.restart()
        kept = await commit(world, held)
        assert await world.agent.compact()
        await world.restart()
        assert world.agent.jobs.views[kept.job_id].spec.inputs == (an_input(),)
        assert world.agent.leg_is_ready(held.reservation_id)


@pytest.mark.parametrize(
    ("job", "rule"),
    [
        (a_job(nodes=2), DeclineRule.TOO_LARGE),
        (a_job(limit_s=61), DeclineRule.LIMIT_DURATION),
        (a_job(features=("gpu",)), DeclineRule.FEATURES),
    ],
    ids=["nodes", "time", "features"],
)
async def test_a_job_that_could_never_run_is_refused_with_its_hold(
    tmp_path: Path, job: HeldJob, rule: DeclineRule
) -> None:
    """It is checked like a submission, and then nothing is held."""
    async with a_site(tmp_path) as world:
        wish = a_wish("r1", 1, START, 60)
        answer = await world.agent.calendar_port(KENNETH).reserve(wish, ttl_s=20, job=job)
        assert isinstance(answer, Decline)
        assert answer.rule is rule
        assert world.agent.calendar.reservations == {}


async def test_a_job_is_its_callers_own(tmp_path: Path) -> None:
    """It charges an account of the caller's, and a request that is said again brings the same."""
    async with a_site(tmp_path) as world:
        with pytest.raises(NotAuthorisedError):
            await hold(world, a_job(account="eve"))
        held = await hold(world, a_job())
        assert await hold(world, a_job()) == held
        with pytest.raises(InputError):
            await hold(world, a_job(nodes=1, argv=("false",)))
        with pytest.raises(InputError):
            await hold(world, None)


async def test_a_job_waits_until_every_input_is_there(tmp_path: Path) -> None:
    """A file counts when its content is what was said, whenever it comes: before the commit, after
    it, damaged at first, or in place of a good one.
    """
    early, late = an_input("in/early.dat", b"1"), an_input("late.dat", b"22")
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(early, late))
        area = held.reservation_id
        await put(world, area, "./in/early.dat", b"1")
        kept = await commit(world, held)
        await put(world, area, "late.dat", b"xx")
        await world.pass_time(START + 5 - NOW)
        view = world.view(kept.job_id)
        assert (view.state, "late.dat" in view.reason) == (JobState.QUEUED, True)
        assert not world.agent.leg_is_ready(area)
        await put(world, area, "in/early.dat", b"no more")
        await put(world, area, "late.dat", b"22")
        assert "in/early.dat" in world.view(kept.job_id).reason
        await put(world, area, "in/early.dat", b"1")
        assert world.agent.leg_is_ready(area)
        await world.tick(1)
        assert world.view(kept.job_id).state is JobState.RUNNING


async def test_an_input_is_read_once(tmp_path: Path) -> None:
    """What was seen whole is remembered over a restart, and not read again at the start."""
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(an_input()))
        await put(world, held.reservation_id, "in.dat", b"42")
        kept = await commit(world, held)
        await world.restart()

        async def refuse(*_: object, **__: object) -> None:
            raise AssertionError("it is read again")

        with patch.object(type(world.agent.parts.work_dirs), "list_files", refuse):
            await world.pass_time(START + 2 - NOW)
        assert world.view(kept.job_id).state is JobState.RUNNING


async def test_a_file_that_came_while_nobody_looked_counts(tmp_path: Path) -> None:
    """The daemon died between the end of a transfer and the record of it, and the laptop finds the
    file in place: it is looked for once after a restart.
    """
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(an_input()))
        kept = await commit(world, held)
        folder = world.agent.parts.work_dirs.folder(held.reservation_id, "kenneth")
        (folder / "in.dat").write_bytes(b"42")
        await world.restart()
        async with asyncio.TaskGroup() as group:
            world.agent.inputs.open(group)
            await world.tick()
        assert world.agent.leg_is_ready(held.reservation_id)
        await world.pass_time(START + 2 - NOW)
        assert world.view(kept.job_id).state is JobState.RUNNING


async def test_what_never_arrives_fails_the_job_and_is_named(tmp_path: Path) -> None:
    """Until the last second in which it may begin; then its nodes are others'."""
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(an_input("big/field.dat")))
        kept = await commit(world, held)
        await world.pass_time(START + START_SLACK_S - NOW)
        assert world.view(kept.job_id).state is JobState.QUEUED
        await world.pass_time(2)
        view = world.view(kept.job_id)
        assert view.state is JobState.FAILED
        assert "big/field.dat" in view.reason
        leg = world.agent.calendar.get(held.reservation_id)
        assert leg.state is ReservationState.RELEASED


async def test_relayed_files_are_named_by_the_traveller(tmp_path: Path) -> None:
    """Nobody knows their checksums before; the job waits for the word and for the files."""
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(relayed_from="first"))
        kept = await commit(world, held)
        desk = world.desk()
        assert not world.agent.leg_is_ready(held.reservation_id)
        with pytest.raises(NotAuthorisedError):
            await world.desk(EVE).name_inputs(held.reservation_id, [])
        await put(world, held.reservation_id, "mesh.dat", b"42")
        brought = [an_input("mesh.dat")]
        await desk.name_inputs(held.reservation_id, brought)
        await desk.name_inputs(held.reservation_id, brought)
        with pytest.raises(InputError):
            await desk.name_inputs(held.reservation_id, [an_input("other.dat")])
        await world.restart()
        async with asyncio.TaskGroup() as group:
            world.agent.inputs.open(group)
            await world.tick()
        await world.pass_time(START + 2 - NOW)
        assert world.view(kept.job_id).state is JobState.RUNNING


async def test_a_changed_leg_takes_the_job_of_its_new_form(tmp_path: Path) -> None:
    """Under the same id, with the inputs that are there; a change that comes to nothing leaves the
    old job as it was.
    """
    async with a_site(tmp_path) as world:
        held = await hold(world, a_job(an_input()))
        kept = await commit(world, held)
        await put(world, held.reservation_id, "in.dat", b"42")
        for attempt in (2, 3):
            trip = replace(TRIP, attempt=attempt)
            wish = a_wish(f"r{attempt}", 2, START + 50, 90, trip=trip, replaces=kept.reservation_id)
            job = a_job(an_input(), request_id=f"j{attempt}", nodes=2, argv=("other",))
            port = world.agent.calendar_port(KENNETH)
            new = await port.reserve(wish, ttl_s=20, job=job)
            assert isinstance(new, Reservation), new
            if attempt == 2:
                await port.release(new.reservation_id)
                assert world.view(kept.job_id).spec.argv == ("true",)
                continue
            leg = await port.commit(new.reservation_id, manifest=MANIFEST)
            assert isinstance(leg, Reservation)
            assert (leg.reservation_id, leg.job_id) == (kept.reservation_id, kept.job_id)
        await world.restart()
        view = world.view(kept.job_id)
        assert (view.spec.nodes, view.spec.argv) == (2, ("other",))
        assert len(world.agent.jobs.views) == 1
        await world.pass_time(START + 52 - NOW)
        assert world.view(kept.job_id).state is JobState.RUNNING


async def test_a_leg_without_a_job_is_ready_with_its_commit(tmp_path: Path) -> None:
    """And not before; a leg whose job was cancelled is not."""
    async with a_site(tmp_path) as world:
        bare = await hold(world, None)
        assert not world.agent.leg_is_ready(bare.reservation_id)
        await commit(world, bare)
        assert world.agent.leg_is_ready(bare.reservation_id)
        kept = await commit(world, await hold(world, a_job(), "r2", trip=None))
        assert world.agent.leg_is_ready(kept.reservation_id)
        await world.desk().cancel_job(kept.job_id)
        assert not world.agent.leg_is_ready(kept.reservation_id)


async def test_files_are_for_reservations(tmp_path: Path) -> None:
    """A job of the open queue has no area that anybody could bring files into."""
    async with a_site(tmp_path) as world:
        with pytest.raises(InputError):
            await world.desk().submit(a_job(an_input(), nodes=NODES).spec)


@pytest.mark.parametrize("is_sent", [True, False], ids=["all is there", "an input is missing"])
async def test_a_leg_that_is_not_ready_does_not_begin_with_the_others(
    tmp_path: Path, is_sent: bool
) -> None:
    """Where all legs begin together, a site says that its leg is ready when the job's inputs are
    there; without that word none begins, and the nodes are free.
    """
    trip = replace(
        TRIP,
        participants=("lab",),
        acceptors=(Acceptor(site="lab", endpoint="lab:1"),),
        legs=(TripLeg(site="lab", leg="lab", start=START),),
        begin=Begin.TOGETHER,
        ends_at=START + 60,
    )
    async with a_site(tmp_path) as world, world.agent.background.open():
        held = await hold(world, a_job(an_input()), trip=trip)
        kept = await commit(world, held)
        if is_sent:
            await put(world, held.reservation_id, "in.dat", b"42")
        await world.pass_time(START + 8 - NOW)
        view, leg = world.view(kept.job_id), world.agent.calendar.get(held.reservation_id)
        if is_sent:
            assert (view.state, leg.state) == (JobState.RUNNING, ReservationState.COMMITTED)
        else:
            assert (view.state, leg.state) == (JobState.CANCELLED, ReservationState.RELEASED)
