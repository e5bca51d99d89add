"""The journal's threads: no wake-up is lost, the log stays short, each grade is what it says."""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from pathlib import Path

import pytest

import gridtravel.gridio.journal.sqlite as journal_sqlite
import gridtravel.gridio.journal.sqlite_file as journal_file
from gridtravel.gridio.journal.contract import JournalDamaged, JournalFailed, Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.journal.progress import WriteProgress
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import JournalFile, LogKeeper, read_records
from gridtravel.gridio.system.ids import SeededIds

IDS = SeededIds(3)


def record(number: int) -> Record:
    """A record of a few hundred bytes that tells its number."""
    return Record(kind="TEST", at=number, body=b"x" * 300)


def numbers(path: Path) -> list[int]:
    """The numbers stored at `path`."""
    return [stored.at for stored in read_records(path)]


def open_file(path: Path) -> JournalFile:
    """The file of a journal, without threads."""
    return JournalFile(path, new_epoch=lambda: IDS.new_id("journal"), size_max_bytes=None)


async def test_no_wake_up_is_lost() -> None:
    """However the writer's step and the caller's wait interleave, the caller wakes."""
    progress = WriteProgress(0)
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def write() -> None:
        while (sequence := asked.get()) > 0:
            progress.advance(sequence, is_synced=True)

    writer = threading.Thread(target=write)
    writer.start()
    for sequence in range(1, 3001):
        asked.put(sequence)
        await progress.wait(sequence, sync=True)
    asked.put(0)
    writer.join()


async def test_writer_between_question_and_registration_is_seen() -> None:
    """The writer may finish just after a caller saw that it had not, and before it could know that
    the caller waits; the caller looks again."""

    class Racing(WriteProgress):
        def is_safe(self, sequence: int, *, sync: bool) -> bool:
            seen = super().is_safe(sequence, sync=sync)
            self.advance(sequence, is_synced=True)
            return seen

    await Racing(0).wait(1, sync=True)


async def test_first_failure_is_the_one_told() -> None:
    """Later faults of a journal that has failed follow from the first, which is what helps."""
    progress = WriteProgress(0)
    wait = asyncio.create_task(progress.wait(1, sync=True))
    progress.fail(JournalFailed("the disk is full"))
    progress.fail(JournalFailed("the file is closed"))
    with pytest.raises(JournalFailed, match="the disk is full"):
        await wait
    with pytest.raises(JournalFailed, match="the disk is full"):
        await progress.wait(1, sync=True)


def test_journal_outlives_an_event_loop() -> None:
    """A waiter that ended with its loop disturbs neither the writer nor the next loop."""
    journal = MemoryJournal(Disk(), auto=False)

    async def give_up() -> None:
        wait = asyncio.create_task(journal.append((record(1),)).durable())
        wait.add_done_callback(lambda task: None)
        ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ready.set_result, None)
        await ready

    async def go_on() -> None:
        wait = asyncio.create_task(journal.append((record(2),)).durable())
        asyncio.get_running_loop().call_soon(journal.write)
        await wait

    asyncio.run(give_up())
    journal.write()
    asyncio.run(go_on())
    assert [stored.at for stored in journal.replay()] == [1, 2]


@pytest.mark.parametrize("keeper_works", [True, False])
async def test_log_is_moved_while_callers_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeper_works: bool
) -> None:
    """Moving the log into the main file, by its keeper or by the writer, disturbs no record."""
    monkeypatch.setattr(journal_sqlite, "CHECKPOINT_BYTES", 2_000)
    monkeypatch.setattr(journal_sqlite, "LOG_PAGES_MAX", 8)
    if not keeper_works:

        def refuse(keeper: LogKeeper) -> int:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(LogKeeper, "checkpoint", refuse)
    path = tmp_path / "site.journal"
    journal = SqliteJournal(path, ids=IDS)
    for n in range(300):
        await journal.append((record(n),)).durable()
    assert numbers(path) == list(range(300))
    journal.close()
    assert numbers(path) == list(range(300))


