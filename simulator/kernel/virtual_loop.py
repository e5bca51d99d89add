"""An asyncio loop in virtual time: when nothing can be done now, it jumps to the next timer.

Time starts at zero and only ``select`` moves it. Three things are unlike a real loop's:

- The clock's resolution is a microsecond. asyncio's default of a nanosecond disappears in floating
  point beyond 2^24 s (194 days), and the loop would then spin for ever on a timer that is due and
  not due at once. With a microsecond it is good for more than a century.
- A callback belongs to the *owner* that scheduled it (a contextvar, so tasks inherit it), and an
  owner that has ended never runs again: its tasks stop where they are, without error handling, as
  those of a killed process do. Cancelling would run their ``finally`` clauses.
- Threads do not exist: ``run_in_executor`` (and ``asyncio.to_thread``) does the work at once.

When neither a callback nor a timer is left, everybody waits for ever, and that is a fault.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import warnings
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple, Unpack

from gridtravel.gridcore.errors import GridError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION_S: Final = 1e-6
ENDING_ROUNDS_MAX: Final = 100
ENDING_PATIENCE_S: Final = 60.0
"""When a world is over, how often and for how long its tasks are asked to end."""


class DeadlockError(GridError):
    """Nothing will ever happen again, and somebody still waits."""


class Owner(Protocol):
    """Whom a callback belongs to."""

    @property
    def is_paused(self) -> bool:
        """Asked before each callback; True: it is handed to ``defer``."""
        ...

    def defer(self, again: Callable[[], object]) -> None:
        """Call ``again`` when the owner, which is paused, goes on."""
        ...

    def may_run(self) -> bool:
        """Asked after that; False drops the callback."""
        ...


OWNER: Final[contextvars.ContextVar[Owner | None]] = contextvars.ContextVar("owner", default=None)
"""The owner of whatever is scheduled here; ``None``: the world itself, which never ends."""


class _JumpingSelector:
    """Waits for no file, by moving the time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        """Pass ``timeout`` seconds; ``None`` is for ever."""
        if timeout is None:
            raise DeadlockError(
                "every task waits for another, and no timer is set",
                hint="replay its seed to see who waits for what",
            )
        if timeout > 0:
            self._loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. Close it when done."""

    def __init__(self) -> None:
        super().__init__()
        self._clock_resolution = RESOLUTION_S
        self._selector = _JumpingSelector(self)
        self._virtual_s = 0.0
        self._thread_here = threading.get_ident()
        self.callbacks_run = 0
        """Callbacks run so far: a measure of work that no machine changes."""
        self._tasks: dict[asyncio.Task[Any], None] = {}
        """All that are not known to be done, in order of creation. An ended owner's tasks are kept
        from the garbage collector, which would close them, at a moment that nobody can repeat.
        """
        self._tasks_kept = 64
        self._dropped: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []
        self.is_ending = False
        """Set when the world is over: the ended may run again, to clear up after themselves."""

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_s

    def pass_time(self, seconds: float) -> None:
        """Move on; for the selector, and for tests of long times."""
        self._virtual_s += seconds

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        """See asyncio."""
        task = super().create_task(coro, name=name, context=context)
        self._tasks[task] = None
        if len(self._tasks) > self._tasks_kept:
            self.forget_done()
            self._tasks_kept = 2 * len(self._tasks) + 64
        return task

    def forget_done(self) -> None:
        """Let go of the tasks that are done; one whose exception nobody has looked at is reported
        to the exception handler by that.
        """
        self._tasks = {each: None for each in self._tasks if not each.done()}

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All tasks that are not done, in order of creation."""
        return [each for each in self._tasks if not each.done()]

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """See asyncio; dropped when its owner has ended by then."""
        held: list[asyncio.Handle] = []
        held.append(super().call_soon(self._run_owned, held, callback, args, context=context))
        return held[0]

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """See asyncio; dropped when its owner has ended by then."""
        held: list[asyncio.Handle] = []
        handle = super().call_at(when, self._run_timer, held, callback, args, context=context)
        held.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """The same as ``call_soon``: there are no threads."""
        assert threading.get_ident() == self._thread_here, "no threads in virtual time"
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]  # asyncio's stub allows no plain future
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do it now, in no virtual time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as fault:
            done.set_exception(fault)
        return done

    def _run_owned(
        self,
        held: list[asyncio.Handle],
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        owner = OWNER.get()
        if owner is None or self.is_ending or (not owner.is_paused and owner.may_run()):
            self.callbacks_run += 1
            callback(*args)
        elif owner.is_paused:
            self._defer(owner, held, callback, args)
        else:
            self._dropped.append((callback, args, contextvars.copy_context()))

    def _run_timer(
        self,
        held: list[asyncio.Handle],
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        owner = OWNER.get()
        if owner is None or self.is_ending or (not owner.is_paused and owner.may_run()):
            self.callbacks_run += 1
            callback(*args)
        elif owner.is_paused:
            self._defer(owner, held, callback, args)

    def _defer(
        self,
        owner: Owner,
        held: list[asyncio.Handle],
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        """Leave a callback to its paused owner. ``held`` is the callback's handle: whoever cancels
        it before the callback runs after the pause is heard.
        """
        context = contextvars.copy_context()

        def unless_cancelled() -> None:
            if not held[0].cancelled():
                callback(*args)

        owner.defer(lambda: self.call_soon(unless_cancelled, context=context))

    def run_the_dropped(self) -> None:
        """When the world is over: the steps of the ended that were due, so that their tasks can
        end.
        """
        dropped, self._dropped = self._dropped, []
        for callback, args, context in dropped:
            self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: list[Any]) -> None:
        """No files, no events."""

    def _write_to_self(self) -> None:
        """Nobody has to be woken up: there are no threads."""


def run_virtual(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run ``main`` on a loop of its own, then end whatever it left behind, and close the loop."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.is_ending = True
        try:
            with warnings.catch_warnings():
                # What the ended begin while they clear up is cancelled before it has run.
                warnings.simplefilter("ignore", RuntimeWarning)
                loop.run_until_complete(_end_everything(loop))
                loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


async def _end_everything(loop: VirtualLoop) -> None:
    """Cancel all other tasks, also those of ended owners, and let them clear up. Some wait again
    while they do, for what will never come: they are cancelled again.
    """
    own = asyncio.current_task()
    # First what was due, so that no task is cancelled before it has begun: Python warns of that.
    loop.run_the_dropped()
    await _pass(loop, RESOLUTION_S)
    for _ in range(ENDING_ROUNDS_MAX):
        left = [task for task in loop.tasks() if task is not own]
        if not left:
            return
        for task in left:
            task.cancel()
        loop.run_the_dropped()
        await _pass(loop, ENDING_PATIENCE_S)
    raise DeadlockError(
        f"{len(left)} tasks do not end, the first is {left[0].get_name()}",
        hint="replay its seed to see what the task waits for",
    )


async def _pass(loop: VirtualLoop, seconds: float) -> None:
    waiter = loop.create_future()
    loop.call_later(seconds, waiter.set_result, None)
    await waiter
