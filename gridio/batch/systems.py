"""What an adapter to a batch system is: its commands as a text of shell functions (``NAME.sh``),
which all systems call by the same names, and the reading of what these print.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from gridcore.errors import UnavailableError
from gridcore.instants import Instant
from gridcore.reservations import DeclineRule


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReservation:
    """A reservation of ours, as the batch system has it."""

    name: str
    start: Instant
    end: Instant
    nodes: int
    is_broken: bool = False
    """Some of its nodes are out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why it would not set a reservation."""

    rule: DeclineRule
    words: str
    """Its own."""
    nodes_now: int = 0
    hint: str = ""


class BatchSystem(Protocol):
    """The reading half of one batch system; stateless."""

    name: str
    """As in ``BatchOptions.system``, and the name of its shell text."""

    def stamp(self, instant: Instant) -> str:
        """A moment as the commands take it, to the second, in UTC."""
        ...

    def read_list(self, text: str) -> list[BatchReservation]:
        """What ``b_list`` printed."""
        ...

    def read_ends(self, text: str) -> list[Instant]:
        """What ``b_ends`` printed: when something that occupies room ends."""
        ...

    def read_size(self, text: str, queue: str) -> int:
        """What ``b_size`` printed: nodes in all."""
        ...

    def read_jobs(self, text: str) -> dict[str, str]:
        """What ``b_jobs`` printed: ``waiting``, ``running`` or ``broken``, by name; a job that is
        over is missing.
        """
        ...

    def read_refusal(self, words: str) -> Refusal:
        """What the words mean with which a reservation was refused."""
        ...


def read_instant(text: str) -> Instant:
    """``2026-11-21T11:14:23``; the commands are asked in UTC."""
    try:
        return int(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp())
    except ValueError:
        raise UnavailableError(f"the batch system's time makes no sense: {text[:40]!r}") from None
