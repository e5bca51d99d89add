"""What ``history`` says of jobs and reservations that ended while the site's daemon was down."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.local_sched.resource_managers.base import EndReason, TaskEvent, TaskEventKind
from tests.support.maintenance_world import KENNETH, MaintenanceWorld, a_wish


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MaintenanceWorld]:
    """Four idle nodes at 1,000 seconds."""
    made = MaintenanceWorld(tmp_path)
    await made.start()
    yield made
    await made.stop()


async def asked(world: MaintenanceWorld, name: str, **arguments: int) -> list[dict[str, Any]]:
    """The rows of a question's answer."""
    words = {key: str(each) for key, each in arguments.items()}
    answer = await world.desk().query(name, words)
    assert isinstance(answer, dict)
    rows: list[dict[str, Any]] = answer["jobs" if name == "history" else "reservations"]
    return rows


async def test_a_job_that_ended_in_an_outage_ended_then(world: MaintenanceWorld) -> None:
    """Its supervisor wrote down when: not the restart, an hour later. A second restart, which
    reads only the journal, says the same, and so does the window of the question.
    """
    world.runs["1.lab"] = 100
    job = await world.submit(1, 600)
    await world.tick(10)
    await world.outage(3_600)
    for _ in range(2):
        view = world.view(job)
        assert (view.state, view.started_at, view.ended_at) == (JobState.COMPLETED, 1_000, 1_100)
        assert [row["job"] for row in await asked(world, "history", since=1_050, until=1_200)]
        assert not await asked(world, "history", since=1_200)
        assert await world.agent.compact()
        await world.restart()


async def test_a_job_that_was_lost_ended_before_its_time_was_over(world: MaintenanceWorld) -> None:
    """The machine lost its power and what ran; back days later nobody knows when a job ended:
    certainly not after the last second that it had.
    """
    job = await world.submit(1, 600)
    world.clock.advance(90_000)
    lost = TaskEvent(
        job_id=job,
        kind=TaskEventKind.LOST,
        at=world.clock.now_precise(),
        reason=EndReason.LOST,
        actual_start=1_000.5,
    )
    await world.agent.runner.task_event(lost)
    view = world.view(job)
    assert (view.state, view.ended_at) == (JobState.FAILED, 1_600)


async def test_a_job_that_was_ordered_and_never_ran_runs_after_all(
    world: MaintenanceWorld,
) -> None:
    """The daemon died between its order and the task's supervisor, and has made sure since that
    none comes up: the job starts again, under another name. What never runs twice has failed.
    """
    job = await world.submit(1, 600)
    for name, state in ((job, JobState.RUNNING), (f"{job}.2", JobState.FAILED)):
        never = TaskEvent(
            job_id=name,
            kind=TaskEventKind.LOST,
            at=world.clock.now_precise(),
            reason=EndReason.NEVER_RAN,
            message="it never ran",
        )
        await world.agent.runner.task_event(never)
        await world.tick(1)
        assert world.view(job).state is state
        assert world.agent.jobs.execution_id(job) == f"{job}.2"


async def test_a_reservation_that_ended_in_an_outage_ended_then(world: MaintenanceWorld) -> None:
    """At the end of its time. One that was cancelled ended when it was."""
    kept = await world.desk().set_reservation(a_wish("kept", 1, 1_000, 300), is_dry_run=False)
    gone = await world.desk().set_reservation(a_wish("gone", 1, 1_000, 300), is_dry_run=False)
    assert isinstance(kept, Reservation)
    assert isinstance(gone, Reservation)
    await world.tick(20)
    port = world.agent.calendar_port(KENNETH)
    await port.release(gone.reservation_id)
    await world.outage(3_600)
    rows = {row["reservation"]: row for row in await asked(world, "past")}
    assert rows[kept.reservation_id]["ended_at"] == 1_300
    assert rows[gone.reservation_id]["ended_at"] == 1_020
