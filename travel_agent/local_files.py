"""The files on this computer that a trip takes along, with what its sites are told of them.

A site learns the size and the checksum of each input with the hold of its leg. Each file is read
for that once in a command, before anything is held: while nodes are held nobody waits for a disk.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.inputs import InputFile, check_inputs
from gridtravel.gridcore.jobs.tasks import StagedFile, TaskSpec
from gridtravel.gridcore.ports import FileStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalInput:
    """An input of a task, where it lies here and as it is to be at the site."""

    source: Path
    status: FileStatus

    @property
    def file(self) -> InputFile:
        """What the site is told."""
        status = self.status
        return InputFile(path=status.path, size_bytes=status.size_bytes, sha256=status.sha256)


class LocalInputs:
    """The inputs of a trip's tasks. ``base``: where relative paths begin."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._checksums: dict[tuple[Path, int, int], str] = {}
        """By file, size and time of its last change."""

    async def of(self, task: TaskSpec | None) -> tuple[LocalInput, ...]:
        """What a task stages in. ``InputError``: a file is not there, or cannot be read, or there
        are too many.
        """
        if task is None or not task.stage_in:
            return ()
        return await asyncio.to_thread(self._look, task)

    def _look(self, task: TaskSpec) -> tuple[LocalInput, ...]:
        files = [each for staged in task.stage_in for each in files_of(staged, self.base)]
        found = tuple(self._look_at(source, path) for source, path in files)
        check_inputs(tuple(each.file for each in found))
        return found

    def _look_at(self, source: Path, path: str) -> LocalInput:
        try:
            status = source.stat()
            key = (source, status.st_size, status.st_mtime_ns)
            if key not in self._checksums:
                self._checksums[key] = checksum_of(source)
        except OSError as fault:
            raise InputError(f"cannot read {source}: {fault.strerror}") from fault
        return LocalInput(
            source=source,
            status=FileStatus(
                path=str(PurePosixPath(path)),
                size_bytes=status.st_size,
                mode=status.st_mode & 0o777,
                sha256=self._checksums[key],
            ),
        )


def whole_path(folder: Path) -> str:
    """A folder as it can be found again from wherever another command is given."""
    return str(folder.absolute())


def files_of(staged: StagedFile, base: Path) -> list[tuple[Path, str]]:
    """The files behind one entry to stage in, each with its path at the site."""
    source = base / Path(staged.source).expanduser()
    if source.is_file():
        return [(source, staged.destination)]
    if source.is_dir():
        files = sorted(each for each in source.rglob("*") if each.is_file())
        root = PurePosixPath(staged.destination)
        return [(each, str(root / each.relative_to(source).as_posix())) for each in files]
    raise InputError(f"there is no file {source} to stage in")


def checksum_of(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
