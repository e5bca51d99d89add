"""An administrator's orders at a live site: nodes, modes, maintenance; and what a restart keeps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents.maintenance_rules import MaintenanceRules, NodeFailureRule
from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import InputError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.jobs.job import JobSpec, JobState
from tests.support.maintenance_world import KENNETH, ROOT, MaintenanceWorld, a_wish


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[MaintenanceWorld]:
    """A site, by the rule for failed nodes that the test names."""
    rule = getattr(request, "param", NodeFailureRule.NOTIFY)
    made = MaintenanceWorld(tmp_path, MaintenanceRules(on_node_failure=rule))
    await made.start()
    yield made
    await made.stop()


requeues = pytest.mark.parametrize("world", [NodeFailureRule.REQUEUE], indirect=True)


async def test_orders_are_for_administrators(world: MaintenanceWorld) -> None:
    """Users are refused whatever they order; what is no order, node or mode is named."""
    for name in ("set-mode", "node-down", "nonsense"):
        with pytest.raises(NotAuthorisedError):
            await world.desk().order(name, {})
    wish = a_wish("mine", 1, 5_000, 60, account="system")
    with pytest.raises(NotAuthorisedError):
        await world.desk().set_reservation(wish, is_dry_run=False)
    anybody = Caller(subject="login:eve", login="eve")
    with pytest.raises(NotAuthorisedError, match="the site's own"):
        await world.agent.calendar_port(anybody).reserve(wish, ttl_s=10)
    namesake = Caller(subject="login:system", login="system")
    with pytest.raises(NotAuthorisedError, match="the site's own"):
        await world.desk(namesake).set_reservation(replace(wish, account="x"), is_dry_run=False)
    with pytest.raises(InputError, match="no order"):
        await world.desk(ROOT).order("nonsense", {})
    with pytest.raises(NotFoundError, match="no node"):
        await world.desk(ROOT).order("node-down", {"node": "n-9"})
    with pytest.raises(InputError, match="no mode"):
        await world.desk(ROOT).order("set-mode", {"mode": "idle"})
    assert not world.agent.calendar.reservations


async def test_modes_hold_over_a_restart(world: MaintenanceWorld) -> None:
    """Suspended: taken, not started. Stopped: refused. Running again: started."""
    await world.desk(ROOT).order("set-mode", {"mode": "suspended"})
    job = await world.submit(1, 100)
    await world.restart()
    await world.tick(10)
    assert world.view(job).state is JobState.QUEUED
    await world.desk(ROOT).order("set-mode", {"mode": "stopped"})
    spec = JobSpec(
        request_id="late", name="x", account="kenneth", nodes=1, limit_s=9, argv=("true",)
    )
    assert isinstance(await world.desk().submit(spec), Decline)
    await world.desk(ROOT).order("set-mode", {"mode": "running"})
    await world.tick()
    assert world.view(job).state is JobState.RUNNING


async def test_a_failed_node_stays_out_over_a_restart(world: MaintenanceWorld) -> None:
    """The job on it goes on and its owner is told once; nobody else gets the node until it is
    back. Compaction forgets none of it.
    """
    job = await world.submit(1, 1_000)
    (node,) = world.view(job).node_names
    for _ in range(2):
        answer = await world.desk(ROOT).order("node-down", {"node": node})
        assert answer == {
            "node": node, "class": "n", "state": "down", "rule": "notify", "jobs": [job]
        }  # fmt: skip
    assert await world.mailed() == [f"[lab] job {job} was hit: node {node} failed"]
    assert await world.agent.compact()
    await world.restart()
    assert world.view(job).state is JobState.RUNNING
    whole, rest = await world.submit(4, 50), await world.submit(2, 50)
    assert world.view(whole).planned_start is None
    assert world.view(rest).state is JobState.RUNNING
    world.agent.scheduler.validate()
    await world.desk(ROOT).order("node-up", {"node": node})
    await world.tick()
    assert world.view(whole).planned_start is not None
    world.agent.scheduler.validate()


@requeues
async def test_a_requeued_job_runs_again_under_a_new_id(world: MaintenanceWorld) -> None:
    """Its old tasks end first; then it runs on other nodes, its id and rank kept; the owner is
    told. The resource manager never saw one id twice.
    """
    job = await world.submit(2, 1_000)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    assert world.view(job).state is JobState.RUNNING, "its tasks are still there"
    await world.tick(2)
    view = world.view(job)
    assert (view.state, view.node_names) == (JobState.RUNNING, ("n-1", "n-2"))
    assert world.machine.remembered_ids() == [f"{job}.2"]
    assert len(await world.mailed()) == 1
    world.agent.scheduler.validate()
    await world.restart()
    assert world.view(job).state is JobState.RUNNING
    await world.tick(1_200)
    assert world.view(job).state is JobState.TIMED_OUT
    assert world.machine.remembered_ids() == []


@requeues
async def test_a_requeue_survives_a_crash_in_its_middle(world: MaintenanceWorld) -> None:
    """The daemon dies between the order and the end of the old tasks: the next one carries it
    through, and the job runs once more, not twice.
    """
    job = await world.submit(4, 1_000)
    await world.desk(ROOT).order("node-down", {"node": "n-3"})
    await world.restart()
    await world.tick(2)
    view = world.view(job)
    assert (view.state, view.planned_start) == (JobState.QUEUED, None), "too few nodes are up"
    await world.desk(ROOT).order("node-up", {"node": "n-3"})
    await world.tick()
    assert world.view(job).state is JobState.RUNNING
    assert world.agent.jobs.execution_id(job) == f"{job}.2"
    world.agent.jobs.validate()


@requeues
async def test_a_node_can_be_drained_instead(world: MaintenanceWorld) -> None:
    """The order may name another rule than the site's: the job on it goes on to its end, and no
    other one follows.
    """
    world.runs["1.lab"] = 50
    job = await world.submit(1, 100)
    with pytest.raises(InputError, match="nothing that jobs"):
        await world.desk(ROOT).order("node-down", {"node": "n-0", "jobs": "panic"})
    await world.desk(ROOT).order("node-down", {"node": "n-0", "jobs": "notify"})
    await world.tick(10)
    assert world.view(job).state is JobState.RUNNING
    await world.tick(50)
    assert world.view(job).state is JobState.COMPLETED
    follower = await world.submit(3, 100)
    assert world.view(follower).node_names == ("n-1", "n-2", "n-3")


@requeues
async def test_a_requeued_job_can_still_be_cancelled(world: MaintenanceWorld) -> None:
    """Its owner's word counts more than the site's rule."""
    job = await world.submit(1, 1_000)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    await world.desk().cancel_job(job)
    await world.tick(2)
    assert world.view(job).state is JobState.CANCELLED


@pytest.mark.parametrize("world", [NodeFailureRule.CANCEL], indirect=True)
async def test_a_job_on_a_failed_node_is_cancelled_with_its_reason(world: MaintenanceWorld) -> None:
    """By that rule it is over, and history says why."""
    job = await world.submit(1, 1_000)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    await world.tick(2)
    view = world.view(job)
    assert (view.state, view.reason) == (JobState.CANCELLED, "cancelled: node n-0 failed")


@pytest.mark.parametrize("world", [NodeFailureRule.CANCEL], indirect=True)
async def test_a_cancellation_survives_a_crash_in_its_middle(world: MaintenanceWorld) -> None:
    """The tasks ended while no daemon looked; the next one still knows why."""
    job = await world.submit(1, 1_000)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    await world.agent.parts.resource_manager.stop(job, 0.0)
    await world.stop()
    world.clock.advance(5)
    await world.restart()
    await world.tick(2)
    view = world.view(job)
    assert (view.state, view.reason) == (JobState.CANCELLED, "cancelled: node n-0 failed")


@requeues
async def test_a_job_at_the_end_of_its_own_time_does_not_run_again(world: MaintenanceWorld) -> None:
    """Its limit came before the order: it timed out, whatever became of its node."""
    job = await world.submit(1, 100)
    world.clock.advance(100)
    await world.desk(ROOT).order("node-down", {"node": "n-0"})
    await world.tick(2)
    assert world.view(job).state is JobState.TIMED_OUT


async def test_maintenance_drains_and_displaces(world: MaintenanceWorld) -> None:
    """Running jobs keep their limit, the waiting one in its way is planned behind it and its owner
    told; a dry run does neither. Said twice it is made once, and it survives a restart.
    """
    now = world.clock.now()
    running = await world.submit(4, 100)
    waiting = await world.submit(4, 200)
    assert world.view(waiting).planned_start == now + 100
    wish = a_wish("down", 4, now + 150, 600, account="system")
    dry = await world.desk(ROOT).set_reservation(wish, is_dry_run=True)
    assert isinstance(dry, Reservation)
    await world.tick()
    assert world.view(waiting).planned_start == now + 100
    for _ in range(2):
        made = await world.desk(ROOT).set_reservation(wish, is_dry_run=False)
        assert isinstance(made, Reservation)
        assert (made.owner, made.start) == ("system", now + 150)
    await world.tick()
    assert world.view(waiting).planned_start == now + 750
    assert await world.mailed() == [f"[lab] job {waiting} makes way for a reservation of the site"]
    short = await world.submit(4, 50)
    assert world.view(short).planned_start == now + 100, "it ends before maintenance begins"
    assert world.view(running).state is JobState.RUNNING
    await world.restart()
    assert world.view(waiting).planned_start == now + 750
    assert isinstance(made, Reservation)
    with pytest.raises(NotAuthorisedError):
        await world.agent.calendar_port(KENNETH).release(made.reservation_id)
    await world.agent.calendar_port(ROOT).release(made.reservation_id)
    await world.tick()
    assert world.view(waiting).planned_start == now + 150


async def test_a_restart_makes_no_told_place_later(world: MaintenanceWorld) -> None:
    """A job planned beside a reservation keeps its place when that is cancelled, and after a
    restart as well, although planning the queue anew in its order would give the room to the job
    before it. Compaction forgets no place.
    """
    now = world.clock.now()
    await world.submit(4, 100)
    wish = a_wish("beside", 2, now + 100, 100)
    beside = await world.desk().set_reservation(wish, is_dry_run=False)
    assert isinstance(beside, Reservation)
    first, second = await world.submit(3, 100), await world.submit(2, 100)
    await world.agent.calendar_port(KENNETH).release(beside.reservation_id)
    await world.tick()
    told = {each.job_id: each.planned_start for each in await world.desk().jobs()}
    assert (told[first], told[second]) == (now + 200, now + 100)
    await world.restart()
    assert {each.job_id: each.planned_start for each in await world.desk().jobs()} == told
    assert await world.agent.compact()
    await world.restart()
    assert {each.job_id: each.planned_start for each in await world.desk().jobs()} == told
    world.agent.scheduler.validate()


async def test_a_told_place_whose_room_is_gone_is_planned_anew(world: MaintenanceWorld) -> None:
    """Maintenance was journaled and the daemon died before it planned anew: the reservation stands,
    and the job comes after it.
    """
    now = world.clock.now()
    await world.submit(4, 100)
    waiting = await world.submit(4, 100)
    wish = a_wish("down", 4, now + 150, 50, account="system")
    await world.desk(ROOT).set_reservation(wish, is_dry_run=False)
    assert world.agent.state.told[waiting] == now + 100
    await world.restart()
    assert world.view(waiting).planned_start == now + 200
    world.agent.scheduler.validate()
