"""Files of reservations and jobs at a far end: moved by SFTP, checked by the far end's own sums.

What the agent's areas promise holds here too: a file is whole or not there, an upload goes on where
it broke off, and nothing is read or written outside of the area's folder. Links are not listed; the
far end acts as the user alone, so one that leads elsewhere leads to the user's own files.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import partial
from pathlib import PurePosixPath
from typing import Final

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk
from gridtravel.gridio.batch.running import FarFile, FarFiles, found_or_missing
from gridtravel.gridio.batch.shell import Answer, Shell

CHUNK_BYTES: Final = 1 << 20
PATH_DEPTH_MAX: Final = 32
FILES_MAX: Final = 20_000
SMALL_BYTES: Final = 64 * 1024
"""Files up to here are sent within one question, which is one way to the site and back, not eight.
"""
SUMS_AT_ONCE: Final = 2_000
"""Files of one command; at most a few hundred kilobytes of names."""

_SUMS: Final = 'cd "areas/$1" && shift && b_part sums && b_sums "$@"'
_FINISH: Final = (
    'cd "areas/$1" || exit 1\n'
    'b_part sums; b_found=$(b_sums "./$2$5"); b_found=${b_found%% *}; b_found=${b_found#\\\\}\n'
    'if [ -n "$4" ] && [ "$b_found" != "$4" ]; then rm -f "./$2$5"; echo damaged; exit 0; fi\n'
    '[ ! -d "./$2" ] || b_fail "$2 is a folder there"\n'
    'chmod "$3" "./$2$5" && mv "./$2$5" "./$2" || b_fail "cannot write $2"; echo "$b_found"'
)
"""Area, path, mode, checksum (or empty), ending of a part."""
_SMALL: Final = (
    'mkdir -p "areas/$1/$6" && printf "%s" "$7" | base64 -d > "areas/$1/$2$5"'
    ' || b_fail "cannot write $2: is the disk full?"\n' + _FINISH
)
"""The same, with the folder, and the whole content."""


class FarAreas:
    """The folders below one far end's ``areas``."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._root = f"{shell.options.folder}/areas"

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Everything below ``path``, folders before what is in them."""
        base = "/".join(_parts(path)) if path not in ("", ".") else ""
        try:
            found = await self._shell.runner.with_files(lambda far: self._walk(far, area, base))
        except (FileNotFoundError, NotADirectoryError):
            if base:
                raise NotFoundError(
                    f"there is no folder {path!r} in {area}",
                    hint="list the files of the folder above to see what is there",
                ) from None
            return []
        except OSError as fault:
            raise UnavailableError(f"cannot list {area}: {fault}") from None
        if not with_checksums:
            return found
        sums = await self._sums(area, [each.path for each in found if not each.is_folder])
        return [_with_sum(each, sums.get(each.path, "")) for each in found]

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """The file's bytes from ``offset`` on."""
        name = self._path(area, path)
        with_files = self._shell.runner.with_files
        what = f"file {path!r} in {area}"
        file = await found_or_missing(with_files(lambda far: _open(far, name)), what)
        try:
            while content := await with_files(partial(_read, file, offset)):
                yield OutputChunk(offset=offset, content=content)
                offset += len(content)
        finally:
            await with_files(lambda _: file.close())

    async def put_file(
        self, area: str, path: str, chunks: AsyncIterator[OutputChunk], *, mode: int, sha256: str
    ) -> FileStatus:
        """Write a part, have it summed up there, and give it its name."""
        parts = _parts(path)
        clean = "/".join(parts)
        with_files = self._shell.runner.with_files
        await self._shell.begin()
        content, chunks = await _begin(chunks)
        if content is not None:
            folder, text = "/".join(parts[:-1]), base64.b64encode(content).decode()
            words = (area, clean, f"{mode & 0o777:o}", sha256, PART_SUFFIX, folder, text)
            return self._stored(await self._shell.ask(_SMALL, *words), path, mode, len(content))
        try:
            await with_files(lambda far: _make_folders(far, self._root, [area, *parts[:-1]]))
            name = f"{self._root}/{area}/{clean}{PART_SUFFIX}"
            size = await with_files(lambda far: _size_of(far, name))
            file = await with_files(lambda far: far.open(name, to_write=True))
            try:
                size = await self._receive(file, chunks, size, path)
            finally:
                await with_files(lambda _: file.close())
        except OSError as fault:
            raise UnavailableError(f"cannot write {path!r} there: {fault}") from None
        answer = await self._shell.ask(
            _FINISH, area, clean, f"{mode & 0o777:o}", sha256, PART_SUFFIX
        )
        return self._stored(answer, path, mode, size)

    def _stored(self, answer: Answer, path: str, mode: int, size: int) -> FileStatus:
        (found,) = answer.lines("sums") or [""]
        if found == "damaged":
            raise ConflictError(
                f"{path!r} arrived damaged: its checksum is not the sender's", hint="send it again"
            )
        return FileStatus(path=path, size_bytes=size, mode=mode & 0o777, sha256=found)

    async def read_on(self, area: str, path: str, offset: int) -> bytes:
        """What a growing file has from ``offset`` on, up to a chunk; or nothing."""
        name = self._path(area, path)

        def read(far: FarFiles) -> bytes:
            try:
                file = far.open(name, to_write=False)
            except FileNotFoundError:
                return b""
            try:
                return file.read_at(offset, CHUNK_BYTES)
            finally:
                file.close()

        return await self._shell.runner.with_files(read)

    # -- inside ------------------------------------------------------------------------------------

    def _path(self, area: str, path: str) -> str:
        return f"{self._root}/{area}/{'/'.join(_parts(path))}"

    async def _receive(
        self, file: FarFile, chunks: AsyncIterator[OutputChunk], size: int, path: str
    ) -> int:
        """Write the chunks where they belong; returns the size reached. Only whole pieces count."""
        with_files = self._shell.runner.with_files
        is_first = True
        async for chunk in chunks:
            if is_first and chunk.offset <= size:
                await with_files(partial(_truncate, file, chunk.offset))
                size = chunk.offset
            is_first = False
            if chunk.offset != size:
                raise InputError(
                    f"{path!r}: a piece at {chunk.offset} does not follow on {size} bytes",
                    hint="ask for the size that is there, and go on from it",
                )
            await with_files(partial(_write, file, chunk))
            size += len(chunk.content)
        if is_first:
            await with_files(partial(_truncate, file, 0))
            size = 0
        return size

    def _walk(self, far: FarFiles, area: str, base: str) -> list[FileStatus]:
        found: list[FileStatus] = []
        waiting = [base]
        while waiting:
            folder = waiting.pop(0)
            for each in sorted(
                far.folder(f"{self._root}/{area}/{folder}"), key=lambda one: one.name
            ):
                path = f"{folder}/{each.name}" if folder else each.name
                if each.is_folder:
                    waiting.append(path)
                elif not each.is_file:
                    continue
                found.append(
                    FileStatus(
                        path=path,
                        size_bytes=0 if each.is_folder else each.size_bytes,
                        is_folder=each.is_folder,
                        mode=each.mode & 0o777,
                    )
                )
                if len(found) > FILES_MAX:
                    raise InputError(
                        f"more than {FILES_MAX} files below {base!r}", hint="ask for a subfolder"
                    )
        return found

    async def _sums(self, area: str, paths: list[str]) -> dict[str, str]:
        sums: dict[str, str] = {}
        for first in range(0, len(paths), SUMS_AT_ONCE):
            some = paths[first : first + SUMS_AT_ONCE]
            answer = await self._shell.ask(_SUMS, area, *(f"./{each}" for each in some))
            # A name with a line break in it makes its line begin with a backslash.
            lines = [line.lstrip("\\")[:64] for line in answer.lines("sums")]
            if len(lines) != len(some):
                raise UnavailableError(f"files of {area} changed while they were summed up")
            sums |= dict(zip(some, lines, strict=True))
        return sums


