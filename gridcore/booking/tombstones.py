"""What is remembered of requests that are over: so many of all callers together.

A site remembers each reservation that has ended, and each request that was released before it came,
so that a late copy of it books nothing. That costs memory and journal, and a caller can reserve and
release without end. So the room for it is shared: when it is full, the caller who takes most of it
loses the oldest of their own, and nobody else loses anything. An ended reservation that makes way
leaves a tombstone, which is a hundredth of its size; a tombstone that makes way leaves nothing.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

from gridtravel.gridcore.timing.instants import Instant

ENDED_MAX: Final = 5_000
"""Ended reservations of one site, of all owners together."""
TOMBSTONES_MAX: Final = 20_000
"""Tombstones of one site, of all owners together."""

GONE_SPARE: Final = 64
"""Instants that have gone and are kept before it is worth sorting them out."""

K = TypeVar("K")


class SharedRoom(Generic[K]):
    """What the owners keep in a room that has so many places. Whoever keeps no more than the places
    divided by the number of owners loses nothing.
    """

    def __init__(self) -> None:
        self._kept: dict[str, dict[K, None]] = {}
        """By owner, the oldest first; no owner has none."""
        self._count = 0

    def add(self, owner: str, key: K) -> None:
        """One more, which is not kept yet."""
        self._kept.setdefault(owner, {})[key] = None
        self._count += 1

    def drop(self, owner: str, key: K) -> None:
        """It is kept no more."""
        kept = self._kept[owner]
        del kept[key]
        self._count -= 1
        if not kept:
            del self._kept[owner]

    def makes_way(self, places: int) -> K | None:
        """Who has to go, as long as more than ``places`` are kept: the oldest of the owner who has
        most, of two the first by name.
        """
        if self._count <= places:
            return None
        most = min(self._kept.items(), key=lambda each: (-len(each[1]), each[0]))[1]
        return next(iter(most))

    def counts(self) -> dict[str, int]:
        """How many each owner keeps."""
        return {owner: len(kept) for owner, kept in self._kept.items()}


class OldestInstant:
    """The oldest of many instants, which come and go in any order."""

    def __init__(self) -> None:
        self._heap: list[Instant] = []
        """Each instant of ``count``, and a bounded number of those that have gone."""
        self.count: Counter[Instant] = Counter()

    def add(self, at: Instant) -> None:
        """One more."""
        self.count[at] += 1
        if self.count[at] > 1:
            return
        heapq.heappush(self._heap, at)
        if len(self._heap) > 2 * len(self.count) + GONE_SPARE:
            self._heap = sorted(self.count)

    def drop(self, at: Instant) -> None:
        """One less."""
        self.count[at] -= 1
        if not self.count[at]:
            del self.count[at]

    def get(self) -> Instant | None:
        """The oldest; ``None``: there is none."""
        while self._heap and self._heap[0] not in self.count:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None


class RequestTombstones(Mapping[tuple[str, str], Instant]):
    """(owner, request id) -> when it ended, or was released before it came. Changed by its owner's
    ``apply`` only.
    """

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], Instant] = {}
        self._room: SharedRoom[tuple[str, str]] = SharedRoom()
        self._instants = OldestInstant()

    def __getitem__(self, key: tuple[str, str]) -> Instant:
        return self._at[key]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._at == dict(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def add(self, key: tuple[str, str], at: Instant) -> None:
        """One more; where there is no room for it, another makes way."""
        self._at[key] = at
        self._room.add(key[0], key)
        self._instants.add(at)
        while (gone := self._room.makes_way(TOMBSTONES_MAX)) is not None:
            self._drop(gone)

    def forget(self, before: Instant) -> None:
        """Leave out those of before ``before``."""
        for key in [key for key, at in self._at.items() if at < before]:
            self._drop(key)

    def oldest(self) -> Instant | None:
        """When the oldest of them came to its end."""
        return self._instants.get()

    def validate(self) -> None:
        """Assert every invariant that links the fields."""
        assert self._room.counts() == Counter(owner for owner, _ in self._at), "a place for each"
        assert self._instants.count == Counter(self._at.values()), "an instant for each"

    def _drop(self, key: tuple[str, str]) -> None:
        self._room.drop(key[0], key)
        self._instants.drop(self._at.pop(key))
