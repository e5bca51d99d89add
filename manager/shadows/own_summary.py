"""What the manager publishes upwards: its children's shadows, rolled up, as one calendar."""

from __future__ import annotations

from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.ids import IdSource
from gridtravel.manager.shadows.keeper import ShadowKeeper
from gridtravel.manager.shadows.roll_up import RollingSum, roll_up


class OwnSummary:
    """The manager's summary, made anew when a shadow or the time has changed.

    The version counts what happened to the shadows. A restart begins a new epoch, because that
    count is not kept; so does a change of classes or price, for which there are no deltas, and a
    clock that is set back.
    """

    def __init__(
        self,
        keeper: ShadowKeeper,
        ladder: SlotLadder,
        clock: Clock,
        ids: IdSource,
        *,
        horizon_s: int,
        shadow_age_max_s: int,
    ) -> None:
        self._keeper = keeper
        self._total = RollingSum(ladder, horizon_s)
        self._clock = clock
        self._ids = ids
        self._shadow_age_max_s = shadow_age_max_s
        self._epoch = ids.new_id("epoch")
        self._last: CalendarSummary | None = None

    @property
    def version(self) -> CalendarVersion:
        """Of everything the manager knows now."""
        return CalendarVersion(self._epoch, self._keeper.changes)

    def current(self) -> CalendarSummary:
        """The sum of the shadows that are not too old, as of now."""
        now = self._clock.now()
        last = self._last
        if last is not None and (last.as_of, last.version) == (now, self.version):
            return last
        fresh = self._sum()
        # Within one epoch time never goes back: this manager's clock may have been set back.
        is_set_back = last is not None and fresh.as_of < last.as_of
        if last is not None and (is_set_back or _shape(fresh) != _shape(last)):
            self._epoch = self._ids.new_id("epoch")
            fresh = self._sum()
        self._last = fresh
        return fresh

    def _sum(self) -> CalendarSummary:
        now = self._clock.now()
        return roll_up(
            self._keeper.site,
            self._keeper.published(now, self._shadow_age_max_s),
            self._total,
            version=self.version,
            now=now,
        )


def _shape(summary: CalendarSummary) -> tuple[tuple[str, ...], int]:
    return tuple(each.name for each in summary.classes), summary.millicredits_per_node_hour
