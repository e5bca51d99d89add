"""How an owner's calendar gives away time: whole slots of a ladder, or (``EXACT``) every second.

Calendar paper, sections 2.2 and 2.3: a promise takes its nodes for every slot that it touches, so
that each later split can be honoured, and only a share of a slot is promised in advance. Here this
is one rule, which the book applies to what it books and to where it searches. The same arithmetic
is in ``simulator.imprecise.imprecise_calendar``, for a calendar that plans tasks by itself.

::

    asked for           |#########|               2 nodes from 3000 to 4000
    held            |---#########----|            from 2560 to 5120 while slots are 2560 s long
    ...split        |   |-#########--|   |        from 2880 to 4160 once they are 320 s long
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.capacity.slot_grid import SlotGrid
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant, Interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gridtravel.gridcore.capacity.profile import AvailabilityProfile

WHOLE_PERMILLE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRule:
    """The ladder on which an owner promises, and how much of a slot it promises in advance."""

    ladder: SlotLadder = EXACT
    threshold_permille: int = WHOLE_PERMILLE
    """The *resource threshold* (2.2): the share of the nodes that may be taken in a slot behind the
    fundamental ones. A request larger than that share gets slots that nobody else has.
    """

    def __post_init__(self) -> None:
        if not 0 <= self.threshold_permille <= WHOLE_PERMILLE:
            raise InputError(
                f"a threshold is 0 to {WHOLE_PERMILLE} permille: {self.threshold_permille}"
            )

    @property
    def is_exact(self) -> bool:
        """True when nothing is ever widened or withheld."""
        return self.ladder == EXACT and self.threshold_permille == WHOLE_PERMILLE

    def held(self, interval: Interval, now: Instant) -> Interval:
        """The slots that ``interval`` touches as they lie at ``now``, without what is past."""
        if self.ladder == EXACT:
            return interval
        grid = SlotGrid.at(self.ladder, now)
        start = max(grid.floor(interval.start), min(now, interval.start))
        return Interval(start, grid.ceil(interval.end))

    def next_split(self, now: Instant) -> Instant:
        """When slots are split next, as seen at ``now``; ``NEVER`` with one level."""
        return SlotGrid.at(self.ladder, now).next_split

    def withheld(self, nodes: int) -> int:
        """Of so many nodes, those that nothing promised in advance may touch."""
        return nodes - nodes * self.threshold_permille // WHOLE_PERMILLE

    def availability(
        self, availability: Mapping[str, AvailabilityProfile], now: Instant
    ) -> Mapping[str, AvailabilityProfile]:
        """``availability`` as a search for whole slots must see it: in every second of a slot the
        least
        that is free in it, and behind the fundamental slots without what is withheld. Copies,
        unless the rule is exact.
        """
        if self.is_exact:
            return availability
        grid = SlotGrid.at(self.ladder, now)
        return {name: self._in_slots(profile, grid, now) for name, profile in availability.items()}

    def _in_slots(
        self, profile: AvailabilityProfile, grid: SlotGrid, now: Instant
    ) -> AvailabilityProfile:
        found = profile.copy()
        done = profile.origin
        for at in profile.times[1:]:
            start, end = max(grid.floor(at), profile.origin), grid.ceil(at)
            if start < at and done <= at < end:
                found.cap(max(0, profile.min_free(start, end)), start, end)
                done = end
        withheld = self.withheld(profile.capacity)
        if withheld:
            _withhold(found, withheld, grid.at_hand_until(now))
        return found


def _withhold(profile: AvailabilityProfile, nodes: int, since: Instant) -> None:
    """Take ``nodes`` away from ``since`` on, except where all that have not failed are free. In the
    last step nothing is promised, so it shows how many those are.
    """
    steps = profile.steps()
    all_up = steps[-1][1]
    for (at, free), (end, _) in pairwise(steps):
        if free < all_up and end > since:
            profile.cap(max(0, free - nodes), max(at, since), end)
