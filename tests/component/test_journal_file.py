"""The file of a journal: damage is noticed, and what only ends early is a prefix."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.journal.contract import (
    BODY_BYTES_MAX,
    JournalDamaged,
    JournalFailed,
    JournalLocked,
    Record,
)
from gridtravel.gridio.journal.lock import JournalLock
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import LogKeeper, read_records
from gridtravel.gridio.system.ids import SeededIds

IDS = SeededIds(11)


def open_journal(path: Path) -> SqliteJournal:
    """A journal with reproducible ids."""
    return SqliteJournal(path, ids=IDS)


def record(number: int) -> Record:
    """A record of a few hundred bytes that tells its number."""
    return Record(kind="TEST", at=number, body=f"record {number} ".encode() * 20)


def numbers(path: Path) -> list[int]:
    """The numbers stored at `path`."""
    return [stored.at for stored in read_records(path)]


async def fill(path: Path, count: int) -> list[int]:
    """Append `count` records one by one; the size of the log when each was acknowledged."""
    journal = open_journal(path)
    sizes = []
    for n in range(count):
        await journal.append((record(n),)).durable()
        sizes.append(log_of(path).stat().st_size)
    keep_as_killed(path)
    journal.close()
    return sizes


def log_of(path: Path) -> Path:
    """The write-ahead log beside a journal."""
    return path.with_name(path.name + "-wal")


def killed(path: Path) -> Path:
    """Where ``keep_as_killed`` put the copy."""
    return path.with_name("killed") / path.name


def keep_as_killed(path: Path) -> None:
    """Copy the files of an open journal, as a kill at this moment would leave them."""
    killed(path).parent.mkdir()
    for suffix in ("", "-wal", ".lock"):
        shutil.copy(f"{path}{suffix}", killed(path).parent)


def cut_copies(path: Path, cuts: list[int], *, suffix: str) -> Iterator[tuple[int, Path]]:
    """A copy of the killed journal for each cut, with one of its files that many bytes long."""
    source = killed(path)
    for cut in cuts:
        folder = path.with_name(f"cut-{cut}")
        folder.mkdir()
        for name in ("", "-wal", ".lock"):
            shutil.copy(f"{source}{name}", folder)
        os.truncate(f"{folder / path.name}{suffix}", cut)
        yield cut, folder / path.name


def cuts_around(size: int, marks: list[int], step: int) -> list[int]:
    """Cuts at regular steps, and just before, at and after each mark."""
    near = {mark + offset for mark in marks for offset in (-1, 0, 1)}
    return sorted(cut for cut in {*range(0, size, step), *near, size} if 0 <= cut <= size)


async def test_log_cut_anywhere_leaves_a_prefix_with_all_that_was_safe_by_then(
    tmp_path: Path,
) -> None:
    """Whatever byte the log ends at, a replay is a prefix, and it includes every record that was
    acknowledged while the log was no longer than that; the journal can be used again."""
    path = tmp_path / "site.journal"
    sizes = await fill(path, 12)
    cuts = cuts_around(sizes[-1], sizes, 2039)
    seen = set()
    for cut, copy in cut_copies(path, cuts, suffix="-wal"):
        found = numbers(copy)
        assert found == list(range(len(found)))
        assert len(found) >= sum(size <= cut for size in sizes)
        seen.add(len(found))
    assert seen == set(range(13))


async def test_log_cut_after_it_was_moved_is_never_read_with_a_hole(tmp_path: Path) -> None:
    """When the main file is ahead of a cut log, old pages cover newer ones; the reader gets a
    prefix or is told that the journal is damaged, but never a list with a hole."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    for n in range(40):
        await journal.append((record(n),)).durable()
    keeper = LogKeeper(path)
    assert keeper.checkpoint() > 0
    keeper.close()
    keep_as_killed(path)
    size = log_of(path).stat().st_size
    journal.close()
    assert numbers(killed(path)) == list(range(40))
    for _cut, copy in cut_copies(path, cuts_around(size, [], 6007), suffix="-wal"):
        try:
            found = numbers(copy)
        except JournalDamaged:
            continue
        assert found == list(range(len(found)))


