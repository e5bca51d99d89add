"""A journal in a plain file that only grows: for logs that are many, short, and rarely read.

A trip of a laptop writes half a dozen records and is done. A database for each costs more to make
than the trip costs to book: its creation alone is several flushes, and two threads. Here the first
record is one write and one flush like every other, and the threads are shared by all journals of
their owner (``executor``). Long journals belong into ``sqlite``: a snapshot rewrites this
file from the start.

The file is a row of frames, each chained to the one before by its checks::

    file   = MAGIC head frame*          frame = length crc check payload
    head   = a frame whose payload is JSON: the epoch, and the sequence before the first record
    payload of a frame = the records of one append, each as
                         (length of kind, at, length of body, kind, body)

``crc`` is over the payload and the ``crc`` of the frame before, ``check`` over length and ``crc``.
A file that ends within a frame was cut by a crash, in the middle of a write that nobody was told
had succeeded: the frame is left out. Anything else that does not fit is damage.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.journal.contract import (
    PENDING_RECORDS_MAX,
    JournalDamaged,
    JournalFailed,
    JournalOverloaded,
    Record,
)
from gridtravel.gridio.journal.lock import JournalLock
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket
from gridtravel.gridio.system.ids import IdSource, RandomIds

_MAGIC: Final = b"GRIDLOG1"
"""The beginning of each file, with the version of the format."""

_FRAME: Final = struct.Struct(">QII")
_RECORD: Final = struct.Struct(">BqI")

_RESTORE_HINT: Final = "restore this file from a copy, or move it away"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """What a file says of itself."""

    epoch: str
    base: int
    """Sequence before the file's first record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Frame:
    """One append, read back."""

    records: tuple[Record, ...]
    crc: int
    """What the next frame's checks start from."""
    end: int
    """Where the next frame begins, in bytes from the beginning of the file."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One call of ``append`` or ``snapshot`` on its way to the disk."""

    records: tuple[Record, ...]
    sync: bool
    is_snapshot: bool


