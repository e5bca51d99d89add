"""The append-only journal file: cut anywhere it is a prefix, altered anywhere it is damage."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridio.journal import file as file_module
from gridtravel.gridio.journal.contract import (
    JournalDamaged,
    JournalFailed,
    JournalOverloaded,
    Record,
)
from gridtravel.gridio.journal.file import AppendJournal, is_appended, read_appended
from gridtravel.gridio.journal.lock import JournalLock
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.travel_agent.log.folders import JOURNAL_FILE, TripFolders

IDS = SeededIds(12)


@pytest.fixture
def writers() -> Iterator[Executor]:
    """Threads for the journals of a test."""
    with ThreadPoolExecutor(2) as executor:
        yield executor


def record(number: int) -> Record:
    """A record that tells its number."""
    return Record(kind="TEST", at=number, body=f"record {number} ".encode() * 3)


def numbers(path: Path) -> list[int]:
    """The numbers stored at ``path``."""
    return [stored.at for stored in read_records(path)]


def size_of(path: Path) -> int:
    """Bytes of a file."""
    return path.stat().st_size


async def filled(path: Path, count: int, writers: Executor) -> list[int]:
    """A journal of ``count`` records; the size of the file after its head and after each."""
    journal = AppendJournal(path, executor=writers, ids=IDS)
    sizes = [size_of(path)]
    for n in range(count):
        await journal.append((record(n),)).durable()
        sizes.append(size_of(path))
    journal.close()
    return sizes


async def test_a_file_cut_anywhere_is_a_prefix(tmp_path: Path, writers: Executor) -> None:
    """What a crash cuts off was never acknowledged: the rest is read, and the journal goes on."""
    whole = tmp_path / "trip.journal"
    sizes = await filled(whole, 3, writers)
    for cut in range(whole.stat().st_size):
        path = tmp_path / f"cut-{cut}"
        path.write_bytes(whole.read_bytes()[:cut])
        survived = max(0, sum(size <= cut for size in sizes) - 1)
        with AppendedTo(path, writers) as journal:
            assert [each.at for each in journal.replay()] == list(range(survived))
            await journal.append((record(survived),)).durable()
            assert not journal.was_rewound
        assert numbers(path) == list(range(survived + 1))


async def test_an_altered_byte_is_noticed(tmp_path: Path, writers: Executor) -> None:
    """Whatever byte changes, nothing is read that was not written; only the last entry may pass
    for one that a crash cut, and then the note beside the file knows better.
    """
    whole = tmp_path / "trip.journal"
    sizes = await filled(whole, 3, writers)
    content = whole.read_bytes()
    for place in range(len(content)):
        path = tmp_path / f"altered-{place}"
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        shutil.copy(f"{whole}.lock", f"{path}.lock")
        try:
            with AppendedTo(path, writers) as journal:
                assert journal.was_rewound
                assert numbers(path) == [0, 1]
                assert place >= sizes[-2]
        except JournalDamaged:
            continue


async def test_blocks_without_content_are_a_cut(tmp_path: Path, writers: Executor) -> None:
    """A power failure may leave the length of the file and zeros where its end should be."""
    path = tmp_path / "trip.journal"
    await filled(path, 2, writers)
    size = path.stat().st_size
    os.truncate(path, size + 5000)
    with AppendedTo(path, writers) as journal:
        assert [each.at for each in journal.replay()] == [0, 1]
    assert path.stat().st_size == size


async def test_an_old_copy_is_noticed(tmp_path: Path, writers: Executor) -> None:
    """Fewer records than were once safe: read, under another epoch, and said."""
    path = tmp_path / "trip.journal"
    await filled(path, 1, writers)
    old = path.read_bytes()
    with AppendedTo(path, writers) as journal:
        epoch = journal.epoch
        await journal.append((record(1),)).durable()
    path.write_bytes(old)
    with AppendedTo(path, writers) as journal:
        assert journal.was_rewound
        assert journal.epoch != epoch
        assert [each.at for each in journal.replay()] == [0]
    with AppendedTo(path, writers) as journal:
        assert not journal.was_rewound
    path.write_bytes(b"")
    with pytest.raises(JournalDamaged, match="is empty, but held 1 records"):
        AppendJournal(path, executor=writers)


def test_what_is_no_journal_is_left_alone(tmp_path: Path, writers: Executor) -> None:
    """Another file at its place is not written to."""
    path = tmp_path / "trip.journal"
    path.write_bytes(b"shopping: bread, milk")
    with pytest.raises(JournalDamaged, match="is not a journal"):
        AppendJournal(path, executor=writers)
    assert path.read_bytes() == b"shopping: bread, milk"


def test_a_place_where_no_file_can_be(tmp_path: Path, writers: Executor) -> None:
    """In a folder that is not there, or where a folder is: the fault names it and what to do."""
    path = tmp_path / "none" / "trip.journal"
    with pytest.raises(JournalFailed, match="cannot open"):
        AppendJournal(path, executor=writers)
    with pytest.raises(JournalFailed, match=f"cannot open .*{tmp_path}: Is a dir") as caught:
        AppendJournal(tmp_path, executor=writers)
    assert "folder must exist" in str(caught.value.hint)


async def test_only_the_owner_reads_the_file(tmp_path: Path, writers: Executor) -> None:
    """Other people of the machine see nothing of a trip."""
    path = tmp_path / "trip.journal"
    await filled(path, 1, writers)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_failing_disk_leaves_what_was_acknowledged(
    tmp_path: Path, writers: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush that fails takes its own write back."""
    path = tmp_path / "trip.journal"
    journal = AppendJournal(path, executor=writers, ids=IDS)
    await journal.append((record(0),)).durable()

    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(JournalFailed, match=f"{path}: .*Input/output error") as caught:
        await journal.append((record(1),)).durable()
    assert "disk" in str(caught.value.hint)
    monkeypatch.undo()
    journal.close()
    assert numbers(path) == [0]


