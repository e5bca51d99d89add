"""What outlives a task's daemon and supervisor: nothing runs twice, nothing is lost in silence."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.resource_managers import host
from gridtravel.local_sched.resource_managers.base import EndReason, OutputStream, TaskEventKind
from gridtravel.local_sched.resource_managers.supervised.processes import identity, process_stat
from gridtravel.local_sched.resource_managers.supervised.spawning import spawn_supervisor
from tests.support.host_tasks import command, numbers_in, run, script, until
from tests.support.resource_manager_worlds import HostWorld, Listener, own_login

pytestmark = pytest.mark.integration

DAEMON = """
import asyncio, json, sys
from pathlib import Path
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.resource_managers.base import Launch
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.host import HostResourceManager

async def main():
    manager = HostResourceManager(
        root=Path(sys.argv[1]), clock=SystemClock(), nodes=(), files=AccountFiles()
    )
    await manager.recover()
    for order in json.loads(sys.argv[2]):
        await manager.launch(Launch(login=sys.argv[3], **order))
    print("launched", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
"""A daemon reduced to its resource manager, to be killed."""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HostWorld]:
    """This machine, with an open manager."""
    made = HostWorld(tmp_path)
    await made.manager.recover()
    yield made
    await made.close()


async def test_many_supervisors_run_a_task_once(world: HostWorld, tmp_path: Path) -> None:
    """However many supervisors come up for one folder, the fence lets one of them run it."""
    seen = tmp_path / "runs"
    order = script("j1", f"echo $$ >> {seen}; sleep 0.2")
    await world.manager.launch(order)
    folder = tmp_path / "control" / "active" / "j1"
    pids = [spawn_supervisor(folder) for _ in range(5)]
    (started, _) = await Listener(world).until_over("j1")
    codes = [await asyncio.to_thread(os.waitpid, pid, 0) for pid in pids]
    assert [status for _, status in codes] == [0] * 5
    assert numbers_in(seen) == [started.pid]


async def test_a_second_supervisor_makes_room_for_the_first(
    world: HostWorld, tmp_path: Path
) -> None:
    """A daemon that launches again without having recovered follows the task that runs."""
    seen = tmp_path / "runs"
    order = script("j1", f"echo $$ >> {seen}; sleep 600")
    await world.manager.launch(order)
    started = await Listener(world).next()
    await world.reopen()
    await world.manager.launch(order)
    await world.manager.stop("j1", 10.0)
    ended = (await Listener(world).until_over("j1"))[-1]
    assert (ended.reason, ended.pid) == (EndReason.STOPPED, started.pid)
    assert numbers_in(seen) == [started.pid]


async def test_a_killed_daemon_leaves_its_tasks_in_good_hands(tmp_path: Path) -> None:
    """After kill -9 what ran goes on, what waited starts in time, limits hold, all is told."""
    moment = SystemClock().now_precise() + 1.5
    orders: list[dict[str, object]] = [
        {"job_id": "done", "script": "exit 7"},
        {"job_id": "limited", "script": "sleep 600", "limit_s": 1.0},
        {"job_id": "running", "script": "sleep 600"},
        {"job_id": "waiting", "script": "exit 8", "start_not_before": moment},
    ]
    daemon = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", DAEMON, str(tmp_path), json.dumps(orders), own_login()),
        stdout=asyncio.subprocess.PIPE,
    )
    assert daemon.stdout is not None
    assert await daemon.stdout.readline() == b"launched\n"
    daemon.kill()
    await daemon.wait()
    world = HostWorld(tmp_path)
    known = {event.job_id: event for event in await world.manager.recover()}
    assert known["running"].kind is TaskEventKind.STARTED
    await world.manager.stop("running", 10.0)
    ended = [name for name, event in known.items() if event.kind is not TaskEventKind.STARTED]
    names = [str(one["job_id"]) for one in orders]
    seen = await Listener(world).until_over(*(name for name in names if name not in ended))
    ends = {
        event.job_id: event
        for event in [*known.values(), *seen]
        if event.kind is not TaskEventKind.STARTED
    }
    assert ends["done"].exit_code == 7
    assert ends["limited"].reason is EndReason.LIMIT
    assert ends["running"].reason is EndReason.STOPPED
    assert ends["waiting"].exit_code == 8
    assert ends["waiting"].actual_start is not None
    assert ends["waiting"].actual_start >= moment
    await world.close()


