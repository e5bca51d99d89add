"""A race: copies of one job wait in the queues of several sites, and exactly one of them runs.

Paxos Commit answers yes or no; a race asks it once for each copy, "does this copy run?", in an
order that all copies know. A copy that is about to start has the answer *no* settled for every copy
before it in that order, and then *yes* for itself; where it finds a *yes* before it, or its own
*no*, it has lost. So at most one copy runs: of two with a *yes*, the later one would have settled a
*no* for the earlier. And one does run: of the copies that have settled a *no* for others, nobody
settles one for the last in the order, so that copy runs as long as its site lives.

This needs no value but COMMIT and ABORT (``gridcore.trips.trip_consensus``). Rejected: an instance
with the winner's name as its value, one round shorter, which would run through every codec and
journal. MCP (the multiple-queue tool beside GUR) cancelled the other copies when one had started,
which lets two start at the same moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gridtravel.gridcore.booking.reservations import Acceptor, check_id
from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.timing.instants import Instant

COPIES_MAX: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """What one copy knows of the race it is in."""

    trip_id: str
    copy: str
    """This one's leg."""
    copies: tuple[str, ...]
    """All legs, in the order in which the question is put."""
    acceptors: tuple[Acceptor, ...]
    """Who keeps the answers; never empty."""
    ends_at: Instant
    """Nobody asks later: acceptors may forget the answers then."""
    sites: tuple[str, ...] = ()
    """Of the copies, in their order. Empty in journals of earlier releases."""

    def __post_init__(self) -> None:
        check_id("trip id", self.trip_id)
        for name in self.copies:
            check_id("question of a race", self.question(name))
        if not 2 <= len(self.copies) <= COPIES_MAX or len(set(self.copies)) < len(self.copies):
            raise InputError(f"a race is between 2 to {COPIES_MAX} different copies")
        if self.copy not in self.copies:
            raise InputError(f"copy {self.copy[:60]!r} is not in its own race")
        if self.sites and len(self.sites) != len(self.copies):
            raise InputError("a race names the site of each of its copies")
        if not self.acceptors:
            raise InputError("a race needs sites that keep its outcome")

    @property
    def before(self) -> tuple[str, ...]:
        """The copies that must be known not to run before this one may."""
        return self.copies[: self.copies.index(self.copy)]

    def question(self, copy: str) -> str:
        """The instance of the consensus that asks whether ``copy`` runs."""
        return f"{self.trip_id}/runs/{copy}"
