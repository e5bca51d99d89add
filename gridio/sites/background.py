"""Work that outlives the call that began it.

A caller may go away in the middle of a reserve or a commit; what was begun must still come to its
end, and a caller who asks again must find the same work and not begin it twice. So each piece of
such work is an errand with a name, owned by the daemon and not by the call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gridtravel.gridcore.errors import GridError, UnavailableError
from gridtravel.gridio.journal.contract import JournalFailed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any
    fault: Exception | None


class BackgroundTasks:
    """The errands of one daemon, at most one of a name at a time."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[_Outcome]] = {}

    @property
    def names(self) -> list[str]:
        """What is under way, oldest first."""
        return list(self._tasks)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Within it errands can be run; at its end those that are left are cancelled. A journal
        that failed ends all of them, and is raised here: what is applied may be ahead of the disk.
        """
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in self._tasks.values():
                    task.cancel()

    def start(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """See to it that ``name`` is under way."""
        if name not in self._tasks:
            self._begin(name, work)

    async def single_flight(self, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The outcome of ``name``, which is begun unless it is under way. Going away while it runs
        does not stop it.
        """
        task = self._tasks.get(name) or self._begin(name, work)
        try:
            outcome = await asyncio.shield(task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if task.cancelled() and current is not None and not current.cancelling():
                raise UnavailableError("the daemon is stopping", hint="ask again later") from None
            raise
        if outcome.fault is not None:
            raise outcome.fault
        return outcome.value

    def _begin(
        self, name: str, work: Callable[[], Coroutine[Any, Any, object]]
    ) -> asyncio.Task[_Outcome]:
        if self._group is None:
            raise UnavailableError("the daemon is not running", hint="ask again later")
        task = self._group.create_task(self._run(name, work), name=name)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))
        return task

    async def _run(self, name: str, work: Callable[[], Coroutine[Any, Any, object]]) -> _Outcome:
        """Every fault belongs to whoever joins, but for that of the journal."""
        try:
            return _Outcome(await work(), None)
        except GridError as fault:
            if isinstance(fault, JournalFailed):
                raise
            return _Outcome(None, fault)
        except Exception as fault:
            if isinstance(fault, ExceptionGroup) and fault.subgroup(JournalFailed):
                raise
            log.exception("errand %s failed", name)
            return _Outcome(None, fault)
