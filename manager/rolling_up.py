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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gridcore.instants import Instant
from gridcore.ladders import SlotLadder
from gridcore.ports import ClassDescription
from gridcore.summaries import CalendarSummary, CalendarVersion, ClassSummary, SummarySlot

_ClassKey = tuple[str, tuple[str, ...]]


def roll_up(
    site: str,
    children: Sequence[CalendarSummary],
    ladder: SlotLadder,
    *,
    version: CalendarVersion,
    now: Instant,
    horizon_s: int,
) -> CalendarSummary:
    """The sum of ``children`` as seen at ``now``, up to ``now + horizon_s`` or until everything
    behind is free. Classes of the same name and features are one; of the same name and other
    features they are told apart by their features.
    """
    by_key: dict[_ClassKey, list[ClassSummary]] = {}
    for child in children:
        for each in child.classes:
            by_key.setdefault((each.name, each.features), []).append(each)
    names = class_names(by_key)
    return CalendarSummary(
        site=site,
        version=version,
        as_of=now,
        classes=tuple(
            ClassSummary(
                name=names[key],
                capacity=sum(each.capacity for each in parts),
                features=key[1],
                slots=_slots(parts, ladder, now, horizon_s),
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


def _slots(
    parts: Sequence[ClassSummary], ladder: SlotLadder, now: Instant, horizon_s: int
) -> tuple[SummarySlot, ...]:
    until = min(
        max((each.slots[-1].end for each in parts if each.slots), default=now), now + horizon_s
    )
    if until <= now:
        return ()
    readers = [_Reader(each) for each in parts]
    found: list[SummarySlot] = []
    for edge, end in pairwise(ladder.edges(now, until)):
        start = max(edge, now)
        if start >= until:
            break
        rooms = [reader.room(start, end) for reader in readers]
        found.append(
            SummarySlot(
                start, end, sum(room.free_min for room in rooms), sum(r.free_node_s for r in rooms)
            )
        )
    return tuple(found)


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
