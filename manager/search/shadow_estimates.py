"""What shadows are good for: whom to ask, and what to try without asking first.

A shadow never promises (calendar paper, section 2.4). It is read in two ways, both of which only
cost messages when the shadow is stale:

* *May it have room?* Not when every stretch of the wanted length touches a FULL slot. A slot that
  is free in part may hide room anywhere, so its child is asked.
* *Does it surely have room?* What is free in every second of each slot that the task would touch.
  When that is enough for all that is wanted at the first second that is allowed, nothing that a
  child could answer would be better, so the manager goes straight to the holds: that is where the
  owners are asked.

An agent gives nodes of one resource class at a time; a manager can put several together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gridtravel.gridcore.booking.reservations import ReservationRequest
from gridtravel.gridcore.booking.summaries import CalendarSummary, ClassSummary
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.search.combining import ChildRoom, class_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowEstimate:
    """One child as its shadow shows it."""

    child: str
    is_manager: bool
    summary: CalendarSummary


def fitting_classes(summary: CalendarSummary, features: Iterable[str]) -> list[ClassSummary]:
    """The classes whose nodes have all of ``features``."""
    wanted = set(features)
    return [each for each in summary.classes if each.capacity and wanted <= set(each.features)]


def may_have_room(summary: CalendarSummary, request: ReservationRequest, soonest: Instant) -> bool:
    """False when the child, as of this summary, certainly has no node for the whole duration at any
    start from ``soonest`` on within the window.
    """
    return any(
        _longest_open_s(each, soonest, request.latest_end) >= request.duration_s
        for each in fitting_classes(summary, request.features)
    )


def sure_room(
    hint: ShadowEstimate, request: ReservationRequest, start: Instant
) -> ChildRoom | None:
    """The nodes that are free, as of this summary, at every second from ``start`` on."""
    end = start + request.duration_s
    rooms = [
        (nodes, each.name)
        for each in fitting_classes(hint.summary, request.features)
        if (nodes := _least_free(each, start, end)) > 0
    ]
    if not rooms:
        return None
    if hint.is_manager:
        nodes, name = sum(nodes for nodes, _ in rooms), class_of(name for _, name in rooms)
    else:
        nodes, name = max(rooms, key=lambda room: room[0])
    return ChildRoom(
        child=hint.child,
        nodes=nodes,
        unit_price_millicredits=unit_price(hint, request.duration_s),
        resource_class=name,
    )


def unit_price(hint: ShadowEstimate, duration_s: int) -> int:
    """What one node is likely to cost, in millicredits: the child's highest price."""
    return -(-hint.summary.millicredits_per_node_hour * duration_s // 3600)


def sure_rooms(
    shadow_estimates: Mapping[str, ShadowEstimate], request: ReservationRequest, start: Instant
) -> list[ChildRoom]:
    """``sure_room`` of every child, in their order, leaving out those without."""
    found = (sure_room(each, request, start) for each in shadow_estimates.values())
    return [room for room in found if room is not None]


def _longest_open_s(summary: ClassSummary, start: Instant, end: Instant) -> int:
    """Length of the longest stretch within ``[start, end)`` that touches no FULL slot."""
    longest_s, since = 0, start
    for slot in summary.slots[_first_slot(summary, start) :]:
        if slot.start >= end:
            break
        if slot.free_node_s == 0:
            longest_s = max(longest_s, slot.start - since)
            since = max(since, slot.end)
    return max(longest_s, end - since)


def _least_free(summary: ClassSummary, start: Instant, end: Instant) -> int:
    """Free nodes in each second of every slot that ``[start, end)`` touches."""
    least = summary.capacity
    for slot in summary.slots[_first_slot(summary, start) :]:
        if slot.start >= end:
            break
        if slot.end > start:
            least = min(least, slot.free_min)
    return least


def _first_slot(summary: ClassSummary, start: Instant) -> int:
    """The slot that holds ``start``, or the first one: of the time before it nothing is known, and
    it is taken to be like that.
    """
    return max(0, bisect_right(summary.slots, start, key=lambda slot: slot.start) - 1)
