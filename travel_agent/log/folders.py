"""Where the journals of a traveller's trips stand: one each, so that two commands about two trips
never wait for each other.
"""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridio.journal.contract import JournalDamaged, JournalFailed, JournalLocked
from gridtravel.gridio.journal.file import AppendJournal, read_appended
from gridtravel.gridio.journal.lock import read_note
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.gridio.journal.sqlite_file import read_records
from gridtravel.travel_agent.log.faults import TripLogFailed, written_down

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Journal, Record

JOURNAL_FILE: Final = "trip.journal"

WRITERS: Final = 4
"""Threads that write the journals of all trips of this process; each starts when it is needed."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_DATABASE_MAGIC: Final = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrip:
    """What a trip's journal held when it was read."""

    records: tuple[Record, ...]
    is_older_copy: bool = False
    """True when more was once written than there is: an older copy was put in its place."""


class TripJournals(Protocol):
    """Keeps one journal a trip; one process at a time may have it open."""

    def trip_ids(self) -> list[str]:
        """All trips that have a journal, the oldest first."""
        ...

    def create(self, trip_id: str) -> Journal:
        """The empty journal of a new trip."""
        ...

    def has(self, trip_id: str) -> bool:
        """True when this is the whole id of a trip that has a journal."""
        ...

    def open(self, trip_id: str) -> Journal:
        """A trip's journal, to write it; ``NotFoundError``: there is none, ``ConflictError``:
        another command has it open.
        """
        ...

    def read(self, trip_id: str) -> StoredTrip:
        """What is stored of a trip by now, also while another command writes it. Changes nothing
        and waits for nobody. ``NotFoundError``: there is no such trip; ``JournalDamaged``.
        """
        ...

    def discard(self, trip_id: str) -> None:
        """Forget a new trip whose first record could not be written."""
        ...


class TripFolders:
    """Journals in files, ``<root>/<trip id>/trip.journal``.

    A file is only appended to: a database a trip, as earlier releases made it, costs more than the
    trip itself (docs/decisions/0016). Those that are there are still opened as what they are.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="trip-log")

    def trip_ids(self) -> list[str]:
        """See ``TripJournals``. Ids sort by the second in which they were made."""
        if not self._root.is_dir():
            return []
        return sorted(each.name for each in self._root.iterdir() if (each / JOURNAL_FILE).exists())

    def create(self, trip_id: str) -> Journal:
        """See ``TripJournals``."""
        folder = self._folder(trip_id)
        try:
            folder.mkdir(parents=True, mode=0o700)
        except OSError as fault:
            if fault.errno in _NO_ROOM:
                raise self._no_room(fault.strerror) from None
            raise InputError(
                f"cannot remember trips in {self._root}: {fault.strerror}",
                hint="GUR_STATE must name a folder that can be made or written to",
            ) from None
        try:
            return AppendJournal(folder / JOURNAL_FILE, executor=self._writers)
        except JournalFailed as fault:
            self.discard(trip_id)
            raise self._no_room(fault.message) from None

    def discard(self, trip_id: str) -> None:
        """See ``TripJournals``."""
        shutil.rmtree(self._folder(trip_id), ignore_errors=True)

    def has(self, trip_id: str) -> bool:
        """See ``TripJournals``."""
        try:
            return (self._folder(trip_id) / JOURNAL_FILE).exists()
        except InputError:
            return False

    def open(self, trip_id: str) -> Journal:
        """See ``TripJournals``."""
        path = self._existing(trip_id)
        try:
            with written_down(trip_id):
                if _is_database(path):
                    return SqliteJournal(path)
                return AppendJournal(path, executor=self._writers)
        except JournalLocked:
            raise ConflictError(
                f"another command is working on trip {trip_id}", hint="wait until it has ended"
            ) from None

    def read(self, trip_id: str) -> StoredTrip:
        """See ``TripJournals``."""
        path = self._existing(trip_id)
        # The note first: what it says was stored by then is in what is read after it.
        note = read_note(path)
        records = tuple(read_records(path) if _is_database(path) else read_appended(path))
        # A trip's journal is never compacted, so that it has as many records as its last sequence.
        if note is None or note.synced <= len(records):
            return StoredTrip(records=records)
        if not records:
            raise JournalDamaged(
                f"the journal {path} is empty, but held {note.synced} records",
                hint="restore this file from a copy, or move it away",
            )
        return StoredTrip(records=records, is_older_copy=True)

    def _existing(self, trip_id: str) -> Path:
        path = self._folder(trip_id) / JOURNAL_FILE
        if not path.exists():
            raise NotFoundError(f"there is no trip {trip_id!r}", hint="`gur status` lists them")
        return path

    def _no_room(self, why: str | None) -> TripLogFailed:
        return TripLogFailed(
            f"this computer cannot remember a trip: {why}",
            hint=f"nothing was booked; make room in {self._root}, or let GUR_STATE name a folder"
            " on another disk",
        )

    def _folder(self, trip_id: str) -> Path:
        check_id("trip id", trip_id)
        if "/" in trip_id or trip_id.startswith("."):
            raise InputError(f"{trip_id!r} is not a trip id", hint="gur status lists the trips")
        return self._root / trip_id


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_DATABASE_MAGIC)) == _DATABASE_MAGIC
