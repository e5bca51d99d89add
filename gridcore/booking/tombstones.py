"""What is remembered of requests that were released before they came.

Each is a promise that a late copy books nothing, and costs its site memory for a day; so one caller
may have so many of them, and is told to wait when there are more. A release that is refused so has
promised nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.timing.instants import Instant

TOMBSTONES_MAX: Final = 10_000
"""Of one owner at one site."""


class RequestTombstones(Mapping[tuple[str, str], Instant]):
    """(owner, request id) -> when it was released. Changed by its owner's ``apply`` only."""

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], Instant] = {}
        self._count: Counter[str] = Counter()

    def __getitem__(self, key: tuple[str, str]) -> Instant:
        return self._at[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._at == dict(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def check_room(self, owner: str) -> None:
        """``UnavailableError`` for an owner who has too many of them."""
        if self._count[owner] >= TOMBSTONES_MAX:
            raise UnavailableError(
                f"{owner} has released {TOMBSTONES_MAX} requests that never came",
                hint="they are forgotten in time; release by the reservation's id, or ask later",
            )

    def add(self, key: tuple[str, str], at: Instant) -> None:
        """One more; a journal may hold more than ``check_room`` allows."""
        self._at[key] = at
        self._count[key[0]] += 1

    def forget(self, before: Instant) -> None:
        """Leave out those of before ``before``."""
        for key in [key for key, at in self._at.items() if at < before]:
            del self._at[key]
            self._count[key[0]] -= 1
            if not self._count[key[0]]:
                del self._count[key[0]]
