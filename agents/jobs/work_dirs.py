"""Folders in which legs and jobs live, and the files that travel in and out.

An area is the folder of one reservation or one job; a job that runs inside a reservation works in
the reservation's. Paths from outside are relative to the area, and are opened component by
component without following symbolic links: a task may put any link into its folder, and the daemon
must not follow it to where the task itself could not go.

A daemon that runs tasks as their owners' logins is root, and an area is its login's, mode 0700,
below a folder that only root can change. There the daemon reads, lists and writes what the area's
login owns and nothing else: a hard link to another's file, or another's folder that was moved in,
is not lent the daemon's rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import pwd
import shutil
import stat
from collections.abc import AsyncIterator, Container, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Final

from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError, UnavailableError
from gridtravel.gridcore.ports import PART_SUFFIX, FileStatus, OutputChunk

CHUNK_BYTES: Final = 256 * 1024
"""One message of a transfer: large enough to be cheap, small enough for the message limit."""
PATH_DEPTH_MAX: Final = 32
FILES_MAX: Final = 20_000
ROOT_MODE: Final = 0o711
"""Of the folder that holds the areas: whoever has one there passes through, nobody sees which."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkDirs:
    """All areas of one agent, below one folder."""

    def __init__(self, root: Path, *, owned_by_login: bool) -> None:
        """``owned_by_login``: tasks run as their owners; it takes root to hand folders over."""
        self._root = root
        self._owned_by_login = owned_by_login and os.geteuid() == 0

    def folder(self, area: str, login: str) -> Path:
        """The area's folder, made on first use. Only its owner (and the daemon) can look inside."""
        path = self.path_of(area)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._root.chmod(ROOT_MODE)
            path.mkdir(mode=0o700, exist_ok=True)
            if self._owned_by_login and path.stat().st_uid == os.geteuid():
                # New, or left so by a daemon that died, or by a login that had no account then.
                account = _account_of(login)
                os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)
        except OSError as fault:
            raise UnavailableError(f"cannot make a folder for {area}: {fault.strerror}") from fault
        return path

    def path_of(self, area: str) -> Path:
        """Where the area is, whether it exists or not."""
        if not area or "/" in area or area.startswith("."):
            raise InputError(
                f"{area[:60]!r} is not a reservation or job",
                hint="areas are called as reservations and jobs are: gur status names them",
            )
        return self._root / area

    async def clean(self, keep: Container[str], before: float) -> list[str]:
        """Remove the areas that nobody remembers and nobody has touched since ``before`` (seconds
        since the epoch); returns their names.
        """
        return await asyncio.to_thread(self._clean, keep, before)

    def _clean(self, keep: Container[str], before: float) -> list[str]:
        if not self._root.is_dir():
            return []
        removed = []
        for area in sorted(self._root.iterdir()):
            if area.name in keep or area.is_symlink() or area.stat().st_mtime >= before:
                continue
            shutil.rmtree(area, ignore_errors=True)
            removed.append(area.name)
        return removed

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Everything below ``path``, folders before what is in them; a file alone at its path."""
        return await asyncio.to_thread(self._list, area, path, with_checksums)

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """The file's bytes from ``offset`` on, in chunks; an empty rest gives nothing."""
        descriptor = self._open(area, path, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InputError(
                    f"{path!r} is not a file",
                    hint="list the files of the folder above to see what is there",
                )
            at = offset
            while content := await asyncio.to_thread(os.pread, descriptor, CHUNK_BYTES, at):
                yield OutputChunk(offset=at, content=content)
                at += len(content)
        finally:
            os.close(descriptor)

    async def put_file(
        self,
        area: str,
        login: str,
        path: str,
        chunks: AsyncIterator[OutputChunk],
        *,
        mode: int,
        sha256: str,
    ) -> FileStatus:
        """Write a file, all or nothing. A first chunk with an offset goes on where a part ended."""
        self.folder(area, login)
        parts = _parts(path)
        part_path = str(PurePosixPath(*parts)) + PART_SUFFIX
        try:
            await asyncio.to_thread(self._make_folders, area, parts[:-1])
            descriptor = self._open_part(area, part_path)
        except OSError as fault:
            raise UnavailableError(f"cannot write {path!r}: {fault.strerror}") from fault
        try:
            size = await self._receive(descriptor, chunks, path)
            await asyncio.to_thread(os.fsync, descriptor)
            found = await asyncio.to_thread(_checksum, descriptor)
            if sha256 and found != sha256:
                with self._parent(area, part_path) as (folder, name):
                    os.unlink(name, dir_fd=folder)
                raise ConflictError(
                    f"{path!r} arrived damaged: its checksum is not the sender's",
                    hint="send it again",
                )
            os.fchmod(descriptor, mode & 0o777)
            with self._parent(area, part_path) as (folder, name):
                os.rename(name, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as fault:
            raise UnavailableError(f"cannot write {path!r}: {fault.strerror}") from fault
        finally:
            os.close(descriptor)
        return FileStatus(path=path, size_bytes=size, mode=mode & 0o777, sha256=found)

    async def _receive(self, descriptor: int, chunks: AsyncIterator[OutputChunk], path: str) -> int:
        """Write the chunks where they belong; returns the size reached."""
        size = os.fstat(descriptor).st_size
        is_first = True
        async for chunk in chunks:
            if is_first and chunk.offset <= size:
                os.ftruncate(descriptor, chunk.offset)
                size = chunk.offset
            is_first = False
            if chunk.offset != size:
                raise InputError(
                    f"{path!r}: a piece at {chunk.offset} does not follow on {size} bytes",
                    hint="ask for the size that is there, and go on from it",
                )
            await asyncio.to_thread(_write_all, descriptor, chunk.content, size)
            size += len(chunk.content)
        return size

    # -- inside ------------------------------------------------------------------------------------

    def _list(self, area: str, path: str, with_checksums: bool) -> list[FileStatus]:
        if not self.path_of(area).is_dir():
            return []
        parts = [] if path in ("", ".") else _parts(path)
        if parts:
            with self._parent(area, path) as (above, name):
                status = _status_of(name, above)
            if status is not None and stat.S_ISREG(status.st_mode):
                return [self._entry(area, str(PurePosixPath(*parts)), status, with_checksums)]
        found: list[FileStatus] = []
        with self._folder_at(area, parts, path) as base:
            for folder, folders, files, descriptor in os.fwalk(".", dir_fd=base):
                names = [*sorted(folders), *sorted(files)]
                folders.clear()
                for name in names:
                    status = _status_of(name, descriptor)
                    if status is None or stat.S_ISLNK(status.st_mode):
                        continue
                    if not self._is_of(area, status):
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        folders.append(name)
                    relative = str(PurePosixPath(*parts, folder, name))
                    found.append(self._entry(area, relative, status, with_checksums))
                    if len(found) >= FILES_MAX:
                        raise InputError(
                            f"more than {FILES_MAX} files below {path!r}",
                            hint="ask for a subfolder",
                        )
        return found

    def _entry(
        self, area: str, path: str, status: os.stat_result, with_checksum: bool
    ) -> FileStatus:
        is_folder = stat.S_ISDIR(status.st_mode)
        checksum = ""
        if with_checksum and stat.S_ISREG(status.st_mode):
            checksum = self._checksum_of(area, path)
        return FileStatus(
            path=path,
            size_bytes=0 if is_folder else status.st_size,
            is_folder=is_folder,
            mode=stat.S_IMODE(status.st_mode),
            sha256=checksum,
        )

    def _checksum_of(self, area: str, path: str) -> str:
        descriptor = self._open(area, path, os.O_RDONLY)
        try:
            return _checksum(descriptor)
        finally:
            os.close(descriptor)

    def _open(self, area: str, path: str, flags: int) -> int:
        with self._parent(area, path) as (folder, name):
            try:
                descriptor = os.open(
                    name,
                    flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK,
                    0o600,
                    dir_fd=folder,
                )
            except FileNotFoundError:
                raise NotFoundError(
                    f"there is no file {path!r} in {area}",
                    hint="list the files of the folder above to see what is there",
                ) from None
            except OSError as fault:
                raise InputError(
                    f"cannot open {path!r} in {area}: {fault.strerror}",
                    hint="list the files of the folder above to see what is there",
                ) from fault
        if not self._is_of(area, os.fstat(descriptor)):
            os.close(descriptor)
            raise InputError(f"{path!r} in {area} belongs to another login")
        return descriptor

    def _open_part(self, area: str, path: str) -> int:
        """The file in which content arrives: its login's from the first byte, whoever writes it."""
        if not self._owned_by_login:
            return self._open(area, path, os.O_RDWR | os.O_CREAT)
        with self._parent(area, path) as (folder, name):
            status = _status_of(name, folder)
            if (
                status is not None
                and stat.S_ISREG(status.st_mode)
                and not self._is_of(area, status)
            ):
                os.unlink(name, dir_fd=folder)  # the task's link to a file that lives elsewhere
            try:
                made = os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
            except FileExistsError:
                return self._open(area, path, os.O_RDWR)
        try:
            self._give(made, area)
        except BaseException:
            os.close(made)
            raise
        return made

    @contextmanager
    def _parent(self, area: str, path: str) -> Iterator[tuple[int, str]]:
        """A descriptor of the folder that holds ``path``, reached without following any link."""
        parts = _parts(path)
        with self._folder_at(area, parts[:-1], path) as descriptor:
            yield descriptor, parts[-1]

    @contextmanager
    def _folder_at(self, area: str, parts: list[str], path: str) -> Iterator[int]:
        """A descriptor of a folder of the area, reached without following any link."""
        try:
            descriptor = os.open(self.path_of(area), _FOLDER)
        except OSError:
            raise NotFoundError(
                f"{area} has no files", hint="nothing was staged in, and no job has left anything"
            ) from None
        try:
            for part in parts:
                try:
                    deeper = os.open(part, _FOLDER, dir_fd=descriptor)
                except OSError:
                    raise NotFoundError(
                        f"there is no folder for {path!r} in {area}",
                        hint="list the files of the folder above to see what is there",
                    ) from None
                os.close(descriptor)
                descriptor = deeper
                if not self._is_of(area, os.fstat(descriptor)):
                    raise NotFoundError(
                        f"there is no folder for {path!r} in {area}",
                        hint="list the files of the folder above to see what is there",
                    )
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_folders(self, area: str, parts: list[str]) -> None:
        """Make what is missing, from descriptor to descriptor: the task may put a link in the place
        of any folder at any moment.
        """
        for depth in range(len(parts)):
            with self._folder_at(area, parts[:depth], "/".join(parts)) as above:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(parts[depth], 0o700, dir_fd=above)
                    made = os.open(parts[depth], _FOLDER, dir_fd=above)
                    try:
                        self._give(made, area)
                    finally:
                        os.close(made)
                status = _status_of(parts[depth], above)
                if status is None or not stat.S_ISDIR(status.st_mode):
                    raise InputError(
                        f"{parts[depth]!r} is no folder: files are not put through links"
                    )

    def _give(self, descriptor: int, area: str) -> None:
        """Hand what was just made to the area's owner. What the task has put in its place meanwhile
        stays whose it is: nobody but the daemon can write to what the daemon has made.
        """
        found = os.fstat(descriptor)
        is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if self._owned_by_login and is_ours:
            owner = self._owner(area)
            os.fchown(descriptor, owner.st_uid, owner.st_gid)

    def _owner(self, area: str) -> os.stat_result:
        """Who owns the area: nobody but the daemon can change that."""
        try:
            return os.stat(self.path_of(area), follow_symlinks=False)
        except FileNotFoundError:
            raise NotFoundError(
                f"{area} has no files", hint="nothing was staged in, and no job has left anything"
            ) from None

    def _is_of(self, area: str, status: os.stat_result) -> bool:
        """True for what the daemon may touch in the area; see the top of this file."""
        return not self._owned_by_login or status.st_uid == self._owner(area).st_uid


def _account_of(login: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(login)
    except KeyError:
        raise ConflictError(
            f"the site has mapped you to {login!r}, but its machine has no such account",
            hint="ask whoever runs the site to make the account or correct its grid-mapfile",
        ) from None


def _status_of(name: str, descriptor: int) -> os.stat_result | None:
    """What ``name`` is, not what it links to; ``None`` when it is gone."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _parts(path: str) -> list[str]:
    """The components of a relative path; ``InputError`` for anything that could lead elsewhere."""
    pure = PurePosixPath(path)
    parts = list(pure.parts)
    if not parts or pure.is_absolute() or ".." in parts or len(parts) > PATH_DEPTH_MAX:
        raise InputError(
            f"{path[:80]!r} is not a path within an area", hint="give a relative path without .."
        )
    if any("\0" in part or len(part.encode()) > 200 for part in parts):
        raise InputError(
            f"{path[:80]!r} has a name that no file can have",
            hint="list the files of the folder above to see what is there",
        )
    return parts


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _checksum(descriptor: int) -> str:
    digest = hashlib.sha256()
    at = 0
    while content := os.pread(descriptor, 1 << 20, at):
        digest.update(content)
        at += len(content)
    return digest.hexdigest()