async def test_main_file_cut_anywhere_is_one_clear_error(tmp_path: Path) -> None:
    """A main file that was cut is refused with its name and a next step, and left as it was."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    await journal.append([record(n) for n in range(200)]).durable()
    journal.close()
    whole = path.read_bytes()
    for cut in cuts_around(len(whole) - 1, [4096, 8192], 7919):
        os.truncate(path, cut)
        with pytest.raises(JournalDamaged) as caught:
            open_journal(path)
        assert str(path) in str(caught.value)
        assert "restore this file from a copy" in str(caught.value)
        assert path.stat().st_size == cut
        path.write_bytes(whole)
    assert numbers(path) == list(range(200))


async def test_altered_bytes_are_never_replayed(tmp_path: Path) -> None:
    """Any altered byte of a stored record is found by the chain, wherever SQLite would not care."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    await journal.append([record(n) for n in range(50)]).durable()
    journal.close()
    whole = path.read_bytes()
    for n in range(0, 50, 7):
        place = whole.index(f"record {n} record".encode())
        for altered in (b"r\xffcord", b"rucord"):
            path.write_bytes(whole[:place] + altered + whole[place + len(altered) :])
            with pytest.raises(JournalDamaged, match=f"record {n + 1} is not the one"):
                open_journal(path)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("DELETE FROM records WHERE sequence = 3", "record 3 is missing"),
        ("DELETE FROM records WHERE sequence = 1", "record 1 is missing"),
        ("UPDATE records SET kind = 'OTHER' WHERE sequence = 4", "record 4 is not"),
        ("UPDATE records SET kind = 5 WHERE sequence = 4", "record 4 is not"),
        ("UPDATE records SET at = at + 1 WHERE sequence = 4", "record 4 is not"),
        ("UPDATE records SET body = 'text' WHERE sequence = 4", "record 4 is not"),
        ("UPDATE records SET kind = CAST(x'ff' AS TEXT) WHERE sequence = 4", "UTF-8"),
        ("UPDATE journal SET base = 3", "record 3 is not"),
        ("DELETE FROM journal", "head is missing"),
        ("DROP TABLE records", "no such table"),
        ("PRAGMA user_version = 2", "format 2"),
        ("PRAGMA application_id = 5", "not a journal of this program"),
    ],
)
async def test_edited_journal_is_refused(tmp_path: Path, statement: str, what: str) -> None:
    """A row that was removed, changed or moved by hand is named; so is another format."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    await journal.append([record(n) for n in range(6)]).durable()
    journal.close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(statement)
    connection.close()
    with pytest.raises(JournalDamaged, match=what):
        open_journal(path)
    with pytest.raises(JournalDamaged, match=what):
        list(read_records(path))


@pytest.mark.parametrize("content", [b"not a database at all, but long enough" * 40, b"\0" * 5000])
def test_foreign_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    """A file of another kind is not overwritten."""
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(JournalDamaged, match=r"notes\.txt"):
        open_journal(path)
    assert path.read_bytes() == content


def test_missing_folder_and_missing_journal_are_named(tmp_path: Path) -> None:
    """A path that cannot hold a journal gets one line that says so; reading creates nothing."""
    with pytest.raises(JournalFailed, match="folder must exist"):
        open_journal(tmp_path / "absent" / "site.journal")
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalFailed, match="cannot open the journal"):
        open_journal(tmp_path / "folder")
    with pytest.raises(JournalFailed, match="there is no journal"):
        list(read_records(tmp_path / "site.journal"))
    assert not (tmp_path / "site.journal").exists()


async def test_cut_log_is_noticed(tmp_path: Path) -> None:
    """A log that something other than a crash has cut leaves a usable prefix, which is said to be
    less than what was promised."""
    path = tmp_path / "site.journal"
    sizes = await fill(path, 5)
    for cut, copy in cut_copies(path, [sizes[2], sizes[-1]], suffix="-wal"):
        journal = open_journal(copy)
        assert journal.was_rewound == (cut < sizes[-1])
        journal.close()


async def test_restored_copy_is_noticed(tmp_path: Path) -> None:
    """An old copy in the journal's place is usable but gets a new epoch, for it has forgotten
    promises; from then on it is an ordinary journal."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    epoch = journal.epoch
    await journal.append((record(0),)).durable()
    journal.close()
    copy = path.read_bytes()
    journal = open_journal(path)
    await journal.append((record(1),)).durable()
    journal.close()
    path.write_bytes(copy)
    restored = open_journal(path)
    assert restored.was_rewound
    assert restored.epoch != epoch
    assert [stored.at for stored in restored.replay()] == [0]
    new_epoch = restored.epoch
    restored.close()
    again = open_journal(path)
    assert (again.epoch, again.was_rewound) == (new_epoch, False)
    again.close()


