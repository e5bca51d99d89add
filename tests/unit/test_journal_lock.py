"""Who owns a journal: one process at a time, and what its note says to the next one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gridtravel.gridio.journal.contract import JournalFailed, JournalLocked
from gridtravel.gridio.journal.lock import JournalLock, is_owned, lock_path


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where a journal is, or will be."""
    return tmp_path / "agent.journal"


def test_one_owner_at_a_time(journal: Path) -> None:
    """The second is told which process has it; when that lets go, it may have it."""
    first = JournalLock(journal)
    with pytest.raises(JournalLocked, match="in use by another process"):
        JournalLock(journal)
    first.note("epoch-1", 7)
    with pytest.raises(JournalLocked, match=f"in use by process {os.getpid()}"):
        JournalLock(journal)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(JournalLocked):
        JournalLock(journal)
    assert len(os.listdir("/proc/self/fd")) == before, "a refused owner leaves nothing open"
    first.release()
    JournalLock(journal).release()


def test_the_note_outlives_its_owner(journal: Path) -> None:
    """The next owner learns how far the last one had come; a shorter note hides no longer one."""
    first = JournalLock(journal)
    assert first.previous is None
    first.note("a long name of an epoch", 123_456)
    first.note("epoch-2", 9)
    first.release()
    second = JournalLock(journal)
    assert second.previous is not None
    previous = second.previous
    assert (previous.pid, previous.epoch, previous.synced) == (os.getpid(), "epoch-2", 9)
    second.release()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"pid": 1}', b"\xff" * 300])
def test_a_note_that_says_nothing(journal: Path, text: bytes) -> None:
    """Empty, torn or of another program: then nothing is known of the last owner."""
    lock_path(journal).write_bytes(text)
    lock = JournalLock(journal)
    assert lock.previous is None
    lock.release()


def test_the_note_has_its_room_from_the_first_one_on(journal: Path) -> None:
    """It is overwritten in place, so that a full disk can take it; and it is the owner's alone."""
    lock = JournalLock(journal)
    lock.note("epoch-1", 1)
    size = lock_path(journal).stat().st_size
    lock.note("epoch-1", 10**12)
    assert lock_path(journal).stat().st_size == size == 256
    assert lock_path(journal).read_bytes().endswith(b" \n")
    assert stat.S_IMODE(lock_path(journal).stat().st_mode) == 0o600
    lock.release()
    lock.note("epoch-1", 11)  # too late, and no reason to fail


def test_a_folder_that_is_not_there(journal: Path) -> None:
    """The journal fails, and says what is missing."""
    with pytest.raises(JournalFailed, match="cannot open"):
        JournalLock(journal.parent / "gone" / "agent.journal")


def test_asking_whether_it_is_owned_changes_nothing(journal: Path) -> None:
    """Nobody ever; an owner; nobody any more. Whoever asks neither takes it nor leaves a file."""
    assert not is_owned(journal)
    assert not lock_path(journal).exists()
    lock = JournalLock(journal)
    before = len(os.listdir("/proc/self/fd"))
    assert is_owned(journal)
    assert len(os.listdir("/proc/self/fd")) == before
    lock.release()
    assert not is_owned(journal)
    JournalLock(journal).release()
