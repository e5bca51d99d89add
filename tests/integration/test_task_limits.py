"""What one task takes from all others has a limit, with control groups and without, as the daemon
and as a login of its own; a task over one is ended, and told which.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.local_sched.resource_managers.base import (
    EndReason,
    OutputStream,
    TaskEvent,
    TaskEventKind,
)
from gridtravel.local_sched.resource_managers.supervised import area_watch
from gridtravel.local_sched.resource_managers.supervised.control_groups import (
    MEMORY,
    PIDS,
    parent_of,
)
from gridtravel.local_sched.resource_managers.task_limits import TaskLimits
from tests.support.host_tasks import script, text_of
from tests.support.login_world import two_accounts
from tests.support.resource_manager_worlds import HostWorld, Listener

pytestmark = pytest.mark.integration

MIB = 1 << 20
FORKS = "i=0; while test $i -lt 1500; do sleep 60 & i=$((i+1)); done; wait; sleep 60"
EATS = "import time\nkept = []\nwhile True:\n kept.append(bytearray(1 << 20))\n time.sleep(0.001)\n"
FILLS = (
    "while :; do dd if=/dev/zero of=file.$((i+=1)) bs=64k count=16 status=none; sleep 0.01; done"
)
WRITES = "yes grid | head -c 30000000; echo fault >&2; sleep 60"


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, pwd.struct_passwd]]:
    """Ada and grace."""
    with two_accounts() as made:
        yield made


@pytest.fixture(params=["groups", "counted", "counted as a login"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[HostWorld]:
    """This machine, with an open manager."""
    has_groups = request.param == "groups"
    if has_groups and not (parent_of(PIDS) and parent_of(MEMORY)):
        pytest.skip("NOT TESTED: limits by control groups. None can be made here; it takes root")
    root = Path(tempfile.mkdtemp())
    root.chmod(0o711)  # noqa: ASYNC240 - before anything runs
    made = HostWorld(root, control_groups=has_groups)
    made.login = ""
    if request.param.endswith("login"):
        made.login = request.getfixturevalue("accounts")["ada"].pw_name
    await made.manager.recover()
    yield made
    await made.close()
    shutil.rmtree(root)


async def _end(world: HostWorld, text: str, **limits: int) -> TaskEvent:
    """Run a script under these limits; how it ended."""
    order = replace(script("j1", text), limits=TaskLimits(**limits), kill_grace_s=1.0)
    if world.login:
        order = replace(order, login=world.login)
    await world.manager.launch(order)
    (*_, last) = await Listener(world).until_over("j1")
    assert last.kind is TaskEventKind.ENDED
    return last


async def test_a_task_that_forks_without_end(world: HostWorld) -> None:
    """1,500 processes where 200 are allowed: none is left, and the reason says how many may be."""
    ended = await _end(world, FORKS, processes_max=200)
    assert ended.reason is EndReason.EXCEEDED, ended
    assert "200 processes" in ended.message


async def test_a_task_that_eats_memory(world: HostWorld) -> None:
    """Whether the kernel ends it or the supervisor does."""
    ended = await _end(world, f"exec python3 -c '{EATS}'", memory_max_bytes=64 * MIB)
    assert ended.reason is EndReason.EXCEEDED, ended
    assert "64 MiB of memory" in ended.message


async def test_memory_that_processes_share_is_counted_once(world: HostWorld) -> None:
    """Eight children that change nothing of what they share are one process's memory."""
    text = (
        "import os, time\nkept = bytearray(os.urandom(1 << 20)) * 40\n"
        "children = [os.fork() for _ in range(3) if True]\ntime.sleep(3)\n"
    )
    ended = await _end(world, f"exec python3 -c '{text}'", memory_max_bytes=150 * MIB)
    assert ended.reason is EndReason.EXITED, ended


async def test_a_task_that_writes_without_end(world: HostWorld) -> None:
    """Its output keeps what is allowed, and ends with a line that says so; so does its error
    output.
    """
    ended = await _end(world, WRITES, output_max_bytes=MIB)
    assert ended.reason is EndReason.EXCEEDED, ended
    assert "1 MiB of output" in ended.message
    said = text_of(world, "j1")
    assert len(said) < MIB + 200
    assert said.startswith("grid\n" * 1000)
    assert "cut off here" in said.splitlines()[-1]
    assert text_of(world, "j1", OutputStream.STDERR) == f"fault\ngrid: {ended.message}\n"


async def test_a_task_that_was_over_before_anybody_looked(world: HostWorld) -> None:
    """What it has left behind counts all the same."""
    ended = await _end(world, "head -c 3000000 /dev/zero", output_max_bytes=MIB)
    assert ended.reason is EndReason.EXCEEDED, ended
    assert len(text_of(world, "j1")) < MIB + 200


async def test_a_task_that_fills_its_folder(world: HostWorld) -> None:
    """Many files, none of which is large."""
    ended = await _end(world, FILLS, area_max_bytes=20 * MIB)
    assert ended.reason is EndReason.EXCEEDED, ended
    assert "20 MiB in its folder" in ended.message


async def test_a_task_within_its_limits(world: HostWorld) -> None:
    """Is not touched, and nothing of its control group is left."""
    limits = {"processes_max": 50, "memory_max_bytes": 500 * MIB, "output_max_bytes": MIB}
    ended = await _end(
        world, "sleep 2.5; echo done; exit 3", area_max_bytes=MIB, disk_free_min_bytes=1, **limits
    )
    assert (ended.reason, ended.exit_code, ended.message) == (EndReason.EXITED, 3, "")
    assert text_of(world, "j1") == "done\n"
    for controller in (PIDS, MEMORY):
        found = parent_of(controller)
        if found is not None:
            left = [each for each in os.listdir(found[1]) if each.startswith("j1.")]
            assert left == []


def test_a_folder_that_is_not_let_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What walks through a login's folder is of that login, who may kill it: once or twice that is
    bad luck, and again and again it is how to get around the limit.
    """
    monkeypatch.setattr(area_watch, "_measure", lambda *_: os._exit(0))
    account = {"login": "ada", "uid": os.geteuid(), "gid": 0, "groups": []}
    watch = area_watch.AreaWatch(str(tmp_path), account, {"area_max_bytes": MIB})  # type: ignore[arg-type]
    output = (tmp_path / "stdout").open("w")
    watch.begin((output.fileno(),), 0.0)
    said = []
    for second in range(1, 3 * area_watch.LOST_MAX):
        said.append(watch.look(float(second)))
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
    assert said[0] == ""
    assert "cannot be measured" in said[-1]
    watch.close()
    output.close()