async def test_a_killed_supervisor_means_lost_and_dead(world: HostWorld, tmp_path: Path) -> None:
    """When the supervisor is killed its task is told as lost, and nothing of it goes on."""
    seen = tmp_path / "pids"
    text = f"echo $$ >> {seen}; setsid sh -c 'echo $$ >> {seen}; sleep 600; true' & sleep 600; true"
    await world.manager.launch(script("j1", text))
    listener = Listener(world)
    await listener.next()
    await until(lambda: len(numbers_in(seen)) == 2)
    pids = numbers_in(seen)
    fence = json.loads((tmp_path / "control" / "active" / "j1" / "fence.json").read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    lost = await listener.next()
    assert (lost.kind, lost.reason) == (TaskEventKind.LOST, EndReason.LOST)
    assert "without a record" in lost.message
    await until(lambda: all(process_stat(pid) is None for pid in pids))
    assert await world.manager.recover() == [lost]


async def test_an_order_that_nobody_took_up_is_told_as_never_run(
    world: HostWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its daemon died when the order was written down and no supervisor was started yet. The next
    one knows for certain that nothing of it ran or ever will: a supervisor that came now would find
    the fence taken.
    """
    seen = tmp_path / "runs"

    class Died(Exception):
        pass

    def die(_: Path) -> int:
        raise Died

    monkeypatch.setattr(host, "spawn_supervisor", die)
    with pytest.raises(Died):
        await world.manager.launch(script("j1", f"echo $$ >> {seen}"))
    (lost,) = await world.manager.recover()
    assert (lost.kind, lost.reason) == (TaskEventKind.LOST, EndReason.NEVER_RAN)
    pid = spawn_supervisor(tmp_path / "control" / "active" / "j1")
    await asyncio.to_thread(os.waitpid, pid, 0)
    assert not seen.exists()


async def test_a_process_id_given_to_somebody_else_is_not_the_supervisor(
    world: HostWorld, tmp_path: Path
) -> None:
    """A living process counts only with its start time: ids are given out again."""
    folder = tmp_path / "control" / "active" / "j1"
    await run(world, command("j1", "true"))
    own = identity(os.getpid())
    (folder / "fence.json").write_text(json.dumps({**own, "start_ticks": 1}))
    (folder / "ended.json").unlink()
    await world.reopen()
    (lost,) = await world.manager.recover()
    assert lost.kind is TaskEventKind.LOST
    assert process_stat(os.getpid()) is not None


async def test_an_order_without_a_supervisor_is_lost_and_never_run(
    world: HostWorld, tmp_path: Path
) -> None:
    """A daemon that died between order and supervisor: the task is told as lost, and fenced off."""
    folder = tmp_path / "control" / "active" / "j1"
    order = command("j1", "true")
    await run(world, order)
    for name in ("fence.json", "started.json", "ended.json"):
        (folder / name).unlink()
    await world.reopen()
    (lost,) = await world.manager.recover()
    assert (lost.kind, lost.actual_start) == (TaskEventKind.LOST, None)
    await asyncio.to_thread(os.waitpid, spawn_supervisor(folder), 0)
    assert not (folder / "started.json").exists()
    await world.manager.launch(order)
    assert await world.manager.recover() == [lost]


async def test_damaged_records_lose_one_task_and_not_the_daemon(
    world: HostWorld, tmp_path: Path
) -> None:
    """A record that a failing disk destroyed is a lost task, with the supervisor's last words."""
    await run(world, command("j1", "true"))
    await run(world, command("j2", "true"))
    folder = tmp_path / "control" / "active" / "j1"
    for name in ("fence.json", "ended.json"):
        (folder / name).unlink()
    (folder / "launch.json").write_text("{")
    await asyncio.to_thread(os.waitpid, spawn_supervisor(folder), 0)
    await world.reopen()
    lost, ended = await world.manager.recover()
    assert (lost.kind, ended.exit_code) == (TaskEventKind.LOST, 0)
    assert "damaged" in lost.message
    assert "JSONDecodeError" in lost.message
    with pytest.raises(NotFoundError, match="damaged"):
        world.manager.output_path("j1", OutputStream.STDOUT)
    await world.manager.forget("j1")
    assert await world.manager.recover() == [ended]


async def test_a_daemon_that_died_before_it_took_an_order_starts_again(
    world: HostWorld, tmp_path: Path
) -> None:
    """Of a launch that was cut off between the folder and its first record nothing was started, and
    the same order may come again.
    """
    (tmp_path / "control" / "active" / "j1").mkdir()
    await world.reopen()
    assert await world.manager.recover() == []
    ended = await run(world, command("j1", "true"))
    assert ended.exit_code == 0


async def test_an_order_that_the_disk_lost_is_a_lost_task(world: HostWorld, tmp_path: Path) -> None:
    """A task whose other records show that it was launched is never launched again."""
    await run(world, command("j1", "true"))
    folder = tmp_path / "control" / "active" / "j1"
    for name in ("launch.json", "ended.json"):
        (folder / name).unlink()
    await world.reopen()
    (lost,) = await world.manager.recover()
    assert lost.kind is TaskEventKind.LOST
    assert "gone" in lost.message


async def test_polling_replaces_what_the_kernel_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without process descriptors ends are found by looking, also that of a killed supervisor."""

    def missing(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", missing)
    world = HostWorld(tmp_path)
    assert (await run(world, command("j1", "true"))).exit_code == 0
    await world.manager.launch(command("j2", "sleep", "600"))
    listener = Listener(world)
    await listener.next()
    fence = json.loads((tmp_path / "control" / "active" / "j2" / "fence.json").read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    assert (await listener.next()).kind is TaskEventKind.LOST
    await world.close()
