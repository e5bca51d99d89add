"""Trips are found by id, by its beginning, and by a name that several may have."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.errors import InputError, NotFoundError
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridio.journal.contract import Journal, JournalDamaged
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.travel_agent.log.events import TripEnded, TripOpened
from gridtravel.travel_agent.log.finding import find_trip
from gridtravel.travel_agent.log.folders import StoredTrip
from gridtravel.travel_agent.log.trip_log import JournaledTripLog

CLOCK = ManualClock(1000)


class Trips:
    """``TripJournals`` in memory."""

    def __init__(self) -> None:
        self.disks: dict[str, Disk] = {}
        self.damaged: set[str] = set()

    async def add(self, trip_id: str, name: str, state: TripState | None = None) -> None:
        """A trip; ``state``: how it ended, if it did."""
        self.disks[trip_id] = Disk()
        log = JournaledTripLog(self.open(trip_id), CLOCK)
        await log.write(TripOpened(trip_id=trip_id, name=name, metajob_json=""))
        if state is not None:
            await log.write(TripEnded(state=state.value))
        log.close()

    def trip_ids(self) -> list[str]:
        """See ``TripJournals``."""
        return sorted(self.disks)

    def create(self, trip_id: str) -> Journal:
        """See ``TripJournals``."""
        raise NotImplementedError

    def has(self, trip_id: str) -> bool:
        """See ``TripJournals``."""
        return trip_id in self.disks

    def open(self, trip_id: str) -> Journal:
        """See ``TripJournals``."""
        return MemoryJournal(self.disks[trip_id])

    def read(self, trip_id: str) -> StoredTrip:
        """See ``TripJournals``."""
        if trip_id in self.damaged:
            raise JournalDamaged(f"the journal of {trip_id} is damaged", hint="")
        return StoredTrip(records=tuple(self.disks[trip_id].records))

    def discard(self, trip_id: str) -> None:
        """See ``TripJournals``."""
        del self.disks[trip_id]


async def test_the_newest_trip_that_is_not_over_is_meant() -> None:
    """Also when a declined one of the same second sorts behind it, or is newer: which was taken is
    said.
    """
    trips = Trips()
    await trips.add("trip-1a", "ocean")
    await trips.add("trip-2a", "ocean")
    await trips.add("trip-2z", "ocean", TripState.DECLINED)
    await trips.add("trip-3a", "other")
    found = find_trip(trips, "ocean")
    assert found.trip_id == "trip-2a"
    assert found.note == "3 trips are called ocean; this is trip-2a, the newest that is not over"


async def test_of_trips_that_are_over_the_newest_is_meant() -> None:
    """Somebody asks what became of it."""
    trips = Trips()
    await trips.add("trip-1a", "ocean", TripState.CANCELLED)
    await trips.add("trip-2a", "ocean", TripState.DECLINED)
    found = find_trip(trips, "ocean")
    assert found.trip_id == "trip-2a"
    assert "the newest; all are over" in found.note


async def test_one_trip_needs_no_note() -> None:
    """By id, by the beginning of an id, by a name that only one has."""
    trips = Trips()
    await trips.add("trip-1a", "ocean", TripState.DECLINED)
    await trips.add("trip-2b", "other")
    for wanted, trip_id in (
        ("trip-1a", "trip-1a"),
        ("trip-2", "trip-2b"),
        ("ocean", "trip-1a"),
    ):
        found = find_trip(trips, wanted)
        assert (found.trip_id, found.note) == (trip_id, "")


async def test_what_cannot_be_told_apart_or_found_is_said() -> None:
    """The beginning of two ids, and a name that nobody has."""
    trips = Trips()
    await trips.add("trip-1a", "ocean")
    await trips.add("trip-2b", "ocean")
    with pytest.raises(InputError, match="may be 2 trips"):
        find_trip(trips, "trip-")
    with pytest.raises(NotFoundError, match="no trip 'desert'"):
        find_trip(trips, "desert")


async def test_a_damaged_log_does_not_hide_other_trips() -> None:
    """A name is found though another trip's log cannot be read; when nothing has the name, the
    trips that could not be asked are told.
    """
    trips = Trips()
    await trips.add("trip-1a", "ocean")
    await trips.add("trip-2b", "desert")
    trips.damaged.add("trip-2b")
    assert find_trip(trips, "ocean").trip_id == "trip-1a"
    with pytest.raises(NotFoundError) as caught:
        find_trip(trips, "desert")
    assert "trip-2b" in str(caught.value)
