"""Disks of real sites in a campaign: full without any mount, cut, and put back."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from gridtravel.gridio.journal.contract import JournalDamaged, Record
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.simulator.processes.disks import JournalFiles, SiteDisk
from tests.support.shared_data import CHECKOUT

WRITER = """
import sys
with open(sys.argv[1], "ab", buffering=0) as file:
    for _ in sys.stdin:
        try:
            file.write(b"x" * 4096)
            print(0, flush=True)
        except OSError as fault:
            print(fault.errno, flush=True)
"""
DAEMON = """
import asyncio, os, pathlib, sys
from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite import SqliteJournal

async def main():
    journal = SqliteJournal(pathlib.Path(sys.argv[1]))
    for number in range(1, 41):
        fact = Record(kind="fact", at=number, body=b'{"n": 1}' * 50)
        await journal.append([fact]).durable()

asyncio.run(main())
os._exit(9)
"""
FACTS = [Record(kind="fact", at=number, body=b'{"n": 1}' * 50) for number in range(1, 41)]


def test_a_daemon_whose_files_may_not_grow_meets_a_full_disk(tmp_path: Path) -> None:
    """Where nothing can be mounted; and there is room again when the limit is taken away."""
    disk = SiteDisk(tmp_path, may_mount=False)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "file")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def write() -> int:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
        return int(writer.stdout.readline())

    try:
        assert write() == 0
        disk.fill(writer.pid)
        assert write() == errno.EFBIG
        disk.empty(writer.pid)
        assert write() == 0
    finally:
        writer.communicate()


def left_open(path: Path) -> None:
    """A journal of facts, as a killed daemon leaves it: everything is in its log."""
    path.parent.mkdir()
    done = subprocess.run([sys.executable, "-c", DAEMON, str(path)], cwd=CHECKOUT, check=False)
    assert done.returncode == 9


@pytest.mark.parametrize("part", [0.0, 0.5, 0.9])
def test_a_log_that_was_cut_is_a_prefix(tmp_path: Path, part: float) -> None:
    """What is lost is known afterwards; the copy gives everything back."""
    state = tmp_path / "state"
    files = JournalFiles(state)
    left_open(files.path)
    cut = files.cut("lab", 0, part, in_log=True)
    assert cut.before == FACTS
    # The note is written after the answer, and may be one behind.
    assert cut.noted in (len(FACTS) - 1, len(FACTS))
    journal = SqliteJournal(files.path)
    assert journal.was_rewound
    assert journal.forgotten_most >= cut.noted
    journal.close()
    cut.goes_on_with(list(read_records(files.path)))
    assert cut.kept is not None
    assert cut.lost == FACTS[cut.kept :] != []
    files.restore()
    assert list(read_records(files.path)) == FACTS


def test_a_main_file_that_was_cut_is_refused(tmp_path: Path) -> None:
    """And the cut is told apart from one that the daemon went on with."""
    files = JournalFiles(tmp_path / "state")
    left_open(files.path)
    SqliteJournal(files.path).close()  # which moves the log into the main file
    cut = files.cut("lab", 0, 0.3, in_log=False)
    with pytest.raises(JournalDamaged):
        SqliteJournal(files.path)
    assert cut.kept is None
    assert cut.lost == []


def test_a_main_file_that_was_cut_while_its_log_has_all_of_it_loses_nothing(tmp_path: Path) -> None:
    """Opening a journal writes its head into the log, so a young one is whole there."""
    files = JournalFiles(tmp_path / "state")
    left_open(files.path)
    before = list(read_records(files.path))
    files.cut("lab", 0, 0.3, in_log=False)
    journal = SqliteJournal(files.path)
    assert list(journal.replay()) == before
    assert not journal.was_rewound
    journal.close()
