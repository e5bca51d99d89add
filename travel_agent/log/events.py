"""What the laptop writes down of a trip, in the order in which it happens.

Each record is written before the step it announces can have an effect anywhere, so that ``gur
resume`` finds out what may exist at the sites: every hold was announced by a ``HoldsAsked``, and no
commit leaves before a ``TripDecided``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridtravel.gridcore.booking.reservations import Acceptor
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.itineraries import Leg


@dataclass(frozen=True, slots=True, kw_only=True)
class TripOpened:
    """A trip was asked for."""

    trip_id: str
    name: str
    metajob_json: str
    """The metajob as the JSON form of its file."""
    base: str = ""
    """Folder in which relative paths of its files begin; empty, in older logs: not remembered, it
    is where a command is given.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedLeg:
    """A hold that may exist at a site from now on."""

    name: str
    machine: str
    request_id: str
    start: Instant
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsAsked:
    """The holds of one attempt are about to be asked for."""

    attempt: int
    legs: tuple[AskedLeg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbesAsked:
    """From now on these test reservations may exist, and no earlier ones: those that stay, and
    those that are about to be asked for. None: all were cancelled.
    """

    legs: tuple[AskedLeg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsLetGo:
    """All holds of this attempt were released, or can only expire."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TripDecided:
    """Every leg is held: the trip is to be committed. Written before anybody is asked to decide."""

    attempt: int
    legs: tuple[Leg, ...]
    acceptors: tuple[Acceptor, ...] = ()
    """Who keeps the outcome; empty: the only site's own book does."""
    nonce: str = ""
    """Part of the attempt's name, see ``TripRef.nonce``."""
    asked_at: Instant = 0
    """When the first hold was about to be asked for; 0 in logs of earlier releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripBooked:
    """Every leg is committed."""

    legs: tuple[Leg, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSent:
    """The files of a leg that come from this laptop are at its site."""

    leg: str
    reservation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted:
    """The task of a leg was queued inside its reservation, in logs of earlier releases: since then
    it is queued with the hold.
    """

    leg: str
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoAsked:
    """The trip is to be undone at every site: cancelled by its user, or it could not be whole."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendmentOpened:
    """A booked trip is about to be changed as a whole; until ``TripAmended`` it is as it was."""

    metajob_json: str
    """What is wanted from now on."""
    reason: str
    base: str = ""
    """As for ``TripOpened``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendmentDecided:
    """Every leg of the changed trip is held, beside what is booked: the change is to be committed.
    Written before anybody is asked to decide.
    """

    attempt: int
    legs: tuple[Leg, ...]
    """With the holds' reservations."""
    acceptors: tuple[Acceptor, ...] = ()
    nonce: str = ""
    asked_at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TripAmended:
    """Every leg of the changed trip is committed."""

    legs: tuple[Leg, ...]
    dropped: tuple[Leg, ...] = ()
    """Legs that are no part of it any more, and have still to be released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegsDropped:
    """Every leg that was dropped is released, or its time is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmendmentClosed:
    """Nothing came of the change: the trip is as it was, and no hold of the change is left."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceOpened:
    """Copies are about to be queued, of which exactly one will run."""

    copies: tuple[str, ...]
    """Legs, in the order in which it is asked whether they run."""
    acceptors: tuple[Acceptor, ...]
    ends_at: Instant
    sites: tuple[str, ...] = ()
    """Of the copies, in their order. Empty in logs of earlier releases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleTold:
    """Mail and hook about one occasion are about to go out; they go once."""

    occasion: str
    """The ``TripEvent`` and the attempt it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TripEnded:
    """Nothing more will happen; ``state`` is the final ``TripState``."""

    state: str
    message: str = ""
    legs: tuple[Leg, ...] = ()
    """As their sites had them in the end; empty: as they were."""


TripLogEvent = (
    TripOpened
    | ProbesAsked
    | HoldsAsked
    | HoldsLetGo
    | TripDecided
    | TripBooked
    | FilesSent
    | JobSubmitted
    | AmendmentOpened
    | AmendmentDecided
    | TripAmended
    | LegsDropped
    | AmendmentClosed
    | RaceOpened
    | PeopleTold
    | UndoAsked
    | TripEnded
)

TRIP_EVENTS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "trip-opened": TripOpened,
        "probes-asked": ProbesAsked,
        "holds-asked": HoldsAsked,
        "holds-let-go": HoldsLetGo,
        "trip-decided": TripDecided,
        "trip-booked": TripBooked,
        "files-sent": FilesSent,
        "job-submitted": JobSubmitted,
        "amendment-opened": AmendmentOpened,
        "amendment-decided": AmendmentDecided,
        "trip-amended": TripAmended,
        "legs-dropped": LegsDropped,
        "amendment-closed": AmendmentClosed,
        "race-opened": RaceOpened,
        "people-told": PeopleTold,
        "undo-asked": UndoAsked,
        "trip-ended": TripEnded,
    }
)
