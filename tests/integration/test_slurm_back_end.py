"""What only a real Slurm can show of the ``slurm`` back end: whoever interferes with its jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError, UnavailableError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.resource_managers.base import EndReason, OutputStream, TaskEventKind
from gridtravel.local_sched.resource_managers.slurm import SLURM_JOB, SlurmResourceManager
from gridtravel.local_sched.resource_managers.slurm_commands import SlurmCommands
from gridtravel.local_sched.resource_managers.supervised.task_records import ENDED, FENCE
from tests.support.batch_worlds import real_system
from tests.support.host_tasks import until
from tests.support.resource_manager_worlds import NODES, Listener, SlurmWorld, read_all

pytestmark = pytest.mark.integration
LONG_S = 600.0


@pytest.fixture(scope="module")
def slurm_conf() -> Iterator[Path]:
    """A Slurm for all tests of this file."""
    with real_system("slurm") as options:
        yield Path(options.environment["SLURM_CONF"])


@pytest.fixture
async def world(slurm_conf: Path, tmp_path: Path) -> AsyncIterator[SlurmWorld]:
    """An open manager over it."""
    made = SlurmWorld(tmp_path, slurm_conf)
    assert await made.manager.recover() == []
    yield made
    await made.close()


def record_of(root: Path, name: str) -> Path:
    """The only record of that name."""
    (found,) = root.rglob(name)
    return found


def slurm(conf: Path, *words: str) -> str:
    """A Slurm command, as an administrator would type it."""
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


async def test_supervisor_is_killed(world: SlurmWorld, slurm_conf: Path, tmp_path: Path) -> None:
    """A task whose supervisor is killed on its node is lost, which is told; it is gone from Slurm
    too, and never run again.
    """
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    listener = Listener(world)
    assert (await listener.next()).kind is TaskEventKind.STARTED
    fence = json.loads(record_of(tmp_path, FENCE).read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    ended = await listener.next()
    assert (ended.kind, ended.reason) == (TaskEventKind.LOST, EndReason.LOST)
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    assert slurm(slurm_conf, "squeue", "-h", "-t", "PENDING,RUNNING", "-o", "%i") == ""


async def test_administrator_cancels_the_job(world: SlurmWorld, slurm_conf: Path) -> None:
    """What Slurm ends, at its limit or because somebody cancels it, is ended as by a stop: TERM
    reaches the supervisor, which ends the task and writes that down.
    """
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    listener = Listener(world)
    await listener.next()
    slurm(slurm_conf, "scancel", slurm(slurm_conf, "squeue", "-h", "-t", "RUNNING", "-o", "%i"))
    ended = await listener.next()
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.STOPPED)


@pytest.mark.parametrize("is_daemon_there", [True, False])
async def test_a_cancelled_job_whose_task_ends_well_is_no_success(
    world: SlurmWorld, slurm_conf: Path, tmp_path: Path, is_daemon_there: bool
) -> None:
    """Slurm signals the processes of a job one after the other, so a task may end with a good exit
    code before its supervisor hears of it. It was stopped nevertheless, also for a daemon that was
    away meanwhile.
    """
    order = replace(world.order("j1"), script="trap 'exit 0' TERM\nsleep 600 & wait\n")
    await world.manager.launch(order)
    listener = Listener(world)
    await listener.next()
    (slurm_id,) = slurm(slurm_conf, "squeue", "-h", "-t", "RUNNING", "-o", "%i").split()
    if is_daemon_there:
        slurm(slurm_conf, "scancel", slurm_id)
        ended = await listener.next()
    else:
        await world.manager.close()
        slurm(slurm_conf, "scancel", slurm_id)
        await until(lambda: any(tmp_path.rglob(ENDED)))
        await world.reopen()
        (ended,) = await world.manager.recover()
    assert (ended.kind, ended.reason) == (TaskEventKind.ENDED, EndReason.STOPPED)


async def test_daemon_dies_before_it_knows_the_job(world: SlurmWorld, tmp_path: Path) -> None:
    """A daemon that dies between the submission and writing it down finds its job again by name,
    and submits no second one.
    """
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    assert (await Listener(world).next()).kind is TaskEventKind.STARTED
    record = record_of(tmp_path, SLURM_JOB)
    before = record.read_text()
    record.unlink()
    await world.reopen()
    (known,) = await world.manager.recover()
    assert known.kind is TaskEventKind.STARTED
    await world.manager.launch(world.order("j1", run_s=LONG_S))
    record.write_text(before)
    await world.manager.stop("j1", 5.0)
    (ended,) = await Listener(world).until_over("j1")
    assert ended.reason is EndReason.STOPPED


async def test_task_that_waits_for_its_nodes(world: SlurmWorld) -> None:
    """A task whose nodes Slurm does not give out yet is stopped without ever having run; what runs
    on them goes on.
    """
    await world.manager.launch(world.order("first", run_s=LONG_S))
    listener = Listener(world)
    await listener.next()
    await world.manager.launch(world.order("second", stdout="never"))
    await world.manager.stop("second", 5.0)
    ended = (await listener.until_over("second"))[-1]
    assert (ended.reason, ended.actual_start) == (EndReason.STOPPED, None)
    assert await read_all(world.manager, "second", OutputStream.STDOUT) == b""
    first = (await world.manager.recover())[0]
    assert (first.job_id, first.kind) == ("first", TaskEventKind.STARTED)


async def test_several_nodes(world: SlurmWorld) -> None:
    """A task of several nodes is one command on the first of them, which is told all of them."""
    script = 'printf "%s %s" "$GRID_NODELIST" "$SLURM_JOB_ID"\n'
    order = world.order("j1", node_names=("n1", "n2"))
    await world.manager.launch(replace(order, script=script))
    ended = (await Listener(world).until_over("j1"))[-1]
    assert ended.exit_code == 0
    assert await read_all(world.manager, "j1", OutputStream.STDOUT) == b"n1,n2 "


async def test_names_and_absence(tmp_path: Path) -> None:
    """A node that Slurm knows under no name is refused; a Slurm that is not there is a fault that
    is worth another try.
    """
    commands = SlurmCommands(conf=tmp_path / "no-such.conf")
    with pytest.raises(InputError, match="two nodes"):
        SlurmResourceManager(
            root=tmp_path / "a",
            clock=SystemClock(),
            nodes=NODES,
            commands=commands,
            files=AccountFiles(),
            slurm_names={"n1": "x", "n2": "x"},
        )
    manager = SlurmResourceManager(
        root=tmp_path / "b",
        clock=SystemClock(),
        nodes=NODES,
        commands=commands,
        files=AccountFiles(),
    )
    with pytest.raises(UnavailableError):
        await manager.recover()
    await manager.close()
