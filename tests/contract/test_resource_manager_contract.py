"""What every resource manager promises, shown on real processes, on a real Slurm where one can be
started, and on the simulated machine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.local_sched.resource_managers.base import EndReason, OutputStream, TaskEventKind
from tests.support.batch_worlds import real_system
from tests.support.resource_manager_worlds import (
    NODES,
    HostWorld,
    Listener,
    SimulatedWorld,
    SlurmWorld,
    World,
    read_all,
)

LONG_S = 600.0
"""The run of a task that only ends when it is ended."""


@pytest.fixture(scope="module")
def slurm_conf() -> Iterator[Path]:
    """A Slurm for all tests of this file; they are skipped, loudly, where there is none."""
    with real_system("slurm") as options:
        yield Path(options.environment["SLURM_CONF"])


@pytest.fixture(params=["host", "slurm", "simulated"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Each world in turn, with an open manager."""
    made: World
    if request.param == "slurm":
        made = SlurmWorld(tmp_path, request.getfixturevalue("slurm_conf"))
    else:
        made = HostWorld(tmp_path) if request.param == "host" else SimulatedWorld()
    assert await made.manager.recover() == []
    yield made
    await made.close()


async def test_the_declared_nodes_are_told(world: World) -> None:
    """Nodes are what the site declares, in its order, with their features."""
    assert await world.manager.nodes() == NODES


async def test_a_task_starts_ends_and_tells_both(world: World) -> None:
    """A task's start and end come as one event each, with process, moments and exit code."""
    before = world.clock.now_precise()
    await world.manager.launch(world.order("j1", exit_code=3))
    started, ended = await Listener(world).until_over("j1")
    assert started.kind is TaskEventKind.STARTED
    assert started.pid is not None
    assert started.actual_start is not None
    assert before <= started.actual_start <= ended.at
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.EXITED)
    assert (ended.exit_code, ended.signal_number) == (3, None)
    assert (ended.pid, ended.actual_start) == (started.pid, started.actual_start)


async def test_launching_twice_runs_once(world: World) -> None:
    """Launch is idempotent by the id of the job, while the task runs and after its end."""
    order = world.order("j1", run_s=0.1)
    listener = Listener(world)
    await world.manager.launch(order)
    await world.manager.launch(order)
    first = await listener.until_over("j1")
    await world.manager.launch(order)
    await world.manager.launch(world.order("j2"))
    second = await listener.until_over("j2")
    assert [event.job_id for event in first] == ["j1", "j1"]
    assert [event.job_id for event in second] == ["j2", "j2"]


async def test_another_order_under_the_same_id_is_a_conflict(world: World) -> None:
    """An id names one execution; a different order under it is refused and changes nothing."""
    order = world.order("j1", exit_code=5)
    await world.manager.launch(order)
    with pytest.raises(ConflictError, match="j1"):
        await world.manager.launch(replace(order, kill_grace_s=1.0))
    ended = (await Listener(world).until_over("j1"))[-1]
    assert ended.exit_code == 5


async def test_no_task_starts_before_its_moment(world: World) -> None:
    """``start_not_before`` is kept: prepared early, never let go early."""
    moment = world.clock.now_precise() + 0.25
    await world.manager.launch(world.order("j1", start_not_before=moment))
    started = await Listener(world).next()
    assert started.kind is TaskEventKind.STARTED
    assert started.actual_start is not None
    assert started.actual_start >= moment


async def test_stop_ends_a_task_that_heeds_term(world: World) -> None:
    """Stop sends TERM, and tells that the task was stopped."""
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    listener = Listener(world)
    await listener.next()
    await world.manager.stop("j1", 20.0)
    ended = await listener.next()
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.STOPPED)
    assert ended.signal_number == 15


async def test_a_second_stop_with_a_shorter_grace_counts(world: World) -> None:
    """A task that ignores TERM gets KILL after the grace; asking again may shorten it."""
    await world.manager.launch(world.order("j1", run_s=LONG_S, heeds_term=False, stdout="up"))
    listener = Listener(world)
    await listener.next()
    output = world.manager.follow("j1", OutputStream.STDOUT)
    assert await world.during(_first(output)) == b"up"  # now it ignores TERM for sure
    await world.manager.stop("j1", 3000.0)
    await world.manager.stop("j1", 0.1)
    ended = await listener.next()
    assert (ended.reason, ended.signal_number) == (EndReason.STOPPED, 9)


async def test_a_task_stopped_before_its_start_never_runs(world: World) -> None:
    """A task that waits for its moment is ended without ever having been let go."""
    moment = world.clock.now_precise() + LONG_S
    await world.manager.launch(world.order("j1", start_not_before=moment))
    await world.manager.stop("j1", 5.0)
    (ended,) = await Listener(world).until_over("j1")
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.STOPPED)
    assert (ended.actual_start, ended.exit_code) == (None, None)
    assert ended.at < moment


async def test_stop_is_idempotent_and_knows_its_tasks(world: World) -> None:
    """Stopping what is over does nothing; stopping what never was is an error."""
    await world.manager.launch(world.order("j1"))
    await Listener(world).until_over("j1")
    await world.manager.stop("j1", 1.0)
    with pytest.raises(NotFoundError):
        await world.manager.stop("j2", 1.0)
    with pytest.raises(InputError):
        await world.manager.stop("j1", -1.0)