async def _begin(
    chunks: AsyncIterator[OutputChunk],
) -> tuple[bytes | None, AsyncIterator[OutputChunk]]:
    """The content of a small file that comes whole, else ``None``; and all pieces again."""
    first: list[OutputChunk] = []
    size = 0
    async for chunk in chunks:
        first.append(chunk)
        size += len(chunk.content)
        if size > SMALL_BYTES or first[0].offset:
            break
    else:
        return b"".join(each.content for each in first), _again(first, chunks)
    return None, _again(first, chunks)


async def _again(
    first: list[OutputChunk], rest: AsyncIterator[OutputChunk]
) -> AsyncIterator[OutputChunk]:
    for each in first:
        yield each
    async for each in rest:
        yield each


def _with_sum(status: FileStatus, checksum: str) -> FileStatus:
    return FileStatus(
        path=status.path,
        size_bytes=status.size_bytes,
        is_folder=status.is_folder,
        mode=status.mode,
        sha256=checksum,
    )


def _open(far: FarFiles, name: str) -> FarFile:
    """To read; only what is an ordinary file or leads to one."""
    if far.look(name).is_folder:
        raise InputError(
            f"{name!r} is not a file",
            hint="list the files of the folder above to see what is there",
        )
    return far.open(name, to_write=False)


def _read(file: FarFile, offset: int, _: FarFiles) -> bytes:
    return file.read_at(offset, CHUNK_BYTES)


def _write(file: FarFile, chunk: OutputChunk, _: FarFiles) -> None:
    file.write_at(chunk.offset, chunk.content)


def _truncate(file: FarFile, size: int, _: FarFiles) -> None:
    file.truncate(size)


def _size_of(far: FarFiles, name: str) -> int:
    try:
        return far.look(name).size_bytes
    except FileNotFoundError:
        return 0


def _make_folders(far: FarFiles, root: str, parts: list[str]) -> None:
    for depth in range(1, len(parts) + 1):
        name = "/".join([root, *parts[:depth]])
        try:
            far.make_folder(name)
        except OSError:
            # Servers tell an existing folder apart from other faults in their own ways.
            if not far.look(name).is_folder:
                raise


def _parts(path: str) -> list[str]:
    """The components of a path below an area; ``InputError`` for one that leads out of it."""
    clean = PurePosixPath(path)
    parts = list(clean.parts)
    if clean.is_absolute() or not parts or ".." in parts or "\0" in path:
        raise InputError(f"{path[:80]!r} is no path within an area")
    if len(parts) > PATH_DEPTH_MAX:
        raise InputError(f"{path[:80]!r} is deeper than {PATH_DEPTH_MAX} folders")
    return parts
