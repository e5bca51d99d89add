"""Folders in which legs and jobs live, and the files that travel in and out.

An area is the folder of one reservation or one job; a job that runs inside a reservation works in
the reservation's. Paths from outside are relative to the area. Its owner may put anything into it
at any moment, so every touch goes through ``AccountFiles``, with the rights of the account that
owns the area: the kernel decides what may be read and written, and nothing that lies there is lent
the rights of the daemon. The daemon itself makes and removes only the areas, in a folder that
nobody else can change.

Before something is written, it is seen that the area keeps within its limit and that the disk keeps
what is reserved for the site's records (docs/decisions/0027).
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import pwd
import stat
from collections.abc import AsyncIterator, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from gridtravel.gridcore.errors import (
    ConflictError,
    GridError,
    InputError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.ports import FileStatus, OutputChunk
from gridtravel.gridio.system.disk_reserve import DiskReserve
from gridtravel.local_sched.accounts.account_files import AccountFiles
from gridtravel.local_sched.accounts.folder_calls import (
    DESCRIPTORS_A_REPLY,
    FolderMissingError,
    FolderRefusedError,
)

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 256 * 1024
"""One message of a transfer: large enough to be cheap, small enough for the message limit."""
CHECKSUM_BYTES: Final = 32 * 1024 * 1024
"""Content that one step of a checksum takes in; between two steps whoever asked may have gone."""
PATH_DEPTH_MAX: Final = 32
FILES_MAX: Final = 20_000
ROOT_MODE: Final = 0o711
"""Of the folder that holds the areas: whoever has one there passes through, nobody sees which."""
MEASURE_EVERY_BYTES: Final = 64 * 1024 * 1024
"""An area with a limit is measured again when so much, or an eighth of the limit, has arrived."""
ASK_AGAIN: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What the system says of itself, and not of the file that was asked for."""


@dataclass(slots=True)
class _Filling:
    """How full an area is."""

    used_bytes: int
    arrived_bytes: int = 0
    """Since it was measured."""