class AppendJournal:
    """See ``gridio.journal.contract.Journal`` for the contract.

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
                hint=_RESTORE_HINT,
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
    # What the next frame's checks start from; there is none before there is a head.
    _crc: int
    # Sequence after the frames that are not written yet.
    _pending_sequence: int

    def __init__(self, path: Path, size_max_bytes: int | None) -> None:
        self.path = path
        self.epoch, self.base, self.last_sequence = "", 0, 0
        self._size_max_bytes = size_max_bytes
        # Where the next frame goes; 0: the file has no head yet.
        self._end = 0
        # True once the file's name is as safe as its content.
        self._is_named = False
        # Frames that are not written yet.
        self._frames: list[bytes] = []
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
        head, self._crc = _new_file(_Head(epoch=epoch, base=self.base))
        try:
            _write(self._descriptor, head, 0)
        except OSError as fault:
            raise _not_writable(self.path, fault) from fault
        self._end = len(head)

    def add(self, records: Sequence[Record]) -> None:
        """One append, written by the next ``flush``."""
        frame, self._crc = _framed(_payload_of(records), self._crc)
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
            found = _read_head(file, self.path)
            if found is not None:
                head, self._crc, self._end = found
                self.epoch, self.base, self.last_sequence = head.epoch, head.base, head.base
                for frame in _read_frames(file, self._crc, self.path):
                    self.last_sequence += len(frame.records)
                    self._crc, self._end = frame.crc, frame.end
            size = os.fstat(self._descriptor).st_size
        if size > self._end:
            os.ftruncate(self._descriptor, self._end)
        if self.last_sequence:
            # What an earlier owner wrote without sync is forced to the disk now.
            os.fdatasync(self._descriptor)

    def _rewrite(self, records: Sequence[Record]) -> None:
        beside = self.path.with_name(self.path.name + "~")
        content, crc = _new_file(_Head(epoch=self.epoch, base=self.base))
        if records:
            frame, crc = _framed(_payload_of(records), crc)
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
        return file.read(len(_MAGIC)) == _MAGIC
    return False


def read_appended(path: Path) -> Iterator[Record]:
    """The records stored at ``path`` by now: also while their owner writes. Changes nothing."""
    try:
        with path.open("rb") as file:
            found = _read_head(file, path)
            if found is None:
                return
            _, crc, _ = found
            frames = _read_frames(file, crc, path)
            until = os.fstat(file.fileno()).st_size
            for frame in frames:
                if frame.end > until:
                    return
                yield from frame.records
    except OSError as fault:
        raise JournalFailed(f"cannot read the journal {path}: {fault.strerror}") from fault


def _framed(payload: bytes, crc: int) -> tuple[bytes, int]:
    """A frame behind the one with ``crc``, and its own."""
    own = zlib.crc32(payload, crc)
    return _FRAME.pack(len(payload), own, _check(len(payload), own)) + payload, own


def _new_file(head: _Head) -> tuple[bytes, int]:
    """The beginning of a file, and the ``crc`` that its first frame follows."""
    frame, crc = _framed(json.dumps({"epoch": head.epoch, "base": head.base}).encode(), 0)
    return _MAGIC + frame, crc


def _payload_of(records: Sequence[Record]) -> bytes:
    """The records of one append."""
    parts: list[bytes] = []
    for each in records:
        kind = each.kind.encode()
        parts += (_RECORD.pack(len(kind), each.at, len(each.body)), kind, each.body)
    return b"".join(parts)


def _read_head(file: BinaryIO, path: Path) -> tuple[_Head, int, int] | None:
    """The head of the file, the ``crc`` after it and where it ends; ``None`` when it was never
    written to its end.
    """
    magic = file.read(len(_MAGIC))
    if not _MAGIC.startswith(magic):
        raise JournalDamaged(f"{path} is not a journal of this program", hint=_RESTORE_HINT)
    if len(magic) < len(_MAGIC):
        return None
    found = _read_payload(file, 0, path)
    if found is None:
        return None
    payload, crc = found
    try:
        fields = json.loads(payload)
        head = _Head(epoch=str(fields["epoch"]), base=int(fields["base"]))
    except (ValueError, TypeError, KeyError):
        raise _damaged(path, "its head is not one") from None
    return head, crc, file.tell()


def _read_frames(file: BinaryIO, crc: int, path: Path) -> Iterator[_Frame]:
    """The frames from where ``file`` stands, up to the end or a frame that a crash cut off."""
    while True:
        found = _read_payload(file, crc, path)
        if found is None:
            return
        payload, crc = found
        yield _Frame(records=tuple(_records(payload, path)), crc=crc, end=file.tell())


def _read_payload(file: BinaryIO, before: int, path: Path) -> tuple[bytes, int] | None:
    start = file.tell()
    head = file.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    length, crc, check = _FRAME.unpack(head)
    if check != _check(length, crc):
        # A power failure may leave the length of a file without its content.
        if _is_empty(head) and all(
            _is_empty(rest) for rest in iter(lambda: file.read(1 << 16), b"")
        ):
            return None
        raise _damaged(path, f"the entry at byte {start} has no beginning")
    payload = file.read(length)
    if len(payload) < length:
        return None
    if zlib.crc32(payload, before) != crc:
        if not file.read(1):
            return None
        raise _damaged(path, f"the entry at byte {start} is not the one that was written")
    return payload, crc


def _records(payload: bytes, path: Path) -> Iterator[Record]:
    at = 0
    try:
        while at < len(payload):
            kind_length, instant, body_length = _RECORD.unpack_from(payload, at)
            kind_at = at + _RECORD.size
            body_at = kind_at + kind_length
            at = body_at + body_length
            if at > len(payload):
                raise _damaged(path, "a record is longer than its entry")
            yield Record(
                kind=payload[kind_at:body_at].decode("ascii"), at=instant, body=payload[body_at:at]
            )
    except (struct.error, InputError, UnicodeDecodeError) as fault:
        raise _damaged(path, f"a record cannot be read ({fault})") from fault


def _check(length: int, crc: int) -> int:
    return zlib.crc32(struct.pack(">QI", length, crc))


def _is_empty(content: bytes) -> bool:
    return not any(content)


def _damaged(path: Path, what: str) -> JournalDamaged:
    return JournalDamaged(f"the journal {path} is damaged: {what}", hint=_RESTORE_HINT)


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
