"""The journal of a real process that is killed, or whose disk is full."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridtravel.gridio.journal.contract import JournalLocked
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records

pytestmark = pytest.mark.integration

CHILD = Path(__file__).with_name("journal_child.py")
ROOT = CHILD.parents[2]


def command(path: Path, *, size_bytes: int = 200, limit_bytes: int = 0) -> list[str]:
    """The child's command line."""
    return [sys.executable, str(CHILD), str(path), str(size_bytes), str(limit_bytes)]


@contextmanager
def child(arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A running child that is certainly gone afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(process: subprocess.Popen[bytes], count: int) -> list[str]:
    """The next lines of the child's output; fewer when it ended."""
    assert process.stdout is not None
    lines = []
    for _ in range(count):
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            break
        lines.append(line.decode().strip())
    return lines


def stored_numbers(path: Path) -> list[int]:
    """What the journal holds, each record's own number."""
    return [record.at for record in read_records(path)]


def test_killed_process_keeps_its_word(tmp_path: Path) -> None:
    """Whatever was acknowledged before a kill -9 is there afterwards, in order, once; the next
    process goes on after it. The kill comes after a number of answers that the seed chooses."""
    chance = random.Random(20)
    path = tmp_path / "site.journal"
    acknowledged: list[int] = []
    for _round in range(8):
        with child(command(path)) as process:
            assert lines_of(process, 1) == ["ready"]
            told = lines_of(process, chance.randrange(1, 1500))
            process.kill()
            told += lines_of(process, 1_000_000)
        acknowledged += map(int, told)
        stored = stored_numbers(path)
        assert stored == list(range(1, len(stored) + 1))
        assert set(acknowledged) <= set(stored)
    assert len(acknowledged) == len(set(acknowledged))
    journal = SqliteJournal(path)
    assert not journal.was_rewound
    journal.close()


def test_kill_during_compaction_keeps_snapshot_and_tail(tmp_path: Path) -> None:
    """A process killed while it replaces its past has either the old past or the snapshot."""
    path = tmp_path / "site.journal"
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from gridtravel.gridio.journal.contract import Record\n"
        "from gridtravel.gridio.journal.sqlite import SqliteJournal\n"
        "async def run():\n"
        "    journal = SqliteJournal(Path(sys.argv[1]))\n"
        "    while True:\n"
        "        for _ in range(50):\n"
        "            n = journal.last_sequence + 1\n"
        "            await journal.append((Record(kind='TAIL', at=n, body=b''),)).durable()\n"
        "            print(n, flush=True)\n"
        "        n = journal.last_sequence + 1\n"
        "        await journal.snapshot(Record(kind='STATE', at=n, body=b'')).durable()\n"
        "        print(n, flush=True)\n"
        "asyncio.run(run())\n"
    )
    chance = random.Random(4)
    for _round in range(5):
        with child([sys.executable, "-c", program, str(path)]) as process:
            told = lines_of(process, chance.randrange(40, 400))
            process.kill()
            told += lines_of(process, 1_000_000)
        records = list(read_records(path))
        numbers = [record.at for record in records]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[-1] >= int(told[-1])
        assert len(records) <= 2 * 51
        if numbers[0] > 1:
            assert records[0].kind == "STATE"
            assert "STATE" not in {record.kind for record in records[2:51]}


def test_second_process_is_refused_and_a_dead_one_does_not_block(tmp_path: Path) -> None:
    """While a process owns the journal no other may; a kill gives it free without any tidying."""
    path = tmp_path / "site.journal"
    with child(command(path)) as process:
        assert lines_of(process, 1) == ["ready"]
        with pytest.raises(JournalLocked, match=f"in use by process {process.pid}"):
            SqliteJournal(path)
        process.kill()
        process.wait()
        SqliteJournal(path).close()


def check_full_disk(output: list[str], path: Path) -> None:
    """Everything acknowledged is stored, in order and once, and can be used after room was made."""
    told = [int(line) for line in output if line.isdigit()]
    failed, readable = output[-2:]
    assert failed.startswith("failed: cannot write the journal")
    assert "free space" in failed
    assert len(told) > 100
    stored = stored_numbers(path)
    assert stored == list(range(1, len(stored) + 1))
    assert set(told) <= set(stored)
    assert readable == f"readable: {len(told)}"
    journal = SqliteJournal(path)
    assert journal.last_sequence == len(stored)
    journal.close()


def test_write_error_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """A real write error (the log may not grow beyond a limit) refuses every waiting ticket; what
    was acknowledged is readable in the same process and after a restart."""
    path = tmp_path / "site.journal"
    with child(command(path, size_bytes=2000, limit_bytes=1_500_000)) as process:
        output = lines_of(process, 1_000_000)
        assert process.wait() == 4
    check_full_disk(output[1:], path)


def test_full_disk_refuses_and_loses_nothing(tmp_path: Path) -> None:
    """The same on a disk that is really full: a file system of 1.5 MB, mounted for the child."""
    mount = tmp_path / "small"
    mount.mkdir()
    script = (
        'mount -t tmpfs -o size=1500k none "$1" || exit 77; shift; '
        'mount=$1; copy=$2; shift 2; "$@"; status=$?; cp "$mount"/* "$copy"; exit $status'
    )
    copy = tmp_path / "copy"
    copy.mkdir()
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("NOT TESTED: a really full disk, for unshare(1) is not installed")
    arguments = [unshare, "-Urm", "sh", "-c", script, "sh", str(mount), str(mount), str(copy)]
    with child(arguments + command(mount / "site.journal", size_bytes=2000)) as process:
        output = lines_of(process, 1_000_000)
        status = process.wait()
    if status != 4 and not output:
        pytest.skip("NOT TESTED: a really full disk, for this system lets no user mount a tmpfs")
    assert status == 4
    check_full_disk(output[1:], copy / "site.journal")
