"""The file behind a journal: every SQL statement, and the checks that make a damaged file one
clear error.

Synchronous and without threads; ``gridio.journal.sqlite`` decides who calls what, and when. One
row is one record. ``chain`` is a CRC-32 over the record and the chain of the row before it, so a
row that was altered, lost or moved is found by reading in order: SQLite itself keeps checksums in
its write-ahead log but none in the main file, and would apply a log to a main file that it does
not belong to. A log that ends early is not damage: SQLite drops the torn transactions at its end,
and what is left is a prefix.

The write-ahead log with ``synchronous=FULL`` is one ``fdatasync`` a transaction; ``NORMAL`` is
none, and survives the death of the process because the log has been written. Both settings belong
to the connection and are made at each open.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from gridtravel.gridio.journal.contract import JournalDamaged, JournalFailed, Record
from gridtravel.gridio.journal.file import is_appended, read_appended

APPLICATION_ID: Final = 0x4752_4A31
"""Marks the file as a grid journal ("GRJ1") for this program and for ``file``."""

FORMAT_VERSION: Final = 1
"""``user_version`` of the file; a change of the tables below raises it."""

BUSY_TIMEOUT_S: Final = 10.0
"""How long a statement waits for the checkpoint of the other connection of this process; it never
takes a second.
"""

_RESTART_TIMEOUT_MS: Final = 50
"""How long the writer may wait for readers before it gives up beginning the log anew."""

_ROWS_A_STATEMENT: Final = 64
"""One statement for up to this many rows: each statement hands the interpreter's lock over twice,
and a busy event loop gives it back late. On an idle loop, 64 rows take 0.23 ms in one statement and
0.28 ms in 64."""

TRIM_ROWS: Final = 1_000
"""Superseded rows deleted at once, about a millisecond's work."""

_PAGE_BYTES: Final = 4096

_SCHEMA: Final = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT_VERSION}",
    # Replay begins at `base`; rows below it are superseded by a snapshot. `base_chain` is the
    # chain before that row.
    "CREATE TABLE journal (only INTEGER PRIMARY KEY CHECK (only = 1), epoch TEXT NOT NULL,"
    " base INTEGER NOT NULL, base_chain INTEGER NOT NULL)",
    "CREATE TABLE records (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, at INTEGER NOT NULL,"
    " body BLOB NOT NULL, chain INTEGER NOT NULL)",
)

_CODES_OF_DAMAGE: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT)
"""Codes of an OperationalError that are about the file's content (a table is missing), not about
the disk.
"""

_RESTORE_HINT: Final = "restore this file from a copy, or move it away to start with an empty book"


