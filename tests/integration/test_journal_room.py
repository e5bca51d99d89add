"""A journal with room of its own goes on when its disk is full; on a file system in memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records
from tests.support.shared_data import CHECKOUT

pytestmark = pytest.mark.integration

MIB = 1 << 20
ROOM_BYTES = 20 * MIB
MNT_DETACH = 2
WRITER = """
import asyncio, os, sys
from pathlib import Path
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(Path(sys.argv[1]), room_bytes=int(sys.argv[2]))
    for number in range(int(sys.argv[3])):
        await journal.append([Record(kind="late", at=number, body=b"x" * 300)]).durable()

asyncio.run(main())
os._exit(9)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 40 MiB."""
    library = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "disk"
    folder.mkdir()
    if library.mount(b"none", os.fsencode(folder), b"tmpfs", 0, b"size=40m") != 0:
        pytest.skip("NOT TESTED: a journal on a full disk. It takes root and mounts")
    yield folder
    library.umount2(os.fsencode(folder), MNT_DETACH)


def _fill(folder: Path) -> None:
    with (folder / "ballast").open("ab", buffering=0) as stream:
        for size in (MIB, 4096, 1):
            try:
                while True:
                    stream.write(bytes(size))
            except OSError:
                continue


def _some(count: int, size: int) -> list[Record]:
    return [Record(kind="fact", at=number, body=bytes(size)) for number in range(count)]


async def test_it_goes_on_for_as_long_as_its_room_lasts(disk: Path) -> None:
    """More than the index of a fresh log would take, and more than what moves to the main file: all
    is there afterwards, and when there is room again it is moved. Beyond the room it fails, loudly.
    """
    path = disk / "agent.journal"
    journal = SqliteJournal(path, room_bytes=ROOM_BYTES)
    await journal.append(_some(10, 300)).durable()
    _fill(disk)
    for _ in range(60):
        await journal.append(_some(40, 5000)).durable()
    assert sum(1 for _ in journal.replay()) == 10 + 60 * 40
    (disk / "ballast").unlink()
    for _ in range(30):
        await journal.append(_some(40, 5000)).durable()
    journal.close()
    assert path.stat().st_size > 12 * MIB

    again = SqliteJournal(path, room_bytes=2 * MIB)
    assert sum(1 for _ in again.replay()) == 10 + 90 * 40
    _fill(disk)
    with pytest.raises(JournalFailed, match="full"):
        await _go_on(again)
    again.close()


async def _go_on(journal: SqliteJournal) -> None:
    for _ in range(100):
        await journal.append(_some(40, 5000)).durable()


def test_without_room_it_fails_at_once(disk: Path) -> None:
    """What the others are to be compared with."""
    assert _late(disk, 0) == 9
    assert _late(disk, 0) != 9


def test_a_killed_daemon_comes_back_on_the_full_disk(disk: Path) -> None:
    """Its room was not given back, and nothing that it was told to keep is lost."""
    for turn in range(1, 4):
        assert _late(disk, ROOM_BYTES) == 9
        assert sum(1 for _ in read_records(disk / "agent.journal")) == turn * 200


def _late(disk: Path, room_bytes: int) -> int:
    """200 records on a disk that is full from the second turn on; how the process ended."""
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(disk / "agent.journal"), str(room_bytes), "200"],
        cwd=CHECKOUT,
        capture_output=True,
        check=False,
    )
    _fill(disk)
    return done.returncode
