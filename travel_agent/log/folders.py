"""Where the journals of a traveller's trips stand: one each, so that two commands about two trips
never wait for each other.
"""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from gridtravel.gridcore.booking.reservations import check_id
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.gridio.journal.contract import JournalFailed, JournalLocked
from gridtravel.gridio.journal.file import AppendJournal
from gridtravel.gridio.journal.sqlite import SqliteJournal
from gridtravel.travel_agent.log.faults import TripLogFailed, written_down

if TYPE_CHECKING:
    from gridtravel.gridio.journal.contract import Journal

JOURNAL_FILE: Final = "trip.journal"

WRITERS: Final = 4
"""Threads that write the journals of all trips of this process; each starts when it is needed."""

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
_DATABASE_MAGIC: Final = b"SQLite format 3\0"


class TripJournals(Protocol):
    """Keeps one journal a trip; one process at a time may have it open."""

    def trip_ids(self) -> list[str]:
        """All trips that have a journal, the oldest first."""
        ...

    def create(self, trip_id: str) -> Journal:
        """The empty journal of a new trip."""
        ...

    def open(self, trip_id: str) -> Journal:
        """A trip's journal; ``NotFoundError``: there is none."""
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

    def open(self, trip_id: str) -> Journal:
        """See ``TripJournals``."""
        path = self._folder(trip_id) / JOURNAL_FILE
        if not path.exists():
            raise NotFoundError(f"there is no trip {trip_id!r}", hint="`gur status` lists them")
        try:
            with written_down(trip_id):
                if _is_database(path):
                    return SqliteJournal(path)
                return AppendJournal(path, executor=self._writers)
        except JournalLocked:
            raise ConflictError(
                f"another command is working on trip {trip_id}", hint="wait until it has ended"
            ) from None

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
