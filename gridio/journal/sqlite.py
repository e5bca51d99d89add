"""A journal in a file: one writer thread that stores whatever is waiting as one transaction.

``append`` costs the caller a few microseconds. Each waiting caller would need a disk flush of its
own (5,000 a second); instead the writer takes everything that queued up during the last flush and
stores it with the next, so sixty-four callers share one, and a lone caller pays one flush and two
thread hand-overs. No batching delay is needed or wanted. Rejected: aiosqlite (a thread hop a
statement, and its callers cannot share a transaction) and ``asyncio.to_thread`` (the same).
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gridtravel.gridio.journal.contract import (
    PENDING_RECORDS_MAX,
    JournalDamaged,
    JournalFailed,
    JournalOverloaded,
    Record,
)
from gridtravel.gridio.journal.lock import JournalLock
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket
from gridtravel.gridio.journal.room import JournalRoom
from gridtravel.gridio.journal.sqlite_file import (
    TRIM_ROWS,
    JournalFile,
    LogKeeper,
    is_full_disk,
    read_records,
)
from gridtravel.gridio.system.ids import IdSource, RandomIds

log = logging.getLogger(__name__)

BATCH_RECORDS_MAX: Final = 4_096
"""A batch stops growing here (about 15 ms), so that a long backlog does not make its first ticket
wait for its last.
"""

CHECKPOINT_BYTES: Final = 4 * 1024 * 1024
"""Bodies written between two moves of the log into the main file."""

LOG_PAGES_MAX: Final = 16_384
"""A log of 64 MiB: under a load that never pauses the writer itself pauses once to begin the log
anew.
"""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One call of ``append`` or ``snapshot`` on its way to the writer."""

    records: Sequence[Record]
    sync: bool
    is_snapshot: bool


