"""The journal's threads: no wake-up is lost, the log stays short, each grade is what it says."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import gridtravel.gridio.journal.sqlite as journal_sqlite
import gridtravel.gridio.journal.sqlite_file as journal_file
from gridtravel.gridio.journal.contract import (
    JournalDamaged,
    JournalFailed,
    JournalOverloaded,
    Record,
)
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


def test_reader_keeps_the_log_but_not_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody is in the middle of a replay the log is kept, and writing goes on."""
    path = tmp_path / "site.journal"
    monkeypatch.setattr(journal_file, "BUSY_TIMEOUT_S", 3600.0)  # it does not wait for the reader
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
    look = file._connection.execute
    assert look("PRAGMA synchronous").fetchone() == (2,)
    assert look("PRAGMA busy_timeout").fetchone() == (10_000,)
    for sync, setting in [(True, 2), (False, 1), (False, 1), (True, 2)]:
        file.write([record(0)], snapshot_at=None, sync=sync)
        assert look("PRAGMA synchronous").fetchone() == (setting,)
    file.write([record(0)], snapshot_at=0, sync=True)
    file.trim()
    assert look("PRAGMA synchronous").fetchone() == (1,), "what is lost of it is done again"
    file.restart_log()
    assert look("PRAGMA busy_timeout").fetchone() == (10_000,)
    assert file._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert file._connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    file.close()


async def test_any_fault_of_the_writer_refuses_its_callers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a fault nobody foresaw ends the waiting, and keeps its cause."""

    def break_down(*_arguments: object, **_named: object) -> None:
        raise KeyError("surprise")

    path = tmp_path / "site.journal"
    journal = SqliteJournal(path, ids=IDS)
    monkeypatch.setattr(JournalFile, "write", break_down)
    with pytest.raises(JournalFailed, match=f"{path}: 'surprise'") as caught:
        await journal.append((record(0),)).durable()
    assert "disk" in str(caught.value.hint)
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
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(JournalFailed, match="no thread today") as caught:
            SqliteJournal(path, ids=IDS)
        assert len(os.listdir("/proc/self/fd")) == before, caught.value
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
    with pytest.raises(JournalFailed, match=f"cannot use the journal {path}: .*lock") as caught:
        SqliteJournal(path, ids=IDS)
    assert "disk" in str(caught.value.hint)
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


def test_a_log_is_begun_anew_without_its_keeper(tmp_path: Path) -> None:
    """The writer moves what is in it by itself."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    sizes = []
    for n in range(20):
        file.write([record(i) for i in range(n * 50, n * 50 + 50)], snapshot_at=None, sync=True)
        file.restart_log()
        sizes.append(path.with_name(path.name + "-wal").stat().st_size)
    file.close()
    assert max(sizes) < 3 * sizes[0]
    assert numbers(path) == list(range(1000))


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


