"""What the daemon does in a folder that belongs to somebody else: a task's working folder, which
its owner may change in any way at any moment.

Each call goes from descriptor to descriptor, follows no link, and hands out descriptors of what it
has looked at, so that nothing is named twice. It has the rights of the process that makes it:
``folder_worker`` makes it as the folder's owner, so the kernel judges, and the owner's links lend
nobody the daemon's rights. ``Rights.uid`` names that owner: then only what is his is touched, and
nothing on another file system, which may be one that he himself answers for (FUSE) and never
answers.

Standard library alone, and no ``typing`` at run time: each worker pays for what is imported here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Reply = tuple[dict[str, Any], list[int]]
    """A part of an answer, and descriptors that belong to whoever receives it."""
    FolderCall = Callable[..., Iterator[Reply]]

PART_SUFFIX = ".part"
"""Of a file that is still arriving."""
DEPTH_MAX = 32
"""Folders inside each other that are looked into; no path from outside is longer."""
ENTRIES_A_REPLY = 32
DESCRIPTORS_A_REPLY = 32
REMOVED_A_REPLY = 100
REMOVED_MAX = 1_000_000
"""Files and folders removed by one call: what is still making them cannot keep it busy for ever."""
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderMissingError(Exception):
    """There is no such file or folder, or none that is the owner's."""


class FolderRefusedError(Exception):
    """It is something else than was asked for; the text says what."""


class OwnedTree:
    """One folder and what is below it."""

    def __init__(self, root: str, uid: int | None) -> None:
        self._root = root
        self._uid = uid
        self._device = -1

    @contextlib.contextmanager
    def folder(self, parts: list[str]) -> Iterator[int]:
        """A descriptor (a place, not to be read) of a folder, reached through no link."""
        try:
            descriptor = os.open(self._root, _FOLDER)
        except OSError:
            raise FolderMissingError from None
        try:
            self._device = os.fstat(descriptor).st_dev
            for part in ("", *parts):
                if part:
                    deeper = _enter(part, descriptor)
                    os.close(descriptor)
                    descriptor = deeper
                if not self.is_own(os.fstat(descriptor)):
                    raise FolderMissingError
            yield descriptor
        finally:
            os.close(descriptor)

    def is_own(self, status: os.stat_result) -> bool:
        """True for what may be touched."""
        if self._uid is None:
            return True
        return status.st_uid == self._uid and status.st_dev == self._device

    def open_file(self, name: str, above: int, flags: int) -> int:
        """A descriptor of a regular file. It is looked at before it is opened: opening a device or
        a pipe already does something.
        """
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            status = os.fstat(place)
            if stat.S_ISLNK(status.st_mode):
                raise FolderRefusedError("is a link, and none is followed")
            if not stat.S_ISREG(status.st_mode):
                raise FolderRefusedError("is not a file")
            if not self.is_own(status):
                raise FolderRefusedError("belongs to another login")
            return _reopen(place, flags)
        finally:
            os.close(place)


def open_file(root: str, uid: int | None, parts: list[str]) -> Iterator[Reply]:
    """A descriptor of a file, to read."""
    tree = OwnedTree(root, uid)
    with tree.folder(parts[:-1]) as above, _missing():
        descriptor = tree.open_file(parts[-1], above, os.O_RDONLY)
    yield {}, [descriptor]


def open_files(root: str, uid: int | None, paths: list[list[str]]) -> Iterator[Reply]:
    """Descriptors of several files, to read, and which of ``paths`` they are of: those that are
    not there, or are no files, have none. At most ``DESCRIPTORS_A_REPLY``.
    """
    tree = OwnedTree(root, uid)
    found: list[int] = []
    numbers = []
    for number, parts in enumerate(paths[:DESCRIPTORS_A_REPLY]):
        with contextlib.suppress(OSError, FolderMissingError, FolderRefusedError):
            with tree.folder(parts[:-1]) as above:
                found.append(tree.open_file(parts[-1], above, os.O_RDONLY))
            numbers.append(number)
    yield {"numbers": numbers}, found


