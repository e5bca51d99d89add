"""The journal's twin on a simulated disk: the same contract, and a crash or a fault wherever a
test wants one.

It ships with the product because the simulator runs the production services on it. A ``Disk``
outlives the journals opened on it, one after the other, as a file outlives its daemons::

    disk = Disk()
    journal = MemoryJournal(disk, auto=False)
    ticket = journal.append([record])   # waits in memory, as in the writer's queue
    journal.crash()                     # the process dies: what was not written is gone
    journal = MemoryJournal(disk)       # the restarted service replays what survived

Like the real one it writes whole batches: all that waits becomes one write, stored all or none.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.journal.contract import (
    PENDING_RECORDS_MAX,
    JournalFailed,
    JournalLocked,
    JournalOverloaded,
    Record,
)
from gridtravel.gridio.journal.progress import WriteProgress, WriteTicket
from gridtravel.gridio.system.ids import IdSource, SeededIds


class WriteStage(enum.StrEnum):
    """Where a write is when its hook is called."""

    BEFORE = "BEFORE"
    """Nothing of the batch is stored: a crash here loses it."""
    AFTER = "AFTER"
    """The batch is stored and nobody was told: a crash here keeps it unacknowledged."""


WriteHook = Callable[[WriteStage, Sequence[Record]], None]
"""Called around each write. It may call ``crash()``, or raise OSError, which is a fault of the
disk at that point.
"""


class Disk:
    """What survives the processes: the stored records of one journal, and how many of them would
    survive a power cut.
    """

    def __init__(self, *, ids: IdSource | None = None) -> None:
        source: IdSource = ids if ids is not None else SeededIds(0)
        # The journal's name; see Journal.epoch.
        self.epoch = source.new_id("journal")
        # What a replay gives: the last snapshot first, if there is one.
        self.records: list[Record] = []
        # Sequence of the first of them. Invariant: 1 <= base.
        self.base = 1
        # Everything up to this sequence survives a power cut. Invariant: base - 1 <= synced <=
        # last_sequence.
        self.synced = 0
        # The journal now open on this disk.
        self.owner: MemoryJournal | None = None

    @property
    def last_sequence(self) -> int:
        """Sequence of the last stored record."""
        return self.base + len(self.records) - 1

    def lose_power(self, *, kept: int = 0) -> None:
        """Lose the records that were written without ``sync``, but for the first `kept` of them.

        Crash the owner first: a process does not outlive the power. More than there are keeps
        them all.
        """
        if self.owner is not None:
            raise InputError("crash the journal's owner before the power fails")
        if kept < 0:
            raise InputError(f"a number of records is not negative: {kept}")
        del self.records[self.synced + kept - self.base + 1 :]
        self.synced = self.last_sequence

    def validate(self) -> None:
        """Assert the invariants above."""
        assert self.base >= 1
        assert self.base - 1 <= self.synced <= self.last_sequence


@dataclass(frozen=True, slots=True)
class _Entry:
    """One call of ``append`` or ``snapshot`` that waits to be written."""

    records: Sequence[Record]
    sync: bool
    is_snapshot: bool


class MemoryJournal:
    """A journal on a ``Disk``; see ``gridio.journal.contract.Journal`` for the contract.

    With `auto` the event loop writes what waits at its next turn (at once when no loop runs), or
    after `delay_s()` seconds of that loop's time: a slow disk. Without `auto` nothing becomes
    durable until ``write`` is called.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        auto: bool = True,
        delay_s: Callable[[], float] | None = None,
        on_write: WriteHook | None = None,
    ) -> None:
        if disk.owner is not None:
            raise JournalLocked(
                "the journal on this disk is in use", hint="close or crash its owner first"
            )
        disk.owner = self
        self._disk = disk
        self._is_auto = auto
        self._delay_s = delay_s
        self._on_write = on_write
        self._progress = WriteProgress(disk.last_sequence)
        # Opening forces to disk what an earlier owner had only written; so does the file.
        disk.synced = disk.last_sequence
        self._last_sequence = disk.last_sequence
        self._base = disk.base
        self._waiting: list[_Entry] = []
        self._is_scheduled = False
        self._end: str | None = None

    @property
    def epoch(self) -> str:
        """See ``Journal.epoch``."""
        return self._disk.epoch

    @property
    def was_rewound(self) -> bool:
        """See ``Journal.was_rewound``; a simulated disk loses nothing that was safe."""
        return False

    @property
    def last_sequence(self) -> int:
        """See ``Journal.last_sequence``."""
        return self._last_sequence

    @property
    def replay_count(self) -> int:
        """See ``Journal.replay_count``."""
        return self._last_sequence - self._base + 1

    @property
    def waiting_count(self) -> int:
        """Calls of ``append`` and ``snapshot`` that the next ``write`` will store."""
        return len(self._waiting)

    def append(self, records: Sequence[Record], *, sync: bool = True) -> WriteTicket:
        """See ``Journal.append``."""
        self._refuse_unusable()
        waiting = self._last_sequence - self._progress.written
        if waiting + len(records) > PENDING_RECORDS_MAX:
            raise JournalOverloaded(
                f"{waiting} records wait for the disk", hint="the disk is slow; try again later"
            )
        self._last_sequence += len(records)
        ticket = WriteTicket(self._progress, self._last_sequence, sync=sync)
        if records or not self._progress.is_safe(self._last_sequence, sync=sync):
            self._wait(_Entry(tuple(records), sync, False))
        return ticket

    def snapshot(self, state: Record) -> WriteTicket:
        """See ``Journal.snapshot``."""
        self._refuse_unusable()
        self._last_sequence += 1
        self._base = self._last_sequence
        ticket = WriteTicket(self._progress, self._last_sequence, sync=True)
        self._wait(_Entry((state,), True, True))
        return ticket

    def replay(self) -> Iterator[Record]:
        """See ``Journal.replay``."""
        return iter(tuple(self._disk.records))

    def write(self, *, appends_max: int | None = None) -> int:
        """Store what waits (at most `appends_max` calls of it) as one batch, and free its
        tickets; how many calls.

        A fault raised by the hook is not raised here: as with a real disk it reaches the tickets.
        """
        self._is_scheduled = False
        batch = self._waiting[:appends_max]
        if not batch or self._has_ended() or self._progress.failure is not None:
            return 0
        records = [record for entry in batch for record in entry.records]
        try:
            self._call_hook(WriteStage.BEFORE, records)
            if self._has_ended():
                return 0
            del self._waiting[: len(batch)]
            is_synced = self._store(batch)
            self._call_hook(WriteStage.AFTER, records)
        except OSError as fault:
            self._waiting.clear()
            self._progress.fail(
                JournalFailed(
                    f"cannot write the journal: {fault}",
                    hint="look at the disk's free space and health, then start again",
                )
            )
            return 0
        if self._has_ended():
            return 0
        self._progress.advance(self._disk.last_sequence, is_synced=is_synced)
        if self._waiting and self._is_auto:
            self._schedule()
        return len(batch)

    def crash(self) -> None:
        """The process dies here: what waits is lost, no ticket is ever answered, and the disk is
        free for a successor.

        Tasks that wait for a ticket stay waiting, for a dead process runs no error handling:
        cancel them.
        """
        self._waiting.clear()
        self._give_up("crashed")

    def close(self) -> None:
        """See ``Journal.close``."""
        if self._end is None:
            self.write()
            self._give_up("is closed")

    def _refuse_unusable(self) -> None:
        if self._end is not None:
            raise JournalFailed(f"the journal {self._end}")
        self._progress.raise_failure()

    def _has_ended(self) -> bool:
        return self._end is not None

    def _give_up(self, how: str) -> None:
        if self._end is None:
            self._end = how
            self._disk.owner = None

    def _wait(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        if self._is_auto:
            self._schedule()

    def _schedule(self) -> None:
        if self._is_scheduled:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.write()
            return
        self._is_scheduled = True
        if self._delay_s is None:
            loop.call_soon(self.write)
        else:
            loop.call_later(self._delay_s(), self.write)

    def _store(self, batch: list[_Entry]) -> bool:
        """Put the batch on the disk; True when it is safe from a power cut."""
        disk = self._disk
        for entry in batch:
            if entry.is_snapshot:
                disk.base = disk.last_sequence + 1
                disk.records = list(entry.records)
            else:
                disk.records.extend(entry.records)
        is_synced = any(entry.sync for entry in batch)
        if is_synced:
            disk.synced = disk.last_sequence
        return is_synced

    def _call_hook(self, stage: WriteStage, records: list[Record]) -> None:
        if self._on_write is not None:
            self._on_write(stage, records)