def test_more_records_than_a_statement_could_take(tmp_path: Path) -> None:
    """Are written with several, as one whole."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    short = [Record(kind="T", at=number, body=b"") for number in range(51_000)]
    file.write(short, snapshot_at=None, sync=False)
    assert file.last_sequence == len(short)
    file.close()
    assert numbers(path)[-1] == len(short) - 1


def test_a_write_that_fails_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither records nor an open transaction: the next one may succeed."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    many = [record(number) for number in range(100)]
    statement = journal_file._insert
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "_insert", lambda n: statement(n) if n == 64 else "nonsense")
        with pytest.raises(sqlite3.Error, match="nonsense"):
            file.write(many, snapshot_at=None, sync=True)
    assert file.last_sequence == 0
    assert numbers(path) == []
    file.write(many, snapshot_at=None, sync=True)
    assert numbers(path) == list(range(100))
    file.close()


def test_what_was_superseded_before_a_crash_is_removed_after_it(tmp_path: Path) -> None:
    """Whoever opens the file knows that there is some."""
    path = tmp_path / "site.journal"
    file = open_file(path)
    file.write([record(number) for number in range(5)], snapshot_at=None, sync=True)
    has_superseded = [file.has_superseded]
    file.write([record(9)], snapshot_at=0, sync=True)
    file.close()
    file = open_file(path)
    has_superseded.append(file.has_superseded)
    file.trim()
    has_superseded.append(file.has_superseded)
    file.close()
    file = open_file(path)
    has_superseded.append(file.has_superseded)
    file.close()
    assert has_superseded == [False, True, False, False]
    assert numbers(path) == [9]


def test_a_name_that_cannot_be_changed_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While somebody else writes the file."""
    monkeypatch.setattr(journal_file, "BUSY_TIMEOUT_S", 0.0)
    path = tmp_path / "site.journal"
    file = open_file(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    epoch = file.epoch
    with pytest.raises(JournalFailed, match="cannot use the journal"):
        file.change_epoch("another")
    assert file.epoch == epoch
    other.close()
    file.close()


def test_a_new_file_and_its_name_are_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first record is accepted. The file tells what it is to whoever looks at it, as
    earlier releases wrote it, and may be called anything.
    """
    flushed = []
    flush = os.fsync

    def seen(descriptor: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", seen)
    folder = tmp_path / "100% of #1?"
    folder.mkdir()
    path = folder / "site.journal"
    file = open_file(path)
    assert flushed == [str(folder)]
    file.write([record(1)], snapshot_at=None, sync=True)
    file.close()
    content = path.read_bytes()
    assert content[68:72] == b"GRJ1"
    assert int.from_bytes(content[60:64]) == 1
    assert numbers(path) == [1]


async def test_nothing_stays_open_of_what_was_read_or_refused(tmp_path: Path) -> None:
    """A reader's connection, and those of a journal that turned out to be damaged."""
    path = tmp_path / "site.journal"
    journal = SqliteJournal(path, ids=IDS)
    await journal.append((record(1),)).durable()
    journal.close()
    before = len(os.listdir("/proc/self/fd"))
    assert numbers(path) == [1]
    assert len(os.listdir("/proc/self/fd")) == before
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(JournalDamaged) as caught:
        SqliteJournal(path, ids=IDS)
    assert len(os.listdir("/proc/self/fd")) == before, caught.value


# -- the writer, and what it is given to write -----------------------------------------------------


class HeldDisk:
    """A disk that writes when it is let, and remembers what was written together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_free = threading.Event()
        self.done: list[tuple[str, list[int], bool]] = []
        """What (``write``, ``snapshot`` or ``trim``), which records, whether synced."""
        self.trims = threading.Semaphore(0)
        write, trim = JournalFile.write, JournalFile.trim

        def held_write(
            file: JournalFile, records: Sequence[Record], *, snapshot_at: int | None, sync: bool
        ) -> None:
            if threading.current_thread() is not threading.main_thread():
                assert self.is_free.wait(60)
                what = "write" if snapshot_at is None else "snapshot"
                self.done.append((what, [each.at for each in records], sync))
            write(file, records, snapshot_at=snapshot_at, sync=sync)

        def seen_trim(file: JournalFile) -> None:
            self.done.append(("trim", [], False))
            trim(file)
            self.trims.release()

        monkeypatch.setattr(JournalFile, "write", held_write)
        monkeypatch.setattr(JournalFile, "trim", seen_trim)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> HeldDisk:
    """Of the journals of a test."""
    return HeldDisk(monkeypatch)


def some(*numbers: int) -> list[Record]:
    """Records with these numbers."""
    return [record(each) for each in numbers]


def test_what_waits_is_written_together(
    tmp_path: Path, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to a bound, and a snapshot is the last of what it is written with; it is all as safe as
    the safest of it was to be.
    """
    monkeypatch.setattr(journal_sqlite, "BATCH_RECORDS_MAX", 4)
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    journal.append(some(*range(10, 16)), sync=False)  # by itself, as it is long enough
    journal.append(some(1), sync=False)
    journal.append(some(2), sync=True)
    journal.append(some(3), sync=False)
    journal.append(some(4), sync=False)
    journal.append(some(5), sync=False)
    journal.append(some(6, 7), sync=False)
    journal.append(some(8), sync=False)
    journal.append(some(9))
    journal.snapshot(record(20))
    journal.append(some(21), sync=False)
    disk.is_free.set()
    journal.close()
    assert [each for each in disk.done if each[0] != "trim"] == [
        ("write", [10, 11, 12, 13, 14, 15], False),
        ("write", [1, 2, 3, 4], True),
        ("write", [5, 6, 7, 8], False),
        ("snapshot", [9, 20], True),
        ("write", [21], False),
    ]
    assert numbers(tmp_path / "site.journal") == [20, 21]


async def test_a_barrier_is_one_flush_or_none(tmp_path: Path, disk: HeldDisk) -> None:
    """What is written and not yet safe is flushed; what is safe costs nothing."""
    disk.is_free.set()
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    await journal.append(some(1), sync=False).durable()
    for _ in range(2):
        await journal.append(()).durable()
    journal.close()
    assert disk.done == [("write", [1], False), ("write", [], True)]


async def test_so_many_records_may_wait_for_the_disk(
    tmp_path: Path, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits already counts; what was refused may be said again when it has been written."""
    monkeypatch.setattr(journal_sqlite, "PENDING_RECORDS_MAX", 5)
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    for _ in range(2):
        disk.is_free.clear()
        journal.append(some(1, 2, 3))
        with pytest.raises(JournalOverloaded, match="3 records wait"):
            journal.append(some(4, 5, 6))
        ticket = journal.append(some(4, 5))
        disk.is_free.set()
        await ticket.durable()
    journal.close()
    assert journal.last_sequence == 10


def test_closing_waits_for_the_disk(tmp_path: Path, disk: HeldDisk) -> None:
    """Nothing is closed under the writer."""
    path = tmp_path / "site.journal"
    journal = SqliteJournal(path, ids=IDS)
    journal.append(some(1))
    closing = threading.Thread(target=journal.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    disk.is_free.set()
    closing.join()
    assert numbers(path) == [1]


def test_rubbish_is_removed_in_small_pieces_while_callers_wait(
    tmp_path: Path, disk: HeldDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice what was written, so that it shrinks under any load; the rest when nobody waits."""
    monkeypatch.setattr(journal_sqlite, "BATCH_RECORDS_MAX", 1)
    for module in (journal_sqlite, journal_file):
        monkeypatch.setattr(module, "TRIM_ROWS", 3)
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    journal.append(some(*range(60)))
    journal.snapshot(record(60))
    for count in (2, 3, 1):
        journal.append(some(*range(count)))
    disk.is_free.set()
    for _ in range(20):
        assert disk.trims.acquire(timeout=60)
    journal.close()
    trims = [0]
    for what, _, _ in disk.done:
        if what == "trim":
            trims[-1] += 1
        else:
            trims.append(0)
    assert trims == [0, 0, 1, 2, 2, 15]


def test_nothing_of_a_closed_journal_goes_on(tmp_path: Path) -> None:
    """Neither threads nor files; and a program that forgets to close one can still end."""
    SqliteJournal(tmp_path / "first.journal", ids=IDS).close()
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS, room_bytes=1 << 20)
    new = set(threading.enumerate()) - threads
    assert len(new) == 2
    assert all(each.daemon for each in new)
    journal.append(some(1))
    journal.close()
    assert set(threading.enumerate()) == threads
    assert len(os.listdir("/proc/self/fd")) == files


def test_it_is_known_how_much_may_be_forgotten(tmp_path: Path) -> None:
    """At the most: all that was noted to be safe, and what was written since the note. The note of
    one who was killed knows of the last record as well.
    """
    path, other = tmp_path / "site.journal", tmp_path / "other.journal"
    journal = SqliteJournal(path, ids=IDS)
    assert (journal.was_rewound, journal.forgotten_most) == (False, 0)
    journal.append(some(1))
    journal.close()
    old = path.read_bytes()
    SqliteJournal(other, ids=IDS).close()
    path.write_bytes(other.read_bytes())
    journal = SqliteJournal(path, ids=IDS)
    assert (journal.was_rewound, journal.forgotten_most) == (True, 1 + 4096)
    told = tmp_path / "told.journal"
    for suffix in ("", "-wal", ".lock"):
        shutil.copy(f"{path}{suffix}", f"{told}{suffix}")
    journal.close()
    again = SqliteJournal(told, ids=IDS)
    assert not again.was_rewound, "it was told once, though its owner was killed then"
    again.close()
    path.write_bytes(old)
    path.with_name("site.journal.lock").unlink()
    journal = SqliteJournal(path, ids=IDS)
    assert not journal.was_rewound
    journal.append(some(2))
    asyncio.run(journal.append(()).durable())
    killed = tmp_path / "killed.journal"
    shutil.copy(f"{path}.lock", f"{killed}.lock")
    killed.write_bytes(old)
    journal.close()
    journal = SqliteJournal(killed, ids=IDS)
    assert (journal.was_rewound, journal.forgotten_most) == (True, 2 + 4096)
    journal.close()


# -- the log, and the thread that moves it ---------------------------------------------------------


def full_disk() -> sqlite3.OperationalError:
    """What SQLite says of one."""
    fault = sqlite3.OperationalError("database or disk is full")
    fault.sqlite_errorcode = sqlite3.SQLITE_FULL
    return fault


class Moves:
    """What the moves of the log come to, one after the other: pages that are left, or a fault."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()
        self.begun = threading.Semaphore(0)
        self.restarts = 0
        self.fault: Exception | None = None
        """Of beginning the log anew."""
        monkeypatch.setattr(journal_sqlite, "CHECKPOINT_BYTES", 600)  # two records
        monkeypatch.setattr(journal_sqlite, "LOG_PAGES_MAX", 8)
        monkeypatch.setattr(LogKeeper, "checkpoint", lambda _: self._move())
        monkeypatch.setattr(JournalFile, "restart_log", lambda _: self._restart())

    def _move(self) -> int:
        self.begun.release()
        answer = self.answers.get(timeout=60)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _restart(self) -> None:
        self.restarts += 1
        if self.fault is not None:
            raise self.fault

    async def move(self, journal: SqliteJournal, answer: int | Exception) -> None:
        """Write enough for a move, which comes to that."""
        await journal.append(some(1, 2)).durable()
        assert self.begun.acquire(timeout=60)
        self.answers.put(answer)


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Of the journals of a test."""
    return Moves(monkeypatch)


@pytest.mark.parametrize(
    ("answer", "restarts"),
    [(8, 0), (9, 1), (sqlite3.OperationalError("disk I/O error"), 1)],
)
async def test_a_log_that_stays_long_is_begun_anew(
    tmp_path: Path, moves: Moves, answer: int | Exception, restarts: int
) -> None:
    """By the writer, once: when the moves do not get ahead of what is written, or fail."""
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    await moves.move(journal, answer)
    await moves.move(journal, 0)
    assert moves.restarts in (0, restarts)
    for _ in range(3):
        await moves.move(journal, 0)
    journal.close()
    assert moves.restarts == restarts


async def test_a_short_log_is_left_alone(tmp_path: Path, moves: Moves) -> None:
    """Until so much has been written again."""
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    await journal.append(some(1)).durable()
    await journal.append(()).durable()
    journal.close()
    assert not moves.begun.acquire(blocking=False)


@pytest.mark.parametrize(
    ("room_bytes", "fault", "goes_on"),
    [
        (1 << 20, full_disk(), True),
        (0, full_disk(), False),
        (1 << 20, sqlite3.OperationalError("disk I/O error"), False),
    ],
)
async def test_a_full_disk_is_borne_with_room_taken_before(
    tmp_path: Path, moves: Moves, room_bytes: int, fault: Exception, goes_on: bool
) -> None:
    """The log cannot be moved, and takes what comes. Any other fault ends the journal, and so does
    a full disk where no room was taken.
    """
    moves.fault = fault
    named: dict[str, Any] = {} if room_bytes == 0 else {"room_bytes": room_bytes}
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS, **named)
    await moves.move(journal, 9)

    async def go_on() -> None:
        for _ in range(3):
            await moves.move(journal, 0)

    if goes_on:
        await go_on()
        assert moves.restarts == 1
    else:
        with pytest.raises(JournalFailed, match=str(fault)):
            await go_on()
    moves.answers.put(0)
    journal.close()


