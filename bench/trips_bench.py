"""What a laptop with 1,000 trips behind it pays to list them: `python -m bench.trips_bench`.

The base of the ratios is a bare read of the same files. Files opened one by one, with lock and
note, as a command that writes a trip does it, stand beside for comparison; they take turns. The
last two figures are what a record waits when five commands write, each a trip of its own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.figures import Figure
from gridtravel.gridio.journal.contract import Record
from gridtravel.travel_agent.log.folders import JOURNAL_FILE, TripFolders

TRIPS: Final = 1000
RECORDS: Final = 8
BODY: Final = b"x" * 770
ROUNDS: Final = 5
COMMANDS: Final = 5
WRITES: Final = 200


async def fill(folders: TripFolders) -> None:
    """A thousand trips, as a busy year leaves them."""
    for number in range(TRIPS):
        journal = folders.create(f"trip-{number:04}")
        ticket = None
        for at in range(RECORDS):
            ticket = journal.append([Record(kind="record", at=at, body=BODY)], sync=False)
        assert ticket is not None
        await ticket.durable()
        journal.close()


def read_bare(root: Path, trip_ids: list[str]) -> None:
    """The bytes of every log."""
    for trip_id in trip_ids:
        (root / trip_id / JOURNAL_FILE).read_bytes()


def read_all(folders: TripFolders, trip_ids: list[str]) -> None:
    """Every record of every log, as `gur history` reads them."""
    for trip_id in trip_ids:
        assert len(folders.read(trip_id).records) == RECORDS


def open_all(folders: TripFolders, trip_ids: list[str]) -> None:
    """The same by opening each log to write it."""
    for trip_id in trip_ids:
        journal = folders.open(trip_id)
        assert len(list(journal.replay())) == RECORDS
        journal.close()


def seconds(work: Callable[[], None]) -> float:
    """How long it takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def write_trip(root: Path, name: str) -> list[float]:
    """One command that writes its own trip without a pause; seconds waited for each record."""

    async def write() -> list[float]:
        journal = TripFolders(root).create(name)
        waits = []
        for at in range(WRITES):
            begin = time.perf_counter()
            await journal.append([Record(kind="record", at=at, body=BODY)]).durable()
            waits.append(time.perf_counter() - begin)
        journal.close()
        return waits

    return asyncio.run(write())


def waits_of(root: Path, commands: int) -> list[float]:
    """The waits of so many commands at once, all of them."""
    names = [(root, f"trip-{commands}-{number}") for number in range(commands)]
    with multiprocessing.get_context("spawn").Pool(commands) as pool:
        return [wait for each in pool.starmap(write_trip, names) for wait in each]


def measure() -> list[Figure]:
    """List a thousand trips, and write some at once."""
    folder = Path(__file__).resolve().parent.parent / "build"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="trips-bench-") as name:
        root = Path(name)
        folders = TripFolders(root / "trips")
        asyncio.run(fill(folders))
        trip_ids = folders.trip_ids()
        bare, read, opened = [], [], []
        for _ in range(ROUNDS):
            bare.append(seconds(lambda: read_bare(root / "trips", trip_ids)))
            read.append(seconds(lambda: read_all(folders, trip_ids)))
            opened.append(seconds(lambda: open_all(folders, trip_ids)))
        base = statistics.median(bare)
        alone, together = waits_of(root / "one", 1), waits_of(root / "many", COMMANDS)
    return [
        Figure(name=f"{TRIPS} trips: bare read of their files", value=base * 1e3, unit="ms"),
        Figure(
            name=f"{TRIPS} trips read as they are, in bare reads",
            value=statistics.median(read) / base,
            unit="x",
        ),
        Figure(
            name=f"{TRIPS} trips opened to be written, in bare reads",
            value=statistics.median(opened) / base,
            unit="x",
        ),
        Figure(
            name=f"{COMMANDS} commands, a trip each: wait for a record, in those of one alone",
            value=statistics.median(together) / statistics.median(alone),
            unit="x",
        ),
        Figure(
            name=f"{COMMANDS} commands, a trip each: longest wait for a record",
            value=max(together) * 1e3,
            unit="ms",
        ),
    ]


if __name__ == "__main__":
    from bench.figures import show

    show(measure())
