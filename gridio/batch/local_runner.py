"""The commands of a batch system on this very machine: for use on a login node, and for tests."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gridtravel.gridcore.errors import DeadlineError, UnavailableError
from gridtravel.gridio.batch.running import OUTPUT_BYTES_MAX, FarFile, FarFiles, FarStatus, Finished
from gridtravel.gridio.sites.connections import TransportName

T = TypeVar("T")


class LocalRunner:
    """A ``CommandRunner`` as the user who runs this program."""

    @property
    def endpoint(self) -> str:
        """This computer."""
        return "local:"

    @property
    def transport(self) -> TransportName:
        """Nothing is between us and the commands."""
        return "inproc"

    async def run(self, text: bytes, *, within_s: float) -> Finished:
        """See ``CommandRunner``. A shell that takes too long is left to finish, as one behind a
        login would be: half of what it does is worse than all of it.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-s",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=Path.home(),
                start_new_session=True,
            )
        except OSError as fault:
            raise UnavailableError(f"/bin/sh cannot be run here: {fault}") from None
        try:
            async with asyncio.timeout(within_s):
                out, err = await process.communicate(text)
        except TimeoutError:
            raise DeadlineError(f"the commands took longer than {within_s:g} s") from None
        if len(out) + len(err) > OUTPUT_BYTES_MAX:
            raise UnavailableError("the commands said more than makes sense")
        code = process.returncode or 0
        return Finished(code=code if code >= 0 else 128 - code, out=out, err=err)

    async def with_files(self, work: Callable[[FarFiles], T]) -> T:
        """See ``CommandRunner``."""
        return await asyncio.to_thread(work, LocalFiles())

    async def close(self) -> None:
        """Nothing is open."""


class LocalFiles:
    """``FarFiles`` of this machine; relative paths begin at the home folder, as they do at the far
    end of a login.
    """

    def __init__(self) -> None:
        self._home = Path.home()

    def look(self, path: str) -> FarStatus:
        """See ``FarFiles``."""
        return _status(self._home / path)

    def folder(self, path: str) -> list[FarStatus]:
        """See ``FarFiles``."""
        found = []
        for each in (self._home / path).iterdir():
            with contextlib.suppress(FileNotFoundError):  # A job may tidy up while we look.
                found.append(_status(each))
        return found

    def make_folder(self, path: str) -> None:
        """See ``FarFiles``."""
        (self._home / path).mkdir(mode=0o700)

    def open(self, path: str, *, to_write: bool) -> FarFile:
        """See ``FarFiles``."""
        flags = os.O_RDWR | os.O_CREAT if to_write else os.O_RDONLY
        return _LocalFile(os.open(self._home / path, flags | os.O_CLOEXEC, 0o600))


class _LocalFile:
    """``FarFile`` by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, size: int) -> bytes:
        """See ``FarFile``."""
        return os.pread(self._descriptor, size, offset)

    def write_at(self, offset: int, content: bytes) -> None:
        """See ``FarFile``."""
        while content:
            done = os.pwrite(self._descriptor, content, offset)
            offset, content = offset + done, content[done:]

    def truncate(self, size: int) -> None:
        """See ``FarFile``."""
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        """See ``FarFile``."""
        os.close(self._descriptor)


def _status(path: Path) -> FarStatus:
    found = path.lstat()
    return FarStatus(name=path.name, size_bytes=found.st_size, mode=found.st_mode)