async def test_trips_keep_logs_of_both_kinds(tmp_path: Path) -> None:
    """A database that an earlier release made is read and written as one; a damaged log hurts its
    own trip alone.
    """
    folders = TripFolders(tmp_path)
    (tmp_path / "trip-a").mkdir()
    old = SqliteJournal(tmp_path / "trip-a" / JOURNAL_FILE)
    await old.append((record(0),)).durable()
    old.close()
    new = folders.create("trip-b")
    await new.append((record(5),)).durable()
    with pytest.raises(ConflictError, match="another command"):
        folders.open("trip-b")
    new.close()
    (tmp_path / "trip-c").mkdir()
    (tmp_path / "trip-c" / JOURNAL_FILE).write_bytes(b"\0" * 4096)
    assert folders.trip_ids() == ["trip-a", "trip-b", "trip-c"]
    with pytest.raises(JournalDamaged):
        folders.open("trip-c")
    for trip_id, known in (("trip-a", [0]), ("trip-b", [5])):
        journal = folders.open(trip_id)
        await journal.append((record(9),)).durable()
        journal.close()
        assert numbers(tmp_path / trip_id / JOURNAL_FILE) == [*known, 9]


class Hand(Executor):
    """Writes when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        """To be done later."""
        future: Future[Any] = Future()
        self.waiting.append(lambda: future.set_result(work(*given, **named)))
        return future

    def write(self) -> None:
        """Do what waits."""
        work, self.waiting = self.waiting, []
        for each in work:
            each()


async def test_what_waits_is_written_together(tmp_path: Path) -> None:
    """By one writer, in the order of the calls; if one of them is to be safe from a power failure
    all are, whichever it is, and a snapshot leaves out what stood before it.
    """
    path = tmp_path / "trip.journal"
    hand = Hand()
    with AppendedTo(path, hand) as journal:
        for first, second in ((True, False), (False, True)):
            tickets = [
                journal.append((record(1), record(2)), sync=first),
                journal.append((record(3),), sync=second),
            ]
            assert len(hand.waiting) == 1
            hand.write()
            for ticket in tickets:
                await asyncio.wait_for(ticket.durable(), 10)
        assert numbers(path) == [1, 2, 3] * 2
        journal.append((record(4),))
        snapshot = journal.snapshot(record(5))
        after = journal.append((record(6),))
        hand.write()
        await asyncio.wait_for(after.durable(), 10)
        assert (snapshot.sequence, after.sequence) == (8, 9)
        assert numbers(path) == [5, 6]
        assert (journal.last_sequence, journal.replay_count) == (9, 2)
    with AppendedTo(path, hand) as journal:
        assert (journal.last_sequence, journal.replay_count) == (9, 2)


async def test_so_many_records_may_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits already counts; what was refused may be said again when it has been written."""
    monkeypatch.setattr(file_module, "PENDING_RECORDS_MAX", 5)
    hand = Hand()
    with AppendedTo(tmp_path / "trip.journal", hand) as journal:
        for _ in range(2):
            journal.append([record(n) for n in range(3)])
            with pytest.raises(JournalOverloaded, match="3 records wait"):
                journal.append([record(n) for n in range(3)])
            ticket = journal.append([record(n) for n in range(2)])
            hand.write()
            await asyncio.wait_for(ticket.durable(), 10)
        assert journal.last_sequence == 10


