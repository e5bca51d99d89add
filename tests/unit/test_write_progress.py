"""How far the disk has come, and who waits for it: no wake-up is lost, and each is told his own."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest

from gridtravel.gridio.journal.contract import JournalFailed, Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket


def record(number: int) -> Record:
    """A record that tells its number."""
    return Record(kind="TEST", at=number, body=b"")


async def turns() -> None:
    """Whoever can go on does."""
    for _ in range(5):
        ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ready.set_result, None)
        await ready


async def test_no_wake_up_is_lost() -> None:
    """However the writer's step and the caller's wait interleave, the caller wakes."""
    progress = WriteProgress(0)
    asked: queue.SimpleQueue[int] = queue.SimpleQueue()

    def write() -> None:
        while (sequence := asked.get()) > 0:
            progress.advance(sequence, is_synced=True)

    writer = threading.Thread(target=write)
    writer.start()
    for sequence in range(1, 3001):
        asked.put(sequence)
        await progress.wait(sequence, sync=True)
    asked.put(0)
    writer.join()


async def test_writer_between_question_and_registration_is_seen() -> None:
    """The writer may finish just after a caller saw that it had not, and before it could know that
    the caller waits; the caller looks again."""

    class Racing(WriteProgress):
        def is_safe(self, sequence: int, *, sync: bool) -> bool:
            seen = super().is_safe(sequence, sync=sync)
            self.advance(sequence, is_synced=True)
            return seen

    await Racing(0).wait(1, sync=True)


async def test_first_failure_is_the_one_told() -> None:
    """Later faults of a journal that has failed follow from the first, which is what helps."""
    progress = WriteProgress(0)
    wait = asyncio.create_task(progress.wait(1, sync=True))
    progress.fail(JournalFailed("the disk is full"))
    progress.fail(JournalFailed("the file is closed"))
    with pytest.raises(JournalFailed, match="the disk is full"):
        await wait
    with pytest.raises(JournalFailed, match="the disk is full"):
        await progress.wait(1, sync=True)


def test_journal_outlives_an_event_loop() -> None:
    """A waiter that ended with its loop disturbs neither the writer nor the next loop."""
    journal = MemoryJournal(Disk(), auto=False)

    async def give_up() -> None:
        wait = asyncio.create_task(journal.append((record(1),)).durable())
        wait.add_done_callback(lambda task: None)
        ready = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(ready.set_result, None)
        await ready

    async def go_on() -> None:
        wait = asyncio.create_task(journal.append((record(2),)).durable())
        asyncio.get_running_loop().call_soon(journal.write)
        await wait

    asyncio.run(give_up())
    journal.write()
    asyncio.run(go_on())
    assert [stored.at for stored in journal.replay()] == [1, 2]


class Waiting:
    """Tasks that wait for both grades of some sequences."""

    def __init__(self, progress: WriteProgress, *sequences: int) -> None:
        self._tasks = {
            (sequence, sync): asyncio.ensure_future(
                WriteTicket(progress, sequence, sync=sync).durable()
            )
            for sequence in sequences
            for sync in (False, True)
        }

    async def served(self) -> list[tuple[int, bool]]:
        """Whose records are safe by now, to the grade that they asked for."""
        await turns()
        return [key for key, task in self._tasks.items() if task.done() and not task.exception()]

    async def refused(self) -> dict[tuple[int, bool], BaseException]:
        """Who was told that they will never be."""
        await turns()
        done = {key: task for key, task in self._tasks.items() if task.done()}
        return {key: fault for key, task in done.items() if (fault := task.exception())}

    def give_up(self) -> None:
        """Nobody waits any more."""
        for task in self._tasks.values():
            task.cancel()


async def test_everybody_waits_for_his_own_records_and_grade() -> None:
    """What was stored before is safe to both."""
    progress = WriteProgress(2)
    waiting = Waiting(progress, 2, 3, 4)
    stored = [(2, False), (2, True)]
    assert await waiting.served() == stored
    progress.advance(3, is_synced=False)
    assert await waiting.served() == [*stored, (3, False)]
    assert (progress.written, progress.synced) == (3, 2)
    progress.advance(4, is_synced=False)
    assert await waiting.served() == [*stored, (3, False), (4, False)]
    progress.advance(4, is_synced=True)
    assert len(await waiting.served()) == 6
    progress.advance(5, is_synced=False)  # nobody waits
    assert progress.is_safe(5, sync=False)
    assert not progress.is_safe(5, sync=True)


async def test_a_failure_refuses_what_is_not_safe() -> None:
    """Now and later, each with a fault of his own that says what to do; what is safe stays so."""
    progress = WriteProgress(0)
    progress.advance(1, is_synced=True)
    waiting = Waiting(progress, 1, 2, 3)
    progress.advance(2, is_synced=False)
    failure = JournalFailed("the disk is full", hint="make room")
    progress.fail(failure)
    later = Waiting(progress, 1, 2, 3)
    for each in (waiting, later):
        assert await each.served() == [(1, False), (1, True), (2, False)]
        refused = await each.refused()
        assert list(refused) == [(2, True), (3, False), (3, True)]
        assert len({id(fault) for fault in refused.values()}) == 3
        for fault in refused.values():
            assert isinstance(fault, JournalFailed)
            assert (fault.message, fault.hint) == (failure.message, failure.hint)
            assert fault.__cause__ is failure


async def test_who_has_gone_away_disturbs_nobody() -> None:
    """The one behind him is served."""
    progress = WriteProgress(0)
    gone, staying = Waiting(progress, 1), Waiting(progress, 1)
    await turns()
    gone.give_up()
    progress.advance(1, is_synced=True)
    assert len(await staying.served()) == 2


async def test_a_failure_between_question_and_registration_is_seen() -> None:
    """As a success is."""

    class Racing(WriteProgress):
        def is_safe(self, sequence: int, *, sync: bool) -> bool:
            self.fail(JournalFailed("the disk is full"))
            return super().is_safe(sequence, sync=sync)

    waiting = Waiting(Racing(0), 1)
    assert len(await waiting.refused()) == 2
    waiting.give_up()


async def test_a_failure_is_raised_again_and_reaches_who_waits() -> None:
    """Whoever waits when it comes is told, and whoever asks later: each a fault of his own."""
    progress = WriteProgress(0)
    progress.raise_failure()
    waiting = asyncio.create_task(progress.wait(1, sync=True))
    await turns()
    first = JournalFailed("the disk is gone", hint="look at it")
    progress.fail(first)
    with pytest.raises(JournalFailed, match="the disk is gone") as told:
        await asyncio.wait_for(waiting, 60)
    assert told.value is not first
    assert progress._waiters == [], "nobody is kept who was told"
    for _ in range(2):
        with pytest.raises(JournalFailed, match="the disk is gone") as again:
            progress.raise_failure()
        assert again.value.__cause__ is first
