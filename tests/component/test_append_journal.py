"""The append-only journal file: cut anywhere it is a prefix, altered anywhere it is damage."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridio.journal.contract import JournalDamaged, JournalFailed, Record
from gridtravel.gridio.journal.file import AppendJournal
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


def test_a_folder_that_is_not_there(tmp_path: Path, writers: Executor) -> None:
    """The fault names what is needed."""
    with pytest.raises(JournalFailed, match="cannot open"):
        AppendJournal(tmp_path / "none" / "trip.journal", executor=writers)


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
    with pytest.raises(JournalFailed, match="Input/output error"):
        await journal.append((record(1),)).durable()
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


class AppendedTo:
    """An open journal, closed at the end."""

    def __init__(self, path: Path, writers: Executor) -> None:
        self._journal = AppendJournal(path, executor=writers, ids=IDS)

    def __enter__(self) -> AppendJournal:
        return self._journal

    def __exit__(self, *_: object) -> None:
        self._journal.close()
