"""Who owns a journal file, and how far it had come: one small file beside it.

The lock is the kernel's (``flock``), so it ends with its process, however that ends; the file
itself stays. Its text is a note and may be behind: it tells a refused second owner which process
has the journal, and it remembers the last sequence that was safe, so that an old copy put in the
journal's place is noticed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gridtravel.gridio.journal.contract import JournalFailed, JournalLocked

_NOTE_BYTES: Final = 256
"""The note is padded to this length and overwritten in place, so it needs no new block on a full
disk.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockNote:
    """What the last owner wrote: its process, the journal's epoch, and a sequence that was on
    disk by then.
    """

    pid: int
    epoch: str
    synced: int


def is_owned(journal_path: Path) -> bool:
    """True while a process has the journal: a daemon serves. For a moment the lock is shared with
    whoever asks, which an owner that starts just then may meet.
    """
    try:
        descriptor = os.open(lock_path(journal_path), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def lock_path(journal_path: Path) -> Path:
    """The file beside a journal that says who owns it."""
    return journal_path.with_name(journal_path.name + ".lock")


class JournalLock:
    """The exclusive ownership of one journal file, from construction to ``release``."""

    def __init__(self, journal_path: Path) -> None:
        self._path = lock_path(journal_path)
        try:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise JournalFailed(
                f"cannot open {self._path}: {fault.strerror}",
                hint="the journal's folder must exist and be writable",
            ) from fault
        previous = self._read_note()
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(self._descriptor)
            owner = f"process {previous.pid}" if previous else "another process"
            raise JournalLocked(
                f"the journal {journal_path} is in use by {owner}",
                hint="stop that daemon, or give this one a state folder of its own",
            ) from fault
        # Read again: before the lock was ours the owner may have been writing.
        self.previous = self._read_note()

    def note(self, epoch: str, synced: int) -> None:
        """Remember that everything up to `synced` is on disk.

        Called after each forced write, and not forced itself: a few microseconds, after the callers
        were told. A note that a power failure or a fault takes back is only an older note.
        """
        text = json.dumps({"pid": os.getpid(), "epoch": epoch, "synced": synced})
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, text.encode().ljust(_NOTE_BYTES - 1) + b"\n", 0)

    def release(self) -> None:
        """Let another process own the journal."""
        os.close(self._descriptor)

    def _read_note(self) -> LockNote | None:
        try:
            return _parsed(os.pread(self._descriptor, _NOTE_BYTES, 0))
        except OSError:
            return None


def read_note(journal_path: Path) -> LockNote | None:
    """The note beside a journal, without its lock: its owner may be ahead of it. ``None``: there is
    none that can be read.
    """
    try:
        return _parsed(lock_path(journal_path).read_bytes())
    except OSError:
        return None


def _parsed(text: bytes) -> LockNote | None:
    try:
        fields: Any = json.loads(text)
        return LockNote(
            pid=int(fields["pid"]), epoch=str(fields["epoch"]), synced=int(fields["synced"])
        )
    except (ValueError, TypeError, KeyError):
        # An empty or half-written note says nothing, which is what None says.
        return None
