"""What the sites of a test grid have promised, read from their journals.

A site's daemon is never asked: its word may be what is under test.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable
from typing import Any, Final

from gridtravel.agents.config.checks import JOURNAL_FILE
from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.journal.events import CODEC, JobStarting
from gridtravel.agents.journal.job_table import JobTable
from gridtravel.gridcore.booking.calendar_events import (
    FinishedForgotten,
    RequestTombstoned,
    ReservationChanged,
    ReservationGranted,
    ReservationMoved,
)
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.jobs.job import JobView
from gridtravel.gridcore.trips.itineraries import Itinerary
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.travel_agent.demo.sites import GridFolder
from tests.support.speed import at_this_speed

CALENDAR_EVENTS: Final = (
    ReservationGranted
    | ReservationMoved
    | ReservationChanged
    | RequestTombstoned
    | FinishedForgotten
)


decoded = functools.cache(CODEC.decode)
"""A test that waits for something reads the same records again and again."""


class SiteBooks:
    """The journals of all sites in one folder."""

    def __init__(self, folder: GridFolder, sites: Iterable[str]) -> None:
        self.folder = folder
        self._sites = tuple(sites)

    def records(self, name: str) -> list[tuple[int, Any]]:
        """(when, event) of everything in a site's journal."""
        journal = self.folder.site(name) / "state" / JOURNAL_FILE
        return [(record.at, decoded(record)) for record in read_records(journal)]

    def calendar(self, name: str) -> Calendar:
        """A site's calendar, replayed from its journal."""
        config = load_site_config(self.folder.site_config(name))
        calendar = Calendar(config.name, config.classes, rules=config.rules, tariff=config.tariff)
        for _, event in self.records(name):
            if isinstance(event, CALENDAR_EVENTS):
                calendar.apply(event)
        calendar.validate()
        return calendar

    def jobs(self, name: str) -> JobTable:
        """A site's jobs, replayed from its journal."""
        table = JobTable(name)
        for _, event in self.records(name):
            if not isinstance(event, CALENDAR_EVENTS):
                table.apply(event)
        table.validate()
        return table

    def live(self, name: str, trip: str = "") -> list[Reservation]:
        """Held and committed reservations in a site's book, of one trip or of all."""
        return [
            each
            for each in self.calendar(name).live()
            if not trip or (each.request.trip is not None and each.request.trip.trip_id == trip)
        ]

    def active_jobs(self, name: str, trip: str) -> list[JobView]:
        """Jobs of a trip that are not over, by a site's journal."""
        return [job for job in self.jobs(name).active() if trip in job.spec.request_id]

    def holds(self) -> list[Reservation]:
        """What is held and not committed, anywhere."""
        return [
            each
            for name in self._sites
            for each in self.calendar(name).live()
            if each.state is ReservationState.HELD
        ]

    def check_whole(self, trips: Iterable[Itinerary], window: tuple[int, int]) -> None:
        """What is booked in ``window`` stands in the books, committed, as the trips say; what is
        declined does not, and no hold is left.
        """
        legs = [leg for trip in trips for leg in trip.legs]
        for name in self._sites:
            book = self.calendar(name).live()
            assert all(kept.state is ReservationState.COMMITTED for kept in book)
            found = {
                kept.reservation_id: (kept.nodes, kept.start, kept.end)
                for kept in book
                if kept.start >= window[0] and kept.end <= window[1]
            }
            assert found == {
                leg.reservation_id: (leg.nodes, leg.start, leg.end)
                for leg in legs
                if leg.site == name
            }

    def starts(self, name: str, reservation_id: str) -> int:
        """How often jobs were started inside a reservation, by the journal."""
        return sum(
            isinstance(event, JobStarting) and event.reservation_id == reservation_id
            for _, event in self.records(name)
        )

    def sizes(self) -> dict[str, int]:
        """Number of records in each site's journal; the same before and after: nothing changed."""
        return {name: len(self.records(name)) for name in self._sites}

    def sizes_at_rest(self) -> dict[str, int]:
        """The same, once nothing is written any more: sites go on for a moment after a booking, to
        tell each other that their legs are ready.
        """
        sizes = self.sizes()
        while (later := self._sizes_after(at_this_speed(1))) != sizes:
            sizes = later
        return sizes

    def _sizes_after(self, pause_s: float) -> dict[str, int]:
        time.sleep(pause_s)  # noqa: TID251 - real processes live in real time
        return self.sizes()
