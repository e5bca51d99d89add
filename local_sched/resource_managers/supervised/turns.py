"""Dividing processors between tasks where the kernel does not do it for us: by stopping all tasks
of a processor but one, in turns.

Needs no right but that to signal the tasks. Whoever has had least of what it is owed goes on; what
counts is processor time as measured, so shares come out exactly in the long run, also beside what
strangers run. Niceness was rejected: its steps are a quarter, and without privilege it only falls.

The turns are those of the daemon: while it is down, stopped tasks stay stopped.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gridtravel.local_sched.resource_managers.supervised.processes import (
    are_asleep,
    cpu_of,
    signal_process,
)

if TYPE_CHECKING:
    from gridtravel.gridio.system.clock import Clock

TURN_S: Final = 0.1
"""Length of a turn; ten of the kernel's ticks, in which it counts."""
OWED_MAX_S: Final = 2.0
"""What a task did not want while it slept is not made good beyond this."""


@dataclass(slots=True, eq=False)
class _Turn:
    """One task among those of its first processor."""

    processor: int
    share: float
    had_s: float = 0.0
    owed_s: float = 0.0
    """What it is entitled to more than it had; negative: it had more."""
    is_stopped: bool = False


class Turns:
    """The tasks that take turns."""

    def __init__(self, clock: Clock, pids_of: Callable[[str], list[int]]) -> None:
        """``pids_of``: the living processes of a task."""
        self._clock = clock
        self._pids_of = pids_of
        self._tasks: dict[str, _Turn] = {}
        self._round: asyncio.Task[None] | None = None

    def set(self, job_id: str, processor: int, share: float) -> None:
        """The task shares this processor from now on, or gets another part of it."""
        known = self._tasks.get(job_id)
        if known is not None:
            known.share = share
            return
        self._tasks[job_id] = _Turn(processor, share, had_s=cpu_of(self._pids_of(job_id)))
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._go_round(), name="turns")

    def drop(self, job_id: str) -> None:
        """The task takes no turns any more, and goes on: it is to end, or has."""
        if self._tasks.pop(job_id, None) is not None:
            self._signal(job_id, signal.SIGCONT)

    def had_s(self, job_id: str) -> float:
        """Processor time of a task so far."""
        known, now_s = self._tasks.get(job_id), cpu_of(self._pids_of(job_id))
        return now_s if known is None else max(known.had_s, now_s)

    def close(self) -> None:
        """Let all go on."""
        if self._round is not None:
            self._round.cancel()
        for job_id in list(self._tasks):
            self.drop(job_id)

    async def _go_round(self) -> None:
        while self._tasks:
            for processor in {each.processor for each in self._tasks.values()}:
                self._next_turn(processor)
            await self._clock.sleep_until(self._clock.now_precise() + TURN_S)

    def _next_turn(self, processor: int) -> None:
        """Whoever is owed most goes on, the others stop."""
        here = {job_id: each for job_id, each in self._tasks.items() if each.processor == processor}
        used = {job_id: self._measure(job_id, each) for job_id, each in here.items()}
        total_s, shares = sum(used.values()), sum(each.share for each in here.values()) or 1.0
        for job_id, each in here.items():
            owed_s = each.owed_s + total_s * each.share / shares - used[job_id]
            each.owed_s = max(-OWED_MAX_S, min(OWED_MAX_S, owed_s))
        for job_id, each in here.items():
            if not each.is_stopped and len(here) > 1 and are_asleep(self._pids_of(job_id)):
                each.owed_s = min(each.owed_s, -TURN_S)  # it does not want its turn
        chosen = max(here, key=lambda job_id: here[job_id].owed_s)
        for job_id, each in here.items():
            if job_id != chosen:
                # Each time: it may have started processes since.
                self._signal(job_id, signal.SIGSTOP)
            elif each.is_stopped:
                self._signal(job_id, signal.SIGCONT)
            each.is_stopped = job_id != chosen

    def _measure(self, job_id: str, turn: _Turn) -> float:
        had_s = max(turn.had_s, cpu_of(self._pids_of(job_id)))
        used_s, turn.had_s = had_s - turn.had_s, had_s
        return used_s

    def _signal(self, job_id: str, number: signal.Signals) -> None:
        for pid in self._pids_of(job_id):
            signal_process(pid, number)
