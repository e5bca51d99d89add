"""The logs of a laptop's trips as files: read beside a writer, damaged, put back from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gridtravel.gridcore.errors import ConflictError, GridError, NotFoundError
from gridtravel.gridcore.trips.itineraries import TripState
from gridtravel.gridcore.trips.metajobs import UsagePattern
from gridtravel.gridio.journal.contract import JournalDamaged
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.travel_agent.agent import TravelAgent
from gridtravel.travel_agent.log.events import TripEnded, TripLogEvent, TripOpened
from gridtravel.travel_agent.log.folders import JOURNAL_FILE, TripFolders
from gridtravel.travel_agent.log.trip_log import JournaledTripLog
from gridtravel.travel_agent.metajob_file.writer import metajob_to_json
from gridtravel.travel_agent.sites.config import GridConfig, MachineEntry
from tests.support.metajob_builders import metajob

CLOCK = ManualClock(1000)
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda content: content[:60] + bytes([content[60] ^ 4]) + content[61:],
    "a block of zeros": lambda content: bytes(64) + content[64:],
    "cut to nothing": lambda _: b"",
    "cut behind its first record": lambda content: content[: len(content) // 2],
    "another file": lambda _: b"shopping: bread, milk",
}


class Laptop:
    """A travel agent over real files; no site can be reached."""

    def __init__(self, state: Path) -> None:
        self.folders = TripFolders(state / "trips")
        self.trips = state / "trips"
        self.heard: list[str] = []
        """What the user was told beside the answers."""
        config = GridConfig(
            path=Path("sites.toml"),
            credential_folder=Path("credential"),
            zone=ZoneInfo("UTC"),
            machines={},
        )
        self.agent = TravelAgent(
            config,
            state,
            _connect,
            clock=CLOCK,
            ids=SeededIds(1),
            journals=self.folders,
            tell=self.heard.append,
        )

    async def write(self, trip_id: str, *events: TripLogEvent) -> None:
        """Add to a trip's log, a new one if there is none."""
        known = self.folders.has(trip_id)
        journal = self.folders.open(trip_id) if known else self.folders.create(trip_id)
        log = JournaledTripLog(journal, CLOCK)
        for event in events:
            await log.write(event)
        log.close()

    def file(self, trip_id: str) -> Path:
        """Where a trip's log stands."""
        return self.trips / trip_id / JOURNAL_FILE


def _connect(entry: MachineEntry) -> SiteConnection:
    raise AssertionError(f"nobody is asked, and {entry.machine} was")


def opened(trip_id: str) -> TripOpened:
    """A trip's first record."""
    return TripOpened(trip_id=trip_id, name=f"name of {trip_id}", metajob_json="")


CANCELLED = TripEnded(state=TripState.CANCELLED.value)


@pytest.fixture
async def laptop(tmp_path: Path) -> Laptop:
    """Three trips, all over."""
    laptop = Laptop(tmp_path)
    for trip_id in ("trip-a", "trip-b", "trip-c"):
        await laptop.write(trip_id, opened(trip_id), CANCELLED)
    return laptop


async def test_a_trip_is_read_while_another_command_writes_it(laptop: Laptop) -> None:
    """The reader takes no lock and waits for nobody; it sees what is stored by then."""
    log = JournaledTripLog(laptop.folders.create("trip-d"), CLOCK)
    await log.write(opened("trip-d"))
    with pytest.raises(ConflictError, match="another command"):
        laptop.folders.open("trip-d")
    assert laptop.agent.history("trip-d").itinerary.state is TripState.PLANNED
    await log.write(CANCELLED)
    assert laptop.agent.history("name of trip-d").itinerary.state is TripState.CANCELLED
    log.close()


async def test_a_command_about_one_trip_does_not_wait_for_another(laptop: Laptop) -> None:
    """The lock is a trip's own: others are opened, made and written while it is held."""
    held = laptop.folders.open("trip-a")
    await laptop.write("trip-b", CANCELLED)
    await laptop.write("trip-e", opened("trip-e"), CANCELLED)
    assert len(laptop.folders.read("trip-b").records) == 3
    held.close()


