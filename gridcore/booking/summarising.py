"""From a calendar to its summary: what an owner publishes of its book, at the resolution of a slot
ladder (calendar paper, sections 2.1 and 2.4).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from gridtravel.gridcore.booking.summaries import CalendarSummary, ClassSummary, SummarySlot
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.calendar_book import CalendarBook
    from gridtravel.gridcore.capacity.ladders import SlotLadder


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
    availability = book.slots.rule.availability(book.free, max(now, book.slots.as_of))
    classes = tuple(
        ClassSummary(
            name=each.name,
            capacity=each.nodes,
            features=each.features,
            slots=_slots(availability[each.name], ladder, now, now + horizon_s),
        )
        for each in book.classes.values()
    )
    return CalendarSummary(
        site=book.site,
        version=book.version,
        as_of=now,
        classes=classes,
        millicredits_per_node_hour=max(
            (
                book.tariff.highest_millicredits_per_node_hour(each.name)
                for each in book.classes.values()
            ),
            default=0,
        ),
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
    """One slot; while more nodes are promised than there are (``withdraw``), none is free."""
    free_min = profile.min_free(start, end)
    if free_min >= 0:
        return SummarySlot(start, end, free_min, profile.free_node_seconds(start, end))
    missing = sum(
        nodes * ((end if until is None else min(end, until)) - max(start, since))
        for since, until, nodes in profile.shortages()
        if since < end and (until is None or until > start)
    )
    return SummarySlot(start, end, 0, profile.free_node_seconds(start, end) + missing)
