"""The life of a process: from its start to its end or its sudden death, in a simulated world.

A *party* (a site's daemon, a laptop) lives many lives, one after the other. Everything that a life
starts belongs to it, through the loop's owners (``virtual_loop``); when it dies, nothing of it runs
again, and what it had not written to its disk is gone.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from gridtravel.simulator.kernel.virtual_loop import OWNER

T = TypeVar("T")


class PointKind(enum.StrEnum):
    """Where in a life a crash may be asked for."""

    STEP = "step"
    """Before the n-th callback of the life: that is, at its n-th ``await``."""
    SENT = "sent"
    """Right after its n-th message left."""
    RECEIVED = "received"
    """Right when its n-th message arrives, before it is looked at."""
    WRITE_BEFORE = "before write"
    """When its n-th write begins: nothing of it is stored."""
    WRITE_AFTER = "after write"
    """When its n-th write is stored, and nobody knows yet."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class CrashPoint:
    """The n-th occasion (from 1) of a kind in a party's first life."""

    party: str
    kind: PointKind
    number: int

    def __str__(self) -> str:
        return f"{self.party} at {self.kind} {self.number}"


class SimulatedProcess:
    """One run of one party's program."""

    def __init__(
        self,
        party: str,
        *,
        on_death: Callable[[], None],
        crash_at: CrashPoint | None = None,
    ) -> None:
        """``on_death``: what the world does when ``crash_at`` is reached; it calls ``end``."""
        self.party = party
        self.is_alive = True
        self.counts = dict.fromkeys(PointKind, 0)
        """Occasions so far."""
        self._on_death = on_death
        self._crash_at = crash_at
        self._deferred: list[Callable[[], object]] | None = None
        """What was due while it was paused; ``None``: it is not."""
        self._callbacks: list[Callable[[], None]] = []

    def may_run(self) -> bool:
        """See ``virtual_loop.Owner``; counts the step."""
        return self.is_alive and self.passes(PointKind.STEP)

    @property
    def is_paused(self) -> bool:
        """See ``virtual_loop.Owner``."""
        return self._deferred is not None

    def defer(self, again: Callable[[], object]) -> None:
        """See ``virtual_loop.Owner``."""
        assert self._deferred is not None, f"{self.party} is not paused"
        self._deferred.append(again)

    def pause(self) -> None:
        """As SIGSTOP, or a closed lid: nothing runs, nothing is lost, and time goes on."""
        if self.is_alive and self._deferred is None:
            self._deferred = []

    def go_on(self) -> None:
        """After a pause: everything that was due meanwhile, in its order."""
        deferred, self._deferred = self._deferred, None
        for again in deferred or ():
            again()

    def passes(self, kind: PointKind) -> bool:
        """Note an occasion to crash; False when it was taken (or the life is over anyway)."""
        if not self.is_alive:
            return False
        self.counts[kind] += 1
        point = self._crash_at
        if point is not None and point.kind is kind and point.number == self.counts[kind]:
            self._on_death()
        return self.is_alive

    def spare(self) -> None:
        """It does not crash at its point any more."""
        self._crash_at = None

    def end(self) -> None:
        """Nothing of this life runs any more."""
        if not self.is_alive:
            return
        self.is_alive = False
        self.go_on()
        callbacks, self._callbacks = self._callbacks, []
        for on_exit in callbacks:
            on_exit()

    def on_exit(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` at the end of this life (at once if it is over); the function returned
        takes that back.
        """
        if not self.is_alive:
            callback()
            return lambda: None
        self._callbacks.append(callback)

        def take_back() -> None:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

        return take_back

    def context(self) -> contextvars.Context:
        """A context in which everything belongs to this life."""
        context = contextvars.Context()
        context.run(OWNER.set, self)
        return context

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run ``work`` as a task of this life."""
        loop = asyncio.get_running_loop()
        return loop.create_task(work, name=f"{self.party}: {name}", context=self.context())


def outside(function: Callable[..., T], *arguments: Any) -> T:
    """Call ``function`` as the world, so that what it starts outlives the caller's life."""
    return contextvars.Context().run(function, *arguments)


def first_fault(faults: BaseException) -> str:
    """The first fault of a group (or the fault itself), and the last functions it came through."""
    while isinstance(faults, BaseExceptionGroup):
        faults = faults.exceptions[0]
    through = []
    trace = faults.__traceback__
    while trace is not None:
        through.append(f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(faults).__name__}: {faults} ({' > '.join(through[-4:])})"
