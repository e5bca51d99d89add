"""The state of a manager's book and the one way to change it: ``apply``.

A *group* is a manager's reservation: parts at several children with the same start and the same
end, promised all or none. The book has no free room of its own (that belongs to the children), so
it is not a ``gridcore.booking.calendar_book.CalendarBook``; it keeps the same rules about ids,
owners and tombstones. ``CompositeBook`` remembers; ``manager.book.decisions`` decides.

The life of a group::

    HoldsAsked ──> GroupHeld ──> GroupDecided ──> GroupCommitted ──> GroupEnded (complete, release)
        │              │              │
    HoldsGivenUp   GroupEnded     GroupEnded       (a child refused: all parts are undone)
        │              │              │
        └──────────────┴──────────────┴──> owed ──> UndoLanded

What is *owed* is never forgotten before the child has confirmed it, or has certainly let go by
itself: an abandoned commit never heals on its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gridtravel.gridcore.booking import tombstones
from gridtravel.gridcore.booking.calendar_events import FinishedForgotten, RequestTombstoned
from gridtravel.gridcore.booking.reservations import (
    Reservation,
    ReservationEvent,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.booking.tombstones import RequestTombstones, SharedRoom
from gridtravel.gridcore.errors import REPORT_IT, ConflictError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.number_text import is_count
from gridtravel.gridcore.timing.instants import Instant
from gridtravel.manager.book.events import (
    AccountsCarried,
    BookEvent,
    GroupCommitted,
    GroupDecided,
    GroupEnded,
    GroupHeld,
    HoldsAsked,
    HoldsGivenUp,
    Part,
    PartRenewed,
    UndoLanded,
)
from gridtravel.manager.book.trade import TradeLedger, trader


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A reservation over several children."""

    reservation: Reservation
    """As its owner sees it."""
    parts: tuple[Part, ...]
    """In the order of the children; at least one."""
    is_decided: bool = False
    """The decision to commit is in the journal, and not every child has confirmed it yet."""
    amends: str | None = None
    """Id of the group that this one stands in for until it is committed."""

    @property
    def group_id(self) -> str:
        """Id of the reservation."""
        return self.reservation.reservation_id

    @property
    def asks_first(self) -> bool:
        """True when others decide with it: it may not simply expire."""
        trip = self.reservation.request.trip
        return trip is not None and bool(trip.acceptors) and self.amends is None


