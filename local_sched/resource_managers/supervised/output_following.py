"""Following a file while a task writes it, until the task is over.

The file belongs to the task's owner, who may replace it by anything at any moment, while the reader
is the daemon: so it must be a regular file of the owner's, reached through no link of that name.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path

from gridtravel.gridcore.errors import InputError, NotAuthorisedError

LOOK_AGAIN_S = 0.1
"""How often a quiet file is looked at, in seconds: shorter than a reader notices."""
CHUNK_BYTES_MAX = 64 * 1024


async def follow_file(
    path: Path, offset: int, owner_uid: int, over: asyncio.Event
) -> AsyncIterator[bytes]:
    """The bytes of ``path`` from ``offset`` on, in pieces of at most ``CHUNK_BYTES_MAX``.

    Ends when ``over`` is set and everything was read. A file that does not exist (yet) is an empty
    one. Raises ``NotAuthorisedError`` when it is no regular file of the owner's.
    """
    if offset < 0:
        raise InputError(f"an output cannot be read from before its beginning ({offset})")
    descriptor: int | None = None
    try:
        while True:
            is_over = over.is_set()  # before reading: what was written until then is read below
            if descriptor is None:
                descriptor = _open(path, owner_uid)
            chunk = os.pread(descriptor, CHUNK_BYTES_MAX, offset) if descriptor is not None else b""
            if chunk:
                offset += len(chunk)
                yield chunk
            elif is_over:
                return
            else:
                await _wait_a_little(over)
    finally:
        if descriptor is not None:
            os.close(descriptor)


async def _wait_a_little(over: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LOOK_AGAIN_S):
            await over.wait()
    except TimeoutError:
        return


def _open(path: Path, owner_uid: int) -> int | None:
    """Open what is safe to read; None when there is nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise NotAuthorisedError(
            f"{path} is not read: {fault.strerror}",
            hint="let the job write its output where it was put, and not replace it",
        ) from fault
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner_uid:
        os.close(descriptor)
        raise NotAuthorisedError(
            f"{path} is not read: it is no regular file of the task's owner",
            hint="let the job write its output where it was put, and not replace it",
        )
    return descriptor
