"""The processors behind a machine's shared nodes: node *i* of those is processor *i*, whose tasks
run there and nowhere else, each with its part of it.

By control groups where the kernel lets us make some, else in turns. Tasks with nodes of their own
are kept to the other processors, if there are any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gridtravel.gridcore.errors import InputError
from gridtravel.local_sched.resource_managers.supervised.control_groups import (
    TaskGroup,
    can_share,
    serve_beside_tasks,
)
from gridtravel.local_sched.resource_managers.supervised.turns import Turns

if TYPE_CHECKING:
    from gridtravel.gridio.system.clock import Clock


@dataclass(slots=True, eq=False)
class _Given:
    """What a task is to have, and what its shares came to so far, node by node."""

    node_names: tuple[str, ...]
    shares: tuple[float, ...]
    since: float
    summed_s: list[float] = field(default_factory=list)

    def change(self, shares: Sequence[float], now: float) -> None:
        """Other shares from ``now`` on."""
        self.summed_s = self.sums(now)
        self.shares, self.since = tuple(shares), now

    def sums(self, now: float) -> list[float]:
        """The integral of each share up to ``now``, in seconds."""
        summed_s = self.summed_s or [0.0] * len(self.shares)
        elapsed_s = max(0.0, now - self.since)
        return [
            so_far_s + share * elapsed_s
            for so_far_s, share in zip(summed_s, self.shares, strict=True)
        ]


class SharedProcessors:
    """See the module. All methods belong to the daemon's event loop."""

    def __init__(
        self,
        nodes: Sequence[str],
        clock: Clock,
        *,
        pids_of: Callable[[str], list[int]],
        group_of: Callable[[str], TaskGroup],
        control_groups: bool,
    ) -> None:
        """``nodes``: the shared ones in their order; ``pids_of``, ``group_of``: the processes and
        control groups of a task. ``InputError`` when there are not so many processors.
        """
        here = sorted(os.sched_getaffinity(0))
        if len(nodes) > len(here):
            raise InputError(
                f"{len(nodes)} nodes are shared, and this machine has {len(here)} processors",
                hint="a shared node of this machine is one of its processors",
            )
        self.processors = dict(zip(nodes, here, strict=False))
        """By node."""
        self.others = (here[len(nodes) :] or here) if nodes else []
        """For tasks with nodes of their own; none: nothing is shared here, and any will do."""
        self.by_kernel = control_groups and bool(nodes) and can_share()
        self._clock = clock
        self._group_of = group_of
        self._given: dict[str, _Given] = {}
        self._turns = Turns(clock, pids_of)
        if self.by_kernel:
            serve_beside_tasks(os.getpid())

    def of(self, node_names: Sequence[str]) -> list[int]:
        """The processors of shared nodes. ``InputError`` names one that is not shared."""
        for name in node_names:
            if name not in self.processors:
                raise InputError(f"node {name} is not shared between tasks")
        return sorted({self.processors[name] for name in node_names})

    def node_names(self, job_id: str) -> tuple[str, ...]:
        """Nodes of a task that shares them; none: it does not, or is over."""
        given = self._given.get(job_id)
        return () if given is None else given.node_names

    def begin(self, job_id: str, node_names: Sequence[str], shares: Sequence[float]) -> None:
        """A task is launched, or was found again. Its supervisor has made its control group."""
        now = self._clock.now_precise()
        self._given[job_id] = _Given(tuple(node_names), tuple(shares), now)

    def started(self, job_id: str) -> None:
        """Its processes are there: what the supervisor could not give it, it gets here."""
        given = self._given.get(job_id)
        if given is not None:
            self._give(job_id, given)

    def set(self, job_id: str, shares: Sequence[float]) -> None:
        """Other shares; nothing for a task that is over or does not share."""
        given = self._given.get(job_id)
        if given is None:
            return
        given.change(shares, self._clock.now_precise())
        self._give(job_id, given)

    def times_s(self, job_id: str, total_s: float | None) -> tuple[float, ...] | None:
        """Processor time that a task had on each of its nodes, in proportion to what its shares
        came to. ``total_s``: of one that is over; ``None``: measured now. ``None``: not shared.
        """
        given = self._given.get(job_id)
        if given is None:
            return None
        if total_s is None:
            counted_s = self._group_of(job_id).cpu_s() if self.by_kernel else None
            total_s = self._turns.had_s(job_id) if counted_s is None else counted_s
        sums = given.sums(self._clock.now_precise())
        whole = sum(sums)
        if not whole:
            return tuple(total_s / len(sums) for _ in sums)
        return tuple(total_s * each / whole for each in sums)

    def drop(self, job_id: str) -> None:
        """It is told to end, and must run for that; what it had is still known."""
        self._turns.drop(job_id)

    def forget(self, job_id: str) -> None:
        """It is over, and recorded."""
        self._turns.drop(job_id)
        self._given.pop(job_id, None)

    def close(self) -> None:
        """Tasks go on by themselves."""
        self._turns.close()

    def _give(self, job_id: str, given: _Given) -> None:
        if self.by_kernel:
            self._group_of(job_id).share(sum(given.shares))
        else:
            self._turns.set(job_id, self.processors[given.node_names[0]], sum(given.shares))
