"""What a daemon does when its disk is full, and when its journal has lost what was promised."""

from __future__ import annotations

import asyncio
import errno
import logging
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.agents import daemon
from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.daemon import run_agent
from gridtravel.agents.node_agent import NodeAgent
from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.gridmap import GridMap, write_grid_map
from tests.support.builders import a_request
from tests.support.certificate_scenes import a_site, an_authority

ADA = Caller(subject="/CN=ada", login="ada")

Day = Callable[[NodeAgent], Awaitable[None]]


def live(folder: Path, monkeypatch: pytest.MonkeyPatch, day: Day) -> None:
    """One run of the daemon in ``folder``, with ``day`` in place of serving."""
    now = SystemClock().now()
    if not (folder / "credential").exists():
        a_site(an_authority(folder, now=now), folder, name="lab", now=now)
        (folder / "lab").rename(folder / "credential")
        write_grid_map(folder / "grid-mapfile", GridMap([]))
        (folder / "site.toml").write_text(
            '[site]\nname = "lab"\n\n[[classes]]\nname = "node"\nnodes = 50\n'
            '\n[host]\nrun_as = "daemon"\n'
        )

    async def serve(agent: NodeAgent, *_: object) -> None:
        await day(agent)

    monkeypatch.setattr(daemon, "_serve", serve)
    asyncio.run(run_agent(load_site_config(folder / "site.toml")))


async def book(agent: NodeAgent, name: str) -> str:
    """A reservation for tomorrow; its id."""
    start = SystemClock().now() + 86_400
    request = replace(a_request(name, start=start, duration_s=600), account="ada")
    answer = await agent.calendar_port(ADA).set_at_once(request, is_dry_run=False)
    assert isinstance(answer, Reservation), answer
    return answer.reservation_id


def test_no_name_is_given_twice_after_an_old_copy_was_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Promises that were forgotten are still somebody's: a name of theirs must not come to mean
    another promise, or whoever releases the one would end the other. Nor after one more restart.
    """
    caplog.set_level(logging.CRITICAL, logger="gridtravel.agents.daemon")
    names: list[str] = []

    async def two_more(agent: NodeAgent) -> None:
        names.append(await book(agent, f"request-{len(names)}"))
        names.append(await book(agent, f"request-{len(names)}"))

    journal = tmp_path / "state" / JOURNAL_FILE
    live(tmp_path, monkeypatch, two_more)
    shutil.copyfile(journal, tmp_path / "copy")
    live(tmp_path, monkeypatch, two_more)
    shutil.copyfile(tmp_path / "copy", journal)
    assert not caplog.records
    live(tmp_path, monkeypatch, two_more)
    assert "older than what was promised" in caplog.text
    live(tmp_path, monkeypatch, two_more)
    assert len(set(names)) == len(names) == 8


@pytest.mark.parametrize("is_in_a_task", [False, True])
def test_a_full_disk_is_one_clear_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_a_task: bool
) -> None:
    """Whatever it is that cannot be written, be it deep in a task: no traceback, a next step."""
    fault = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "endpoint"))

    async def no_room(_: NodeAgent) -> None:
        if is_in_a_task:
            raise ExceptionGroup("tasks", [ExceptionGroup("time", [fault])])
        raise fault

    with pytest.raises(UnavailableError, match="no room") as caught:
        live(tmp_path, monkeypatch, no_room)
    assert "free" in (caught.value.hint or "")


def test_other_faults_of_the_system_are_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect stays a defect."""

    async def denied(_: NodeAgent) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    async def wrong(_: NodeAgent) -> None:
        raise ExceptionGroup("tasks", [ValueError("a defect")])

    with pytest.raises(PermissionError):
        live(tmp_path, monkeypatch, denied)
    with pytest.raises(ExceptionGroup):
        live(tmp_path, monkeypatch, wrong)
