"""A manager's book: what it decides, and what each event leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gridtravel.gridcore.booking.calendar_events import FinishedForgotten, RequestTombstoned
from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import (
    Acceptor,
    Decline,
    DeclineRule,
    Reservation,
    ReservationEvent,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.errors import ConflictError, InputError, NotAuthorisedError, NotFoundError
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.trip_consensus import AcceptorState, Ballot, Outcome, Vote
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.manager.book.decisions import CompositeCalendar, ManagerRules
from gridtravel.manager.book.events import (
    MANAGER_EVENTS,
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
    TripVoteKept,
    TripVotesForgotten,
    UndoLanded,
)
from tests.support.builders import a_request, a_reservation

NOW = 10
RULES = ManagerRules(calendar=CalendarRules(tombstone_s=700))


def a_book() -> CompositeCalendar:
    """An empty one."""
    return CompositeCalendar("north", RULES)


def a_part(child: str = "a", **others: object) -> Part:
    """One node at a child."""
    chosen = {
        "child": child,
        "request_id": f"part-{child}",
        "nodes": 1,
        "reservation_id": f"{child}.1",
        "lapses_at": 500,
    }
    return Part(**(chosen | others))  # type: ignore[arg-type]


def a_group(group_id: str = "north.1", **others: object) -> Reservation:
    """Two nodes during [100, 200), held until 50."""
    chosen: dict[str, object] = {
        "site": "north",
        "request": a_request(f"wish-{group_id}", start=100, duration_s=100),
        "nodes": 2,
        "interval": Interval(100, 200),
        "state": ReservationState.HELD,
        "hold_expires_at": 50,
    }
    return a_reservation(group_id, **(chosen | others))


def carry_out(book: CompositeCalendar, *events: BookEvent) -> None:
    """Apply, and check the book after each."""
    for event in events:
        book.apply(event)
        book.validate()


def a_held_book(*, group: Reservation | None = None) -> CompositeCalendar:
    """One group of two parts."""
    book, held = a_book(), group or a_group()
    parts = (a_part("a"), a_part("b"))
    carry_out(book, HoldsAsked(group_id=book.take_group_id(), parts=parts))
    carry_out(book, GroupHeld(reservation=held, parts=parts))
    return book


def a_committed_book() -> CompositeCalendar:
    """The same, committed."""
    book = a_held_book()
    carry_out(book, GroupDecided(group_id="north.1", at=NOW))
    carry_out(book, GroupCommitted(group_id="north.1", at=NOW))
    return book


def refused(answer: object) -> Decline:
    """The refusal that a test expects."""
    assert isinstance(answer, Decline), answer
    return answer


def test_what_was_asked_for_and_given_up_is_owed() -> None:
    """Nothing that may exist at a child is forgotten before the child has confirmed its end."""
    book = a_book()
    a, b = a_part("a"), a_part("b")
    carry_out(book, HoldsAsked(group_id="north.1", parts=(a, b)))
    assert book.asked == {"north.1": (a, b)}
    carry_out(book, HoldsGivenUp(group_id="north.1", parts=(a,)))
    assert (book.asked, book.owed) == ({"north.1": (b,)}, {a.key: a})
    carry_out(book, HoldsGivenUp(group_id="north.1", parts=(b,)))
    carry_out(book, UndoLanded(child="a", request_id="part-a"))
    carry_out(book, UndoLanded(child="b", request_id="part-b"))
    carry_out(book, UndoLanded(child="b", request_id="part-b"))
    assert (book.asked, book.owed) == ({}, {})


def test_ids_are_never_given_twice() -> None:
    """Nor are those that came to nothing, or that a replay brought back."""
    book = a_book()
    assert [book.take_group_id() for _ in range(2)] == ["north.1", "north.2"]
    carry_out(book, HoldsAsked(group_id="north.7", parts=(a_part(),)))
    assert book.take_group_id() == "north.8"
    with pytest.raises(ConflictError):
        book.apply(HoldsAsked(group_id="north.x", parts=(a_part(),)))


def test_parts_of_an_undecided_group_may_lapse_and_others_not() -> None:
    """A child lets go by itself only of what nobody told it to commit."""
    undecided, decided = a_held_book(), a_held_book()
    carry_out(decided, GroupDecided(group_id="north.1", at=NOW))
    ended = GroupEnded(group_id="north.1", event=ReservationEvent.RELEASE, at=NOW)
    carry_out(undecided, ended)
    carry_out(decided, ended)
    assert {part.lapses_at for part in undecided.owed.values()} == {500}
    assert {part.lapses_at for part in decided.owed.values()} == {None}


def test_a_commit_is_decided_once_and_in_time() -> None:
    """First the decision, then silence about it while it is carried out; after its lifetime a hold
    is refused although nobody swept it.
    """
    book = a_held_book()
    answer, events = book.decide_commit("north.1", "ada", NOW)
    assert (answer, events) == (None, (GroupDecided(group_id="north.1", at=NOW),))
    carry_out(book, *events)
    assert book.decide_commit("north.1", "ada", 1000) == (None, ())
    late = a_held_book()
    answer, events = late.decide_commit("north.1", "ada", 50)
    assert refused(answer).rule is DeclineRule.STATE
    carry_out(late, *events)
    assert late.get("north.1").reservation.state is ReservationState.EXPIRED
    assert refused(late.decide_commit("north.1", "ada", 51)[0]).rule is DeclineRule.STATE


def test_a_decided_group_neither_expires_nor_completes() -> None:
    """Its end is what the children say."""
    book = a_held_book()
    carry_out(book, GroupDecided(group_id="north.1", at=NOW))
    assert book.decide_sweep(5000) == ()
    assert [each.group_id for each in book.decided()] == ["north.1"]


def test_sweeping_expires_completes_and_forgets() -> None:
    """Each at its time; the next moment says when to come back."""
    book = a_held_book()
    assert book.next_moment(NOW) == 50
    assert book.decide_sweep(49) == ()
    carry_out(book, *book.decide_sweep(50))
    assert len(book.owed) == 2
    firm = a_committed_book()
    assert firm.next_moment(NOW) == 200
    carry_out(firm, *firm.decide_sweep(200))
    assert firm.get("north.1").reservation.state is ReservationState.COMPLETED
    assert not firm.owed
    assert firm.next_moment(201) is None
    assert firm.decide_sweep(900) == ()
    carry_out(firm, *firm.decide_sweep(901))
    assert not firm.groups


def test_a_trip_with_acceptors_does_not_expire_by_itself() -> None:
    """Others decide about it: it is in doubt, and may still be committed late."""
    trip = TripRef(trip_id="t", leg="l", acceptors=(Acceptor(site="x", endpoint="x:1"),))
    request = replace(a_group().request, trip=trip)
    book = a_held_book(group=a_group(request=request))
    assert book.decide_sweep(60) == ()
    assert [each.group_id for each in book.in_doubt(60)] == ["north.1"]
    assert book.next_moment(60) is None
    answer, events = book.decide_commit("north.1", "ada", 60)
    assert (answer, events) == (None, (GroupDecided(group_id="north.1", at=60),))


def test_the_same_request_is_known() -> None:
    """Alive it gives the group, finished a refusal, with other words an error."""
    book = a_held_book()
    group = book.get("north.1").reservation
    assert book.known_request(group.request, "ada") == group
    assert book.known_request(group.request, "bob") is None
    with pytest.raises(InputError):
        book.known_request(replace(group.request, nodes_max=9), "ada")
    carry_out(book, *book.decide_release("north.1", "ada", NOW))
    answer = book.known_request(group.request, "ada")
    assert refused(answer).rule is DeclineRule.FINISHED
    assert book.decide_release("north.1", "ada", NOW) == ()
    assert book.decide_release("north.9", "ada", NOW) == ()


def test_a_buried_request_never_holds() -> None:
    """Released before it was seen, and found out after the children have granted it."""
    book = a_book()
    events = book.decide_release_request("wish-north.1", "ada", NOW)
    assert events == (RequestTombstoned(owner="ada", request_id="wish-north.1", at=NOW),)
    carry_out(book, *events)
    assert book.decide_release_request("wish-north.1", "ada", NOW) == ()
    answer, events = book.decide_held(a_group(), (a_part(),), None, NOW)
    assert refused(answer).rule is DeclineRule.FINISHED
    assert events == ()
    with pytest.raises(ConflictError):
        book.apply(GroupHeld(reservation=a_group(), parts=(a_part("a"), a_part("b"))))
    carry_out(book, FinishedForgotten(before=NOW + 1))
    assert not book.tombstoned


def test_a_group_that_leaves_no_time_to_commit_is_refused() -> None:
    """Less than the least lifetime of a hold is left before the children's holds end."""
    book = a_book()
    answer, _ = book.decide_held(a_group(hold_expires_at=NOW + 1), (a_part(),), None, NOW)
    assert refused(answer).rule is DeclineRule.START_TOO_SOON


