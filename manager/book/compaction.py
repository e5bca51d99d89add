"""Keeping a manager's journal as long as what it remembers.

Left out are groups whose tombstone is gone, holds that came to nothing and undos that have landed.
What those groups have moved in trade is carried over as
sums, and what is owed to children is written anew, for it may outlive the group it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gridtravel.gridcore.booking.calendar_events import RequestTombstoned
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.manager.book.events import (
    AccountsCarried,
    GroupCommitted,
    GroupDecided,
    GroupEnded,
    GroupHeld,
    HoldsAsked,
    HoldsGivenUp,
    ManagerEvent,
    PartRenewed,
    TripVoteKept,
    TripVotesForgotten,
    UndoLanded,
)
from gridtravel.manager.book.groups import CompositeBook


def compacted(
    history: Callable[[], Iterable[ManagerEvent]],
    book: CompositeBook,
) -> Iterator[ManagerEvent]:
    """A shorter history that ends in the same state. ``history`` is read twice."""
    merged = _merged(history(), book)
    kept = [
        each
        for each in history()
        if not isinstance(each, TripVoteKept | TripVotesForgotten)
        and _is_remembered(each, book, merged)
    ]
    scratch = CompositeBook(book.site)
    for event in kept:
        scratch.apply(event)
    yield AccountsCarried(groups_opened=book.opened, accounts=_carried(scratch, book))
    yield from kept
    for (owner, request_id), at in book.tombstoned.items():
        yield RequestTombstoned(owner=owner, request_id=request_id, at=at)
    landed = [part for key, part in scratch.owed.items() if key not in book.owed]
    yield from (UndoLanded(child=part.child, request_id=part.request_id) for part in landed)
    owed = tuple(part for key, part in book.owed.items() if scratch.owed.get(key) != part)
    if owed:
        yield HoldsGivenUp(group_id="", parts=owed)
    yield from (HoldsAsked(group_id=each, parts=parts) for each, parts in book.asked.items())


def _merged(history: Iterable[ManagerEvent], book: CompositeBook) -> dict[str, None]:
    """Ids of the stand-ins that have given their place and size to a group that is remembered."""
    target: dict[str, str] = {}
    merged: dict[str, None] = {}
    for event in history:
        if isinstance(event, GroupHeld) and event.amends is not None:
            target[event.reservation.reservation_id] = event.amends
        elif isinstance(event, GroupCommitted) and target.get(event.group_id) in book.groups:
            merged[event.group_id] = None
    return merged


def _is_remembered(
    event: ManagerEvent,
    book: CompositeBook,
    merged: dict[str, None],
) -> bool:
    match event:
        case GroupHeld(reservation=reservation):
            group_id = reservation.reservation_id
        case GroupDecided() | PartRenewed() | GroupCommitted() | GroupEnded():
            group_id = event.group_id
        case _:
            return False  # written anew, as it is now
    return group_id in book.groups or group_id in merged


def _carried(scratch: CompositeBook, book: CompositeBook) -> tuple[TradeAccount, ...]:
    """What the accounts hold from groups that are forgotten."""
    found = []
    for name, total in book.trade.book.accounts.items():
        known = scratch.trade.book.accounts.get(name)
        found.append(
            TradeAccount(
                member=name,
                lent_node_s=total.lent - (known.lent if known else 0),
                borrowed_node_s=total.borrowed - (known.borrowed if known else 0),
                local_node_s=total.local - (known.local if known else 0),
            )
        )
    return tuple(found)
