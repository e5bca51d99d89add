"""Disks of real sites: full, and cut off in the middle.

A full disk is a small file system in memory of this process's own, where the kernel lets us make
one (as root), so that a write meets ``ENOSPC`` as on any full disk. Elsewhere it is a limit on the
size of the daemon's files (``RLIMIT_FSIZE``), and a write beyond it fails too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite_file import read_records

CLONE_NEWNS: Final = 0x0002_0000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x4_0000
MNT_DETACH: Final = 2
DISK_BYTES: Final = 32 * 1024 * 1024
PIECE_BYTES: Final = 64 * 1024
BALLAST: Final = "ballast"
LOG_HEAD_BYTES: Final = 32
LOG_FRAME_HEAD_BYTES: Final = 24


def own_mounts() -> bool:
    """Give this process, and those it starts, mounts that nobody else sees; False: not allowed."""
    if os.geteuid() != 0:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNS) != 0:
        return False
    return bool(library.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0)


class SiteDisk:
    """The disk that one site's state lies on."""

    def __init__(self, state: Path, *, may_mount: bool) -> None:
        self._state = state
        self.is_mounted = False
        if may_mount:
            library = ctypes.CDLL(None, use_errno=True)
            size = f"size={DISK_BYTES},mode=0700".encode()
            target = os.fsencode(state)
            self.is_mounted = library.mount(b"tmpfs", target, b"tmpfs", 0, size) == 0

    def fill(self, pid: int) -> None:
        """No room from now on; ``pid``: the daemon whose files may not grow, where nothing is
        mounted.
        """
        if not self.is_mounted:
            used = max((_used_bytes(each) for each in self._files()), default=0)
            _limit_files(pid, used)
            return
        with (self._state / BALLAST).open("ab", buffering=0) as ballast:
            for size in (PIECE_BYTES, 1):
                try:
                    while True:
                        ballast.write(b"x" * size)
                except OSError as fault:
                    if fault.errno != errno.ENOSPC:
                        raise

    def empty(self, pid: int) -> None:
        """There is room again."""
        if not self.is_mounted:
            _limit_files(pid, None)
            return
        (self._state / BALLAST).unlink(missing_ok=True)

    def remove(self) -> None:
        """Nothing of it is needed any more."""
        if self.is_mounted:
            ctypes.CDLL(None).umount2(os.fsencode(self._state), MNT_DETACH)

    def _files(self) -> list[Path]:
        return [each for each in self._state.iterdir() if each.is_file()]


def _limit_files(pid: int, size: int | None) -> None:
    """The most that a file of this process may grow to."""
    with contextlib.suppress(ProcessLookupError):
        most = resource.RLIM_INFINITY if size is None else size
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def _used_bytes(path: Path) -> int:
    """What a file holds; a journal's log is longer than that."""
    return _log_bytes(path) if path.name.endswith("-wal") else path.stat().st_size


def _log_bytes(path: Path) -> int:
    """The part of SQLite's write-ahead log that holds frames of it: behind them lies what an older
    log has left, or room that was taken beforehand (https://sqlite.org/fileformat.html, 4.1).
    """
    with path.open("rb") as stream:
        head = stream.read(LOG_HEAD_BYTES)
        used = len(head)
        page_bytes = int.from_bytes(head[8:12], "big")
        while stream.read(LOG_FRAME_HEAD_BYTES)[8:16] == head[16:24] and head:
            used += LOG_FRAME_HEAD_BYTES + page_bytes
            stream.seek(used)
    return used


@dataclass(slots=True, kw_only=True)
class Cut:
    """A journal that was cut at some byte while its daemon was down, and what came of it."""

    site: str
    number: int
    """How many cuts there were before."""
    noted: int
    """Records that the journal's own note says were safe."""
    before: list[Record]
    kept: int | None = None
    """How many of them the daemon went on with; ``None``: it refused to start."""
    is_owned_up: bool = False
    """True when the daemon said by itself that promises may be forgotten."""
    words: str = ""
    """What it said when it was started on what is left."""

    @property
    def lost(self) -> list[Record]:
        """What was stored and is not any more."""
        return [] if self.kept is None else self.before[self.kept :]

    def goes_on_with(self, records: Sequence[Record]) -> None:
        """The daemon started, and this is its journal now."""
        pairs = zip(self.before, records, strict=False)
        self.kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class JournalFiles:
    """The files of a dead daemon's journal."""

    def __init__(self, state: Path) -> None:
        self.path = state / JOURNAL_FILE
        self._copies = [
            (path, path.with_name(path.name + ".copy"))
            for path in (self.path, Path(f"{self.path}-wal"))
        ]

    def cut(self, site: str, number: int, part: float, *, in_log: bool) -> Cut:
        """Cut the log (or the main file) after ``part`` of it; a copy of everything is kept."""
        before = list(read_records(self.path))
        for path, copy in self._copies:
            copy.unlink(missing_ok=True)
            if path.exists():
                shutil.copyfile(path, copy)
        path = Path(f"{self.path}-wal") if in_log else self.path
        if not path.exists() or not path.stat().st_size:
            path = self.path
        size = _log_bytes(path) if path.name.endswith("-wal") else path.stat().st_size
        os.truncate(path, int(part * size))
        return Cut(site=site, number=number, noted=self._noted(), before=before)

    def restore(self) -> None:
        """Put the copy back, as the message of a refused start says."""
        for path, copy in self._copies:
            path.unlink(missing_ok=True)
            if copy.exists():
                copy.rename(path)
        Path(f"{self.path}-shm").unlink(missing_ok=True)

    def _noted(self) -> int:
        note = self.path.with_name(JOURNAL_FILE + ".lock")
        return int(json.loads(note.read_text())["synced"])
