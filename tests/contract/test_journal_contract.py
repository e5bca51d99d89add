"""What every journal promises, in memory or in a file (gridio/journal/contract.py)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

import pytest

from gridtravel.gridio.journal.contract import (
    PENDING_RECORDS_MAX,
    Journal,
    JournalFailed,
    JournalLocked,
    JournalOverloaded,
    Record,
)
from gridtravel.gridio.journal.file import AppendJournal
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteStage
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.system.ids import SeededIds

SMALL_DISK_BYTES = 128 * 1024


class Lab(Protocol):
    """One place where a journal can be stored."""

    def open(self, *, is_small: bool = False) -> Journal:
        """Open the journal; a small one has room for ``SMALL_DISK_BYTES``."""

    def crash(self, journal: Journal) -> None:
        """End the owner without any goodbye; the next ``open`` sees what survived."""


class FileLab:
    """A journal in a database. A crash is a copy of the files as they are at that moment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._crashes = 0
        self._path = folder / "site.journal"
        self._ids = SeededIds(1)

    def open(self, *, is_small: bool = False) -> Journal:
        """Open the file of the last crash, or the first one."""
        size_max_bytes = SMALL_DISK_BYTES if is_small else None
        return SqliteJournal(self._path, ids=self._ids, size_max_bytes=size_max_bytes)

    def crash(self, journal: Journal) -> None:
        """Keep the files as a kill would leave them, then let the old owner go."""
        self._crashes += 1
        copy = self._folder / f"crash-{self._crashes}"
        copy.mkdir()
        for suffix in ("", "-wal", ".lock"):
            shutil.copy(f"{self._path}{suffix}", copy)
        journal.close()
        self._path = copy / self._path.name


