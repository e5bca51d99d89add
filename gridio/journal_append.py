"""A journal in a plain file that only grows: for logs that are many, short, and rarely read.

A trip of a laptop writes half a dozen records and is done. A database for each costs more to make
than the trip costs to book: its creation alone is several flushes, and two threads. Here the first
record is one write and one flush like every other, and the threads are shared by all journals of
their owner (``executor``). Long journals belong into ``journal_sqlite``: a snapshot rewrites this
file from the start.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path

from gridio.ids import IdSource, RandomIds
from gridio.journal import (
    PENDING_RECORDS_MAX,
    JournalDamaged,
    JournalFailed,
    JournalOverloaded,
    Record,
)
from gridio.journal_frames import (
    MAGIC,
    RESTORE_HINT,
    Head,
    framed,
    new_file,
    payload_of,
    read_frames,
    read_head,
)
from gridio.journal_lock import JournalLock
from gridio.journal_progress import WriteProgress, WriteTicket


@dataclass(frozen=True, slots=True)
class _Entry:
    """One call of ``append`` or ``snapshot`` on its way to the disk."""

    records: tuple[Record, ...]
    sync: bool
    is_snapshot: bool


class AppendJournal:
    """See ``gridio.journal.Journal`` for the contract.

    Opening checks every stored record and takes the lock; nothing is forced to the disk before the
    first record is. ``executor`` writes; ``size_max_bytes`` bounds the file: a write beyond it
    fails as a full disk does.
    """

    def __init__(
        self,
        path: Path,
        *,
        executor: Executor,
        ids: IdSource | None = None,
        size_max_bytes: int | None = None,
    ) -> None:
        source: IdSource = ids if ids is not None else RandomIds()
        self._lock = JournalLock(path)
        try:
            self._file = _AppendFile(path, size_max_bytes)
            try:
                self._was_rewound = self._notice_rewinding()
                if self._was_rewound or not self._file.epoch:
                    self._file.rename_epoch(source.new_id("journal"))
            except BaseException:
                self._file.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._path = path
        self._executor = executor
        self._epoch = self._file.epoch
        self._progress = WriteProgress(self._file.last_sequence)
        self._last_sequence = self._file.last_sequence
        self._base = self._file.base + 1
        self._is_closed = False
        # Guards the three below, which the owner and a writing thread share.
        self._guard = threading.Lock()
        self._queue: list[_Entry] = []
        self._is_writing = False
        self._writing: Future[None] | None = None

    @property
    def epoch(self) -> str:
        """See ``Journal.epoch``."""
        return self._epoch

    @property
    def was_rewound(self) -> bool:
        """See ``Journal.was_rewound``."""
        return self._was_rewound

    @property
    def last_sequence(self) -> int:
        """See ``Journal.last_sequence``."""
        return self._last_sequence

    @property
    def replay_count(self) -> int:
        """See ``Journal.replay_count``."""
        return self._last_sequence - self._base + 1

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        progress = self._refuse_unusable()
        waiting = self._last_sequence - progress.written
        if waiting + len(records) > PENDING_RECORDS_MAX:
            raise JournalOverloaded(
                f"{waiting} records wait for {self._path}", hint="the disk is slow; try again later"
            )
        self._last_sequence += len(records)
        ticket = WriteTicket(progress, self._last_sequence, sync=sync)
        if records or not progress.is_safe(self._last_sequence, sync=sync):
            self._put(_Entry(tuple(records), sync, False))
        return ticket

    def snapshot(self, state: Record) -> WriteTicket:
        """See ``Journal.snapshot``; writes a new file in the place of the old."""
        progress = self._refuse_unusable()
        self._last_sequence += 1
        self._base = self._last_sequence
        self._put(_Entry((state,), True, True))
        return WriteTicket(progress, self._last_sequence, sync=True)

    def replay(self) -> Iterator[Record]:
        """See ``Journal.replay``."""
        return read_appended(self._path)

    def close(self) -> None:
        """See ``Journal.close``."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._guard:
            writing = self._writing
        if writing is not None:
            writing.result()
        self._file.close()
        self._lock.note(self._epoch, self._progress.synced)
        self._lock.release()

    def _refuse_unusable(self) -> WriteProgress:
        if self._is_closed:
            raise JournalFailed(f"the journal {self._path} is closed")
        self._progress.raise_failure()
        return self._progress

    def _notice_rewinding(self) -> bool:
        previous = self._lock.previous
        if previous is None or previous.synced == 0:
            return False
        if not self._file.epoch:
            raise JournalDamaged(
                f"the journal {self._file.path} is empty, but held {previous.synced} records",
                hint=RESTORE_HINT,
            )
        return previous.epoch != self._file.epoch or previous.synced > self._file.last_sequence

    def _put(self, entry: _Entry) -> None:
        with self._guard:
            self._queue.append(entry)
            if not self._is_writing:
                self._is_writing = True
                self._writing = self._executor.submit(self._write_all)

    def _write_all(self) -> None:
        """In a thread: store what waits, and what comes to wait meanwhile."""
        while True:
            with self._guard:
                batch, self._queue = self._queue, []
                if not batch:
                    self._is_writing = False
                    return
            if self._progress.failure is None:
                self._store(batch)

    def _store(self, batch: list[_Entry]) -> None:
        """Any fault ends the journal, not the thread."""
        try:
            is_synced = any(entry.sync for entry in batch)
            for entry in batch:
                if entry.is_snapshot:
                    self._file.restart(entry.records)
                elif entry.records:
                    self._file.add(entry.records)
            self._file.flush(is_synced=is_synced)
            self._progress.advance(self._file.last_sequence, is_synced=is_synced)
            if is_synced:
                self._lock.note(self._epoch, self._progress.synced)
        except Exception as fault:
            # Whatever it was, a writer that ended in silence would leave its callers waiting.
            self._file.take_back()
            self._progress.fail(
                JournalFailed(
                    f"cannot write the journal {self._path}: {fault}",
                    hint="look at the disk's free space and health, then start again",
                )
            )


