"""Running a shell's text somewhere, and the files there: what an adapter to a batch system needs.

A runner leads to one account on one machine: this one (``local_runner``), or the other end of an
SSH login (``gridio.ssh.login_runner``).
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from gridtravel.gridcore.errors import NotFoundError
from gridtravel.gridio.sites.connections import TransportName

T = TypeVar("T")

OUTPUT_BYTES_MAX: Final = 16 << 20
"""More than any answer that makes sense; a far end that never stops talking is cut off."""
FAR_SHELL: Final = "exec /bin/sh -s"
"""The only line that a login's own shell ever reads: understood by every one of them, whatever the
text that follows on the standard input contains.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a shell ended."""

    code: int
    """Exit status; 128 and more: ended by a signal."""
    out: bytes
    err: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FarStatus:
    """A file or folder at the far end."""

    name: str
    size_bytes: int
    mode: int
    """With the type's bits, as ``stat`` has them."""

    @property
    def is_folder(self) -> bool:
        """A folder, not a link to one."""
        return stat.S_ISDIR(self.mode)

    @property
    def is_file(self) -> bool:
        """An ordinary file."""
        return stat.S_ISREG(self.mode)


class FarFile(Protocol):
    """An open file. Everything blocks."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes; empty at the end."""
        ...

    def write_at(self, offset: int, content: bytes) -> None:
        """All of it; may still be on its way until ``close``."""
        ...

    def truncate(self, size: int) -> None:
        """Let the file end at ``size``."""
        ...

    def close(self) -> None:
        """Return when everything has been written."""
        ...


class FarFiles(Protocol):
    """The account's files. Everything blocks and is called in one thread at a time. ``OSError`` as
    from the local functions of the same names.
    """

    def look(self, path: str) -> FarStatus:
        """Status of the thing itself, not of what a link points to."""
        ...

    def folder(self, path: str) -> list[FarStatus]:
        """What is in a folder, in any order."""
        ...

    def make_folder(self, path: str) -> None:
        """Make it, for the account alone; ``FileExistsError`` is the caller's to judge."""
        ...

    def open(self, path: str, *, to_write: bool) -> FarFile:
        """A file to read, or to write without losing what is in it."""
        ...


class CommandRunner(Protocol):
    """A way to run a shell's text as one account, and to reach its files."""

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages."""
        ...

    @property
    def transport(self) -> TransportName:
        """What carries it."""
        ...

    async def run(self, text: bytes, *, within_s: float) -> Finished:
        """Have ``/bin/sh`` read ``text`` on its standard input, in the account's home.

        ``DeadlineError``: no end within ``within_s``; the shell may still be at work. Other
        ``UnavailableError`` and ``NotAuthorisedError`` as the way there gives them.
        """
        ...

    async def with_files(self, work: Callable[[FarFiles], T]) -> T:
        """Do ``work`` in a thread. ``OSError`` passes through; a way that breaks is an
        ``UnavailableError``.
        """
        ...

    async def close(self) -> None:
        """End the way there. Twice is the same as once."""
        ...


async def found_or_missing(asked: Awaitable[T], what: str) -> T:
    """What was asked for; ``NotFoundError`` where there is no such file."""
    try:
        return await asked
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            f"there is no {what}", hint="list the files of the folder above to see what is there"
        ) from None