class CompositeBook:
    """One manager's groups and what it owes its children. Mutable, one owner, changed only by
    ``apply``.
    """

    def __init__(self, site: str) -> None:
        self.site = site
        self.trade = TradeLedger(site)
        """Who ran whose work; follows from the ends of groups."""
        self.groups: dict[str, Group] = {}
        """By id: live ones, and finished ones for ``tombstone_s``, as long as there is room."""
        self.asked: dict[str, tuple[Part, ...]] = {}
        """Group id -> holds that were asked for and belong to no group yet. Never empty tuples."""
        self.owed: dict[tuple[str, str], Part] = {}
        """(child, request id) -> what the child must still be told to undo."""
        self.finished_at: dict[str, Instant] = {}
        """When each finished group ended; the keys are exactly the finished groups."""
        self._ended: SharedRoom[str] = SharedRoom()
        """The same by owner: whose make way when there are too many."""
        self.tombstoned = RequestTombstones()
        """(owner, request id) released before anything was booked for it, or of a group that made
        way.
        """
        self._by_request: dict[tuple[str, str], tuple[str, ReservationRequest]] = {}
        """(owner, request id) -> the group it booked or amended, and the request as it was."""
        self._requests: dict[str, list[str]] = {}
        """Group -> ids of the requests that booked or amended it, the first first."""
        self._successor: dict[str, str] = {}
        """Committed group -> the held one that is to replace or amend it."""
        self._opened = 0

    @property
    def opened(self) -> int:
        """How many group ids were ever given."""
        return self._opened

    def take_group_id(self) -> str:
        """An id for a new group, never given twice; ids that came to nothing leave gaps."""
        self._opened += 1
        return f"{self.site}.{self._opened}"

    def get(self, group_id: str, by: str | None = None) -> Group:
        """The entry; ``by`` must be its owner, ``None`` is the manager itself."""
        group = self.groups.get(group_id)
        if group is None or (group.amends is not None and by is not None):
            raise NotFoundError(
                f"{self.site} has no reservation {group_id!r}",
                hint="it may be over: see gur status, catalina show-res",
            )
        if by is not None and by != group.reservation.owner:
            raise NotAuthorisedError(
                f"reservation {group_id} at {self.site} belongs to somebody else",
                hint="only its owner or an administrator may do that",
            )
        return group

    def find_request(self, owner: str, request_id: str) -> Group | None:
        """What ``owner``'s request booked, if it is still remembered."""
        found = self._by_request.get((owner, request_id))
        return None if found is None else self.groups[found[0]]

    def requests_for(self, group_id: str) -> int:
        """How many requests booked and amended a group."""
        return len(self._requests[group_id])

    def successor_of(self, group_id: str) -> str | None:
        """The held group that is to replace or amend ``group_id``."""
        return self._successor.get(group_id)

    def live(self) -> list[Group]:
        """Held and committed groups in the order in which they were held."""
        return [each for each in self.groups.values() if each.reservation.state.is_live]

    def undecided(self) -> list[Group]:
        """Holds that nobody has decided to commit."""
        held = ReservationState.HELD
        return [
            each for each in self.live() if each.reservation.state is held and not each.is_decided
        ]

    def decided(self) -> list[Group]:
        """Groups on their way from the decision to the last child's confirmation."""
        return [each for each in self.groups.values() if each.is_decided]

    def debt_node_s(self, name: str) -> int:
        """What the manager ``name`` owes here, with all that it has booked and not used yet."""
        booked = [each for each in self.live() if trader(each.reservation.owner, self.site) == name]
        return self.trade.debt_node_s(name) + sum(
            part.nodes * (each.reservation.end - each.reservation.start)
            for each in booked
            for part in each.parts
            if part.child != name
        )

    def apply(self, event: BookEvent) -> None:
        """Carry out one event. ``ConflictError`` or ``NotFoundError`` when it contradicts the book;
        the book is then unchanged.
        """
        match event:
            case HoldsAsked():
                self._opened = max(self._opened, _number_of(event.group_id))
                self.asked[event.group_id] = (*self.asked.get(event.group_id, ()), *event.parts)
            case HoldsGivenUp():
                self._drop_asked(event.group_id, event.parts)
                self._owe(event.parts)
            case GroupHeld():
                self._add(event)
            case GroupDecided():
                self._decide(self.get(event.group_id))
            case PartRenewed():
                self._renew(event)
            case GroupCommitted():
                self._commit(self.get(event.group_id), event.at)
            case GroupEnded():
                self._end(self.get(event.group_id), event.event, event.at)
            case AccountsCarried():
                self._opened = max(self._opened, event.groups_opened)
                self.trade.carry(event.accounts)
            case UndoLanded():
                self.owed.pop((event.child, event.request_id), None)
            case RequestTombstoned():
                self._bury(event)
            case FinishedForgotten():
                self._forget(event.before)

    def validate(self) -> None:
        """Assert every invariant that links the fields; for tests and after a replay."""
        live = {each.group_id for each in self.live()}
        assert set(self.finished_at) == set(self.groups) - live, "a tombstone for each finished one"
        assert not set(self.tombstoned) & set(self._by_request), "what was heard is not buried"
        for key, (group_id, request) in self._by_request.items():
            owner = self.groups[group_id].reservation.owner
            assert key == (owner, request.request_id), key
            assert request.request_id in self._requests[group_id], key
        assert set(self._requests) == set(self.groups), "requests of each group"
        owners = Counter(self.groups[each].reservation.owner for each in self.finished_at)
        assert self._ended.counts() == owners, "a place for each finished one"
        self.tombstoned.validate()
        for old, new in self._successor.items():
            assert self.groups[old].reservation.state is ReservationState.COMMITTED, old
            assert self.groups[new].reservation.state is ReservationState.HELD, new
        for group in self.groups.values():
            reservation = group.reservation
            is_held = reservation.state is ReservationState.HELD
            assert group.parts, "a group has parts"
            assert reservation.nodes == sum(part.nodes for part in group.parts), group.group_id
            assert is_held or not group.is_decided, group.group_id
            assert is_held or reservation.hold_expires_at is None, group.group_id
            assert not (reservation.state.is_live and {p.key for p in group.parts} & set(self.owed))
            assert (
                group.amends is None
                or self._successor.get(group.amends) == group.group_id
                or (not reservation.state.is_live)
            ), group.group_id
        self.trade.book.validate()
        for parts in self.asked.values():
            assert parts, "no empty round"
            assert not {part.key for part in parts} & set(self.owed)

    def _add(self, event: GroupHeld) -> None:
        reservation, group_id = event.reservation, event.reservation.reservation_id
        key = (reservation.owner, reservation.request.request_id)
        if group_id in self.groups or reservation.state is not ReservationState.HELD:
            raise ConflictError(
                f"group {group_id} is in the book already, or is not a new one", hint=REPORT_IT
            )
        if key in self._by_request or key in self.tombstoned:
            raise ConflictError(f"request {key[1]} was answered before", hint=REPORT_IT)
        old_id = event.amends or reservation.request.replaces
        if old_id is not None and not self._is_forgotten(old_id):
            old = self.get(old_id).reservation
            if old.state is not ReservationState.COMMITTED or old_id in self._successor:
                raise ConflictError(
                    f"reservation {old_id} cannot be replaced by {group_id}", hint=REPORT_IT
                )
            self._successor[old_id] = group_id
        self._drop_asked(group_id, event.parts)
        self.groups[group_id] = Group(
            reservation=reservation, parts=event.parts, amends=event.amends
        )
        self._note_request(reservation)

    def _is_forgotten(self, group_id: str) -> bool:
        """True for an id that was given, of a group that a compacted journal does not know."""
        return group_id not in self.groups and _number_of(group_id) <= self._opened

    def _decide(self, group: Group) -> None:
        if group.reservation.state is not ReservationState.HELD:
            raise ConflictError(
                f"group {group.group_id} is {group.reservation.state}", hint=REPORT_IT
            )
        self.groups[group.group_id] = replace(group, is_decided=True)

    def _renew(self, event: PartRenewed) -> None:
        group = self.get(event.group_id)
        parts = tuple(event.part if each.key == event.lost.key else each for each in group.parts)
        self._drop_asked(event.group_id, (event.part,))
        self.groups[event.group_id] = replace(group, parts=parts)
        self._owe((event.lost,))

    def _commit(self, group: Group, at: Instant) -> None:
        firm = replace(group.reservation.after(ReservationEvent.COMMIT), hold_expires_at=None)
        old_id = group.amends or group.reservation.request.replaces
        if old_id is None or self._successor.get(old_id) != group.group_id:
            self.groups[group.group_id] = replace(group, reservation=firm, is_decided=False)
            return
        del self._successor[old_id]
        old = self.groups[old_id]
        covered = {(part.child, part.replaces) for part in group.parts}
        left = [part for part in old.parts if (part.child, part.reservation_id) not in covered]
        if group.amends is None:
            self.groups[group.group_id] = replace(group, reservation=firm, is_decided=False)
            self._finish(old, ReservationEvent.SUPERSEDE, at)
        else:
            created_at = old.reservation.created_at
            firm = replace(firm, reservation_id=old_id, created_at=created_at)
            del self.groups[group.group_id]
            del self._requests[group.group_id]
            self.groups[old_id] = Group(reservation=firm, parts=group.parts)
            self._note_request(firm)
        self._owe(replace(part, lapses_at=None) for part in left)

    def _end(self, group: Group, event: ReservationEvent, at: Instant) -> None:
        may_be_committed = group.is_decided or (
            group.reservation.state is ReservationState.COMMITTED
        )
        self._finish(group, event, at)
        self._successor.pop(group.group_id, None)
        old_id = group.amends or group.reservation.request.replaces
        if old_id is not None and self._successor.get(old_id) == group.group_id:
            del self._successor[old_id]
        if event is ReservationEvent.COMPLETE:
            return
        for part in group.parts:
            self._owe((replace(part, lapses_at=None) if may_be_committed else part,))

    def _finish(self, group: Group, event: ReservationEvent, at: Instant) -> None:
        if group.reservation.state is ReservationState.COMMITTED:
            until = group.reservation.end if event is ReservationEvent.COMPLETE else at
            self.trade.close(group.reservation, group.parts, until)
        ended = replace(group.reservation.after(event), hold_expires_at=None)
        self.groups[group.group_id] = replace(group, reservation=ended, is_decided=False)
        self.finished_at[group.group_id] = at
        self._ended.add(ended.owner, group.group_id)
        while (gone := self._ended.makes_way(tombstones.ENDED_MAX)) is not None:
            ended_at = self.finished_at[gone]
            for key in self._drop_finished(gone):
                self.tombstoned.add(key, ended_at)

    def _owe(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self.owed[part.key] = part

    def _drop_asked(self, group_id: str, parts: Iterable[Part]) -> None:
        gone = {part.key for part in parts}
        left = tuple(each for each in self.asked.get(group_id, ()) if each.key not in gone)
        if left:
            self.asked[group_id] = left
        else:
            self.asked.pop(group_id, None)

    def _bury(self, event: RequestTombstoned) -> None:
        key = (event.owner, event.request_id)
        if key in self.tombstoned or key in self._by_request:
            raise ConflictError(f"request {event.request_id} is known already", hint=REPORT_IT)
        self.tombstoned.add(key, event.at)

    def _forget(self, before: Instant) -> None:
        for group_id in [key for key, at in self.finished_at.items() if at < before]:
            self._drop_finished(group_id)
        self.tombstoned.forget(before)

    def _drop_finished(self, group_id: str) -> list[tuple[str, str]]:
        """Leave out a finished group; returns the requests that were its own."""
        owner = self.groups.pop(group_id).reservation.owner
        self._ended.drop(owner, group_id)
        del self.finished_at[group_id]
        keys = [(owner, each) for each in dict.fromkeys(self._requests.pop(group_id))]
        for key in keys:
            del self._by_request[key]
        return keys

    def _note_request(self, reservation: Reservation) -> None:
        group_id, request = reservation.reservation_id, reservation.request
        self._by_request[reservation.owner, request.request_id] = (group_id, request)
        self._requests.setdefault(group_id, []).append(request.request_id)


def _number_of(group_id: str) -> int:
    """The number in an id that ``take_group_id`` made."""
    number = group_id.rpartition(".")[2]
    if not is_count(number):
        raise ConflictError(f"{group_id!r} is no id of a group", hint=REPORT_IT)
    return int(number)