async def test_a_file_may_be_so_long(tmp_path: Path, writers: Executor) -> None:
    """To the last byte; one more is a full disk."""
    sizes = await filled(tmp_path / "measure", 2, writers)
    for size, fits in ((sizes[-1], True), (sizes[-1] - 1, False)):
        path = tmp_path / f"trip-{size}"
        journal = AppendJournal(path, executor=writers, ids=IDS, size_max_bytes=size)
        await journal.append((record(0),)).durable()
        ticket = journal.append((record(1),))
        if fits:
            await ticket.durable()
        else:
            with pytest.raises(JournalFailed):
                await ticket.durable()
        journal.close()
        assert numbers(path) == ([0, 1] if fits else [0])


async def test_a_disk_that_takes_a_few_bytes_at_a_time(
    tmp_path: Path, writers: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did not take is written behind what it took."""
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, content, at: write(fd, content[:7], at))
    path = tmp_path / "trip.journal"
    await filled(path, 3, writers)
    assert numbers(path) == [0, 1, 2]


def open_files() -> int:
    """Descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))


async def test_a_closed_journal_leaves_nothing_open(tmp_path: Path, writers: Executor) -> None:
    """Whatever was done with it."""
    path = tmp_path / "trip.journal"
    await filled(path, 1, writers)
    before = open_files()
    with AppendedTo(path, writers) as journal:
        await journal.append((record(0),)).durable()
        await journal.snapshot(record(0)).durable()
    assert open_files() == before


