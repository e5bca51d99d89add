"""Following a file while a task writes it, until the task is over.

The file belongs to the task's owner, who may replace it by anything at any moment, while the reader
is the daemon: so it is opened with the owner's rights, and must be a regular file of his.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from gridtravel.gridcore.errors import InputError, NotAuthorisedError
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.folder_calls import FolderMissingError, FolderRefusedError

LOOK_AGAIN_S = 0.1
"""How often a quiet file is looked at, in seconds: shorter than a reader notices."""
CHUNK_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFile:
    """A file of a task in its working folder."""

    folder: Path
    name: str
    uid: int
    """The task's account."""

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.folder / self.name


async def follow_file(
    files: AccountFiles, output: OutputFile, offset: int, over: asyncio.Event
) -> AsyncIterator[bytes]:
    """The bytes of ``output`` from ``offset`` on, in pieces of at most ``CHUNK_BYTES_MAX``.

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
                descriptor = await _open(files, output)
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


async def _open(files: AccountFiles, output: OutputFile) -> int | None:
    """Open what is safe to read; None when there is nothing."""
    try:
        _, (descriptor,) = await files.ask(
            output.uid, "open_file", output.folder, parts=[output.name]
        )
    except FolderMissingError:
        return None
    except FolderRefusedError as fault:
        raise NotAuthorisedError(
            f"{output.path} is not read: it {fault}",
            hint="let the job write its output where it was put, and not replace it",
        ) from fault
    except OSError as fault:
        raise NotAuthorisedError(
            f"{output.path} is not read: {fault.strerror}",
            hint="let the job write its output where it was put, and not replace it",
        ) from fault
    return descriptor
