"""One file from the laptop to a site or back (``gridio.transfers`` has what holds for every
transfer).

What has arrived of an interrupted one is kept in a part file at the receiving end, here as there.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from gridcore.errors import InputError, UnavailableError
from gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort
from gridio.transfers import DAMAGED_MAX, FRUITLESS_MAX, deliver

CHUNK_BYTES: Final = 256 * 1024


async def send_file(
    port: SitePort,
    area: str,
    source: Path,
    destination: str,
    there: FileStatus | None = None,
    passed: Callable[[int], None] = lambda _: None,
) -> bool:
    """Bring ``source`` to ``destination`` in an area of the site; False when it is there already.

    ``there``: what the site has at the destination, with its checksum, or the part of it that
    arrived before. ``passed``: is told of bytes as they leave.
    """
    try:
        mode, size, checksum = await asyncio.to_thread(_look_at, source)
    except OSError as fault:
        raise InputError(f"cannot read {source}: {fault.strerror}") from fault
    status = FileStatus(path=destination, size_bytes=size, mode=mode, sha256=checksum)
    return await deliver(port, area, status, lambda offset: _read(source, offset, passed), there)


async def receive_file(
    port: SitePort,
    area: str,
    status: FileStatus,
    target: Path,
    passed: Callable[[int], None] = lambda _: None,
) -> None:
    """Bring the file that ``status`` describes to ``target``; ``passed`` is told of bytes as they
    arrive.
    """
    part = target.with_name(target.name + PART_SUFFIX)
    fruitless = damaged = 0
    while True:
        done = await asyncio.to_thread(_open_part, part, status.size_bytes)
        try:
            await _receive_rest(port, area, status, part, done, passed)
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
    port: SitePort,
    area: str,
    status: FileStatus,
    part: Path,
    done: int,
    passed: Callable[[int], None],
) -> None:
    # Opened here and not in a thread: whoever is interrupted meanwhile would leave it open.
    with part.open("r+b") as file:
        file.seek(done)
        async for chunk in port.get_file(area, status.path, done):
            file.write(chunk.content)
            passed(len(chunk.content))
        file.flush()
        os.fsync(file.fileno())


def _open_part(part: Path, size_max: int) -> int:
    """Make or keep a part file; returns how many of its bytes count."""
    part.parent.mkdir(parents=True, exist_ok=True)
    part.touch()
    done = part.stat().st_size
    if done > size_max:
        os.truncate(part, 0)
        return 0
    return done


async def _read(
    path: Path, offset: int, passed: Callable[[int], None]
) -> AsyncIterator[OutputChunk]:
    """The file from ``offset`` on."""
    with path.open("rb") as file:
        file.seek(offset)
        while content := await asyncio.to_thread(file.read, CHUNK_BYTES):
            yield OutputChunk(offset=offset, content=content)
            offset += len(content)
            passed(len(content))


def _look_at(path: Path) -> tuple[int, int, str]:
    """Mode, size and checksum."""
    status = path.stat()
    return status.st_mode & 0o777, status.st_size, checksum_of(path)