async def test_the_limit_is_kept(world: World) -> None:
    """A task whose time is over gets TERM, and the reason is told."""
    await world.manager.launch(world.order("j1", run_s=LONG_S, limit_s=0.2))
    started, ended = await Listener(world).until_over("j1")
    assert started.actual_start is not None
    assert ended.at >= started.actual_start + 0.2
    assert (ended.reason, ended.signal_number) == (EndReason.LIMIT, 15)


async def test_the_limit_kills_what_ignores_term(world: World) -> None:
    """TERM at the limit, KILL after the grace."""
    await world.manager.launch(
        world.order("j1", run_s=LONG_S, heeds_term=False, limit_s=0.3, kill_grace_s=0.2)
    )
    started, ended = await Listener(world).until_over("j1")
    assert started.actual_start is not None
    assert ended.at >= started.actual_start + 0.5
    assert (ended.reason, ended.signal_number) == (EndReason.LIMIT, 9)


async def test_the_end_of_the_reserved_time_is_kept(world: World) -> None:
    """The absolute end counts when it comes before the limit, also before the task could start."""
    end = world.clock.now() + 1
    await world.manager.launch(world.order("j1", run_s=LONG_S, end=end, limit_s=LONG_S))
    await world.manager.launch(world.order("j2", end=world.clock.now() - 5))
    seen = await Listener(world).until_over("j1", "j2")
    ends = {event.job_id: event for event in seen if event.kind is TaskEventKind.ENDED}
    assert ends["j1"].reason is EndReason.LIMIT
    assert ends["j1"].at >= end
    assert ends["j2"].reason is EndReason.LIMIT
    assert ends["j2"].actual_start is None


async def test_a_new_daemon_finds_running_and_finished_tasks(world: World) -> None:
    """After a restart each task is told once, as it stands, and the living are followed on."""
    listener = Listener(world)
    await world.manager.launch(world.order("done", exit_code=4))
    await listener.until_over("done")
    await world.manager.launch(world.order("running", run_s=LONG_S))
    started = await listener.next()
    await world.reopen()
    done, running = await world.manager.recover()
    assert (done.job_id, done.kind, done.exit_code) == ("done", TaskEventKind.ENDED, 4)
    assert running == started
    await world.manager.launch(world.order("running", run_s=LONG_S))
    await world.manager.stop("running", 10.0)
    (ended,) = await Listener(world).until_over("running")
    assert ended.pid == started.pid


async def test_a_waiting_task_outlives_the_daemon(world: World) -> None:
    """A task prepared by a daemon that died still starts at its moment, once."""
    moment = world.clock.now_precise() + 0.5
    await world.manager.launch(world.order("j1", start_not_before=moment))
    await world.reopen()
    known = await world.manager.recover()
    seen = await Listener(world).until_over("j1")
    assert [event.kind for event in known + seen][-2:] == [
        TaskEventKind.STARTED,
        TaskEventKind.ENDED,
    ]
    assert len(known + seen) == 2
    assert seen[-1].actual_start is not None
    assert seen[-1].actual_start >= moment


async def test_a_forgotten_task_is_not_told_and_not_run_again(world: World) -> None:
    """Forget keeps recovery short; the id stays used for good."""
    listener = Listener(world)
    order = world.order("j1", stdout="once")
    await world.manager.launch(order)
    with pytest.raises(NotFoundError):
        await world.manager.forget("j2")
    await listener.until_over("j1")
    await world.manager.forget("j1")
    await world.manager.forget("j1")
    assert await world.manager.recover() == []
    await world.manager.launch(order)
    await world.manager.launch(world.order("j2"))
    assert {event.job_id for event in await listener.until_over("j2")} == {"j2"}
    assert await read_all(world.manager, "j1", OutputStream.STDOUT) == b"once"


async def test_a_task_that_is_not_over_cannot_be_forgotten(world: World) -> None:
    """Only what is over may be forgotten."""
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    await Listener(world).next()
    with pytest.raises(ConflictError):
        await world.manager.forget("j1")


async def test_output_is_followed_to_the_end(world: World) -> None:
    """Following yields what the task writes, from any offset, and ends with the task."""
    await world.manager.launch(world.order("j1", run_s=0.2, stdout="abcdef"))
    assert await world.during(read_all(world.manager, "j1", OutputStream.STDOUT)) == b"abcdef"
    assert await world.during(read_all(world.manager, "j1", OutputStream.STDERR)) == b""
    rest = world.manager.follow("j1", OutputStream.STDOUT, 4)
    assert await world.during(_first(rest)) == b"ef"
    with pytest.raises(InputError):
        await world.during(_first(world.manager.follow("j1", OutputStream.STDOUT, -1)))


async def test_closing_ends_the_events_and_leaves_tasks_alone(world: World) -> None:
    """A closed manager tells nothing more and takes no orders; its tasks go on."""
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    await Listener(world).next()
    await world.manager.close()
    await world.manager.close()
    assert [event async for event in world.manager.events()] == []
    with pytest.raises(UnavailableError):
        await world.manager.launch(world.order("j2"))
    await world.reopen()
    (running,) = await world.manager.recover()
    assert running.kind is TaskEventKind.STARTED


async def _first(chunks: AsyncIterator[bytes]) -> bytes:
    """The first piece of an output."""
    return await anext(chunks)
