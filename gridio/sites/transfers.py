"""Files between two ports: whole and unharmed, or not at all, however often the way breaks.

What a site says of a file binds it: no byte more than the announced size is taken, and no file gets
its name before its sum is the announced one.

An interrupted transfer goes on where it stopped, also in a later run of the program: what has
arrived is kept as a part at the receiving end. A part that turns out to belong to something else
costs one more transfer from the beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final, TypeVar

from gridtravel.gridcore.errors import ConflictError, NotFoundError, UnavailableError
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk, SitePort
from gridtravel.gridio.system.streams import closing

FRUITLESS_MAX: Final = 3
"""Interruptions in a row without a new byte before it is given up. Between two of them the call
that asks how far it got waits for the site for about a second.
"""
DAMAGED_MAX: Final = 2
"""Times a whole transfer may arrive damaged: once because of an old part, once by bad luck."""

AT_ONCE: Final = 8
"""Files on their way at the same time: a small one is mostly waiting, a large one fills the line by
itself.
"""

F = TypeVar("F")
T = TypeVar("T")

ReadFrom = Callable[[int], AsyncIterator[OutputChunk]]
"""The content of a file from an offset on."""


async def deliver(
    port: SitePort,
    area: str,
    status: FileStatus,
    read: ReadFrom,
    there: FileStatus | None = None,
) -> bool:
    """Bring a file into an area of the site as ``status`` describes it there, with its checksum;
    False when it is there already.

    ``there``: what the site has at that path, with its checksum, or the part of it that arrived
    before. ``UnavailableError`` by ``read`` is a break like any other.
    """
    path = status.path
    if there is not None and (there.path, there.sha256, there.mode) == (
        path,
        status.sha256,
        status.mode,
    ):
        return False
    is_part = there is not None and there.path == path + PART_SUFFIX
    offset = there.size_bytes if there is not None and is_part else 0
    fruitless = damaged = 0
    while True:
        offset = offset if offset <= status.size_bytes else 0
        rest = read(offset)
        try:
            await port.put_file(area, path, rest, mode=status.mode, sha256=status.sha256)
            return True
        except UnavailableError:
            arrived = await _arrived(port, area, path)
            fruitless = 0 if arrived > offset else fruitless + 1
            if fruitless == FRUITLESS_MAX:
                raise
            offset = arrived
        except ConflictError:
            damaged += 1
            if damaged == DAMAGED_MAX:
                raise
            offset = 0


def handed_files(
    files: Iterable[FileStatus], source: str, destination: str
) -> list[tuple[FileStatus, FileStatus]]:
    """Files that were found at or below ``source``, each with how it is to lie at ``destination``.

    ``UnavailableError``: the answer cannot be one to that question; nothing of it may be believed.
    """
    found = []
    for file in files:
        if file.is_folder:
            continue
        path = PurePosixPath(file.path)
        if not path.is_relative_to(source) or ".." in path.parts or not file.sha256:
            raise UnavailableError(f"asked for {source!r}, the site offers {file.path[:60]!r}")
        below = PurePosixPath(destination) / path.relative_to(source)
        found.append((file, replace(file, path=str(below))))
    return found


async def as_announced(
    chunks: AsyncIterator[OutputChunk], status: FileStatus, offset: int
) -> AsyncIterator[OutputChunk]:
    """What comes of a file from ``offset`` on, as far as it can be the one that was announced.

    ``ConflictError``: a piece that was not asked for, or one that lies behind the announced size,
    before it is written anywhere: no disk is filled with what nobody has announced.
    """
    async with closing(chunks) as pieces:
        async for chunk in pieces:
            if chunk.offset != offset:
                raise ConflictError(
                    f"of {status.path[:80]!r} comes what begins at {chunk.offset}, not at {offset}",
                    hint="nothing of it was kept; tell whoever runs the site",
                )
            offset += len(chunk.content)
            if offset > status.size_bytes:
                raise ConflictError(
                    f"{status.path[:80]!r} is longer than the {status.size_bytes} bytes announced",
                    hint="nothing of it was kept; try again when nothing writes to it any more",
                )
            yield chunk


async def what_is_there(port: SitePort, area: str) -> dict[str, FileStatus]:
    """Files of an area by path, with checksums, whole or in part: what ``deliver`` goes on from."""
    files = await port.list_files(area, "", with_checksums=True)
    return {each.path.removesuffix(PART_SUFFIX): each for each in files if not each.is_folder}


async def some_at_once(work: Callable[[F], Awaitable[T]], items: Sequence[F]) -> list[T]:
    """Do ``work`` for every item, ``AT_ONCE`` at a time; the first fault ends the others."""
    results: dict[int, T] = {}
    waiting = enumerate(items)

    async def worker() -> None:
        for position, item in waiting:
            results[position] = await work(item)

    workers = [asyncio.create_task(worker()) for _ in range(min(AT_ONCE, len(items)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for each in workers:
            each.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[position] for position in range(len(items))]


async def _arrived(port: SitePort, area: str, destination: str) -> int:
    """Bytes of an interrupted delivery that the site has kept."""
    folder = str(PurePosixPath(destination).parent)
    with suppress(NotFoundError):
        files = await port.list_files(area, "" if folder == "." else folder, with_checksums=False)
        for each in files:
            if each.path == destination + PART_SUFFIX:
                return each.size_bytes
    return 0
