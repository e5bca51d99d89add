"""QoPS live: a running job is ended so that another keeps its deadline, and runs again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.reservations import Decline, DeclineRule
from gridtravel.gridcore.jobs.job import JobSpec, JobState, JobView
from gridtravel.local_sched.policies.qops import Qops
from tests.support.maintenance_world import MaintenanceWorld

NOW = 1_000
GRACE_S = 5


@asynccontextmanager
async def qops_site(folder: Path) -> AsyncIterator[MaintenanceWorld]:
    """Four nodes, served by QoPS with kills."""
    world = MaintenanceWorld(folder, policy=Qops(kill_candidates=8, kill_grace=GRACE_S))
    await world.start()
    try:
        yield world
    finally:
        world.agent.scheduler.validate()
        await world.stop()


async def submit(
    world: MaintenanceWorld, name: str, limit_s: int, deadline: int, *, is_restartable: bool = False
) -> JobView | Decline:
    """A job on all nodes that takes its whole limit."""
    world.runs[world.agent.jobs.next_id] = world.runs[f"{world.agent.jobs.next_id}.2"] = limit_s
    spec = a_spec(name, limit_s, deadline, is_restartable=is_restartable)
    answer = await world.desk().submit(spec)
    await world.tick()
    return answer


def a_spec(name: str, limit_s: int, deadline: int, *, is_restartable: bool = False) -> JobSpec:
    """All nodes until a deadline."""
    return JobSpec(
        request_id=name,
        name=name,
        account="kenneth",
        nodes=4,
        limit_s=limit_s,
        argv=("true",),
        deadline=deadline,
        is_restartable=is_restartable,
    )


async def job(
    world: MaintenanceWorld, name: str, limit_s: int, deadline: int, *, is_restartable: bool = False
) -> str:
    """The id of one that is accepted."""
    view = await submit(world, name, limit_s, deadline, is_restartable=is_restartable)
    assert isinstance(view, JobView), view
    return view.job_id


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_restartable_job_makes_way_and_runs_again(tmp_path: Path, is_restarted: bool) -> None:
    """Both end in time; the kill is carried out by a daemon that was started again as well."""

    async def scene() -> None:
        async with qops_site(tmp_path) as world:
            patient = await job(world, "patient", 100, NOW + 400, is_restartable=True)
            await world.pass_time(20)
            assert world.view(patient).state is JobState.RUNNING
            urgent = await job(world, "urgent", 50, NOW + 90)
            if is_restarted:
                await world.restart()
            await world.pass_time(15)
            assert world.view(urgent).state is JobState.RUNNING
            assert world.view(patient).state is JobState.QUEUED
            again_at = world.view(patient).planned_start
            assert again_at is not None
            assert again_at + 100 <= NOW + 400
            await world.pass_time(250)
            for job_id, deadline in ((urgent, NOW + 90), (patient, NOW + 400)):
                view = world.view(job_id)
                assert view.state is JobState.COMPLETED, view
                assert view.ended_at is not None
                assert view.ended_at <= deadline

    asyncio.run(scene())


def test_nobody_is_ended_who_would_be_late_or_must_not_be(tmp_path: Path) -> None:
    """What cannot start again in time, and what was not said to be restartable, stays; the refusal
    names a deadline that passes.
    """

    async def scene() -> None:
        async with qops_site(tmp_path) as world:
            tight = await job(world, "tight", 100, NOW + 110, is_restartable=True)
            await world.pass_time(20)
            refused = await submit(world, "urgent", 50, NOW + 90)
            assert isinstance(refused, Decline)
            assert refused.rule is DeclineRule.DEADLINE
            assert world.view(tight).state is JobState.RUNNING
            passing = refused.passing[0].deadline
            assert isinstance(await submit(world, "again", 50, passing), JobView)
            await world.pass_time(200)
            assert world.view(tight).state is JobState.COMPLETED

    asyncio.run(scene())


def test_a_job_that_is_cancelled_meanwhile_does_not_run_again(tmp_path: Path) -> None:
    """Its owner cancels it while it is being ended; the place kept for it is free again."""

    async def scene() -> None:
        async with qops_site(tmp_path) as world:
            patient = await job(world, "patient", 100, NOW + 400, is_restartable=True)
            await world.pass_time(20)
            urgent = await world.desk().submit(a_spec("urgent", 50, NOW + 90))
            assert isinstance(urgent, JobView)
            assert patient in world.agent.jobs.makes_way
            await world.desk().cancel_job(patient)
            await world.pass_time(10)
            assert world.view(patient).state is JobState.CANCELLED
            now = world.clock.now()
            assert world.agent.calendar.free["n"].steps() == [(now, 0), (NOW + 70, 4)]

    asyncio.run(scene())
