"""From a calendar to its summary, and from a summary back to an expectation.

``summarise`` is what an owner does to publish its book at the resolution of a slot ladder (calendar
paper, sections 2.1 and 2.4); ``offers_from_summary`` is what the holder of a shadow does to guess
the answer to an inquiry before making it. The guess rests on the least number of free nodes in each
slot, so it may miss room, and with a fresh summary never sees room where there is none. It promises
nothing: only the owner can say yes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from gridcore import fitting
from gridcore.calendar_rules import CalendarRules, ResourceClass
from gridcore.errors import InputError
from gridcore.instants import Instant
from gridcore.profile import AvailabilityProfile
from gridcore.reservations import Availability, Decline, ReservationRequest
from gridcore.summaries import CalendarSummary, CalendarVersion, ClassSummary, SummarySlot
from gridcore.tariffs import FlatTariff, Tariff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridcore.calendar_book import CalendarBook
    from gridcore.ladders import SlotLadder


def summarise(
    book: CalendarBook, ladder: SlotLadder, now: Instant, *, horizon_s: int
) -> CalendarSummary:
    """The free room of ``book`` from ``now`` on, slot by slot; as the book would promise it, which
    may be in whole slots of its own.

    Slots end where everything behind is free, at the latest with the slot that reaches
    ``now + horizon_s``; that should not be less than the horizon of the book's rules, for a reader
    takes what lies behind the last slot as free. The first slot begins at ``now``; every other edge
    is the ladder's. ``InputError`` when the ladder is too fine for the horizon.
    """
    if horizon_s < 1:
        raise InputError(f"a summary must look ahead at least 1 s: {horizon_s}")
    room = book.slots.rule.room(book.free, max(now, book.slots.as_of))
    classes = tuple(
        ClassSummary(
            name=each.name,
            capacity=each.nodes,
            features=each.features,
            slots=_slots(room[each.name], ladder, now, now + horizon_s),
        )
        for each in book.classes.values()
    )
    return CalendarSummary(
        site=book.site,
        version=book.version,
        as_of=now,
        classes=classes,
        millicredits_per_node_hour=max(
            book.tariff.unit_price_millicredits(each.name, now, 3600)
            for each in book.classes.values()
        ),
    )


def offers_from_summary(
    summary: CalendarSummary,
    request: ReservationRequest,
    now: Instant,
    *,
    lead_s: int = 0,
    horizon_s: int | None = None,
) -> Availability | Decline:
    """What a shadow lets one expect of the owner, in the form of the owner's own answer.

    ``lead_s`` and ``horizon_s`` are the owner's, as it describes itself; ``None`` is the usual
    horizon. With them and a fresh summary, whatever is offered here the owner would offer too.
    """
    known = _Knowledge.of(summary, horizon_s)
    room = {each.name: _room_of(each) for each in summary.classes}
    return fitting.find(known, request, now, room, lead_s=lead_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Knowledge:
    """The owner's terms, as far as its summary tells them."""

    site: str
    classes: Mapping[str, ResourceClass]
    rules: CalendarRules
    tariff: Tariff
    version: CalendarVersion

    @classmethod
    def of(cls, summary: CalendarSummary, horizon_s: int | None) -> _Knowledge:
        return cls(
            site=summary.site,
            classes={
                each.name: ResourceClass(
                    name=each.name, nodes=each.capacity, features=each.features
                )
                for each in summary.classes
                if each.capacity
            },
            rules=CalendarRules() if horizon_s is None else CalendarRules(horizon_s=horizon_s),
            tariff=FlatTariff(summary.millicredits_per_node_hour),
            version=summary.version,
        )


def _slots(
    profile: AvailabilityProfile, ladder: SlotLadder, now: Instant, horizon: Instant
) -> tuple[SummarySlot, ...]:
    begin = max(now, profile.origin)
    until = min(profile.times[-1], horizon) if profile.free[-1] >= profile.capacity else horizon
    if until <= begin:
        return ()
    return tuple(
        _slot(profile, max(edge, begin), end)
        for edge, end in pairwise(ladder.edges(begin, until))
        if edge < until
    )


def _slot(profile: AvailabilityProfile, start: Instant, end: Instant) -> SummarySlot:
    """One slot; nodes that are promised and gone (``withdraw``) are not less than none."""
    free_min = profile.min_free(start, end)
    if free_min >= 0:
        return SummarySlot(start, end, free_min, profile.free_node_seconds(start, end))
    missing = sum(
        nodes * ((end if until is None else min(end, until)) - max(start, since))
        for since, until, nodes in profile.shortages()
        if since < end and (until is None or until > start)
    )
    return SummarySlot(start, end, 0, profile.free_node_seconds(start, end) + missing)


def _room_of(summary: ClassSummary) -> AvailabilityProfile:
    """The least room that the summary allows: in each slot what is free in all of it."""
    room = AvailabilityProfile(summary.capacity, summary.slots[0].start if summary.slots else 0)
    for slot in summary.slots:
        if slot.free_min < summary.capacity:
            room.book(summary.capacity - slot.free_min, slot.start, slot.end)
    return room
