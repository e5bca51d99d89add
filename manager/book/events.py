"""Everything a calendar manager journals.

Replayed in order on an empty book, these records say which groups stand, which decision to commit
was taken but not yet carried out everywhere, and what children must still be told to undo. What is
not here can be learned again: shadows, plans, who is connected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gridtravel.gridcore.booking.calendar_events import FinishedForgotten, RequestTombstoned
from gridtravel.gridcore.booking.reservations import Reservation, ReservationEvent
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridcore.trips.trip_consensus import AcceptorState


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One child's share of a group, as its manager remembers it."""

    child: str
    request_id: str
    """Of the request that booked it; unique for ever, so that it can be undone unseen."""
    nodes: int
    reservation_id: str = ""
    """The child's name for it; empty while no answer has come."""
    replaces: str = ""
    """The reservation at the child that ends when this one is committed; empty: none."""
    lapses_at: Instant | None = None
    """By then the child has let go by itself, on the manager's clock, as long as nobody has told
    it to commit. ``None``: it may be committed, by its manager or by the outcome of its trip, and
    then never lets go.
    """

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from every other part."""
        return (self.child, self.request_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsAsked:
    """Written before the first request leaves: a manager that dies here knows what to undo."""

    group_id: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldsGivenUp:
    """These holds, whether they exist or not, are to be undone."""

    group_id: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeld:
    """Every child holds its part: the group is held, and may be promised onwards."""

    reservation: Reservation
    parts: tuple[Part, ...]
    amends: str | None = None
    """The group that takes this one's place and size when it is committed, and keeps its own id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDecided:
    """The decision to commit, written before the first commit leaves."""

    group_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRenewed:
    """A part that was lost between hold and commit was held once more."""

    group_id: str
    lost: Part
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommitted:
    """Every child has confirmed its commit."""

    group_id: str
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEnded:
    """A group came to its end. Unless its time is simply over, its parts are to be undone."""

    group_id: str
    event: ReservationEvent
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoLanded:
    """A child has confirmed an undo, or can no longer need one."""

    child: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountsCarried:
    """First in a compacted history: what groups that are left out have moved in trade, and how many
    group ids were ever given.
    """

    groups_opened: int
    accounts: tuple[TradeAccount, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TripVoteKept:
    """In journals of earlier releases: what the manager promised or accepted as an acceptor."""

    state: AcceptorState


@dataclass(frozen=True, slots=True, kw_only=True)
class TripVotesForgotten:
    """In journals of earlier releases: votes that were forgotten."""

    before: Instant


BookEvent = (
    HoldsAsked
    | HoldsGivenUp
    | GroupHeld
    | GroupDecided
    | PartRenewed
    | GroupCommitted
    | GroupEnded
    | UndoLanded
    | AccountsCarried
    | RequestTombstoned
    | FinishedForgotten
)
ManagerEvent = BookEvent | TripVoteKept | TripVotesForgotten

MANAGER_EVENTS: Final[Mapping[str, type]] = MappingProxyType(
    {
        "holds-asked": HoldsAsked,
        "holds-given-up": HoldsGivenUp,
        "group-held": GroupHeld,
        "group-decided": GroupDecided,
        "part-renewed": PartRenewed,
        "group-committed": GroupCommitted,
        "group-ended": GroupEnded,
        "undo-landed": UndoLanded,
        "accounts-carried": AccountsCarried,
        "buried": RequestTombstoned,
        "forgotten": FinishedForgotten,
        "trip-vote-kept": TripVoteKept,
        "trip-votes-forgotten": TripVotesForgotten,
    }
)