def test_log_begins_anew(tmp_path: Path) -> None:
    """After its content was moved the log is written from its beginning: it does not grow on."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    keeper = LogKeeper(path)
    sizes = []
    for n in range(20):
        file.write([record(i) for i in range(n * 50, n * 50 + 50)], snapshot_at=None, sync=True)
        assert keeper.checkpoint() > 0
        file.restart_log()
        sizes.append(path.with_name(path.name + "-wal").stat().st_size)
    keeper.close()
    file.close()
    assert max(sizes) < 3 * sizes[0]
    assert numbers(path) == list(range(1000))


def test_reader_keeps_the_log_but_not_the_writer(tmp_path: Path) -> None:
    """While somebody is in the middle of a replay the log is kept, and writing goes on."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    file.write([record(0), record(1)], snapshot_at=None, sync=True)
    reader = read_records(path)
    assert next(reader).at == 0
    file.write([record(2)], snapshot_at=None, sync=True)
    file.restart_log()
    file.write([record(3)], snapshot_at=None, sync=True)
    assert [stored.at for stored in reader] == [1]
    file.close()
    assert numbers(path) == [0, 1, 2, 3]


def test_replay_sees_one_moment_from_its_first_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot written between a replay's look at the head and at the records changes neither."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    file.write([record(0), record(1)], snapshot_at=None, sync=True)
    look = journal_file._head

    def look_and_be_overtaken(
        connection: sqlite3.Connection, at_path: Path
    ) -> tuple[str, int, int]:
        seen = look(connection, at_path)
        file.write([record(2)], snapshot_at=0, sync=True)
        file.trim()
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "_head", look_and_be_overtaken)
        assert numbers(path) == [0, 1]
    assert numbers(path) == [2]
    file.close()


def test_each_grade_is_written_as_it_says(tmp_path: Path) -> None:
    """A synced batch is committed with synchronous=FULL (2), another one with NORMAL (1). Looked up
    inside, because no test can cut the power."""
    file = open_file(tmp_path / "site.journal")
    for sync, setting in [(True, 2), (False, 1), (False, 1), (True, 2)]:
        file.write([record(0)], snapshot_at=None, sync=sync)
        assert file._connection.execute("PRAGMA synchronous").fetchone() == (setting,)
    assert file._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert file._connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    file.close()


async def test_any_fault_of_the_writer_refuses_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a fault nobody foresaw ends the waiting, and keeps its cause."""

    def break_down(*_arguments: object, **_named: object) -> None:
        raise KeyError("surprise")

    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    monkeypatch.setattr(JournalFile, "write", break_down)
    with pytest.raises(JournalFailed, match="surprise"):
        await journal.append((record(0),)).durable()
    journal.close()


def test_failed_opening_gives_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that could not be opened holds neither lock nor file: the next try may succeed."""

    def refuse(keeper: LogKeeper, path: Path) -> None:
        raise JournalFailed("no thread today")

    path = tmp_path / "site.journal"
    with monkeypatch.context() as patch:
        patch.setattr(LogKeeper, "__init__", refuse)
        with pytest.raises(JournalFailed, match="no thread today"):
            SqliteJournal(path, ids=IDS)
    SqliteJournal(path, ids=IDS).close()


def test_file_held_by_another_program_is_a_failure_and_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that somebody else has locked is whole: the message says to look at the disk."""
    path = tmp_path / "site.journal"
    SqliteJournal(path, ids=IDS).close()
    monkeypatch.setattr(journal_file, "BUSY_TIMEOUT_S", 0.0)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalFailed, match="cannot use the journal"):
        SqliteJournal(path, ids=IDS)
    other.close()
    SqliteJournal(path, ids=IDS).close()


def test_interrupted_creation_is_done_again(tmp_path: Path) -> None:
    """A file of length zero is a creation that a crash interrupted, if nothing was ever in it."""
    path = tmp_path / "site.journal"
    path.touch()
    journal = SqliteJournal(path, ids=IDS)
    assert not journal.was_rewound
    journal.append((record(0),))
    journal.close()
    path.write_bytes(b"")
    with pytest.raises(JournalDamaged, match="is empty, but held 1 records"):
        SqliteJournal(path, ids=IDS)


def test_a_flush_alone_is_a_commit_with_a_change(tmp_path: Path) -> None:
    """Any other would not be forced to the disk; others see that there was one. So it is with the
    flush when a journal is opened, of what its last owner may have left unsafe.
    """
    path = tmp_path / "site.journal"
    file = open_file(path)
    file.write([record(1)], snapshot_at=None, sync=False)
    other = sqlite3.connect(path)
    versions = [other.execute("PRAGMA data_version").fetchone()]
    file.write((), snapshot_at=None, sync=True)
    versions.append(other.execute("PRAGMA data_version").fetchone())
    file.close()
    file = open_file(path)
    versions.append(other.execute("PRAGMA data_version").fetchone())
    assert len(set(versions)) == 3
    other.close()
    file.close()
    assert numbers(path) == [1]