def open_part(root: str, uid: int | None, parts: list[str]) -> Iterator[Reply]:
    """Descriptors of the folder and of the file in which content arrives; both are made where they
    are missing, with rights for their owner alone.
    """
    tree = OwnedTree(root, uid)
    for depth in range(len(parts) - 1):
        with tree.folder(parts[:depth]) as above:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parts[depth], 0o700, dir_fd=above)
            found = os.stat(parts[depth], dir_fd=above, follow_symlinks=False)
            if not stat.S_ISDIR(found.st_mode):
                raise FolderRefusedError(f"leads through {parts[depth]!r}, which is no folder")
    name = parts[-1] + PART_SUFFIX
    with tree.folder(parts[:-1]) as above:
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=above, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and not tree.is_own(status):
                os.unlink(name, dir_fd=above)  # a link to a file that lives elsewhere
        try:
            part = os.open(name, _NEW_FILE, 0o600, dir_fd=above)
        except FileExistsError:
            part = tree.open_file(name, above, os.O_RDWR)
        folder = os.dup(above)
    yield {}, [folder, part]


def place_part(
    root: str, uid: int | None, name: str, mode: int, descriptors: list[int]
) -> Iterator[Reply]:
    """What has arrived gets its mode and its name: the descriptors are those of ``open_part``."""
    folder, part = descriptors
    _check_part(name, folder, part)
    os.fchmod(part, mode)
    os.rename(name + PART_SUFFIX, name, src_dir_fd=folder, dst_dir_fd=folder)
    yield {}, []


def drop_part(root: str, uid: int | None, name: str, descriptors: list[int]) -> Iterator[Reply]:
    """What has arrived is of no use."""
    folder, part = descriptors
    _check_part(name, folder, part)
    os.unlink(name + PART_SUFFIX, dir_fd=folder)
    yield {}, []


def list_folder(root: str, uid: int | None, parts: list[str], entries_max: int) -> Iterator[Reply]:
    """Everything below a folder, each folder before what is in it; a file alone, with an empty
    name. An entry is its path below ``parts``, whether it is a folder, its size and its mode. More
    than ``entries_max`` are refused.
    """
    tree = OwnedTree(root, uid)
    if parts:
        with tree.folder(parts[:-1]) as above, _missing():
            status = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and tree.is_own(status):
                yield {"entries": [_entry("", status)]}, []
                return
    entries: list[list[Any]] = []
    count = 0
    with tree.folder(parts) as base:
        for path, status in _walk(tree, base, "", 0):
            count += 1
            if count > entries_max:
                raise FolderRefusedError(f"has more than {entries_max} files below it")
            entries.append(_entry(path, status))
            if len(entries) == ENTRIES_A_REPLY:
                yield {"entries": entries}, []
                entries = []
    yield {"entries": entries}, []


def measure_folder(root: str, uid: int | None) -> Iterator[Reply]:
    """The room that everything below a folder takes on its disk, in bytes. What is named twice
    counts twice, which is never too little.
    """
    used = 0
    tree = OwnedTree(root, uid)
    with tree.folder([]) as base:
        for _path, status in _walk(tree, base, "", 0):
            used += status.st_blocks * 512
    yield {"used_bytes": used}, []


def empty_folder(root: str, uid: int | None) -> Iterator[Reply]:
    """Remove what is in a folder, as far as its owner may; what is left is told by a name."""
    tree = OwnedTree(root, uid)
    with tree.folder([]) as base:
        os.chmod(f"/proc/self/fd/{base}", 0o700)
        descriptor = _reopen(base, os.O_RDONLY | os.O_DIRECTORY)
        try:
            waiting, numbers, left = os.listdir(descriptor), itertools.count(), ""
            for count in range(REMOVED_MAX):
                if not waiting:
                    break
                name = waiting.pop()
                try:
                    waiting += _remove(tree, name, descriptor, numbers)
                except (OSError, FolderMissingError):
                    left = name
                if count % REMOVED_A_REPLY == 0:
                    yield {"left": left}, []
        finally:
            os.close(descriptor)
    yield {"left": left or "".join(waiting[:1])}, []


