"""What a manager does when its journal has lost what was promised."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path

import pytest

from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.gridmap import GridMap, write_grid_map
from gridtravel.manager import daemon
from gridtravel.manager.book.events import HoldsAsked, Part
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.checks import JOURNAL_FILE
from gridtravel.manager.config import load_manager_config
from gridtravel.manager.daemon import run_manager
from tests.support.certificate_scenes import an_authority

CONFIG = """
[manager]
name = "north"

[[children]]
name = "lab"
endpoint = "127.0.0.1:9"
"""


def test_no_group_gets_the_name_of_one_that_was_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After an old copy of the journal was put back, and after one more restart: whoever releases
    what was forgotten must not end something else.
    """
    caplog.set_level(logging.CRITICAL, logger="gridtravel.manager.daemon")
    now = SystemClock().now()
    authority = an_authority(tmp_path, now=now)
    authority.issue_manager("north", tmp_path / "credential", now, hosts=["127.0.0.1"])
    write_grid_map(tmp_path / "grid-mapfile", GridMap([]))
    (tmp_path / "manager.toml").write_text(CONFIG)
    config = load_manager_config(tmp_path / "manager.toml")
    names: list[str] = []

    async def ask_twice(manager: CalendarManager, *others: object) -> None:
        for _ in range(2):
            names.append(manager.book.take_group_id())
            part = Part(child="lab", request_id=f"request-{len(names)}", nodes=1)
            asked = HoldsAsked(group_id=names[-1], parts=(part,))
            await manager.record([asked], True).durable()

    def live() -> None:
        asyncio.run(run_manager(config))

    monkeypatch.setattr(daemon, "_serve", ask_twice)
    journal = config.state / JOURNAL_FILE
    live()
    shutil.copyfile(journal, tmp_path / "copy")
    live()
    shutil.copyfile(tmp_path / "copy", journal)
    assert not caplog.records
    live()
    assert "older than what was promised" in caplog.text
    live()
    assert len(set(names)) == len(names) == 8
