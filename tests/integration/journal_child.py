"""A process that owns a journal, for the tests that end it: `journal_child.py PATH BYTES LIMIT`.

It starts eight tasks that append records of BYTES bytes for ever, and prints the number of each
record on a line of its own once it is durable. With LIMIT above zero no file may grow beyond that
many bytes; the first refused ticket is then printed as `failed: ...`, followed by how many records
can still be read, and the process ends with status 4.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
from pathlib import Path

from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.sqlite import SqliteJournal

CALLERS = 8


def tell(line: str) -> None:
    """One unbuffered write to standard output: what was told is in the pipe, whatever follows."""
    os.write(1, f"{line}\n".encode())


async def append_for_ever(journal: SqliteJournal, size_bytes: int) -> None:
    """One caller; every third record needs no power-proof answer."""
    while True:
        number = journal.last_sequence + 1
        body = str(number).encode().ljust(size_bytes)
        ticket = journal.append((Record(kind="TEST", at=number, body=body),), sync=number % 3 != 0)
        await ticket.durable()
        tell(str(number))


async def run(path: Path, size_bytes: int, limit_bytes: int) -> int:
    """Append until the end, which comes from outside or from the disk."""
    if limit_bytes:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    journal = SqliteJournal(path)
    tell("ready")
    callers = (append_for_ever(journal, size_bytes) for _ in range(CALLERS))
    results = await asyncio.gather(*callers, return_exceptions=True)
    if not all(isinstance(result, JournalFailed) for result in results):
        tell(f"unexpected: {results!r}")
        return 1
    tell(f"failed: {results[0]}")
    tell(f"readable: {sum(1 for _ in journal.replay())}")
    journal.close()
    return 4


if __name__ == "__main__":
    sys.exit(asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