async def test_reading_changes_nothing(laptop: Laptop) -> None:
    """No file is made or touched, whatever state the log is in."""
    torn = laptop.file("trip-b")
    torn.write_bytes(torn.read_bytes() + b"\0\0\0")
    before = {path: path.read_bytes() for path in laptop.trips.rglob("*") if path.is_file()}
    assert [len(laptop.folders.read(each).records) for each in laptop.folders.trip_ids()] == [2] * 3
    after = {path: path.read_bytes() for path in laptop.trips.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
async def test_damage_is_told_and_harms_no_other_trip(
    laptop: Laptop, damage: Callable[[bytes], bytes]
) -> None:
    """The damaged trip is named, in lists and when it is asked for; the others are listed, found by
    name and asked about as before.
    """
    path = laptop.file("trip-b")
    path.write_bytes(damage(path.read_bytes()))
    faults: dict[str, GridError] = {}
    found = laptop.agent.histories(on_fault=faults.__setitem__)
    told = {*faults, *(line.split()[3] for line in laptop.heard)}
    assert told == {"trip-b"}
    listed = {each.itinerary.trip_id: each.itinerary.state for each in found}
    assert {**listed, "trip-b": None} == {
        "trip-a": TripState.CANCELLED,
        "trip-b": None,
        "trip-c": TripState.CANCELLED,
    }
    for wanted in ("name of trip-a", "trip-c"):
        report = await laptop.agent.status(wanted)
        assert report.itinerary.state is TripState.CANCELLED


async def test_a_log_cut_to_nothing_is_damage(laptop: Laptop) -> None:
    """It is not a trip that never asked for anything: the note beside the file knows better."""
    laptop.file("trip-b").write_bytes(b"")
    with pytest.raises(JournalDamaged, match="is empty, but held 2 records"):
        laptop.folders.read("trip-b")
    with pytest.raises(JournalDamaged, match="is empty, but held 2 records"):
        laptop.folders.open("trip-b")


@pytest.mark.parametrize("command", ["history", "status"])
async def test_a_copy_put_back_from_a_backup_is_noticed(laptop: Laptop, command: str) -> None:
    """The user is told that the log is older than what this laptop wrote, by commands that only
    read and by those that write; the copy is used, for there is no other, and other trips are not
    concerned.
    """
    path = laptop.file("trip-b")
    backup = shutil.copy(path, laptop.trips.parent / "backup")
    await laptop.write("trip-b", CANCELLED)
    shutil.copy(backup, path)
    for trip_id in ("trip-a", "trip-b"):
        if command == "history":
            laptop.agent.history(trip_id)
        else:
            await laptop.agent.status(trip_id)
    assert len(laptop.heard) == 1
    assert "trip-b is an older copy" in laptop.heard[0]


async def test_a_backup_of_the_whole_home_is_a_log_like_any_other(laptop: Laptop) -> None:
    """Log and note put back together tell nothing, since nothing newer is known here: the sites'
    books are asked as always.
    """
    folder = laptop.trips / "trip-b"
    backup = shutil.copytree(folder, laptop.trips.parent / "backup")
    await laptop.write("trip-b", CANCELLED)
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert laptop.agent.history("trip-b").itinerary.state is TripState.CANCELLED
    assert laptop.heard == []


async def test_a_race_that_asked_for_no_copy_is_given_up(laptop: Laptop) -> None:
    """Its laptop died when the log had the trip and not yet the race: nobody was asked for
    anything, so ``gur resume`` asks nobody, and ends the trip.
    """
    race = metajob(usage_pattern=UsagePattern.SINGLE, nodes_total=1, is_race=True)
    asked = TripOpened(trip_id="trip-r", name="copies", metajob_json=metajob_to_json(race))
    await laptop.write("trip-r", asked)
    resumed = await laptop.agent.resume("trip-r")
    assert resumed.itinerary.state is TripState.ABSENT
    assert laptop.agent.history("trip-r").itinerary.state is TripState.ABSENT


def test_a_trip_that_is_not_there(laptop: Laptop) -> None:
    """Nor one whose id is a path."""
    for wanted in ("trip-z", "../trips/trip-a", ".."):
        assert not laptop.folders.has(wanted)
    with pytest.raises(NotFoundError):
        laptop.folders.read("trip-z")
