"""The manager's own summary: the sum over its children's shadows, on its own slot ladder.

What is safe, and is done here:

* The least number of free nodes of a sum is at least the sum of the least numbers, so the sum of
  what is free in *every* second of a slot at each child is free in every second at all of them
  together. The sum never shows more than there is (as of the shadows); it may show less, when one
  child is busy in the first half of a slot and another in the second.
* Free node-seconds add up exactly where a child's slots lie within ours. Of a slot that sticks out
  of ours only that part is counted which must lie inside, whatever the rest looks like.

The price is the highest of the children's: whoever counts with it is never charged more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gridtravel.gridcore.booking.summaries import (
    CalendarSummary,
    CalendarVersion,
    ClassSummary,
    SummarySlot,
)
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.ports import ClassDescription
from gridtravel.gridcore.timing.instants import Instant

_ClassKey = tuple[str, tuple[str, ...]]


def roll_up(
    site: str,
    children: Sequence[CalendarSummary],
    total: RollingSum,
    *,
    version: CalendarVersion,
    now: Instant,
) -> CalendarSummary:
    """The sum of ``children`` as seen at ``now``, up to the horizon of ``total`` or until
    everything behind is free. Classes of the same name and features are one; of the same name and
    other features they are told apart by their features.
    """
    by_key: dict[_ClassKey, dict[tuple[str, int], ClassSummary]] = {}
    for child in children:
        for number, each in enumerate(child.classes):
            by_key.setdefault((each.name, each.features), {})[child.site, number] = each
    names = class_names(by_key)
    total.keep_only({each.site for each in children})
    return CalendarSummary(
        site=site,
        version=version,
        as_of=now,
        classes=tuple(
            ClassSummary(
                name=names[key],
                capacity=sum(each.capacity for each in parts.values()),
                features=key[1],
                slots=total.slots(parts, now),
            )
            for key, parts in by_key.items()
        ),
        millicredits_per_node_hour=max(
            (each.millicredits_per_node_hour for each in children), default=0
        ),
    )


def describe_classes(
    children: Iterable[Sequence[ClassDescription]],
) -> tuple[ClassDescription, ...]:
    """The classes of all children, added up under the names that ``roll_up`` gives them."""
    nodes: dict[_ClassKey, int] = {}
    for classes in children:
        for each in classes:
            key = (each.name, each.features)
            nodes[key] = nodes.get(key, 0) + each.nodes
    names = class_names(nodes)
    return tuple(
        ClassDescription(name=names[key], nodes=count, features=key[1])
        for key, count in nodes.items()
    )


def class_names(keys: Iterable[_ClassKey]) -> Mapping[_ClassKey, str]:
    """A different name for each pair of a name and its features."""
    names: dict[_ClassKey, str] = {}
    taken: dict[str, None] = {}
    for key in keys:
        name, features = key
        if name in taken and features:
            name = f"{name}+{'+'.join(features)}"
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}~{number}", number + 1
        names[key] = unique
        taken[unique] = None
    return names


def tells_more(old: CalendarSummary | None, new: CalendarSummary | None) -> bool:
    """False when ``new`` is ``old`` a little later: same version, and the same in every slot that
    both have. Time moves slots on by itself, and no sum has to be made anew for that.
    """
    if old is None or new is None or old.version != new.version:
        return True
    if len(old.classes) != len(new.classes):
        return True
    for before, after in zip(old.classes, new.classes, strict=True):
        if before is after:
            continue
        if (before.name, before.capacity) != (after.name, after.capacity):
            return True
        known = {(slot.start, slot.end): slot for slot in before.slots}
        if any(known.get((each.start, each.end), each) != each for each in after.slots):
            return True
        if _is_busy_from(after, _end(before, old.as_of)) or _is_busy_from(
            before, _end(after, new.as_of)
        ):
            return True
    return False


def _end(summary: ClassSummary, as_of: Instant) -> Instant:
    """From when on all nodes are free."""
    return summary.slots[-1].end if summary.slots else as_of


def _is_busy_from(summary: ClassSummary, at: Instant) -> bool:
    slots = summary.slots
    return any(each.free_min < summary.capacity for each in slots if each.start >= at)


class RollingSum:
    """Sums over the same children again and again. What a child gives to the slots of the ladder is
    worked out once for each of its summaries, and as long as the slots lie where they lie.
    """

    def __init__(self, ladder: SlotLadder, horizon_s: int) -> None:
        self._ladder = ladder
        self._horizon_s = horizon_s
        self._edges: tuple[Instant, ...] = ()
        """Of all slots but the present one."""
        self._rooms: dict[tuple[str, int], tuple[ClassSummary, list[int], list[int]]] = {}
        """(child, number of its class) -> what it was, its least free nodes and its free
        node-seconds in each slot between ``_edges``.
        """

    def slots(
        self, parts: Mapping[tuple[str, int], ClassSummary], now: Instant
    ) -> tuple[SummarySlot, ...]:
        """The sum of ``parts`` from ``now`` on, until everything behind is free."""
        until = min(
            max((each.slots[-1].end for each in parts.values() if each.slots), default=now),
            now + self._horizon_s,
        )
        if until <= now:
            return ()
        edges = self._ladder.edges(now, now + self._horizon_s)
        if self._edges != (following := tuple(edges[1:])):
            self._edges = following
            self._rooms.clear()
        first = [_Reader(each).room(now, edges[1]) for each in parts.values()]
        found = [
            SummarySlot(
                now, edges[1], sum(r.free_min for r in first), sum(r.free_node_s for r in first)
            )
        ]
        behind = bisect_left(following, until)
        rooms = [self._room(key, each) for key, each in parts.items()]
        least = map(sum, zip(*(room[0][:behind] for room in rooms), strict=True))
        area = map(sum, zip(*(room[1][:behind] for room in rooms), strict=True))
        found += map(SummarySlot, following, following[1:], least, area)
        return tuple(found)

    def keep_only(self, children: Container[str]) -> None:
        """Forget what other children gave."""
        for key in [key for key in self._rooms if key[0] not in children]:
            del self._rooms[key]

    def _room(self, key: tuple[str, int], part: ClassSummary) -> tuple[list[int], list[int]]:
        known = self._rooms.get(key)
        if known is not None and known[0] is part:
            return known[1], known[2]
        reader = _Reader(part)
        rooms = [reader.room(start, end) for start, end in pairwise(self._edges)]
        least, area = [each.free_min for each in rooms], [each.free_node_s for each in rooms]
        self._rooms[key] = part, least, area
        return least, area


@dataclass(frozen=True, slots=True)
class _Room:
    free_min: int
    free_node_s: int


class _Reader:
    """Reads one child's slots along rising times, so that a whole sum reads each once."""

    def __init__(self, summary: ClassSummary) -> None:
        self._summary = summary
        self._next = 0

    def room(self, start: Instant, end: Instant) -> _Room:
        """What is certainly free in ``[start, end)``, which must not lie before an earlier one."""
        slots, capacity = self._summary.slots, self._summary.capacity
        while self._next < len(slots) and slots[self._next].end <= start:
            self._next += 1
        free_min, free_node_s, at = capacity, 0, start
        position = self._next
        # The time before the first slot is taken to be like that slot.
        while position < len(slots) and (slots[position].start < end or position == 0):
            slot = slots[position]
            inside_end = min(end, slot.end)
            inside_s = inside_end - at
            outside_s = max(0, slot.end - slot.start - inside_s)
            free_min = min(free_min, slot.free_min)
            certain = max(slot.free_min * inside_s, slot.free_node_s - capacity * outside_s)
            free_node_s += min(certain, capacity * inside_s)
            at = inside_end
            position += 1
        return _Room(free_min, free_node_s + capacity * (end - at))