class WorkDirs:
    """All areas of one agent, below one folder."""

    def __init__(
        self,
        root: Path,
        *,
        owned_by_login: bool,
        files: AccountFiles,
        reserve: DiskReserve | None = None,
        site: str = "the site",
    ) -> None:
        """``owned_by_login``: tasks run as their owners; it takes root to hand folders over.
        ``reserve``: on the disk of the areas; ``None``: nothing is reserved.
        """
        self._root = root
        self._owned_by_login = owned_by_login and os.geteuid() == 0
        self._files = files
        self._reserve = reserve
        self._site = site
        self._filling: dict[str, _Filling] = {}
        """Of areas with a limit that something was put into."""

    def check_room(self) -> None:
        """Raise ``UnavailableError`` when the disk has no more than what is reserved."""
        if self._reserve is not None:
            self._reserve.check(self._site)

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
        since the epoch); returns their names. What an account has put into another's area stays,
        and is logged.
        """
        removed = []
        for area in await asyncio.to_thread(self._forgotten, keep, before):
            path = self._root / area
            self._filling.pop(area, None)
            try:
                left = ""
                async for facts, _ in self._files.replies(self._owner(area), "empty_folder", path):
                    left = facts["left"]
                if left:
                    log.warning("%s is not removed: %r in it is not its owner's", path, left)
                    continue
                path.rmdir()
            except (OSError, GridError, FolderMissingError) as fault:
                log.warning("%s is not removed: %s", path, fault)
                continue
            removed.append(area)
        return removed

    def _forgotten(self, keep: Container[str], before: float) -> list[str]:
        if not self._root.is_dir():
            return []
        return [
            area.name
            for area in sorted(self._root.iterdir())
            if area.name not in keep
            and not area.is_symlink()
            and area.is_dir()
            and area.stat().st_mtime < before
        ]

    async def list_files(self, area: str, path: str, *, with_checksums: bool) -> list[FileStatus]:
        """Everything below ``path``, folders before what is in them; a file alone at its path. With
        a checksum, size and mode are those of the very file that the checksum is of.
        """
        if not self.path_of(area).is_dir():
            return []
        parts = [] if path in ("", ".") else _parts(path)
        entries: list[tuple[str, bool, int, int]] = []
        with _told(area, path, "there is no folder for"):
            async for facts, _ in self._files.replies(
                self._owner(area),
                "list_folder",
                self.path_of(area),
                parts=parts,
                entries_max=FILES_MAX,
            ):
                entries += facts["entries"]
        found = [
            FileStatus(
                path=str(PurePosixPath(*parts, below)),
                size_bytes=size,
                is_folder=is_folder,
                mode=mode,
            )
            for below, is_folder, size, mode in entries
        ]
        return await self._with_checksums(area, found) if with_checksums else found

    async def get_file(self, area: str, path: str, offset: int) -> AsyncIterator[OutputChunk]:
        """The file's bytes from ``offset`` on, in chunks; an empty rest gives nothing."""
        descriptor = await self._open(area, path)
        try:
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
        area_max_bytes: int | None = None,
    ) -> FileStatus:
        """Write a file, all or nothing. A first chunk with an offset goes on where a part ended.

        ``area_max_bytes``: the most that the area may hold with it; ``InputError`` beyond.
        """
        self.folder(area, login)
        parts = _parts(path)
        root, owner = self.path_of(area), self._owner(area)
        with _told(area, path, "there is no folder for"):
            _, descriptors = await self._files.ask(owner, "open_part", root, parts=parts)
        descriptor = descriptors[1]
        try:
            with _told(area, path, "cannot write"):
                size = await self._receive(area, descriptor, chunks, path, area_max_bytes)
                found = await _checksum(descriptor, is_synced=True)
                is_whole = not sha256 or found == sha256
                last = {"mode": mode & 0o777} if is_whole else {}
                await self._files.ask(
                    owner,
                    "place_part" if is_whole else "drop_part",
                    root,
                    descriptors=descriptors,
                    name=parts[-1],
                    **last,
                )
        finally:
            for each in descriptors:
                os.close(each)
        if not is_whole:
            raise ConflictError(
                f"{path!r} arrived damaged: its checksum is not the sender's",
                hint="send it again",
            )
        return FileStatus(path=path, size_bytes=size, mode=mode & 0o777, sha256=found)

    async def _receive(
        self,
        area: str,
        descriptor: int,
        chunks: AsyncIterator[OutputChunk],
        path: str,
        area_max_bytes: int | None,
    ) -> int:
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
            self.check_room()
            if area_max_bytes is not None:
                await self._check_area(area, len(chunk.content), area_max_bytes)
            await asyncio.to_thread(_write_all, descriptor, chunk.content, size)
            size += len(chunk.content)
        return size

    async def _check_area(self, area: str, more_bytes: int, most_bytes: int) -> None:
        """Refuse what would fill the area beyond its limit. What jobs write there counts too, so it
        is measured again and again; what arrives in between is added up.
        """
        known = self._filling.get(area)
        step = min(MEASURE_EVERY_BYTES, most_bytes // 8)
        if (
            known is None
            or known.arrived_bytes >= step
            or _goes_over(known, more_bytes, most_bytes)
        ):
            facts, _ = await self._files.ask(
                self._owner(area), "measure_folder", self.path_of(area)
            )
            known = self._filling[area] = _Filling(used_bytes=facts["used_bytes"])
        if _goes_over(known, more_bytes, most_bytes):
            raise InputError(
                f"{area} is full: what lies in it takes {known.used_bytes >> 20} MiB of the"
                f" {most_bytes >> 20} MiB that {self._site} allows",
                hint="stage less, or ask the site's administrators",
            )
        known.arrived_bytes += more_bytes

    # -- inside ------------------------------------------------------------------------------------

    def _owner(self, area: str) -> int:
        """The number of the account that owns the area: nobody but the daemon can change that."""
        try:
            return os.stat(self.path_of(area), follow_symlinks=False).st_uid
        except FileNotFoundError:
            raise NotFoundError(
                f"{area} has no files", hint="nothing was staged in, and no job has left anything"
            ) from None

    async def _open(self, area: str, path: str) -> int:
        """A descriptor of one file, to read."""
        parts = _parts(path)
        with _told(area, path, "there is no file"):
            _, (descriptor,) = await self._files.ask(
                self._owner(area), "open_file", self.path_of(area), parts=parts
            )
        return descriptor

    async def _with_checksums(self, area: str, listed: list[FileStatus]) -> list[FileStatus]:
        """The same with their checksums; what cannot be read any more is as it was listed."""
        owner, root = self._owner(area), self.path_of(area)
        found = {each.path: each for each in listed}
        files = [each for each in listed if not each.is_folder]
        for first in range(0, len(files), DESCRIPTORS_A_REPLY):
            some = files[first : first + DESCRIPTORS_A_REPLY]
            paths = [list(PurePosixPath(each.path).parts) for each in some]
            with _told(area, some[0].path, "there is no file"):
                facts, descriptors = await self._files.ask(owner, "open_files", root, paths=paths)
            try:
                sums = await _checksums(descriptors)
                for number, descriptor, checksum in zip(
                    facts["numbers"], descriptors, sums, strict=True
                ):
                    path, now = some[number].path, os.fstat(descriptor)
                    found[path] = FileStatus(
                        path=path,
                        size_bytes=now.st_size,
                        mode=stat.S_IMODE(now.st_mode),
                        sha256=checksum,
                    )
            finally:
                for each in descriptors:
                    os.close(each)
        return list(found.values())


@contextmanager
def _told(area: str, path: str, missing: str) -> Iterator[None]:
    """What goes wrong in an area, as a fault of the grid."""
    try:
        yield
    except FolderMissingError:
        raise NotFoundError(
            f"{missing} {path!r} in {area}",
            hint="list the files of the folder above to see what is there",
        ) from None
    except FolderRefusedError as fault:
        raise InputError(f"{path!r} in {area} {fault}") from None
    except OSError as fault:
        if fault.errno in ASK_AGAIN:
            raise UnavailableError(f"cannot write {path!r}: {fault.strerror}") from fault
        raise InputError(f"cannot touch {path!r} in {area}: {fault.strerror}") from fault


def _goes_over(known: _Filling, more_bytes: int, most_bytes: int) -> bool:
    return known.used_bytes + known.arrived_bytes + more_bytes > most_bytes


def _account_of(login: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(login)
    except KeyError:
        raise ConflictError(
            f"the site has mapped you to {login!r}, but its machine has no such account",
            hint="ask whoever runs the site to make the account or correct its grid-mapfile",
        ) from None


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


async def _checksum(descriptor: int, *, is_synced: bool = False) -> str:
    """Of a file's whole content; with ``is_synced`` that is on the disk, too."""
    digest = hashlib.sha256()
    at = await asyncio.to_thread(_take_in, digest, descriptor, 0, is_synced)
    while at % CHECKSUM_BYTES == 0 and at > 0:
        # A file with holes may be longer than any disk: it ends when nobody waits for it any more.
        reached = await asyncio.to_thread(_take_in, digest, descriptor, at)
        if reached == at:
            break
        at = reached
    return digest.hexdigest()


async def _checksums(descriptors: Sequence[int]) -> list[str]:
    """Of several files; the small ones are read at once."""
    sizes = [os.fstat(each).st_size for each in descriptors]
    if sum(sizes) <= CHECKSUM_BYTES:
        return await asyncio.to_thread(_all_at_once, descriptors)
    return [await _checksum(each) for each in descriptors]


def _all_at_once(descriptors: Sequence[int]) -> list[str]:
    found = []
    for each in descriptors:
        digest = hashlib.sha256()
        _take_in(digest, each, 0)
        found.append(digest.hexdigest())
    return found


def _take_in(digest: hashlib._Hash, descriptor: int, at: int, is_synced: bool = False) -> int:
    """Up to ``CHECKSUM_BYTES`` from ``at`` on; how far that reached."""
    if is_synced:
        os.fsync(descriptor)
    until = at + CHECKSUM_BYTES
    while at < until and (content := os.pread(descriptor, min(1 << 20, until - at), at)):
        digest.update(content)
        at += len(content)
    return at