async def test_recreated_journal_is_noticed(tmp_path: Path) -> None:
    """A journal that was removed begins anew, under another name, and says that it did."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    epoch = journal.epoch
    await journal.append((record(0),)).durable()
    journal.close()
    path.unlink()
    anew = open_journal(path)
    assert anew.was_rewound
    assert anew.epoch != epoch
    assert list(anew.replay()) == []
    anew.close()


async def test_files_are_private(tmp_path: Path) -> None:
    """Nobody but the owner may read who booked what, whatever the umask says."""
    before = os.umask(0)
    try:
        path = tmp_path / "site.journal"
        journal = open_journal(path)
        await journal.append((record(0),)).durable()
        for suffix in ("", "-wal", "-shm", ".lock"):
            assert stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode) == 0o600
        journal.close()
    finally:
        os.umask(before)


def test_refused_owner_is_told_whom_to_look_for(tmp_path: Path) -> None:
    """The message names the file, the process that has it, and what to do."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    with pytest.raises(JournalLocked, match=rf"site\.journal is in use by process {os.getpid()}"):
        open_journal(path)
    journal.close()


@pytest.mark.parametrize("note", [b"", b"{", b"[1]", b'{"pid": "x"}', b"\xff" * 300])
def test_unreadable_note_says_nothing(tmp_path: Path, note: bytes) -> None:
    """The note in the lock file is a hint: a torn one is as good as none."""
    path = tmp_path / "site.journal"
    path.with_name("site.journal.lock").write_bytes(note)
    lock = JournalLock(path)
    assert lock.previous is None
    lock.note("epoch", 5)
    lock.release()
    again = JournalLock(path)
    assert again.previous is not None
    assert (again.previous.epoch, again.previous.synced) == ("epoch", 5)
    again.release()


async def test_superseded_records_leave_the_file(tmp_path: Path) -> None:
    """A snapshot makes the file's space usable again: a journal that is compacted does not grow."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    for _round in range(8):
        await journal.append([record(n) for n in range(3000)]).durable()
        await journal.snapshot(record(0)).durable()
    await journal.append((record(1),)).durable()
    journal.close()
    connection = sqlite3.connect(path)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.close()
    assert pages * 4096 < 4 * 3000 * len(record(0).body)
    assert numbers(path) == [0, 1]


async def test_reader_changes_nothing(tmp_path: Path) -> None:
    """Whoever checks a site's book reads it while its daemon writes, and after its daemon died."""
    path = tmp_path / "site.journal"
    journal = open_journal(path)
    await journal.append((record(0),)).durable()
    reader = read_records(path)
    assert next(reader).at == 0
    await journal.append((record(1),)).durable()
    assert list(reader) == []
    assert numbers(path) == [0, 1]
    keep_as_killed(path)
    journal.close()
    before = [killed(path).read_bytes(), log_of(killed(path)).read_bytes()]
    assert numbers(killed(path)) == [0, 1]
    assert [killed(path).read_bytes(), log_of(killed(path)).read_bytes()] == before


@pytest.mark.parametrize(
    ("kind", "at", "what"),
    [("", 0, "kind"), ("x" * 65, 0, "kind"), ("ä", 0, "kind"), ("K", 2**63, "instant")],
)
def test_record_that_no_file_could_hold_is_refused(kind: str, at: int, what: str) -> None:
    """A record is checked before it is queued, for the writer could only fail with it."""
    with pytest.raises(InputError, match=what):
        Record(kind=kind, at=at, body=b"")


def test_record_longer_than_the_bound_is_refused() -> None:
    """A body has a bound, which the refusal names."""
    with pytest.raises(InputError, match=str(BODY_BYTES_MAX)):
        Record(kind="TEST", at=0, body=bytes(BODY_BYTES_MAX + 1))
