"""How many messages a protocol costs, counted where they are sent."""

from __future__ import annotations

from typing import Any

from gridtravel.gridcore.ports import CalendarPort


class Counted:
    """A calendar that counts what it is asked; each question is one message, its answer another."""

    def __init__(self, inner: CalendarPort) -> None:
        self._inner = inner
        self.calls = 0

    def __getattr__(self, verb: str) -> Any:
        self.calls += 1
        return getattr(self._inner, verb)
