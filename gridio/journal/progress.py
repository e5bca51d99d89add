"""How far the disk has come, and who is waiting for it: the half of a journal that both kinds
share.

Written by one writer (a thread, or the simulation), read by the tasks of one event loop. Not
storage.
"""

from __future__ import annotations

import asyncio
import contextlib

from gridtravel.gridio.journal.contract import JournalFailed


class WriteProgress:
    """Two counters that only grow, the first failure, and the tasks waiting for either.

    A task costs one future; a batch costs one wake-up of the loop, however many tasks it frees.
    """

    # Last sequence that would survive the death of the process. Invariant: 0 <= synced <= written.
    written: int
    # Last sequence that would survive a power failure.
    synced: int
    # Set once, by the writer; both counters then stand still for ever.
    failure: JournalFailed | None

    def __init__(self, stored: int) -> None:
        self.written = stored
        self.synced = stored
        self.failure = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Touched on the loop's thread only; the writer merely asks whether it is empty.
        self._waiters: list[tuple[int, bool, asyncio.Future[None]]] = []

    def advance(self, sequence: int, *, is_synced: bool) -> None:
        """Say that everything up to `sequence` is stored, and wake the tasks that wait for it.
        Writer only.
        """
        self.written = sequence
        if is_synced:
            self.synced = sequence
        self._announce()

    def fail(self, failure: JournalFailed) -> None:
        """Refuse everything not yet acknowledged, now and later; the first failure is the one
        told. Writer only.
        """
        if self.failure is None:
            self.failure = failure
        self._announce()

    def raise_failure(self) -> None:
        """Raise the failure if there is one: a new object each time, for each task's traceback is
        its own.
        """
        if self.failure is not None:
            raise JournalFailed(self.failure.message, hint=self.failure.hint) from self.failure

    def is_safe(self, sequence: int, *, sync: bool) -> bool:
        """True when everything up to `sequence` is stored to the grade asked for."""
        return (self.synced if sync else self.written) >= sequence

    async def wait(self, sequence: int, *, sync: bool) -> None:
        """Return once ``is_safe``, or raise JournalFailed."""
        if self.is_safe(sequence, sync=sync):
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._waiters.append((sequence, sync, future))
        # The writer publishes first and looks for waiters afterwards; we register first and look
        # again afterwards. One of the two always sees the other, so no wake-up is lost and no
        # lock is needed.
        if self.failure is not None or self.is_safe(sequence, sync=sync):
            self._settle()
        await future

    def _announce(self) -> None:
        if not self._waiters or self._loop is None:
            return
        # A closed loop has no task left to wake; whoever waits on a later loop looks for itself
        # after registering.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        """Free every waiter that is served or refused. Runs on the loop's thread."""
        waiting: list[tuple[int, bool, asyncio.Future[None]]] = []
        failure = self.failure
        synced, written = self.synced, self.written
        for waiter in self._waiters:
            sequence, sync, future = waiter
            if future.done() or future.get_loop().is_closed():
                continue
            if (synced if sync else written) >= sequence:
                future.set_result(None)
            elif failure is not None:
                refusal = JournalFailed(failure.message, hint=failure.hint)
                refusal.__cause__ = failure
                future.set_exception(refusal)
            else:
                waiting.append(waiter)
        self._waiters = waiting


class WriteTicket:
    """The receipt both journals give."""

    __slots__ = ("_progress", "_sync", "sequence")

    def __init__(self, progress: WriteProgress, sequence: int, *, sync: bool) -> None:
        self.sequence = sequence
        self._progress = progress
        self._sync = sync

    async def durable(self) -> None:
        """Return once the records are safe; raise JournalFailed if they never will be."""
        await self._progress.wait(self.sequence, sync=self._sync)
