"""What real processes left, as a world that the checkers can look at.

The sites' journals are read into the same ledgers, and the laptops' logs into the same stories, as
in a simulated world (``site_ledger``, ``trip_checkers``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gridtravel.agents.journal.events import CODEC, JobAccepted
from gridtravel.gridcore.booking.calendar_events import ReservationGranted
from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridio.batch.far_book import read_entries
from gridtravel.gridio.batch.job_files import read_jobs
from gridtravel.gridio.journal.contract import Record
from gridtravel.simulator.checks.group_checkers import GroupLedger
from gridtravel.simulator.checks.site_ledger import JobEntry, Promise, SiteLedger
from gridtravel.simulator.kernel.contacts import ContactLog
from gridtravel.simulator.kernel.event_log import EventLog
from gridtravel.simulator.kernel.virtual_clock import WORLD_BEGIN
from gridtravel.simulator.processes.disks import Cut
from gridtravel.simulator.processes.laptops import LiveLaptop
from gridtravel.simulator.processes.live_batch import CLUSTER, NODES, LiveBatch
from gridtravel.simulator.processes.live_grid import Absence, ClockSpan

BOOK_MARKS: Final = {
    ReservationState.HELD: "granted",
    ReservationState.COMMITTED: "committed",
    ReservationState.RELEASED: "released",
}
"""Files of a reservation at a site without an agent; each is there from that on."""
JOB_MARKS: Final = ("id", "started", "hosts", "ended", "cancelled")
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


class FoundManager(FoundSite):
    """A manager by its journal."""

    ledger: GroupLedger

    def __init__(self, name: str, nodes: int, records: Iterable[Record], world: FoundWorld) -> None:
        self.name = name
        self.clock = FoundClock([])
        self.ledger = GroupLedger(name, nodes, world.event_log, world.time)
        self.records = list(records)
        self.events = []
        for record in self.records:
            world.time.set_to(record.at - WORLD_BEGIN)
            self.ledger.written([record])
        self.ledger.note_runs(world)


class FoundCluster(FoundSite):
    """A site without an agent, by the files that travellers left there when every leg's time is
    over. A leg begins there when its program does.
    """

    def __init__(self, cluster: LiveBatch, world: FoundWorld) -> None:
        self.name = CLUSTER
        self.clock = FoundClock([])
        self.ledger = SiteLedger(CLUSTER, NODES, world.event_log, world.time)
        self.records = []
        self.events = []
        for home in sorted(cluster.far.glob("book/gur.*")):
            promise = _promise_in(home)
            if promise is not None:
                self.ledger.promises[promise.reservation.reservation_id] = promise
        for home in sorted(cluster.far.glob("jobs/*/spec")):
            self._add_job(home.parent)

    def _add_job(self, home: Path) -> None:
        marks = [path.name for path in home.iterdir() if path.stat().st_size]
        lines = [f"job {home.name}"]
        lines += [f"{each} {_line_of(home / each)}" for each in marks if each in JOB_MARKS]
        lines.append(f"spec {_line_of(home / 'spec')}")
        (files,) = read_jobs(lines)
        spec = files.record.spec
        view = files.view("", site=CLUSTER, owner="", now=files.record.latest_end)
        self.ledger.jobs[view.job_id] = JobEntry(
            view.job_id,
            ("", spec.request_id),
            spec.nodes,
            reservation_id=spec.reservation_id,
            running_s=None if view.started_precise is None else view.started_precise - WORLD_BEGIN,
        )
        promise = self.ledger.promises.get(spec.reservation_id)
        trip = promise.reservation.request.trip if promise is not None else None
        if promise is not None and trip is not None and view.started_precise is not None:
            promise.runs[trip.instance] = view.started_precise - WORLD_BEGIN


def _line_of(path: Path) -> str:
    return path.read_text().rstrip("\n")


def _promise_in(home: Path) -> Promise | None:
    """What became of one reservation; ``None``: nothing was granted."""
    if not (home / "request").exists():
        return None
    moments = {
        state: (home / mark).stat().st_mtime - WORLD_BEGIN
        for state, mark in BOOK_MARKS.items()
        if (home / mark).exists()
    }
    marks = " ".join(mark for mark in BOOK_MARKS.values() if (home / mark).exists())
    lines = [f"entry {home.name} {marks}", f"request {_line_of(home / 'request')}"]
    if (home / "granted").exists():
        lines.insert(1, f"granted {_line_of(home / 'granted')}")
    entry = read_entries(lines)[home.name]
    after_all = (entry.granted_start or 0) + entry.wish.request.duration_s
    found = entry.as_reservation(None, site=CLUSTER, owner="", now=after_all)
    if found is None:
        return None
    promise = Promise(found, found.state)
    promise.history = sorted((at, state) for state, at in moments.items())
    if not promise.was(ReservationState.RELEASED):
        promise.history.append((after_all - WORLD_BEGIN, found.state))
    return promise


class FoundWorld:
    """All of it, see ``checked_world.CheckedWorld``."""

    def __init__(
        self,
        laptops: Mapping[str, LiveLaptop],
        storm_ends_at: float,
        absences: Mapping[str, Sequence[Absence]] | None = None,
    ) -> None:
        """``absences``: when each daemon was dead, where nothing else went wrong."""
        self.time = ReadingTime()
        self._contacts = None if absences is None else self._read(absences)
        self.event_log = EventLog(self.time)
        self.sites: dict[str, FoundSite] = {}
        self.managers: list[FoundManager] = []
        self.laptops = dict(laptops)
        self.liars: frozenset[str] = frozenset()
        self.storm_ends_s = storm_ends_at - WORLD_BEGIN

    def why_unheard(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> str:
        """See ``CheckedWorld``. Where more than kill -9 went wrong nobody knows more than when the
        trouble ended.
        """
        if self._contacts is not None:
            return self._contacts.why_unheard(site, acceptors, from_s, until_s)
        return "struck meanwhile" if from_s <= self.storm_ends_s else ""

    def was_away(self, site: str, from_s: float, until_s: float) -> bool:
        """True when a daemon was dead at any moment between these seconds; only where absences are
        known.
        """
        assert self._contacts is not None, "nobody has told of absences"
        return self._contacts.was_gone(site, from_s, until_s)

    def add_manager(self, name: str, nodes: int, records: Iterable[Record]) -> FoundManager:
        """Read a manager's journal, when those of its sites have been read."""
        manager = FoundManager(name, nodes, records, self)
        self.sites[name] = manager
        self.managers.append(manager)
        return manager

    def add_cluster(self, cluster: LiveBatch) -> FoundCluster:
        """Read what is left at a site without an agent, and in its batch system nothing may be."""
        self.sites[CLUSTER] = found = FoundCluster(cluster, self)
        for left in (*cluster.reservations(), *cluster.jobs()):
            self.event_log.broken("every hold ends", f"{CLUSTER} still has {left}", CLUSTER)
        return found

    def _read(self, absences: Mapping[str, Sequence[Absence]]) -> ContactLog:
        contacts = ContactLog(self.time)
        for name, spans in absences.items():
            for span in spans:
                self.time.set_to(span.begins - WORLD_BEGIN)
                contacts.gone(name, "killed")
                self.time.set_to(span.ends - WORLD_BEGIN)
                contacts.back(name, "killed")
        return contacts

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