class SqliteJournal:
    """The journal of a daemon; see ``gridio.journal.contract.Journal`` for the contract.

    Opening checks every stored record, takes the lock, and starts the writer thread.
    `size_max_bytes` bounds the main file: a write beyond it fails as a full disk does. `room_bytes`
    are taken from the disk at once, so that it goes on when the disk is full (``JournalRoom``).
    """

    def __init__(
        self,
        path: Path,
        *,
        ids: IdSource | None = None,
        size_max_bytes: int | None = None,
        room_bytes: int | None = 0,
    ) -> None:
        source: IdSource = ids if ids is not None else RandomIds()
        self._path = path
        self._lock = JournalLock(path)
        try:
            self._refuse_cut_file()
            self._file = JournalFile(
                path, new_epoch=lambda: source.new_id("journal"), size_max_bytes=size_max_bytes
            )
            try:
                self._forgotten_most = self._notice_rewinding(source)
                self._room = JournalRoom(path, room_bytes)
                self._keeper = _KeeperThread(path, has_room=self._room.is_taken)
            except BaseException:
                self._file.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self._progress = WriteProgress(self._file.last_sequence)
        self._epoch = self._file.epoch
        self._last_sequence = self._file.last_sequence
        self._base = self._file.base
        self._is_closed = False
        # The sentinel None ends the writer, after everything queued before it.
        self._queue: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._lock.note(self._epoch, self._progress.synced)
        # A daemon thread: a program that forgets to close must still be able to end, as a crash
        # would end it.
        self._writer = threading.Thread(
            target=self._write_until_closed, name="journal", daemon=True
        )
        self._writer.start()

    @property
    def epoch(self) -> str:
        """See ``Journal.epoch``."""
        return self._epoch

    @property
    def was_rewound(self) -> bool:
        """See ``Journal.was_rewound``."""
        return self._forgotten_most > 0

    @property
    def forgotten_most(self) -> int:
        """How many records may have been promised at the most since what opening found; 0 unless it
        was rewound. The note that this rests on may be a batch behind.
        """
        return self._forgotten_most

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
            self._queue.put(_Entry(tuple(records), sync, False))
        return ticket

    def snapshot(self, state: Record) -> WriteTicket:
        """See ``Journal.snapshot``; superseded rows are deleted later, a few at a time."""
        progress = self._refuse_unusable()
        self._last_sequence += 1
        self._base = self._last_sequence
        self._queue.put(_Entry((state,), True, True))
        return WriteTicket(progress, self._last_sequence, sync=True)

    def replay(self) -> Iterator[Record]:
        """See ``Journal.replay``."""
        return read_records(self._path)

    def close(self) -> None:
        """See ``Journal.close``."""
        if self._is_closed:
            return
        self._is_closed = True
        self._queue.put(None)
        self._writer.join()
        self._keeper.close()
        self._file.close()
        self._room.close()
        self._lock.note(self._epoch, self._progress.synced)
        self._lock.release()

    def _refuse_unusable(self) -> WriteProgress:
        if self._is_closed:
            raise JournalFailed(f"the journal {self._path} is closed")
        self._progress.raise_failure()
        return self._progress

    def _refuse_cut_file(self) -> None:
        """An empty file is a new journal, unless it is known to have held records."""
        previous = self._lock.previous
        if previous is None or previous.synced == 0 or not self._path.exists():
            return
        if self._path.stat().st_size == 0:
            raise JournalDamaged(
                f"the journal {self._path} is empty, but held {previous.synced} records",
                hint="restore this file from a copy, or remove it to start with an empty book",
            )

    def _notice_rewinding(self, source: IdSource) -> int:
        """See ``forgotten_most``; what is known to have lost records gets a new epoch."""
        previous = self._lock.previous
        if previous is None or previous.synced == 0:
            return 0
        if previous.epoch == self._file.epoch:
            if previous.synced <= self._file.last_sequence:
                return 0
            self._file.change_epoch(source.new_id("journal"))
        # Another journal's copy may share nothing with the one that was here.
        return previous.synced + BATCH_RECORDS_MAX

    def _write_until_closed(self) -> None:
        """The writer thread: wait for one entry, take what else is there, store it all, tell the
        loop once.
        """
        is_open = True
        while is_open:
            entry = self._queue.get()
            if entry is None:
                return
            batch = [entry]
            count = len(entry.records)
            while count < BATCH_RECORDS_MAX and not entry.is_snapshot and not self._queue.empty():
                entry = self._queue.get()
                if entry is None:
                    is_open = False
                    break
                batch.append(entry)
                count += len(entry.records)
            if self._progress.failure is None:
                self._store(batch)

    def _store(self, batch: list[_Entry]) -> None:
        """Store one batch; a snapshot is always the last of its batch. Any fault ends the
        journal, not the thread.
        """
        records = [record for entry in batch for record in entry.records]
        is_synced = any(entry.sync for entry in batch)
        snapshot_at = len(records) - 1 if batch[-1].is_snapshot else None
        try:
            if records or not self._progress.is_safe(self._file.last_sequence, sync=is_synced):
                self._file.write(records, snapshot_at=snapshot_at, sync=is_synced)
            self._progress.advance(self._file.last_sequence, is_synced=is_synced)
            if is_synced:
                self._lock.note(self._epoch, self._progress.synced)
            self._tidy(records)
        except Exception as fault:
            # Whatever it was, a writer that ended in silence would leave its callers waiting for
            # ever.
            self._progress.fail(
                JournalFailed(
                    f"cannot write the journal {self._path}: {fault}",
                    hint="look at the disk's free space and health, then start again",
                )
            )

    def _tidy(self, records: Sequence[Record]) -> None:
        """Housekeeping after the callers were told: a bounded piece, the rest while nobody waits.

        The piece is twice what was just written, so that rubbish shrinks under any load.
        """
        trimmed = 0
        while self._file.has_superseded:
            self._file.trim()
            trimmed += TRIM_ROWS
            if trimmed >= 2 * len(records) and not self._queue.empty():
                break
        written_bytes = sum(len(record.body) for record in records)
        self._keeper.count(written_bytes)
        if self._keeper.log_pages > LOG_PAGES_MAX:
            try:
                self._file.restart_log()
            except sqlite3.OperationalError as fault:
                if not (self._room.is_taken and is_full_disk(fault)):
                    raise
            self._keeper.log_pages = 0


class _KeeperThread:
    """Runs ``LogKeeper.checkpoint`` beside the writer, whenever enough was written."""

    def __init__(self, path: Path, *, has_room: bool) -> None:
        self._path = path
        self._has_room = has_room
        self._is_full_told = False
        self._keeper = LogKeeper(path)
        self._written_bytes = 0
        self._is_closing = False
        self._wake = threading.Semaphore(0)
        # Pages of the log after the last move; read and reset by the writer.
        self.log_pages = 0
        self._thread = threading.Thread(target=self._run, name="journal-log", daemon=True)
        self._thread.start()

    def count(self, written_bytes: int) -> None:
        """Add to what was written since the last move, and start one if that is enough."""
        self._written_bytes += written_bytes
        if self._written_bytes >= CHECKPOINT_BYTES:
            self._written_bytes = 0
            self._wake.release()

    def close(self) -> None:
        """End the thread, after the move it may be in."""
        self._is_closing = True
        self._wake.release()
        self._thread.join()
        self._keeper.close()

    def _run(self) -> None:
        while True:
            self._wake.acquire()
            if self._is_closing:
                return
            try:
                self.log_pages = self._keeper.checkpoint()
                self._is_full_told = False
            except sqlite3.Error as fault:
                # The log keeps everything.
                if self._has_room and is_full_disk(fault):
                    self._tell_full()
                else:
                    # If the disk is at fault, the writer meets the fault and tells it.
                    self.log_pages = LOG_PAGES_MAX + 1

    def _tell_full(self) -> None:
        if not self._is_full_told:
            log.critical("the disk is full: %s goes on in the room that it took before", self._path)
        self._is_full_told = True
