"""Journals as today's programs leave them, in files: of sites, of a manager, of a laptop.

Most come from the stories of ``gur`` and ``catalina``; what no story brings about is told by hand.
They are written once and then kept as they are: a later release has to read what this one wrote.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from gridtravel.gridio.journal.compaction import HISTORY_KIND
from gridtravel.gridio.journal.contract import Journal, Record
from gridtravel.gridio.journal.file import AppendJournal
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.system.ids import SeededIds
from tests.oracles import catalina_story, gur_story
from tests.oracles.example_values import NOW
from tests.oracles.grid_scene import BY_PRIORITY, FIRST_COME, MANAGER, GridScene, open_scene
from tests.oracles.journals_by_hand import (
    AT_A_MANAGER,
    AT_A_SITE,
    AT_A_SITE_OF_CARDS,
    AT_A_SITE_OF_PRICES,
    ON_LAPTOPS,
    ON_LAPTOPS_OF_CARDS,
)
from tests.oracles.record_examples import JOURNALED
from tests.oracles.transcripts import Transcript

JOURNAL: Final = "journal"
TRIP_JOURNAL: Final = "trip.journal"
AGENTS: Final = {
    "agent-alpha": "alpha",
    "agent-beta": "beta",
    "agent-gamma": "gamma",
    "agent-of-orders": "alpha",
    "agent-by-hand": "alpha",
    "agent-compacted": "alpha",
    "agent-crashed": "beta",
    "agent-of-cards": "alpha",
    "agent-of-prices": "alpha",
}
"""Folder -> the site whose journal it is."""
MANAGERS: Final = ("manager-north", "manager-by-hand", "manager-compacted")
TRIPS: Final = ("trips", "trips-by-hand", "trips-in-databases", "trips-torn", "trips-of-cards")
"""Folders of trips, each with a folder of its own."""
RECORDS_AN_APPEND: Final = 3
CUT_BYTES: Final = 11


def make_missing(root: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write what the corpus has not yet; ``work``: a temporary folder. Files that are there stay as
    the release wrote them that made them.
    """
    if not root.exists():
        make_first(root, work, monkeypatch)
    if not (root / "agent-of-cards").exists():
        make_of_cards(root)
    if not (root / "agent-of-prices").exists():
        # Since jobs have deadlines and budgets, and policies agree on terms.
        store(root / "agent-of-prices" / JOURNAL, encoded("agent", AT_A_SITE_OF_PRICES))


def make_of_cards(root: Path) -> None:
    """Since sites have cards, and jobs go with their holds."""
    store(root / "agent-of-cards" / JOURNAL, encoded("agent", AT_A_SITE_OF_CARDS))
    for trip_id, events in ON_LAPTOPS_OF_CARDS.items():
        append(root / "trips-of-cards" / trip_id / TRIP_JOURNAL, encoded("trip", events))


def make_first(root: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first release left."""
    for name, story, config in (
        ("days", gur_story, FIRST_COME),
        ("orders", catalina_story, BY_PRIORITY),
    ):
        (work / name).mkdir()
        with monkeypatch.context() as patched, open_scene(work / name, patched, config) as scene:
            story.tell(scene, Transcript(work))
            found = {each: list(disk.records) for each, disk in scene.disks.items()}
            compacted = _compacted(scene) if name == "days" else {}
        if name == "orders":
            store(root / "agent-of-orders" / JOURNAL, found["alpha"])
            continue
        for site in ("alpha", "beta", "gamma"):
            store(root / f"agent-{site}" / JOURNAL, found[site])
        store(root / "agent-crashed" / JOURNAL, found["beta"][:20], is_crash=True)
        store(root / "manager-north" / JOURNAL, found[MANAGER])
        store(root / "agent-compacted" / JOURNAL, [*found["alpha"][:5], *compacted["alpha"]])
        store(root / "manager-compacted" / JOURNAL, [*found[MANAGER][:2], *compacted[MANAGER]])
    _of_laptops(root, work / "days" / "laptop" / "trips")
    store(root / "agent-by-hand" / JOURNAL, encoded("agent", AT_A_SITE))
    store(root / "manager-by-hand" / JOURNAL, encoded("manager", AT_A_MANAGER))
    for trip_id, events in ON_LAPTOPS.items():
        append(root / "trips-by-hand" / trip_id / TRIP_JOURNAL, encoded("trip", events))
    store(
        root / "trips-in-databases" / "trip-of-old" / TRIP_JOURNAL,
        encoded("trip", ON_LAPTOPS["trip-midchange"][:8]),
    )


def encoded(whose: str, events: Iterable[object]) -> list[Record]:
    """Events as records."""
    codec, _, _ = JOURNALED[whose]
    return [codec.encode(event, at=NOW) for event in events]


def store(path: Path, records: Sequence[Record], *, is_crash: bool = False) -> None:
    """A daemon's journal. ``is_crash``: as its files are while the daemon still runs."""
    path.parent.mkdir(parents=True)
    journal = SqliteJournal(path, ids=SeededIds(11))
    asyncio.run(_write(journal, records))
    if is_crash:
        kept = path.parent.with_name("kept")
        shutil.copytree(path.parent, kept)
        journal.close()
        shutil.rmtree(path.parent)
        kept.rename(path.parent)
        # What is in the log's index is found again from the log.
        path.with_name(path.name + "-shm").unlink()
        return
    journal.close()


def append(path: Path, records: Sequence[Record]) -> None:
    """A trip's journal."""
    path.parent.mkdir(parents=True)
    with ThreadPoolExecutor(1) as executor:
        journal = AppendJournal(path, executor=executor, ids=SeededIds(12))
        asyncio.run(_write(journal, records))
        journal.close()


async def _write(journal: Journal, records: Sequence[Record]) -> None:
    """A few at a time, as programs write; a history takes the place of what was before it."""
    first = 0
    while first < len(records):
        if records[first].kind == HISTORY_KIND:
            await journal.snapshot(records[first]).durable()
            first += 1
            continue
        chunk = [records[first]]
        while len(chunk) < RECORDS_AN_APPEND and first + len(chunk) < len(records):
            following = records[first + len(chunk)]
            if following.kind == HISTORY_KIND:
                break
            chunk.append(following)
        await journal.append(chunk).durable()
        first += len(chunk)


def _compacted(scene: GridScene) -> dict[str, list[Record]]:
    """What two journals are after a compaction, and a moment more."""
    assert scene.run(scene.agents["alpha"].compact())
    assert scene.run(scene.manager.compact())
    scene.occupy("alpha", 1, 3600, 600)
    scene.passes(5)
    return {name: list(scene.disks[name].records) for name in ("alpha", MANAGER)}


def _of_laptops(root: Path, trips: Path) -> None:
    """The trips of a laptop; and one whose last write was cut off."""
    shutil.copytree(trips, root / "trips")
    whole = sorted(trips.iterdir())[0]
    shutil.copytree(whole, root / "trips-torn" / whole.name)
    path = root / "trips-torn" / whole.name / TRIP_JOURNAL
    path.write_bytes(path.read_bytes()[:-CUT_BYTES])
