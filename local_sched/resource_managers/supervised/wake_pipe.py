"""The daemon's end of the named pipe through which supervisors say whose records changed.

A named pipe, because its path may be of any length (a Unix socket's may not), because a writer
finds out at once that no daemon listens, and because lines shorter than ``PIPE_BUF`` never mix.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

READ_BYTES_MAX = 64 * 1024


class WakePipe:
    """Calls ``heard`` with each job id that arrives. A hint only: ids may be lost or come twice."""

    def __init__(self, path: Path, heard: Callable[[str], None]) -> None:
        self._path = path
        self._heard = heard
        self._descriptor: int | None = None
        self._rest = b""

    def open(self) -> None:
        """Make the pipe if need be, and listen on the running loop."""
        with contextlib.suppress(FileExistsError):  # of an earlier daemon
            os.mkfifo(self._path, 0o600)
        # Opened for writing too, so that it does not end when the last supervisor closes it.
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Stop listening; said twice, nothing happens."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _read(self) -> None:
        if self._descriptor is None:
            return
        try:
            received = os.read(self._descriptor, READ_BYTES_MAX)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + received).split(b"\n")
        for line in lines:
            self._heard(line.decode("ascii", "replace"))