def test_a_group_belongs_to_its_owner() -> None:
    """Others are told that it is not theirs; a change that stands in for a group is nobody's."""
    book = a_committed_book()
    with pytest.raises(NotAuthorisedError):
        book.decide_commit("north.1", "bob", NOW)
    with pytest.raises(NotFoundError):
        book.get("north.2", "ada")
    inner = a_group("north.2", request=a_request("change", start=100, duration_s=100))
    parts = (a_part("a", request_id="p2", replaces="a.1"), a_part("c"))
    carry_out(book, GroupHeld(reservation=inner, parts=parts, amends="north.1"))
    with pytest.raises(NotFoundError):
        book.get("north.2", "ada")
    assert book.known_request(inner.request, "ada", "north.1") is None
    with pytest.raises(InputError):
        book.known_request(inner.request, "ada", "north.5")


def test_an_amended_group_keeps_its_id() -> None:
    """The change takes its place; the part at the child that was dropped is owed, the one that was
    replaced is not.
    """
    book = a_committed_book()
    inner = a_group("north.2", request=a_request("change", start=100, duration_s=100))
    parts = (a_part("a", request_id="p2", reservation_id="a.2", replaces="a.1"), a_part("c"))
    carry_out(book, GroupHeld(reservation=inner, parts=parts, amends="north.1"))
    assert book.successor_of("north.1") == "north.2"
    assert refused(book.refuse_replacing("north.1", "ada", "amend")).rule is DeclineRule.STATE
    carry_out(book, GroupDecided(group_id="north.2", at=NOW))
    carry_out(book, GroupCommitted(group_id="north.2", at=NOW))
    group = book.get("north.1", "ada")
    assert (group.parts, group.reservation.request.request_id) == (parts, "change")
    assert list(book.owed) == [("b", "part-b")]
    assert "north.2" not in book.groups
    assert book.find_request("ada", "change") == group
    assert book.find_request("ada", "wish-north.1") == group


