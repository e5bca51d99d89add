"""Room on the disk that belongs to a journal before it needs it.

SQLite's write-ahead log is overwritten from its beginning again and again, and never made shorter
while the journal is open. So a log that was made long once takes further records whatever the disk
has left; what it cannot move into the main file meanwhile stays in it. Zeros behind the last frame
are to SQLite what an older log leaves there: no frame of this one.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

ROOM_BYTES_MAX: Final = 64 * 1024 * 1024
ROOM_DIVISOR: Final = 16
"""Unless the site says otherwise: a sixteenth of the disk, at most 64 MiB, which take some six
thousand single records."""
_FRAME_BYTES: Final = 4096 + 24
_INDEX_BYTES: Final = 32 * 1024
_INDEX_FRAMES: Final = 4062
"""The index of the log grows by so many bytes for so many frames; processes share it."""


class JournalRoom:
    """The room of one open journal; taken when SQLite has opened it, let go when it is closed."""

    def __init__(self, path: Path, room_bytes: int | None) -> None:
        """``room_bytes``: ``None`` for what suits the disk. Less room than that is logged, and is
        no fault: the journal is as good as the disk then.
        """
        if room_bytes is None:
            disk = os.statvfs(path.parent)
            room_bytes = min(ROOM_BYTES_MAX, disk.f_blocks * disk.f_frsize // ROOM_DIVISOR)
        index_bytes = (room_bytes // _FRAME_BYTES // _INDEX_FRAMES + 2) * _INDEX_BYTES
        self.is_taken = False
        # Not closed before SQLite has closed it: closing any descriptor of a file gives up all
        # locks that this process holds on it.
        self._index = -1
        if room_bytes == 0:
            return
        try:
            log_file = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(log_file, 0, room_bytes)
            finally:
                os.close(log_file)
            self._index = os.open(f"{path}-shm", os.O_RDWR | os.O_CLOEXEC)
            os.posix_fallocate(self._index, 0, index_bytes)
            self.is_taken = True
        except OSError as fault:
            log.warning(
                "the journal %s gets no %d MiB of its own: %s",
                path,
                room_bytes >> 20,
                fault.strerror,
            )

    def close(self) -> None:
        """After SQLite has closed the journal."""
        if self._index >= 0:
            with contextlib.suppress(OSError):
                os.close(self._index)
            self._index = -1
