"""How much a manager promises in advance (calendar paper, section 2.2, *resource threshold*).

Behind the fundamental slots of its ladder a manager withholds a share of all nodes below it, for
what comes at the last minute and for parts of larger groups. A request for more than the rest gets
a time at which everything is free. Its children may withhold on their own account as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.search.combining import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceThreshold:
    """The threshold as it applies to one request at one moment."""

    since: Instant
    """Starts from here on are in advance."""
    withheld: int
    capacity: int
    """Nodes below that the request could use, whether free or not."""

    def usable(self, free: int, start: Instant) -> int:
        """How many of so many free nodes may be promised for ``start``."""
        if start < self.since or free >= self.capacity:
            return free
        return max(0, free - self.withheld)

    def limit(self, spans: Iterable[Span]) -> Iterator[Span]:
        """``spans`` with what may be promised of them; one that begins near and reaches far is
        two.
        """
        for span in spans:
            if span.start < self.since < span.until:
                yield replace(span, until=self.since)
                yield self._limited(replace(span, start=self.since))
            else:
                yield self._limited(span)

    def _limited(self, span: Span) -> Span:
        free = sum(room.nodes for room in span.rooms)
        return replace(span, usable=self.usable(free, span.start))