def test_a_change_does_not_outlive_its_group() -> None:
    """Released or over: the change under way ends first."""
    for event in (ReservationEvent.RELEASE, ReservationEvent.COMPLETE):
        book = a_committed_book()
        inner = a_group(
            "north.2", request=a_request("change", start=100, duration_s=100), hold_expires_at=900
        )
        parts = (a_part("a", request_id="p2", replaces="a.1"), a_part("c"))
        carry_out(book, GroupHeld(reservation=inner, parts=parts, amends="north.1"))
        is_released = event is ReservationEvent.RELEASE
        releasing = book.decide_release("north.1", "ada", NOW)
        carry_out(book, *(releasing if is_released else book.decide_sweep(200)))
        ended = ReservationState.RELEASED if is_released else ReservationState.COMPLETED
        assert book.get("north.1").reservation.state is ended
        assert ("c", "part-c") in book.owed
        assert not book.live()


def test_a_renewed_part_takes_the_place_of_the_lost_one() -> None:
    """The lost one is owed: its child may have told less than the truth."""
    book = a_held_book()
    carry_out(book, GroupDecided(group_id="north.1", at=NOW))
    new = a_part("b", request_id="p9", reservation_id="b.9")
    carry_out(book, HoldsAsked(group_id="north.1", parts=(new,)))
    carry_out(book, PartRenewed(group_id="north.1", lost=a_part("b"), part=new))
    assert book.get("north.1").parts == (a_part("a"), new)
    assert list(book.owed) == [("b", "part-b")]
    assert not book.asked


def test_contradictions_change_nothing() -> None:
    """An event that the book does not allow is refused, and the book is as it was."""
    book = a_committed_book()
    for event in (
        GroupHeld(reservation=a_group(), parts=(a_part(),)),
        GroupDecided(group_id="north.1", at=NOW),
        GroupCommitted(group_id="north.1", at=NOW),
        GroupEnded(group_id="north.1", event=ReservationEvent.EXPIRE, at=NOW),
        RequestTombstoned(owner="ada", request_id="wish-north.1", at=NOW),
        GroupHeld(
            reservation=a_group("north.2", request=a_request("w2", replaces="north.9")),
            parts=(a_part(),),
        ),
    ):
        with pytest.raises((ConflictError, NotFoundError)):
            book.apply(event)
        book.validate()
    assert book.get("north.1").reservation.state is ReservationState.COMMITTED


def test_every_event_can_be_journaled() -> None:
    """Each kind survives a journal record and back; a kind that is forgotten in the registry would
    be noticed here.
    """
    codec = EventCodec(MANAGER_EVENTS)
    vote = Vote(ballot=Ballot(1, "p"), outcome=Outcome.COMMIT)
    events = [
        HoldsAsked(group_id="north.1", parts=(a_part(),)),
        HoldsGivenUp(group_id="north.1", parts=(a_part(lapses_at=None),)),
        GroupHeld(reservation=a_group(), parts=(a_part(),), amends="north.9"),
        GroupDecided(group_id="north.1", at=NOW),
        PartRenewed(group_id="north.1", lost=a_part(), part=a_part("b")),
        GroupCommitted(group_id="north.1", at=NOW),
        GroupEnded(group_id="north.1", event=ReservationEvent.RELEASE, at=NOW),
        UndoLanded(child="a", request_id="part-a"),
        AccountsCarried(groups_opened=7, accounts=(TradeAccount(member="a", lent_node_s=5),)),
        RequestTombstoned(owner="ada", request_id="w", at=NOW),
        FinishedForgotten(before=NOW),
        TripVoteKept(state=AcceptorState(instance="t/1", vote=vote)),
        TripVotesForgotten(before=NOW),
    ]
    assert {type(each) for each in events} == set(MANAGER_EVENTS.values())
    for event in events:
        assert codec.decode(codec.encode(event, at=NOW)) == event


def test_the_margin_to_commit_in_is_at_least_a_second() -> None:
    """A parent's hold expires before its children's."""
    with pytest.raises(InputError):
        ManagerRules(calendar=CalendarRules(), commit_margin_s=0)