class _AppendFile:
    """The file for writing, and what the next frame builds on. One thread at a time."""

    # The journal's name; empty while nothing was ever written.
    epoch: str
    # Sequence before the first record of the file, and of the last one stored.
    base: int
    last_sequence: int

    def __init__(self, path: Path, size_max_bytes: int | None) -> None:
        self.path = path
        self.epoch, self.base, self.last_sequence = "", 0, 0
        self._size_max_bytes = size_max_bytes
        self._crc = 0
        # Where the next frame goes; 0: the file has no head yet.
        self._end = 0
        # True once the file's name is as safe as its content.
        self._is_named = False
        # Frames that are not written yet, with the sequence after them.
        self._frames: list[bytes] = []
        self._pending_sequence = 0
        self._descriptor = self._opened(path)
        try:
            self._read()
        except BaseException:
            os.close(self._descriptor)
            raise
        self._pending_sequence = self.last_sequence

    def rename_epoch(self, epoch: str) -> None:
        """Give the journal a name, or a new one."""
        self.epoch = epoch
        if self._end:
            self._rewrite(list(read_appended(self.path)))
            return
        head, self._crc = new_file(Head(epoch=epoch, base=self.base))
        try:
            _write(self._descriptor, head, 0)
        except OSError as fault:
            raise _not_writable(self.path, fault) from fault
        self._end = len(head)

    def add(self, records: Sequence[Record]) -> None:
        """One append, written by the next ``flush``."""
        frame, self._crc = framed(payload_of(records), self._crc)
        self._frames.append(frame)
        self._pending_sequence += len(records)

    def flush(self, *, is_synced: bool) -> None:
        """Write what was added; ``is_synced``: and have it, and all before, safe from power loss.
        An ``OSError`` leaves nothing half written that ``take_back`` does not remove.
        """
        content = b"".join(self._frames)
        if self._size_max_bytes is not None and self._end + len(content) > self._size_max_bytes:
            raise OSError("the file would be larger than it may be")
        _write(self._descriptor, content, self._end)
        if is_synced:
            os.fdatasync(self._descriptor)
            if not self._is_named:
                _sync_names(self.path)
                self._is_named = True
        self._end += len(content)
        self._frames.clear()
        self.last_sequence = self._pending_sequence

    def restart(self, records: Sequence[Record]) -> None:
        """Make ``records`` the whole content, in a new file that takes the place of this one."""
        self.flush(is_synced=False)
        self.base = self.last_sequence
        self._rewrite(records)
        self.last_sequence = self._pending_sequence = self.base + len(records)

    def take_back(self) -> None:
        """Cut off what a failed ``flush`` may have left; a reader would leave it out anyway."""
        self._frames.clear()
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._end)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _read(self) -> None:
        with self.path.open("rb") as file:
            found = read_head(file, self.path)
            if found is not None:
                head, self._crc, self._end = found
                self.epoch, self.base, self.last_sequence = head.epoch, head.base, head.base
                for frame in read_frames(file, self._crc, self.path):
                    self.last_sequence += len(frame.records)
                    self._crc, self._end = frame.crc, frame.end
            size = os.fstat(self._descriptor).st_size
        if size > self._end:
            os.ftruncate(self._descriptor, self._end)
        if self.last_sequence:
            # What an earlier owner did not live to see on the disk is forced there now.
            os.fdatasync(self._descriptor)

    def _rewrite(self, records: Sequence[Record]) -> None:
        beside = self.path.with_name(self.path.name + "~")
        content, crc = new_file(Head(epoch=self.epoch, base=self.base))
        if records:
            frame, crc = framed(payload_of(records), crc)
            content += frame
        descriptor = self._opened(beside, os.O_TRUNC)
        try:
            _write(descriptor, content, 0)
            os.fdatasync(descriptor)
            beside.rename(self.path)
        except BaseException:
            os.close(descriptor)
            raise
        _sync_names(self.path)
        os.close(self._descriptor)
        self._descriptor, self._crc, self._end = descriptor, crc, len(content)

    @staticmethod
    def _opened(path: Path, flags: int = 0) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o600)
        except OSError as fault:
            raise _not_writable(path, fault) from fault


def is_appended(path: Path) -> bool:
    """True for the beginning of a file of this kind, whatever follows."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
    return False


def read_appended(path: Path) -> Iterator[Record]:
    """The records stored at ``path`` by now: also while their owner writes. Changes nothing."""
    try:
        with path.open("rb") as file:
            found = read_head(file, path)
            if found is None:
                return
            _, crc, _ = found
            frames = read_frames(file, crc, path)
            until = os.fstat(file.fileno()).st_size
            for frame in frames:
                if frame.end > until:
                    return
                yield from frame.records
    except OSError as fault:
        raise JournalFailed(f"cannot read the journal {path}: {fault.strerror}") from fault


def _write(descriptor: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, at)
        view, at = view[written:], at + written


def _sync_names(path: Path) -> None:
    """Have the file's own name safe, and that of its folder, which may be as new."""
    _sync_folder(path.parent)
    with contextlib.suppress(PermissionError):
        _sync_folder(path.parent.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _not_writable(path: Path, fault: OSError) -> JournalFailed:
    return JournalFailed(
        f"cannot open the journal {path}: {fault.strerror}",
        hint="its folder must exist and be writable",
    )
