"""Publishing a calendar to subscribers: a full summary, then what changed, newest state wins.

Whatever happens between two looks of a slow reader becomes one delta: for each subscriber one
summary is kept (what it was told last), never a queue (targets.md, row 12).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from gridtravel.gridcore.booking.summaries import CalendarSummary, SummaryDelta, delta_between
from gridtravel.gridio.system.alarms import Alarm
from gridtravel.gridio.system.clock import Clock

COALESCE_S: Final = 0.05
"""Changes within this time travel together: a stream is paid by the message, not by the byte."""
HEARTBEAT_S: Final = 30.0
"""A calendar that does not change is told this often: its slots move with time, and a silent owner
must be told from a dead one."""


class CalendarPublisher:
    """Tells any number of subscribers of one calendar."""

    def __init__(
        self,
        make_summary: Callable[[], CalendarSummary],
        clock: Clock,
        *,
        coalesce_s: float = COALESCE_S,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self._make_summary = make_summary
        self._clock = clock
        self._coalesce_s = coalesce_s
        self._heartbeat_s = heartbeat_s
        self._alarms: dict[Alarm, None] = {}

    def changed(self) -> None:
        """The calendar has changed: wake all subscribers."""
        for alarm in self._alarms:
            alarm.ring()

    async def subscribe(self) -> AsyncIterator[CalendarSummary | SummaryDelta]:
        """All news for one subscriber, until it goes away."""
        alarm = Alarm(self._clock)
        self._alarms[alarm] = None
        try:
            told = self._make_summary()
            yield told
            while True:
                await alarm.wait(self._clock.now_precise() + self._heartbeat_s)
                await self._clock.sleep_until(self._clock.now_precise() + self._coalesce_s)
                newest = self._make_summary()
                if newest.version.epoch != told.version.epoch:
                    yield newest
                else:
                    yield delta_between(told, newest)
                told = newest
        finally:
            alarm.close()
            self._alarms.pop(alarm, None)
