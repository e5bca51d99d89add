"""What real processes left, as a world that the checkers can look at.

The sites' journals are read into the same ledgers, and the laptops' logs into the same stories, as
in a simulated world (``site_ledger``, ``trip_checkers``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gridtravel.agents.journal.events import CODEC, JobAccepted
from gridtravel.gridcore.booking.calendar_events import ReservationGranted
from gridtravel.gridio.journal.contract import Record
from gridtravel.simulator.checks.site_ledger import SiteLedger
from gridtravel.simulator.kernel.event_log import EventLog
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.disks import Cut
from gridtravel.simulator.processes.laptops import LiveLaptop
from gridtravel.simulator.processes.live_grid import ClockSpan

TRIP_NAME: Final = re.compile(rb"trip-[0-9a-z]{26}")


class ReadingTime:
    """The second of the record that is being read."""

    def __init__(self) -> None:
        self.is_ending = False
        self._now_s = 0.0

    def set_to(self, second: float) -> None:
        """The next record."""
        self._now_s = second

    def time(self) -> float:
        """Seconds since the beginning of all worlds, by the true clock."""
        return self._now_s


class FoundClock:
    """How a site's clock was set, by the records that it wrote meanwhile."""

    def __init__(self, spans: Sequence[ClockSpan]) -> None:
        self._spans = list(spans)
        self._changes: list[tuple[float, float]] = []
        """(true second, ahead by)."""

    def behind_at(self, number: int) -> float:
        """How far it was behind when record ``number`` (from 0) was written."""
        counts = [span.after_records for span in self._spans]
        return self._spans[max(0, bisect_right(counts, number) - 1)].behind_s

    def note(self, second: float, behind_s: float) -> None:
        """At this true second it was so far behind."""
        if not self._changes or self._changes[-1][1] != -behind_s:
            self._changes.append((second, -behind_s))

    def offset_s(self, at_s: float | None = None) -> float:
        """See ``CheckedClock``."""
        if not self._changes:
            return 0.0
        times = [second for second, _ in self._changes]
        last = len(times) if at_s is None else bisect_right(times, at_s)
        return self._changes[max(0, last - 1)][1]


class FoundSite:
    """A site by its journal."""

    def __init__(
        self,
        name: str,
        nodes: int,
        records: Iterable[Record],
        spans: Sequence[ClockSpan],
        event_log: EventLog,
        time: ReadingTime,
    ) -> None:
        self.name = name
        self.clock = FoundClock(spans)
        self.ledger = SiteLedger(name, nodes, event_log, time)
        self.records = list(records)
        self.events = [CODEC.decode(record) for record in self.records]
        for number, record in enumerate(self.records):
            behind_s = self.clock.behind_at(number)
            second = record.at - WORLD_BEGIN + behind_s
            self.clock.note(second, behind_s)
            time.set_to(second)
            self.ledger.written([record])


class FoundWorld:
    """All of it, see ``checked_world.CheckedWorld``."""

    def __init__(self, laptops: Mapping[str, LiveLaptop], storm_ends_at: float) -> None:
        self.time = ReadingTime()
        self.event_log = EventLog(self.time)
        self.sites: dict[str, FoundSite] = {}
        self.laptops = dict(laptops)
        self.liars: frozenset[str] = frozenset()
        self.storm_ends_s = storm_ends_at - WORLD_BEGIN

    def why_unheard(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> str:
        """See ``CheckedWorld``. Of real processes nobody knows more than when the trouble ended."""
        return "struck meanwhile" if from_s <= self.storm_ends_s else ""

    def add_site(
        self, name: str, nodes: int, records: Iterable[Record], spans: Sequence[ClockSpan] = ()
    ) -> FoundSite:
        """Read a site's journal."""
        known = spans or [ClockSpan(after_records=0, behind_s=0.0)]
        site = FoundSite(name, nodes, records, known, self.event_log, self.time)
        self.sites[name] = site
        return site


def trips_in(cut: Cut) -> set[str]:
    """The trips that a cut journal lost something of: by name, or as a reservation or job of
    theirs.
    """
    trips: dict[str, str] = {}
    found: set[str] = set()
    for number, record in enumerate(cut.before):
        event = CODEC.decode(record)
        named = {each.decode() for each in TRIP_NAME.findall(record.body)}
        if isinstance(event, ReservationGranted):
            for trip_id in named:
                trips[event.reservation.reservation_id] = trip_id
        keys = [getattr(event, name, "") for name in ("reservation_id", "job_id")]
        named.update(trips[key] for key in keys if key in trips)
        if isinstance(event, JobAccepted) and len(named) == 1:
            trips[event.job_id] = next(iter(named))
        if cut.kept is not None and number >= cut.kept:
            found |= named
    return found