class AppendLab:
    """A journal in a file that only grows. A crash is a copy of its files, as above."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._crashes = 0
        self._path = folder / "trip.journal"
        self._ids = SeededIds(1)
        self._writers = ThreadPoolExecutor(2)

    def open(self, *, is_small: bool = False) -> Journal:
        """Open the file of the last crash, or the first one."""
        return AppendJournal(
            self._path,
            executor=self._writers,
            ids=self._ids,
            size_max_bytes=SMALL_DISK_BYTES if is_small else None,
        )

    def crash(self, journal: Journal) -> None:
        """Keep the files as a kill would leave them, then let the old owner go."""
        self._crashes += 1
        copy = self._folder / f"crash-{self._crashes}"
        copy.mkdir()
        for suffix in ("", ".lock"):
            shutil.copy(f"{self._path}{suffix}", copy)
        journal.close()
        self._path = copy / self._path.name


class MemoryLab:
    """A journal on a simulated disk."""

    def __init__(self) -> None:
        self._disk = Disk(ids=SeededIds(1))

    def open(self, *, is_small: bool = False) -> Journal:
        """Open the disk; a small one is full after so many bytes."""

        def refuse_when_full(stage: WriteStage, records: Sequence[Record]) -> None:
            if not is_small or stage is not WriteStage.BEFORE:
                return
            stored = [*self._disk.records, *records]
            if sum(len(record.body) for record in stored) > SMALL_DISK_BYTES:
                raise OSError(28, "No space left on device")

        return MemoryJournal(self._disk, on_write=refuse_when_full)

    def crash(self, journal: Journal) -> None:
        """Crash the owner."""
        assert isinstance(journal, MemoryJournal)
        journal.crash()


@pytest.fixture(params=["database", "append", "memory"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Lab:
    """Each kind of journal in turn."""
    if request.param == "memory":
        return MemoryLab()
    return FileLab(tmp_path) if request.param == "database" else AppendLab(tmp_path)


@pytest.fixture
def journal(lab: Lab) -> Iterator[Journal]:
    """A new journal, closed at the end."""
    opened = lab.open()
    yield opened
    opened.close()


def record(number: int, *, size_bytes: int = 0) -> Record:
    """A record that tells its number."""
    return Record(kind="TEST", at=number, body=str(number).encode().ljust(size_bytes))


def numbers(journal: Journal) -> list[int]:
    """The numbers of a replay."""
    return [stored.at for stored in journal.replay()]


async def test_new_journal_is_empty(journal: Journal) -> None:
    """A journal begins with nothing, and counts from one."""
    assert numbers(journal) == []
    assert (journal.last_sequence, journal.replay_count) == (0, 0)
    assert journal.append((record(7),)).sequence == 1


async def test_replay_gives_what_was_appended_in_order(journal: Journal) -> None:
    """Order is the order of the calls, whatever was awaited when; content comes back unchanged."""
    tickets = [journal.append((record(n), record(n + 1))) for n in range(0, 200, 2)]
    await asyncio.gather(*(ticket.durable() for ticket in reversed(tickets)))
    assert list(journal.replay()) == [record(n) for n in range(200)]
    assert [ticket.sequence for ticket in tickets] == list(range(2, 202, 2))


async def test_any_bytes_and_sizes_come_back(journal: Journal) -> None:
    """The journal does not look inside a body: empty, binary and long ones are equal."""
    bodies = [b"", b"\0\xff\n'\"", bytes(range(256)) * 4000]
    stored = [Record(kind=f"K{i}", at=-i, body=body) for i, body in enumerate(bodies)]
    await journal.append(stored).durable()
    assert list(journal.replay()) == stored


async def test_one_append_may_be_long(journal: Journal) -> None:
    """An append longer than any statement or batch is one append like every other."""
    await journal.append([record(n) for n in range(5000)]).durable()
    assert numbers(journal) == list(range(5000))


async def test_caller_may_reuse_its_list(journal: Journal) -> None:
    """What is appended is what the list held at the call."""
    batch = [record(1)]
    ticket = journal.append(batch)
    batch.append(record(2))
    await ticket.durable()
    assert numbers(journal) == [1]


@pytest.mark.parametrize("sync", [True, False])
async def test_acknowledged_records_survive_a_crash(lab: Lab, sync: bool) -> None:
    """Both grades survive the death of the process, and the successor goes on counting."""
    journal = lab.open()
    epoch = journal.epoch
    for n in range(20):
        await journal.append((record(n),), sync=sync).durable()
    lab.crash(journal)
    successor = lab.open()
    assert numbers(successor) == list(range(20))
    assert (successor.epoch, successor.was_rewound) == (epoch, False)
    assert successor.append((record(20),)).sequence == 21
    successor.close()


async def test_unacknowledged_appends_are_whole_or_absent(lab: Lab) -> None:
    """A crash while records wait leaves a prefix of whole appends."""
    journal = lab.open()
    for n in range(0, 300, 3):
        journal.append((record(n), record(n + 1), record(n + 2)))
    lab.crash(journal)
    successor = lab.open()
    survived = numbers(successor)
    assert survived == list(range(len(survived)))
    assert len(survived) % 3 == 0
    successor.close()


async def test_close_writes_what_waits(lab: Lab) -> None:
    """A clean end loses nothing, also what nobody waited for; closing twice is closing once."""
    journal = lab.open()
    journal.append([record(n) for n in range(10)], sync=False)
    journal.close()
    journal.close()
    with pytest.raises(JournalFailed, match="closed"):
        journal.append((record(10),))
    with pytest.raises(JournalFailed, match="closed"):
        journal.snapshot(record(10))
    successor = lab.open()
    assert numbers(successor) == list(range(10))
    successor.close()


async def test_ticket_serves_any_number_of_waiters(journal: Journal) -> None:
    """A ticket may be awaited together and again later."""
    ticket = journal.append((record(1),))
    await asyncio.gather(*(ticket.durable() for _ in range(10)))
    await ticket.durable()


async def test_cancelled_wait_takes_nothing_back(journal: Journal) -> None:
    """A client that goes away does not undo what was decided, nor disturb who waits beside it."""
    ticket = journal.append((record(1),))
    impatient = asyncio.create_task(ticket.durable())
    patient = asyncio.create_task(ticket.durable())
    impatient.cancel()
    await patient
    assert numbers(journal) == [1]


async def test_barrier_waits_for_everything_before_it(journal: Journal) -> None:
    """An empty append stores nothing and comes back when all earlier records are safe."""
    journal.append((record(1),), sync=False)
    journal.append((record(2),), sync=False)
    barrier = journal.append(())
    await barrier.durable()
    assert barrier.sequence == 2
    assert numbers(journal) == [1, 2]
    await journal.append(()).durable()
    assert journal.last_sequence == 2


async def test_barrier_of_an_empty_journal_is_open(journal: Journal) -> None:
    """With nothing appended there is nothing to wait for."""
    await journal.append(()).durable()


async def test_snapshot_replaces_the_past(lab: Lab) -> None:
    """A replay gives the last snapshot, then what came after it; numbers go on."""
    journal = lab.open()
    journal.append([record(n) for n in range(3000)])
    journal.snapshot(record(10_000))
    assert journal.replay_count == 1
    journal.append((record(1),))
    await journal.snapshot(record(20_000)).durable()
    await journal.append((record(2), record(3))).durable()
    assert numbers(journal) == [20_000, 2, 3]
    assert (journal.last_sequence, journal.replay_count) == (3005, 3)
    lab.crash(journal)
    successor = lab.open()
    assert numbers(successor) == [20_000, 2, 3]
    assert (successor.last_sequence, successor.replay_count) == (3005, 3)
    await successor.append((record(4),)).durable()
    assert numbers(successor) == [20_000, 2, 3, 4]
    successor.close()


async def test_replay_is_of_one_moment(journal: Journal) -> None:
    """A replay under way is not disturbed by what is written meanwhile, a snapshot included."""
    await journal.append([record(n) for n in range(10)]).durable()
    replay = journal.replay()
    assert next(replay) == record(0)
    await journal.snapshot(record(100)).durable()
    assert [stored.at for stored in replay] == list(range(1, 10))
    assert numbers(journal) == [100]


async def test_second_owner_is_refused(lab: Lab) -> None:
    """One journal has one owner; when it has gone, another may come."""
    journal = lab.open()
    with pytest.raises(JournalLocked, match="in use"):
        lab.open()
    await journal.append((record(1),)).durable()
    journal.close()
    lab.open().close()


async def test_full_disk_refuses_everything_from_then_on(lab: Lab) -> None:
    """After a failed write no ticket comes back, every append is refused, and all that was
    acknowledged can be read, now and after a restart."""
    journal = lab.open(is_small=True)
    acknowledged = 0

    async def fill() -> None:
        nonlocal acknowledged
        for n in range(1000):
            await journal.append((record(n, size_bytes=1000),)).durable()
            acknowledged += 1

    with pytest.raises(JournalFailed, match="cannot write the journal"):
        await fill()
    assert 0 < acknowledged < 1000
    assert numbers(journal) == list(range(acknowledged))
    with pytest.raises(JournalFailed, match="cannot write") as caught:
        journal.append((record(0),))
    assert caught.value.may_retry
    with pytest.raises(JournalFailed, match="cannot write"):
        journal.snapshot(record(0))
    journal.close()
    successor = lab.open()
    assert numbers(successor)[:acknowledged] == list(range(acknowledged))
    await successor.append((record(5000),)).durable()
    assert numbers(successor)[-1] == 5000
    successor.close()


async def test_full_disk_refuses_every_waiter(lab: Lab) -> None:
    """All tickets of a failed batch and of those behind it are refused, none is left waiting, and
    of a refused append nothing or everything is stored."""
    journal = lab.open(is_small=True)
    await journal.append((record(0),)).durable()
    too_much = [record(n, size_bytes=2000) for n in range(1, 1001)]
    tickets = [journal.append(too_much), *(journal.append((record(n),)) for n in range(50))]
    results = await asyncio.gather(*(t.durable() for t in tickets), return_exceptions=True)
    assert {type(result) for result in results} == {JournalFailed}
    assert numbers(journal) == [0]
    journal.close()


async def test_backlog_is_bounded(journal: Journal) -> None:
    """An append that would make the backlog too long is refused whole and may be repeated."""
    with pytest.raises(JournalOverloaded) as caught:
        journal.append([record(0)] * (PENDING_RECORDS_MAX + 1))
    assert caught.value.may_retry
    await journal.append((record(1),)).durable()
    assert numbers(journal) == [1]


async def test_journals_have_names_of_their_own(lab: Lab, tmp_path: Path) -> None:
    """Two journals differ in their epoch; one keeps its epoch when it is opened again."""
    journal = lab.open()
    epoch = journal.epoch
    journal.close()
    again = lab.open()
    assert again.epoch == epoch
    again.close()
    with_other_ids = SqliteJournal(tmp_path / "other.journal", ids=SeededIds(2))
    assert with_other_ids.epoch != epoch
    with_other_ids.close()
