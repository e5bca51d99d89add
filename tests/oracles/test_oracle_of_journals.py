"""Every journal of the corpus is read as what was written, and gives the same state."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.gridio.system.clock import ManualClock
from gridtravel.travel_agent.log.folders import TripFolders
from gridtravel.travel_agent.log.trip_log import JournaledTripLog
from tests.oracles.example_values import NOW
from tests.oracles.frozen_files import FOLDER, Frozen
from tests.oracles.grid_scene import built_agent, built_manager
from tests.oracles.journal_corpus import (
    AGENTS,
    JOURNAL,
    MANAGERS,
    TRIP_JOURNAL,
    TRIPS,
    make_missing,
)
from tests.oracles.last_release import FOLDER as LAST_RELEASE
from tests.oracles.last_release import known_of, lost
from tests.oracles.record_examples import JOURNALED
from tests.oracles.replayed_state import (
    found_records,
    state_of_agent,
    state_of_manager,
    state_of_trip,
)
from tests.oracles.wire_examples import ScriptedSite

CORPUS: Final = FOLDER / "journals"
OF_LAST_RELEASE: Final = sorted(each.stem for each in (LAST_RELEASE / "journals").iterdir())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """A copy that may be written to. A part of the corpus is made where it is missing, once."""
    if pytestconfig.getoption("--oracle-update"):
        # Its name goes into the journals, so it is not pytest's, which has the user's name in it.
        with pytest.MonkeyPatch.context() as patched, TemporaryDirectory(prefix="grid-") as work:
            make_missing(CORPUS, Path(work), patched)
    copy = tmp_path_factory.mktemp("corpus") / "journals"
    shutil.copytree(CORPUS, copy)
    return copy


@pytest.mark.parametrize("name", AGENTS)
def test_sites(name: str, corpus: Path, frozen: Frozen) -> None:
    """A site that starts from the journal knows all that it knew."""
    frozen.json(f"journals/{name}.json", known_by_site(name, corpus))


@pytest.mark.parametrize("name", MANAGERS)
def test_managers(name: str, corpus: Path, frozen: Frozen) -> None:
    """The same for a manager."""
    frozen.json(f"journals/{name}.json", known_by_manager(name, corpus))


@pytest.mark.parametrize("name", TRIPS)
def test_trips(name: str, corpus: Path, frozen: Frozen) -> None:
    """A laptop remembers its trips, whichever release wrote them."""
    frozen.json(f"journals/{name}.json", known_by_laptop(name, corpus))


@pytest.mark.parametrize("name", OF_LAST_RELEASE)
def test_journals_of_last_release(name: str, corpus: Path) -> None:
    """What the last release knew of its journals is known today, in each field that it had."""
    whose = name.partition("-")[0]
    know = {"agent": known_by_site, "manager": known_by_manager, "trips": known_by_laptop}[whose]
    assert [*lost(known_of(name), know(name, corpus))] == []


def known_by_site(name: str, corpus: Path) -> dict[str, Any]:
    """What is stored in a site's journal, and what the site knows after its replay."""
    path = corpus / name / JOURNAL
    records = list(read_records(path))
    found = found_records(records)
    clock = ManualClock(records[-1].at)
    journal = SqliteJournal(path)
    try:
        assert not journal.was_rewound
        agent = built_agent(AGENTS[name], journal, clock, corpus / "areas")
        found["replayed"] = agent.replay()
        found["state"] = state_of_agent(agent, clock.now())
    finally:
        journal.close()
    return found


def known_by_manager(name: str, corpus: Path) -> dict[str, Any]:
    """The same of a manager."""
    path = corpus / name / JOURNAL
    found = found_records(read_records(path))
    journal = SqliteJournal(path)
    try:
        assert not journal.was_rewound
        manager = built_manager(journal, ManualClock(NOW), {"beta": ScriptedSite().connection()})
        found["replayed"] = manager.replay()
        found["state"] = state_of_manager(manager)
    finally:
        journal.close()
    return found


def known_by_laptop(name: str, corpus: Path) -> dict[str, Any]:
    """The same of a laptop, by trip."""
    folders, found = TripFolders(corpus / name), dict[str, Any]()
    for trip_id in folders.trip_ids():
        found[trip_id] = found_records(read_records(corpus / name / trip_id / TRIP_JOURNAL))
        log = JournaledTripLog(folders.open(trip_id), ManualClock(NOW), trip_id=trip_id)
        found[trip_id]["state"] = state_of_trip(log.story)
        log.close()
    return found


@pytest.mark.parametrize("name", [*AGENTS, *MANAGERS])
async def test_daemons_go_on(name: str, corpus: Path, tmp_path: Path) -> None:
    """A journal of an earlier release is written on by this one."""
    shutil.copytree(corpus / name, tmp_path / name)
    path = tmp_path / name / JOURNAL
    before = list(read_records(path))
    more = Record(kind="more", at=NOW, body=b"{}")
    journal = SqliteJournal(path)
    await journal.append([more]).durable()
    journal.close()
    assert list(read_records(path)) == [*before, more]


async def test_laptops_go_on(corpus: Path, tmp_path: Path) -> None:
    """The same for trips."""
    more = Record(kind="more", at=NOW, body=b"{}")
    for name in TRIPS:
        shutil.copytree(corpus / name, tmp_path / name)
        folders = TripFolders(tmp_path / name)
        for trip_id in folders.trip_ids():
            journal = folders.open(trip_id)
            before = list(journal.replay())
            await journal.append([more]).durable()
            assert list(journal.replay()) == [*before, more]
            journal.close()


def test_corpus_has_every_kind(corpus: Path) -> None:
    """No kind of record is left out."""
    folders = {"agent": [*AGENTS], "manager": [*MANAGERS], "trip": [*TRIPS]}
    for whose, names in folders.items():
        paths = [path for name in names for path in (corpus / name).rglob("*journal")]
        kinds = {record.kind for path in paths for record in read_records(path)}
        assert sorted(set(JOURNALED[whose][1]) - kinds) == [], whose
