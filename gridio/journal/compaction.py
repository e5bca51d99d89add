"""Compaction of a journal: it stays as long as what its owner remembers, however old it gets.

The records of what the owner has forgotten are left out, and the rest become one record, the
*history*, in place of all that were there before. A replay takes it apart again; there is no second
form of the state that could disagree with the first. The owner says what may be left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.journal.contract import BODY_BYTES_MAX, Journal, Record, Ticket

log = logging.getLogger(__name__)

HISTORY_KIND: Final = "history"
"""The one record that replaces all that were there before."""
COMPACT_ABOVE: Final = 20_000
"""Records in the journal from which on a compaction is worth its pause (about 0.1 ms a record)."""


async def rewrite(
    journal: Journal,
    barrier: Callable[[], Ticket],
    remembered: Callable[[], Iterable[Record]],
    now: Instant,
) -> bool:
    """Replace what the journal holds by what is ``remembered``. False, and nothing is changed, when
    others kept writing meanwhile, or when it is too much for one record. ``barrier`` appends
    nothing, behind everything appended before.

    From the look at the last sequence to ``snapshot`` nobody else may run: what is appended in
    between would be in neither.
    """
    ticket = barrier()
    await ticket.durable()
    if journal.last_sequence != ticket.sequence:
        return False
    packed = _packed(remembered())
    if len(packed) > BODY_BYTES_MAX:
        log.warning("the history has %d bytes, more than a record may have", len(packed))
        return False
    await journal.snapshot(Record(kind=HISTORY_KIND, at=now, body=packed)).durable()
    return True


def history_of(journal: Journal) -> Iterator[Record]:
    """Every record there is, those of the history too, oldest first."""
    for record in journal.replay():
        yield from unpacked(record)


def unpacked(record: Record) -> Iterator[Record]:
    """The records behind one of the journal's: itself, or those that a history holds."""
    if record.kind != HISTORY_KIND:
        yield record
        return
    for kind, at, body in json.loads(record.body):
        yield Record(kind=kind, at=at, body=body.encode())


def _packed(records: Iterable[Record]) -> bytes:
    packed = [[each.kind, each.at, each.body.decode()] for each in records]
    return json.dumps(packed, separators=(",", ":")).encode()