class JournalFile:
    """One open journal file: the writing connection, and what the next row builds on."""

    # The journal's name; see Journal.epoch.
    epoch: str
    # Sequence and chain of the last row; 0 and the starting value for an empty journal.
    last_sequence: int
    last_chain: int
    # First sequence of a replay. Invariant: base <= last_sequence + 1.
    base: int
    # Smallest sequence that has a row; below `base` when rows are superseded and not yet deleted.
    lowest: int

    def __init__(
        self, path: Path, *, new_epoch: Callable[[], str], size_max_bytes: int | None
    ) -> None:
        self.path = path
        _make_private(path)
        try:
            self._connection = _connect(path)
            try:
                self._open(new_epoch, size_max_bytes=size_max_bytes)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as fault:
            raise _opening_fault(path, fault) from fault

    @property
    def has_superseded(self) -> bool:
        """True while rows below the last snapshot wait for ``trim``."""
        return self.lowest < self.base

    def change_epoch(self, epoch: str) -> None:
        """Give the journal a new name, because records that were once safe are missing."""
        try:
            self._connection.execute("UPDATE journal SET epoch = ?", (epoch,))
        except sqlite3.Error as fault:
            raise _opening_fault(self.path, fault) from fault
        self.epoch = epoch

    def write(self, records: Sequence[Record], *, snapshot_at: int | None, sync: bool) -> None:
        """Store `records` behind the last one in one transaction; raises sqlite3.Error, and then
        stored nothing.

        With `snapshot_at` (an index into `records`) that record becomes the first of a replay.
        With `sync` and no records, what was written before is forced to disk.
        """
        self._set_sync(is_full=sync)
        sequence, chain = self.last_sequence, self.last_chain
        base: tuple[int, int] | None = None
        values: list[object] = []
        for index, record in enumerate(records):
            sequence += 1
            if index == snapshot_at:
                base = (sequence, chain)
            chain = chained(chain, record.kind, record.at, record.body)
            values += (sequence, record.kind, record.at, record.body, chain)
        if base is None and 0 < len(records) <= _ROWS_A_STATEMENT:
            # A single statement is a transaction by itself: one hand-over where BEGIN and COMMIT
            # would make three.
            self._connection.execute(_insert(len(records)), values)
        else:
            self._write_explicitly(values, base)
        if base is not None:
            self.base = base[0]
        self.last_sequence, self.last_chain = sequence, chain

    def trim(self) -> None:
        """Delete up to ``TRIM_ROWS`` superseded rows; losing this to a crash costs nothing, it
        is done again.
        """
        below = min(self.base, self.lowest + TRIM_ROWS)
        self._set_sync(is_full=False)
        self._connection.execute("DELETE FROM records WHERE sequence < ?", (below,))
        self.lowest = below

    def restart_log(self) -> None:
        """Move the whole log into the main file, so that the next write begins it anew."""
        execute = self._connection.execute
        # A reader in the middle of a replay keeps the log; then it only grows on, rather than the
        # callers waiting.
        execute(f"PRAGMA busy_timeout = {_RESTART_TIMEOUT_MS}").fetchall()
        execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        execute(f"PRAGMA busy_timeout = {int(BUSY_TIMEOUT_S * 1000)}").fetchall()

    def close(self) -> None:
        """Close the writing connection; the last one of the file moves the log into the main
        file.
        """
        self._connection.close()

    def _open(self, new_epoch: Callable[[], str], *, size_max_bytes: int | None) -> None:
        connection = self._connection
        # Asking for the pages also undoes a creation that a crash interrupted.
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            _create(connection, self.path, new_epoch())
        _check_format(connection, self.path)
        _set_modes(connection)
        if size_max_bytes is not None:
            pages_max = max(1, size_max_bytes // _PAGE_BYTES)
            connection.execute(f"PRAGMA max_page_count = {pages_max}").fetchall()
        self._is_full_sync = True
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise _damaged(self.path, str(found[0]))
        self.epoch, self.base, self.last_chain = _head(connection, self.path)
        self.last_sequence = self.base - 1
        for row in stored_rows(connection, self.path):
            self.last_sequence, self.last_chain = row[0], row[4]
        lowest = connection.execute("SELECT min(sequence) FROM records").fetchone()[0]
        self.lowest = self.base if lowest is None else min(lowest, self.base)
        # What an earlier owner wrote without sync is forced to the disk now; and a disk that cannot
        # be written is found out before the first promise.
        self.write((), snapshot_at=None, sync=True)

    def _write_explicitly(self, values: list[object], base: tuple[int, int] | None) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            if not values:
                # A commit without a change would not be forced to the disk, and to give a row the
                # values that it has is no change to SQLite.
                execute("UPDATE journal SET base = base + 1")
                execute("UPDATE journal SET base = base - 1")
            columns = 5
            step = _ROWS_A_STATEMENT * columns
            for first in range(0, len(values), step):
                part = values[first : first + step]
                execute(_insert(len(part) // columns), part)
            if base is not None:
                execute("UPDATE journal SET base = ?, base_chain = ?", base)
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def _set_sync(self, *, is_full: bool) -> None:
        if is_full is not self._is_full_sync:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_full else 'NORMAL'}")
            self._is_full_sync = is_full


class LogKeeper:
    """Moves the write-ahead log into the main file on a connection of its own, beside the writer
    and not before it.
    """

    def __init__(self, path: Path) -> None:
        self._connection = _connect(path)
        _set_modes(self._connection)

    def checkpoint(self) -> int:
        """Move what can be moved without holding anybody up; the number of log pages now in use."""
        _busy, log_pages, _moved = self._connection.execute(
            "PRAGMA wal_checkpoint(PASSIVE)"
        ).fetchone()
        return int(log_pages)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def is_full_disk(fault: sqlite3.Error) -> bool:
    """True when the disk, or the room that a file may take of it, is used up."""
    return getattr(fault, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def chained(chain: int, kind: str, at: int, body: bytes) -> int:
    """The chain after this record, which depends on it and on every record before it."""
    return zlib.crc32(body, zlib.crc32(f"{chain},{at},{kind}\0".encode()))


def read_records(path: Path) -> Iterator[Record]:
    """The records stored at `path`, on a connection of its own: also while a daemon owns and
    writes the journal. A file of ``file`` is read as what it is.

    For replay, and for checks of a site's promises against its book. Changes nothing. Raises
    JournalDamaged.
    """
    if not path.exists():
        raise JournalFailed(f"there is no journal at {path}")
    if is_appended(path):
        yield from read_appended(path)
        return
    try:
        # A read-only connection also leaves the log alone when it is the last one to close.
        connection = _connect(path, mode="ro")
        try:
            _check_format(connection, path)
            # One transaction, so that a snapshot written meanwhile does not move the beginning
            # under the reader.
            connection.execute("BEGIN")
            for _sequence, kind, at, body, _chain in stored_rows(connection, path):
                yield Record(kind=kind, at=at, body=body)
        finally:
            connection.close()
    except sqlite3.Error as fault:
        raise _opening_fault(path, fault) from fault


def stored_rows(
    connection: sqlite3.Connection, path: Path
) -> Iterator[tuple[int, str, int, bytes, int]]:
    """The rows of a replay (sequence, kind, at, body, chain) in order, each proven to follow from
    the one before.
    """
    _epoch, base, chain = _head(connection, path)
    expected = base
    rows = connection.execute(
        "SELECT sequence, kind, at, body, chain FROM records WHERE sequence >= ? ORDER BY sequence",
        (base,),
    )
    for row in rows:
        sequence, kind, at, body, stored_chain = row
        if sequence != expected:
            raise _damaged(path, f"record {expected} is missing")
        is_whole = type(body) is bytes and type(kind) is str
        chain = chained(chain, kind, at, body) if is_whole else -1
        if chain != stored_chain:
            raise _damaged(path, f"record {sequence} is not the one that was written")
        expected += 1
        yield row


def _head(connection: sqlite3.Connection, path: Path) -> tuple[str, int, int]:
    """Epoch, first sequence of a replay, and the chain before it."""
    row = connection.execute("SELECT epoch, base, base_chain FROM journal").fetchone()
    if row is None:
        raise _damaged(path, "its head is missing")
    return row[0], row[1], row[2]


_inserts: dict[int, str] = {}


def _insert(rows: int) -> str:
    """The statement for this many rows; the same text object each time, which SQLite's statement
    cache needs.
    """
    text = _inserts.get(rows)
    if text is None:
        text = _inserts[rows] = "INSERT INTO records VALUES " + ",".join(["(?,?,?,?,?)"] * rows)
    return text


def _make_private(path: Path) -> None:
    """Make the file, readable by its owner alone, unless it is there."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as fault:
        raise JournalFailed(
            f"cannot open the journal {path}: {fault.strerror}",
            hint="its folder must exist and be writable",
        ) from fault


def _connect(path: Path, *, mode: str = "rw") -> sqlite3.Connection:
    """A connection to an existing file, for one thread at a time."""
    return sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=2 * _ROWS_A_STATEMENT,
    )


def _set_modes(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA wal_autocheckpoint = 0").fetchall()


def _create(connection: sqlite3.Connection, path: Path, epoch: str) -> None:
    """Make the tables in the main file and its name in the folder safe, before the first record
    is accepted.

    Done in SQLite's older rollback mode, so that a file of length zero is either new or cut,
    never half made.
    """
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO journal VALUES (1, ?, 1, ?)", (epoch, zlib.crc32(epoch.encode()))
    )
    connection.execute("COMMIT")
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        raise JournalDamaged(f"{path} is not a journal of this program", hint=_RESTORE_HINT)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT_VERSION:
        raise JournalDamaged(
            f"{path} is a journal of format {version}; this release reads format {FORMAT_VERSION}",
            hint="use the release that wrote it",
        )


def _damaged(path: Path, what: str) -> JournalDamaged:
    return JournalDamaged(f"the journal {path} is damaged: {what}", hint=_RESTORE_HINT)


def _opening_fault(path: Path, fault: sqlite3.Error) -> JournalDamaged | JournalFailed:
    """Damage when the bytes are wrong, failure when the disk or the permissions are."""
    # A text that is no UTF-8 is reported by the adapter itself, without a code.
    code = getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if isinstance(fault, sqlite3.OperationalError) and code not in _CODES_OF_DAMAGE:
        return JournalFailed(
            f"cannot use the journal {path}: {fault}",
            hint="look at the disk's free space, its health and the file's permissions",
        )
    return _damaged(path, str(fault))
