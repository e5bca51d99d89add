"""What an owner publishes of its calendar, and the dated copies that others keep.

A summary is a hint: it plans, it never promises (calendar paper, section 2.4). A ``ShadowCalendar``
therefore has no method that books; only the owner can say yes.
"""

from __future__ import annotations

from dataclasses import dataclass

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant


@dataclass(frozen=True, slots=True, order=True)
class CalendarVersion:
    """``number`` grows by one with each change; a new ``epoch`` (restart, restored journal) voids
    all earlier numbers.
    """

    epoch: str
    number: int


@dataclass(frozen=True, slots=True)
class SummarySlot:
    """Room in ``[start, end)``: the least number of free nodes, and free node-seconds in all."""

    start: Instant
    end: Instant
    free_min: int
    free_node_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """Slots of one resource class in ascending order, without gaps; after the last one ``capacity``
    nodes are free.
    """

    name: str
    capacity: int
    features: tuple[str, ...] = ()
    slots: tuple[SummarySlot, ...] = ()

    def __post_init__(self) -> None:
        at: Instant | None = None
        for slot in self.slots:
            if slot.end <= slot.start or (at is not None and slot.start != at):
                raise InputError(
                    f"the summary of {self.name!r} contradicts itself: slots overlap or leave a gap"
                )
            length_s = slot.end - slot.start
            if not 0 <= slot.free_min * length_s <= slot.free_node_s <= self.capacity * length_s:
                raise InputError(
                    f"the summary of {self.name!r} contradicts itself:"
                    " more free at least than in all, or than there is"
                )
            at = slot.end


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSummary:
    """All of an owner's calendar at one version, at the resolution it chooses to publish."""

    site: str
    version: CalendarVersion
    as_of: Instant
    classes: tuple[ClassSummary, ...]
    millicredits_per_node_hour: int = 0

    def __post_init__(self) -> None:
        if len({each.name for each in self.classes}) < len(self.classes):
            raise InputError(f"the summary of {self.site!r} names a resource class twice")


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryDelta:
    """Changes from one version to a later one: the slots that are new or different, by resource
    class.
    """

    site: str
    since: CalendarVersion
    version: CalendarVersion
    as_of: Instant
    classes: tuple[ClassSummary, ...]
    """Complete slot lists, only of the classes that changed."""


def delta_between(older: CalendarSummary, newer: CalendarSummary) -> SummaryDelta:
    """The delta that turns ``older`` into ``newer``. ``InputError`` when none can: for different
    sites or epochs, for classes that came or went or another price, and backwards.
    """
    if older.site != newer.site or older.version.epoch != newer.version.epoch:
        raise InputError(
            "summaries of different sites or epochs have no delta", hint="send the full summary"
        )
    if (older.version.number, older.as_of) > (newer.version.number, newer.as_of):
        raise InputError(f"the summary of {newer.site!r} is older than the one known")
    known = {each.name: each for each in older.classes}
    if (
        list(known) != [each.name for each in newer.classes]
        or older.millicredits_per_node_hour != newer.millicredits_per_node_hour
    ):
        raise InputError(
            "summaries with different classes or prices have no delta",
            hint="send the full summary",
        )
    return SummaryDelta(
        site=newer.site,
        since=older.version,
        version=newer.version,
        as_of=newer.as_of,
        classes=tuple(each for each in newer.classes if known.get(each.name) != each),
    )


class ShadowCalendar:
    """A dated copy of another site's or manager's summary. Bound: one summary, however many
    updates arrive.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.summary: CalendarSummary | None = None
        self.gaps = 0
        """Deltas that did not follow on what was known; each needs a full summary."""

    def replace(self, summary: CalendarSummary) -> bool:
        """Take a full summary; False when it is older than what is known within the same epoch."""
        if summary.site != self.site:
            raise InputError(f"a summary of {summary.site!r} was sent for {self.site!r}")
        if self._is_newer_than(summary.version, summary.as_of):
            return False
        self.summary = summary
        return True

    def update(self, delta: SummaryDelta) -> bool:
        """Apply a delta; False when there is a gap: the copy is dropped, and a full summary must be
        asked for. A delta that comes twice or late changes nothing.
        """
        if delta.site != self.site:
            raise InputError(f"a change of {delta.site!r} was sent for {self.site!r}")
        known = self.summary
        if known is not None and (
            self._is_newer_than(delta.version, delta.as_of)
            or delta.since != known.version == delta.version
        ):
            return True
        changed = {each.name: each for each in delta.classes}
        if (
            known is None
            or known.version != delta.since
            or not changed.keys() <= {each.name for each in known.classes}
        ):
            self.gaps += 1
            self.summary = None
            return False
        self.summary = CalendarSummary(
            site=self.site,
            version=delta.version,
            as_of=delta.as_of,
            classes=tuple(changed.get(each.name, each) for each in known.classes),
            millicredits_per_node_hour=known.millicredits_per_node_hour,
        )
        return True

    def _is_newer_than(self, version: CalendarVersion, as_of: Instant) -> bool:
        """True when what is known is of the same epoch and of a later change or time."""
        known = self.summary
        return (
            known is not None
            and known.version.epoch == version.epoch
            and (known.version.number, known.as_of) > (version.number, as_of)
        )

    def age_s(self, now: Instant) -> int | None:
        """Seconds since the owner made what is known here; ``None`` when nothing is known."""
        return None if self.summary is None else max(0, now - self.summary.as_of)
