"""A task whose end cannot be written down, because the disk is full, is told when there is room."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gridtravel.local_sched.resource_managers import host
from gridtravel.local_sched.resource_managers.base import EndReason, TaskEventKind
from gridtravel.local_sched.resource_managers.supervised.task_records import ENDED, write_record
from tests.support.host_tasks import script
from tests.support.resource_manager_worlds import HostWorld, Listener

pytestmark = pytest.mark.integration
FAILURES = 3


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HostWorld]:
    """This machine, with an open manager."""
    made = HostWorld(tmp_path)
    await made.manager.recover()
    yield made
    await made.close()


async def test_a_lost_task_is_told_when_there_is_room_again(
    world: HostWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor was killed while the disk was full: not told at once, and not forgotten."""
    refused: list[str] = []

    def write(path: str, record: Any, **how: Any) -> bool:
        if path.endswith(ENDED) and len(refused) < FAILURES:
            refused.append(path)
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return write_record(path, record, **how)

    monkeypatch.setattr(host, "write_record", write)
    await world.manager.launch(script("j1", "sleep 600; true"))
    listener = Listener(world)
    assert (await listener.next()).kind is TaskEventKind.STARTED
    fence = json.loads((tmp_path / "control" / "active" / "j1" / "fence.json").read_text())
    os.kill(fence["pid"], signal.SIGKILL)
    lost = await listener.next()
    assert (lost.kind, lost.reason) == (TaskEventKind.LOST, EndReason.LOST)
    assert len(refused) == FAILURES
