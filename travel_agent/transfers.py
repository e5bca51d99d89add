"""One file to a site or from it: whole and unharmed, or not at all, however often the way breaks.

An interrupted transfer goes on where it stopped, also in a later run of the program: what has
arrived is kept in a part file at the receiving end. The checksum of the whole decides at the end.
A part that turns out to belong to something else costs one more transfer from the beginning.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort

CHUNK_BYTES: Final = 256 * 1024
FRUITLESS_MAX: Final = 3
"""Interruptions in a row without a new byte before it is given up. Between two of them the call
that asks how far it got waits for the site for about a second.
"""
DAMAGED_MAX: Final = 2
"""Times a whole transfer may arrive damaged: once because of an old part, once by bad luck."""


async def send_file(
    port: SitePort, area: str, source: Path, destination: str, there: FileStatus | None = None
) -> bool:
    """Bring ``source`` to ``destination`` in an area of the site; False when it is there already.

    ``there``: what the site has at the destination, with its checksum, or the part of it that
    arrived before.
    """
    try:
        mode, size, checksum = await asyncio.to_thread(_look_at, source)
    except OSError as fault:
        raise InputError(f"cannot read {source}: {fault.strerror}") from fault
    if there is not None and (there.path, there.sha256, there.mode) == (
        destination,
        checksum,
        mode,
    ):
        return False
    is_part = there is not None and there.path == destination + PART_SUFFIX
    offset = there.size_bytes if there is not None and is_part else 0
    fruitless = damaged = 0
    while True:
        offset = offset if offset <= size else 0
        rest = _read(source, offset)
        try:
            await port.put_file(area, destination, rest, mode=mode, sha256=checksum)
            return True
        except UnavailableError:
            arrived = await _arrived(port, area, destination)
            fruitless = 0 if arrived > offset else fruitless + 1
            if fruitless == FRUITLESS_MAX:
                raise
            offset = arrived
        except ConflictError:
            damaged += 1
            if damaged == DAMAGED_MAX:
                raise
            offset = 0


async def receive_file(port: SitePort, area: str, status: FileStatus, target: Path) -> None:
    """Bring the file that ``status`` describes to ``target``."""
    part = target.with_name(target.name + PART_SUFFIX)
    fruitless = damaged = 0
    while True:
        done = await asyncio.to_thread(_open_part, part, status.size_bytes)
        try:
            await _receive_rest(port, area, status, part, done)
        except UnavailableError:
            fruitless = 0 if part.stat().st_size > done else fruitless + 1
            if fruitless == FRUITLESS_MAX:
                raise
            continue
        if not status.sha256 or await asyncio.to_thread(checksum_of, part) == status.sha256:
            part.chmod(status.mode & 0o777 | 0o600)
            part.replace(target)
            return
        part.unlink()
        damaged += 1
        if damaged == DAMAGED_MAX:
            raise UnavailableError(
                f"{status.path} arrived damaged or changed meanwhile", hint="fetch it again"
            )


def checksum_of(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _receive_rest(
    port: SitePort, area: str, status: FileStatus, part: Path, done: int
) -> None:
    with await asyncio.to_thread(part.open, "r+b") as file:
        file.seek(done)
        async for chunk in port.get_file(area, status.path, done):
            file.write(chunk.content)
        file.flush()
        os.fsync(file.fileno())


async def _arrived(port: SitePort, area: str, destination: str) -> int:
    """Bytes of an interrupted upload that the site has kept."""
    folder = str(PurePosixPath(destination).parent)
    with suppress(NotFoundError):
        files = await port.list_files(area, "" if folder == "." else folder, with_checksums=False)
        for each in files:
            if each.path == destination + PART_SUFFIX:
                return each.size_bytes
    return 0


def _open_part(part: Path, size_max: int) -> int:
    """Make or keep a part file; returns how many of its bytes count."""
    part.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    done = part.stat().st_size
    if done > size_max:
        os.truncate(part, 0)
        return 0
    return done


async def _read(path: Path, offset: int) -> AsyncIterator[OutputChunk]:
    """The file from ``offset`` on."""
    with path.open("rb") as file:
        file.seek(offset)
        while content := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield OutputChunk(offset=offset, content=content)
            offset += len(content)


def _look_at(path: Path) -> tuple[int, int, str]:
    """Mode, size and checksum."""
    status = path.stat()
    return status.st_mode & 0o777, status.st_size, checksum_of(path)
