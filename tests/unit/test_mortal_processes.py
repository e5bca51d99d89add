"""A process that is to die at a write dies there and nowhere else."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.simulator.processes import mortal
from gridtravel.simulator.processes.mortal import FATE, MortalJournal, MortalLog, OlderTime, put_in

WRITES = 4

JOURNALS = {
    "daemon": lambda path: MortalJournal(path),
    "laptop": lambda path: MortalLog(path, executor=ThreadPoolExecutor(1)),
}


def write_all(path: Path, make: Callable[[Path], Any], fate: Path, *, is_synced: bool) -> int:
    """In a process of its own: some records, each safe before the next; how it ended."""
    pid = os.fork()
    if pid == 0:
        FATE.path = fate
        journal = make(path)

        async def write() -> None:
            for number in range(1, WRITES + 1):
                fact = Record(kind="fact", at=number, body=b"{}")
                await journal.append([fact], sync=is_synced).durable()

        asyncio.run(write())
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("is_synced", [True, False])
@pytest.mark.parametrize("kind", list(JOURNALS))
@pytest.mark.parametrize(("sentence", "kept"), [("before 3", 2), ("after 3", 3), ("", 4)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_dies_at_the_write_that_was_said(
    tmp_path: Path, kind: str, sentence: str, kept: int, is_synced: bool
) -> None:
    """Before it: not stored. After it: stored, and the process gone all the same."""
    fate = tmp_path / "fate"
    fate.write_text(sentence)
    code = write_all(tmp_path / "journal", JOURNALS[kind], fate, is_synced=is_synced)
    assert code == (-signal.SIGKILL if sentence else 0)
    assert [record.at for record in read_records(tmp_path / "journal")] == list(range(1, kept + 1))


def test_what_is_not_there_cannot_be_replaced() -> None:
    """A program that no longer uses the name would not be mortal, and nobody would notice."""
    with pytest.raises(AttributeError):
        put_in("gridtravel.simulator.processes.mortal", "NoSuchJournal", object)


def test_the_programs_use_what_is_replaced() -> None:
    """The modules whose journals become mortal make them by these names."""
    for module, name, journal in (
        ("gridtravel.agents.daemon", "SqliteJournal", MortalJournal),
        ("gridtravel.travel_agent.log.folders", "AppendJournal", MortalLog),
    ):
        assert issubclass(journal, getattr(importlib.import_module(module), name))
    clock = importlib.import_module("gridtravel.gridio.system.clock")
    assert clock.time.time() - OlderTime(50.0).time() == pytest.approx(50.0, abs=5.0)
    assert mortal.FATE.path is None


async def test_a_daemon_sleeps_by_a_clock_that_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The adapter finds all it uses of ``time``: without the steady clock a daemon ended with a
    traceback at its first nap, seldom before the round killed it.
    """
    monkeypatch.setattr("gridtravel.gridio.system.clock.time", OlderTime(50.0))
    clock = SystemClock()
    soon = clock.now_precise() + 0.001
    await clock.sleep_until(soon)
    assert clock.now_precise() >= soon