async def test_a_full_disk_is_told_once(
    tmp_path: Path, moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    """And again when it was not full in between."""
    path = tmp_path / "site.journal"
    journal = SqliteJournal(path, ids=IDS, room_bytes=1 << 20)
    for answer in (full_disk(), full_disk(), 3, full_disk(), 3):
        await moves.move(journal, answer)
    await moves.move(journal, 0)
    journal.close()
    assert [str(path) in each for each in caplog.messages] == [True, True]
    assert moves.restarts == 0


async def test_without_room_a_full_disk_is_the_writers_matter(
    tmp_path: Path, moves: Moves, caplog: pytest.LogCaptureFixture
) -> None:
    """It meets the fault itself, and tells it."""
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    await moves.move(journal, full_disk())
    for _ in range(3):
        await moves.move(journal, 0)
    journal.close()
    assert moves.restarts == 1
    assert caplog.messages == []


async def test_closing_waits_for_a_move(tmp_path: Path, moves: Moves) -> None:
    """Nothing is closed under it."""
    journal = SqliteJournal(tmp_path / "site.journal", ids=IDS)
    await journal.append(some(1, 2)).durable()
    assert moves.begun.acquire(timeout=60)
    closing = threading.Thread(target=journal.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    moves.answers.put(0)
    closing.join()
