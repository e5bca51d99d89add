"""What a journal is: an append-only list of records that outlives its process.

A service decides, journals, applies, with no ``await`` in between, and answers when the journal
says so::

    outcome, events = calendar.decide_reserve(request, now)
    ticket = journal.append(records_of(events))    # fixes the order; does not block
    calendar.apply(events)
    await ticket.durable()                         # shared by all who wait
    return outcome

``gridio.journal.sqlite`` keeps a journal in a file, ``gridio.journal.memory`` on a simulated
disk; one contract suite (tests/contract/test_journal_contract.py) runs over both. The promises:

* *Order*: replay gives the records in the order of the calls to ``append``.
* *Wholeness*: the records of one ``append`` are on disk all or none.
* *Prefix*: after any crash, replay gives a prefix of what was appended, never a list with a hole.
* *Durability*: that prefix includes every record whose ticket came back, also after power loss
  when ``sync`` was true.
* *Failure*: after the first failed write nothing more is acknowledged. A record whose ticket was
  refused may still be found by the next replay, as with any crash between writing and answering;
  the owner must stop and start again from ``replay()``, because what it applied in memory may be
  ahead of the disk.

Faults (children of the tree in ``gridcore.errors``)::

    UnavailableError
    ├── JournalFailed      a write failed, or the journal is closed: nothing more is acknowledged
    └── JournalOverloaded  too many records wait for the disk: nothing was appended
    ConflictError
    └── JournalLocked      another process owns this journal
    GridError
    └── JournalDamaged     what is stored is not what was written
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gridtravel.gridcore.errors import ConflictError, GridError, InputError, UnavailableError
from gridtravel.gridcore.timing.instants import Instant

BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longest body of one record, in bytes: room for a snapshot of 100,000 reservations of 600 bytes.
"""

PENDING_RECORDS_MAX: Final = 100_000
"""Records that may wait for the disk: about two seconds of work for a healthy disk, 60 MB of memory
while a disk is stuck.
"""


KIND_CHARACTERS_MAX: Final = 64
"""Longest name of a kind of record."""

INSTANT_MAX: Final = 2**62
"""Far beyond any calendar, and within the 64-bit integers of the file."""


class JournalFailed(UnavailableError):
    """The record may or may not be stored; nothing will be acknowledged until the owner starts
    again.
    """


class JournalOverloaded(UnavailableError):
    """``PENDING_RECORDS_MAX`` records wait for the disk; this call appended nothing and may be
    repeated later.
    """


class JournalLocked(ConflictError):
    """Another process (or another object in this one) owns the journal."""


class JournalDamaged(GridError):
    """The stored bytes are not a journal, or not the journal that was written; nothing was
    changed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One fact: what happened (``kind``), when its owner says it did (``at``), and the rest
    (``body``).

    The journal does not look inside ``body``; ``gridio.journal.records`` turns events into bodies
    and back.
    """

    kind: str
    at: Instant
    body: bytes

    def __post_init__(self) -> None:
        if not 0 < len(self.kind) <= KIND_CHARACTERS_MAX or not self.kind.isascii():
            raise InputError(
                f"a record's kind is 1 to {KIND_CHARACTERS_MAX} ASCII characters, not {self.kind!r}"
            )
        if not -INSTANT_MAX <= self.at <= INSTANT_MAX:
            raise InputError(f"{self.at} is no instant that a journal can hold")
        if len(self.body) > BODY_BYTES_MAX:
            raise InputError(
                f"a record of kind {self.kind!r} has {len(self.body)} bytes",
                hint=f"the most is {BODY_BYTES_MAX}",
            )


class Ticket(Protocol):
    """The receipt of one ``append``; it may be awaited by any number of tasks, any number of
    times.
    """

    @property
    def sequence(self) -> int:
        """Number of the last record this ticket covers; records are numbered 1, 2, 3, ... without
        gaps.
        """

    async def durable(self) -> None:
        """Return once every record up to ``sequence`` is safe to the grade asked for; else raise
        JournalFailed.

        A cancelled wait takes nothing back: the records are written all the same.
        """


class Journal(Protocol):
    """An append-only list of records with one owner. All methods are for the owner's thread."""

    @property
    def epoch(self) -> str:
        """Random name given at creation; it changes whenever stored records are known to have
        been lost.

        (epoch, sequence) never names two different records that were safe from power loss, so a
        reader that follows this journal compares epochs first.
        """

    @property
    def was_rewound(self) -> bool:
        """True when opening found other or fewer records than were once safe: an old copy was
        restored, a file was cut.

        The epoch is then a new one. The owner should log this loudly: promises may have been
        forgotten.
        """

    @property
    def last_sequence(self) -> int:
        """Number of the last record appended, written or not; 0 for a new journal."""

    @property
    def replay_count(self) -> int:
        """Records a restart would replay, those still waiting and the snapshot included; time for
        one when it is large.
        """

    def append(self, records: Sequence[Record], *, sync: bool = True) -> Ticket:
        """Queue `records` behind everything appended before, as one whole; neither blocks nor
        waits.

        With ``sync=False`` the ticket comes back when the records would survive the death of this
        process, but not yet a power failure; for facts that can be learned again elsewhere. An
        empty list is a barrier: its ticket comes back when everything appended so far is safe,
        which is what the answer to a repeated request must wait for. Raises JournalFailed or
        JournalOverloaded; then nothing was appended.
        """

    def snapshot(self, state: Record) -> Ticket:
        """Replace everything appended so far by `state`, as one whole; a replay then begins with
        `state`.
        """

    def replay(self) -> Iterator[Record]:
        """What is stored, oldest first: the last snapshot if there is one, then the records after
        it.

        Works also after a failure. Records still waiting for the disk are not included. Exhaust
        it or close it: an iterator left open keeps old records from being cleared away. Raises
        JournalDamaged at the first record that is not what was written.
        """

    def close(self) -> None:
        """Write what waits, then give the journal up; blocks for as long as the disk needs. May
        be called twice.
        """
