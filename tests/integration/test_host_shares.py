"""Shares of processors on this machine: what tasks really get, measured from outside."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.run_accounts import RunAs
from gridtravel.local_sched.resource_managers.base import Launch, NodeDescription, TaskEventKind
from gridtravel.local_sched.resource_managers.host import HostResourceManager
from gridtravel.local_sched.resource_managers.supervised.control_groups import can_share
from gridtravel.local_sched.resource_managers.supervised.processes import cpu_of, process_stat

pytestmark = [pytest.mark.integration, pytest.mark.alone]

JOBS = ("a", "b")
NODES = tuple(NodeDescription(name=f"cpu-{i}") for i in range(len(os.sched_getaffinity(0))))
BUSY = (sys.executable, "-c", "while True: pass")
MEASURED_S = 6.0
WITHIN = 0.03
needs_groups = pytest.mark.skipif(
    not can_share(), reason="this kernel lets us make no control groups"
)


@asynccontextmanager
async def machine(root: Path, *, control_groups: bool) -> AsyncIterator[HostResourceManager]:
    """This machine with its processors shared; whatever runs is ended."""
    manager = HostResourceManager(
        root=root,
        clock=SystemClock(),
        nodes=NODES,
        files=AccountFiles(),
        run_as=RunAs.DAEMON,
        control_groups=control_groups,
        shared_nodes=[each.name for each in NODES],
    )
    await manager.recover()
    try:
        yield manager
    finally:
        await end_all(manager)
        await manager.close()


async def end_all(manager: HostResourceManager) -> None:
    """End what runs, and wait until it is gone."""
    for job_id in JOBS:
        if living(manager, job_id):
            await manager.stop(job_id, 0.0)
    async with asyncio.timeout(60):
        while any(living(manager, job_id) for job_id in JOBS):
            await SystemClock().sleep_until(time.time() + 0.05)


def living(manager: HostResourceManager, job_id: str) -> list[int]:
    """The processes of a task, if it was ever launched."""
    with contextlib.suppress(NotFoundError):
        return manager.pids(job_id)
    return []


async def launch(manager: HostResourceManager, job_id: str, node: str, share: float) -> None:
    """A task that takes whatever it gets."""
    await manager.launch(
        Launch(job_id=job_id, login="me", argv=BUSY, node_names=(node,), shares=(share,))
    )


async def all_started(manager: HostResourceManager, count: int) -> None:
    """Until so many tasks have begun."""
    async with asyncio.timeout(60):
        async for event in manager.events():
            count -= event.kind is TaskEventKind.STARTED
            if not count:
                return


async def parts(manager: HostResourceManager, jobs: tuple[str, ...]) -> dict[str, float]:
    """Of what these tasks had together in a few seconds, the part of each."""
    before = {job_id: cpu_of(manager.pids(job_id)) for job_id in jobs}
    await SystemClock().sleep_until(time.time() + MEASURED_S)
    used = {job_id: cpu_of(manager.pids(job_id)) - before[job_id] for job_id in jobs}
    return {job_id: each / sum(used.values()) for job_id, each in used.items()}


@pytest.fixture
def strangers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Others' busy processes, two for each processor."""
    started = [subprocess.Popen(BUSY) for _ in range(2 * len(NODES))]
    yield started
    for each in started:
        each.kill()
        each.wait()


@pytest.mark.parametrize("by_kernel", [pytest.param(True, marks=needs_groups), False])
async def test_tasks_get_their_shares_beside_strangers(
    tmp_path: Path, strangers: list[subprocess.Popen[bytes]], by_kernel: bool
) -> None:
    """Two tasks divide a processor as they were told, within three points, and anew when they are
    told otherwise; by the kernel they lose next to nothing to strangers.
    """
    async with machine(tmp_path / "r", control_groups=by_kernel) as manager:
        await launch(manager, "a", NODES[0].name, 0.7)
        await launch(manager, "b", NODES[0].name, 0.3)
        await all_started(manager, 2)
        assert await parts(manager, ("a", "b")) == pytest.approx({"a": 0.7, "b": 0.3}, abs=WITHIN)
        await manager.set_shares({"a": [0.2], "b": [0.8], "gone": [0.5]})
        begun, had = time.monotonic(), await manager.processor_time(["a", "b"])
        assert await parts(manager, ("a", "b")) == pytest.approx({"a": 0.2, "b": 0.8}, abs=WITHIN)
        elapsed_s = time.monotonic() - begun
        now = await manager.processor_time(["a", "b"])
        used_s = sum(now[each][0] - had[each][0] for each in ("a", "b"))
        assert used_s <= elapsed_s * 1.05, "two tasks of one node stay on one processor"
        if by_kernel:
            assert used_s > 0.9 * elapsed_s


async def test_a_task_that_sleeps_leaves_its_turn(tmp_path: Path) -> None:
    """In turns too a processor is busy while somebody wants it; whoever sleeps is owed no more than
    a moment of it.
    """
    async with machine(tmp_path / "r", control_groups=False) as manager:
        await manager.launch(
            Launch(
                job_id="a",
                login="me",
                argv=("sleep", "600"),
                node_names=(NODES[0].name,),
                shares=(0.9,),
            )
        )
        await launch(manager, "b", NODES[0].name, 0.1)
        await all_started(manager, 2)
        assert (await parts(manager, ("a", "b")))["b"] > 0.97
        await manager.stop("a", 1.0)
        await manager.stop("b", 5.0)


@needs_groups
async def test_shares_outlive_the_daemon(tmp_path: Path) -> None:
    """A new daemon finds tasks with the shares they had, and what they have used."""
    async with machine(tmp_path / "r", control_groups=True) as manager:
        await launch(manager, "a", NODES[0].name, 0.75)
        await launch(manager, "b", NODES[0].name, 0.25)
        await all_started(manager, 2)
        await parts(manager, ("a", "b"))
        had = await manager.processor_time(["a", "b"])
        assert had["a"][0] > 1.0
        await manager.close()
        async with machine(tmp_path / "r", control_groups=True) as again:
            found = await parts(again, ("a", "b"))
            assert found == pytest.approx({"a": 0.75, "b": 0.25}, abs=WITHIN)
            assert (await again.processor_time(["a"]))["a"][0] > had["a"][0]
            await again.stop("a", 0.0)
            await again.stop("b", 0.0)
            pids = [*again.pids("a"), *again.pids("b")]
            async with asyncio.timeout(60):
                while any(process_stat(pid) for pid in pids):
                    await SystemClock().sleep_until(time.time() + 0.05)


async def test_what_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    """More shared nodes than processors; a share of a node that is not shared; no number."""
    many = [f"cpu-{i}" for i in range(len(NODES) + 1)]
    with pytest.raises(InputError, match="processors"):
        HostResourceManager(
            root=tmp_path,
            clock=SystemClock(),
            nodes=(),
            files=AccountFiles(),
            shared_nodes=many,
        )
    async with machine(tmp_path / "r", control_groups=True) as manager:
        with pytest.raises(InputError, match="not shared"):
            await launch(manager, "a", "elsewhere", 0.5)
        for absurd in (float("nan"), -0.1, 1.5):
            with pytest.raises(InputError):
                await launch(manager, "a", NODES[0].name, absurd)