def try_paths(root: str, uid: int | None, folders: list[str], files: list[str]) -> Iterator[Reply]:
    """The first of the folders that cannot be passed, and of the files that cannot be read."""
    closed = next((each for each in folders if not os.access(each, os.X_OK)), "")
    unread = next((each for each in files if not os.access(each, os.R_OK)), "")
    yield {"closed": closed, "unread": unread}, []


CALLS: dict[str, FolderCall] = {
    each.__name__: each
    for each in (
        open_file,
        open_files,
        open_part,
        place_part,
        drop_part,
        list_folder,
        measure_folder,
        empty_folder,
        try_paths,
    )
}


# -- inside ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _missing() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise FolderMissingError from None


def _enter(name: str, above: int) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=above)
    except OSError:
        raise FolderMissingError from None


def _reopen(place: int, flags: int) -> int:
    """Open the very file or folder that the descriptor stands for."""
    own_name = f"/proc/self/fd/{place}"
    return os.open(own_name, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _check_part(name: str, folder: int, part: int) -> None:
    """Its owner has not put something else in its place meanwhile. (He may still, and harms nobody
    but himself.)
    """
    try:
        found = os.stat(name + PART_SUFFIX, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        raise FolderRefusedError("was taken away while it arrived") from None
    if not os.path.samestat(found, os.fstat(part)):
        raise FolderRefusedError("was replaced while it arrived")


def _entry(path: str, status: os.stat_result) -> list[Any]:
    is_folder = stat.S_ISDIR(status.st_mode)
    size = 0 if is_folder else status.st_size
    return [path, is_folder, size, stat.S_IMODE(status.st_mode)]


def _walk(
    tree: OwnedTree, place: int, above: str, depth: int
) -> Iterator[tuple[str, os.stat_result]]:
    """What is the owner's below ``place``, sorted, a folder's folders first; links and what cannot
    be looked into are passed over.
    """
    try:
        descriptor = _reopen(place, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        with os.scandir(descriptor) as found:
            names = sorted(each.name for each in found)
        folders: list[tuple[str, os.stat_result]] = []
        others: list[tuple[str, os.stat_result]] = []
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if tree.is_own(status) and not stat.S_ISLNK(status.st_mode):
                    kind = folders if stat.S_ISDIR(status.st_mode) else others
                    kind.append((name, status))
        for name, status in (*folders, *others):
            yield os.path.join(above, name), status
        if depth == DEPTH_MAX:
            return
        for name, _ in folders:
            try:
                deeper = _enter(name, descriptor)
            except FolderMissingError:
                continue
            try:
                if tree.is_own(os.fstat(deeper)):
                    yield from _walk(tree, deeper, os.path.join(above, name), depth + 1)
            finally:
                os.close(deeper)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _changeable(tree: OwnedTree, name: str, above: int) -> Iterator[int]:
    """A descriptor of a folder in which its owner may now remove, whatever its mode was."""
    place = _enter(name, above)
    try:
        if not tree.is_own(os.fstat(place)):
            raise FolderMissingError
        os.chmod(f"/proc/self/fd/{place}", 0o700)
        folder = _reopen(place, os.O_RDONLY | os.O_DIRECTORY)
    finally:
        os.close(place)
    try:
        yield folder
    finally:
        os.close(folder)


def _remove(tree: OwnedTree, name: str, above: int, numbers: Iterator[int]) -> list[str]:
    """Remove a file, or a folder with its files. The folders in it are moved up beside it first,
    under new names, which are returned: so a tree of any depth takes a few descriptors.
    """
    try:
        os.unlink(name, dir_fd=above)
        return []
    except IsADirectoryError:
        moved = []
    with _changeable(tree, name, above) as folder:
        for each in os.listdir(folder):
            try:
                os.unlink(each, dir_fd=folder)
            except IsADirectoryError:
                fresh = f".removed.{os.getpid()}.{next(numbers)}"
                with _changeable(tree, each, folder):  # moving it takes the right to write in it
                    os.rename(each, fresh, src_dir_fd=folder, dst_dir_fd=above)
                moved.append(fresh)
    os.rmdir(name, dir_fd=above)
    return moved
