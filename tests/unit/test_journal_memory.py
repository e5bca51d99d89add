"""The journal in memory: crashes and faults happen exactly where a simulation puts them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal, WriteStage


def record(number: int) -> Record:
    """A record that tells its number."""
    return Record(kind="TEST", at=number, body=b"")


def numbers(journal: MemoryJournal) -> list[int]:
    """The numbers of a replay."""
    return [stored.at for stored in journal.replay()]


async def turn() -> None:
    """Let every task that can run have a turn."""
    ready = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(ready.set_result, None)
    await ready


async def test_nothing_is_durable_before_the_simulation_says_so() -> None:
    """Without auto a ticket waits for ``write``, which takes as many appends as it is told."""
    journal = MemoryJournal(Disk(), auto=False)
    waits = [asyncio.create_task(journal.append((record(n),)).durable()) for n in range(3)]
    await turn()
    assert journal.waiting_count == 3
    assert [wait.done() for wait in waits] == [False] * 3
    assert journal.write(appends_max=2) == 2
    await turn()
    await turn()
    assert [wait.done() for wait in waits] == [True, True, False]
    assert numbers(journal) == [0, 1]
    assert journal.write() == 1
    await waits[2]
    assert journal.write() == 0


async def test_auto_writes_all_that_one_turn_appended_as_one_batch() -> None:
    """The loop's next turn stores whatever waits: group commit, as with the real one."""
    batches: list[int] = []

    def count(stage: WriteStage, records: Sequence[Record]) -> None:
        if stage is WriteStage.AFTER:
            batches.append(len(records))

    journal = MemoryJournal(Disk(), on_write=count)
    tickets = [journal.append((record(n),)) for n in range(5)]
    assert numbers(journal) == []
    await asyncio.gather(*(ticket.durable() for ticket in tickets))
    assert batches == [5]


def test_auto_without_a_loop_writes_at_once() -> None:
    """Where no loop runs, as in a single-site replay, an append is stored when it returns."""
    journal = MemoryJournal(Disk())
    journal.append((record(1),))
    assert numbers(journal) == [1]


async def test_slow_disk_takes_the_loops_time() -> None:
    """With a delay the write happens that much later on the loop's own clock."""
    loop = asyncio.get_running_loop()
    journal = MemoryJournal(Disk(), delay_s=lambda: 0.001)
    before = loop.time()
    await journal.append((record(1),)).durable()
    assert loop.time() - before >= 0.001


async def test_crash_answers_nobody_and_loses_what_waits() -> None:
    """A dead process neither acknowledges nor refuses; its successor finds what was written."""
    disk = Disk()
    journal = MemoryJournal(disk, auto=False)
    first = asyncio.create_task(journal.append((record(1),)).durable())
    journal.write()
    second = asyncio.create_task(journal.append((record(2),)).durable())
    await turn()
    journal.crash()
    journal.crash()
    assert journal.write() == 0
    await turn()
    assert (first.done(), second.done()) == (True, False)
    second.cancel()
    with pytest.raises(JournalFailed, match="crashed"):
        journal.append((record(3),))
    assert numbers(MemoryJournal(disk)) == [1]


@pytest.mark.parametrize(("stage", "survived"), [("BEFORE", [1]), ("AFTER", [1, 2])])
async def test_crash_around_a_write(stage: str, survived: list[int]) -> None:
    """A crash before the write loses the batch, after it keeps it; in neither case was it told."""
    disk = Disk()
    journal = MemoryJournal(disk, auto=False)
    journal.append((record(1),))
    journal.write()

    def crash_at(now: WriteStage, records: Sequence[Record]) -> None:
        if now is WriteStage(stage):
            crashing.crash()

    journal.close()
    crashing = MemoryJournal(disk, auto=False, on_write=crash_at)
    wait = asyncio.create_task(crashing.append((record(2),)).durable())
    await turn()
    assert crashing.write() == 0
    await turn()
    assert not wait.done()
    wait.cancel()
    assert numbers(MemoryJournal(disk)) == survived


@pytest.mark.parametrize(("stage", "survived"), [("BEFORE", []), ("AFTER", [1])])
async def test_fault_around_a_write(stage: str, survived: list[int]) -> None:
    """A disk fault refuses the tickets; whether the records are stored depends on the moment."""

    def fail_at(now: WriteStage, records: Sequence[Record]) -> None:
        if now is WriteStage(stage):
            raise OSError(5, "Input/output error")

    disk = Disk()
    journal = MemoryJournal(disk, on_write=fail_at)
    tickets = [journal.append((record(1),)), journal.append(())]
    for ticket in tickets:
        with pytest.raises(JournalFailed, match="Input/output error"):
            await ticket.durable()
    with pytest.raises(JournalFailed, match="Input/output error"):
        journal.append((record(2),))
    assert numbers(journal) == survived
    journal.close()
    assert numbers(MemoryJournal(disk)) == survived


@pytest.mark.parametrize(("kept", "survived"), [(0, [1]), (1, [1, 2]), (9, [1, 2, 3])])
async def test_power_cut_takes_only_what_was_not_synced(kept: int, survived: list[int]) -> None:
    """Records acknowledged without sync survive a crash of the process but not of the power, and
    what goes is always the end."""
    disk = Disk()
    journal = MemoryJournal(disk)
    await journal.append((record(1),), sync=True).durable()
    await journal.append((record(2),), sync=False).durable()
    await journal.append((record(3),), sync=False).durable()
    with pytest.raises(InputError, match="crash"):
        disk.lose_power()
    journal.crash()
    with pytest.raises(InputError, match="negative"):
        disk.lose_power(kept=-1)
    disk.lose_power(kept=kept)
    disk.validate()
    assert numbers(MemoryJournal(disk)) == survived


async def test_sync_makes_everything_before_it_safe() -> None:
    """A synced append, or a barrier, carries the unsynced ones before it through a power cut."""
    disk = Disk()
    journal = MemoryJournal(disk)
    await journal.append((record(1),), sync=False).durable()
    assert disk.synced == 0
    await journal.append(()).durable()
    assert disk.synced == 1
    journal.crash()
    disk.lose_power()
    assert numbers(MemoryJournal(disk)) == [1]