def _refuse(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("what", ["damaged", "emptied", "no room", "another owner's copy, no room"])
async def test_a_failed_opening_leaves_nothing_open(
    tmp_path: Path, writers: Executor, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither file nor lock: whoever has mended it may try again."""
    path = tmp_path / "trip.journal"
    await filled(path, 1, writers)
    if what == "damaged":
        path.write_bytes(b"shopping: bread, milk")
    elif what == "emptied":
        path.write_bytes(b"")
    elif what == "no room":
        path = tmp_path / "new.journal"
    else:
        await filled(tmp_path / "other", 1, writers)
        shutil.copy(tmp_path / "other", path)
    before = open_files()
    monkeypatch.setattr(os, "pwrite", _refuse)
    fault = JournalDamaged if what in ("damaged", "emptied") else JournalFailed
    for _ in range(2):
        with pytest.raises((fault, OSError)):
            AppendJournal(path, executor=writers, ids=IDS)
        assert open_files() == before
    JournalLock(path).release()


async def test_a_snapshot_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, writers: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file could not take the place of the old one."""
    path = tmp_path / "trip.journal"
    journal = AppendJournal(path, executor=writers, ids=IDS)
    await journal.append((record(0),)).durable()
    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", _refuse)
        with pytest.raises(JournalFailed, match="No space left"):
            await journal.snapshot(record(1)).durable()
    assert open_files() == before
    journal.close()
    assert numbers(path) == [0]


async def test_another_journals_copy_is_noticed(tmp_path: Path, writers: Executor) -> None:
    """However many records it has; and an old copy also when its owner was killed."""
    path = tmp_path / "trip.journal"
    await filled(path, 2, writers)
    for count in (1, 2, 3):
        other = tmp_path / f"other-{count}"
        await filled(other, count, writers)
        shutil.copy(other, path)
        with AppendedTo(path, writers) as journal:
            assert journal.was_rewound
            assert [each.at for each in journal.replay()] == list(range(count))
    old = path.read_bytes()
    journal = AppendJournal(path, executor=writers, ids=IDS)
    await journal.append((record(3),)).durable()
    killed = tmp_path / "killed.journal"
    shutil.copy(f"{path}.lock", f"{killed}.lock")
    killed.write_bytes(old)
    journal.close()
    with AppendedTo(killed, writers) as journal:
        assert journal.was_rewound


def test_what_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    """It is no journal, and reading it is a fault and no empty one."""
    assert not is_appended(tmp_path / "none")
    with pytest.raises(JournalFailed, match=f"cannot read .*{tmp_path / 'none'}: No such file"):
        list(read_appended(tmp_path / "none"))


# -- files that were made by somebody who knows the format -----------------------------------------


def framed(payload: bytes, crc: int) -> tuple[bytes, int]:
    """An entry behind the one with ``crc``, as the format says, and its own."""
    own = zlib.crc32(payload, crc)
    check = zlib.crc32(struct.pack(">QI", len(payload), own))
    return struct.pack(">QII", len(payload), own, check) + payload, own


def record_of(kind: bytes, body: bytes, body_length: int) -> bytes:
    """A record that claims so long a body."""
    return struct.pack(">BqI", len(kind), 5, body_length) + kind + body


HEAD = b'{"epoch": "e", "base": 0}'
MISPLACED, _ = framed(record_of(b"TEST", b"x", 1), 0)
"""Its checks say that it stands behind nothing."""
FORGED: dict[str, tuple[bytes, bytes, bytes, str]] = {
    "a head of another kind": (b"[1]", b"", b"", "head"),
    "a head that is no JSON": (b"x", b"", b"", "head"),
    "a head without a name": (b'{"base": 0}', b"", b"", "head"),
    "a record too long": (HEAD, record_of(b"TEST", b"x", 2), b"", "longer than its entry"),
    "half a record": (HEAD, b"\4", b"", "cannot be read"),
    "a kind that is none": (HEAD, record_of(b"", b"x", 1), b"", "cannot be read"),
    "a kind in no letters": (HEAD, record_of(b"\xff", b"x", 1), b"", "cannot be read"),
    "an entry of another file": (HEAD, b"", MISPLACED + b"more", "is not the one"),
    "no beginning": (HEAD, b"", b"\1" * 16, "no beginning"),
    "zeros and then something": (HEAD, b"", bytes(16) + b"x", "no beginning"),
    "many zeros and then something": (HEAD, b"", bytes(200_000) + b"x", "no beginning"),
}


@pytest.mark.parametrize("what", list(FORGED))
def test_an_entry_that_says_something_else_is_damage(tmp_path: Path, what: str) -> None:
    """Though its checks are right, or there is nothing behind it: the file is named, and what to
    do.
    """
    head, payload, rest, told = FORGED[what]
    path = tmp_path / "trip.journal"
    first, crc = framed(head, 0)
    path.write_bytes(b"GRIDLOG1" + first + (framed(payload, crc)[0] if payload else b"") + rest)
    with pytest.raises(JournalDamaged, match=rf"{path} is damaged: .*{told}") as caught:
        list(read_appended(path))
    assert "restore" in str(caught.value.hint)


def test_a_file_is_as_its_format_says(tmp_path: Path, writers: Executor) -> None:
    """What an earlier release wrote is read."""
    path = tmp_path / "trip.journal"
    head, crc = framed(b'{"epoch": "e", "base": 7}', 0)
    content, crc = framed(record_of(b"A", b"x", 1) + record_of(b"B", b"", 0), crc)
    more, _ = framed(record_of(b"C", b"yz", 2), crc)
    path.write_bytes(b"GRIDLOG1" + head + content + more)
    with AppendedTo(path, writers) as journal:
        assert (journal.epoch, journal.last_sequence, journal.replay_count) == ("e", 10, 3)
        stored = [(each.kind, each.at, each.body) for each in journal.replay()]
    assert stored == [("A", 5, b"x"), ("B", 5, b""), ("C", 5, b"yz")]


class PowerCut:
    """What a power failure would leave of a folder: the names that it had when it was flushed, and
    what was flushed of the files.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._content: dict[int, bytes] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._cuts = 0
        self.flushes = 0
        self.look: Callable[[], object] = lambda: None
        """What is done at each flush."""
        for name in ("fdatasync", "fsync"):
            monkeypatch.setattr(os, name, self._flushed)

    def _flushed(self, descriptor: int) -> None:
        self.flushes += 1
        status, path = os.fstat(descriptor), Path(f"/proc/self/fd/{descriptor}")
        if stat.S_ISDIR(status.st_mode):
            entries = {each.name: each.stat().st_ino for each in path.iterdir()}
            self._names[status.st_ino] = entries
        else:
            self._content[status.st_ino] = path.read_bytes()
        self.look()

    def left(self, path: Path) -> list[int]:
        """The numbers that would be left at ``path``."""
        self._cuts += 1
        copy = self._folder.with_name(f"after-{self._cuts}")
        self._rebuild(self._folder.stat().st_ino, copy)
        return numbers(copy / path.relative_to(self._folder))

    def _rebuild(self, inode: int, at: Path) -> None:
        if inode not in self._names:
            at.write_bytes(self._content.get(inode, b""))
            return
        at.mkdir()
        for name, entry in self._names[inode].items():
            self._rebuild(entry, at / name)


async def test_what_is_acknowledged_outlives_a_power_failure(
    tmp_path: Path, writers: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record and all before it, in a file whose name and folder are as new; also after a
    snapshot, which is a new file. What was acknowledged to survive the process alone is safe with
    the next record, or as soon as somebody opens the journal again.
    """
    state = tmp_path / "state"
    path = state / "trip-1" / "trip.journal"
    path.parent.mkdir(parents=True)
    cut = PowerCut(state, monkeypatch)
    with AppendedTo(path, writers) as journal:
        await journal.append((record(0),)).durable()
        assert cut.left(path) == [0]
        before = cut.flushes
        await journal.append((record(1),), sync=False).durable()
        await journal.append((record(2),)).durable()
        assert cut.flushes == before + 1, "a record costs one flush"
        assert cut.left(path) == [0, 1, 2]
        await journal.append((record(3),), sync=False).durable()
        await journal.append(()).durable()
        assert cut.left(path) == [0, 1, 2, 3]
        seen: list[list[int]] = []
        cut.look = lambda: seen.append(cut.left(path))
        await journal.snapshot(record(4)).durable()
        cut.look = lambda: None
        assert [4] in seen
        assert all(each in ([0, 1, 2, 3], [4]) for each in seen), "never neither old nor new"
        assert cut.left(path) == [4]
        await journal.append((record(5),)).durable()
        assert cut.left(path) == [4, 5]
        await journal.append((record(6),), sync=False).durable()
    with AppendedTo(path, writers):
        assert cut.left(path) == [4, 5, 6]


class AppendedTo:
    """An open journal, closed at the end."""

    def __init__(self, path: Path, writers: Executor) -> None:
        self._journal = AppendJournal(path, executor=writers, ids=IDS)

    def __enter__(self) -> AppendJournal:
        return self._journal

    def __exit__(self, *_: object) -> None:
        self._journal.close()
