"""A manager's journal, compacted at any moment of any history, gives back the same book."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gridtravel.gridcore.booking import tombstones
from gridtravel.gridcore.booking.calendar_rules import CalendarRules
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState
from gridtravel.gridcore.timing.instants import Interval
from gridtravel.gridcore.trips.trip_consensus import AcceptorState, Ballot, Outcome, Vote
from gridtravel.gridio.journal.records import EventCodec
from gridtravel.manager.book.compaction import compacted
from gridtravel.manager.book.decisions import CompositeCalendar, ManagerRules
from gridtravel.manager.book.events import (
    MANAGER_EVENTS,
    GroupCommitted,
    GroupDecided,
    GroupHeld,
    HoldsAsked,
    HoldsGivenUp,
    ManagerEvent,
    Part,
    PartRenewed,
    TripVoteKept,
    TripVotesForgotten,
    UndoLanded,
)
from tests.support.builders import a_request, a_reservation

RULES = ManagerRules(calendar=CalendarRules(tombstone_s=700))
CODEC = EventCodec(MANAGER_EVENTS)
OWNERS = ("/O=grid/OU=managers/CN=east", "ada")
picks = st.integers(0, 20)


def state_of(book: CompositeCalendar) -> object:
    """All that a book remembers, and in what order where that matters."""
    return (
        list(book.groups),
        book.groups,
        book.asked,
        book.owed,
        book.finished_at,
        book.tombstoned,
        book.opened,
        book.trade.accounts(),
        {each: book.find_request(*each) for each in book._by_request},
        {each: book.successor_of(each) for each in book.groups},
    )


class CompactionMachine(RuleBasedStateMachine):
    """A book that lives through anything, and the journal of it."""

    def __init__(self) -> None:
        super().__init__()
        self.book = CompositeCalendar("north", RULES)
        self.journal: list[ManagerEvent] = []
        self.now, self.said = 10, 0

    def record(self, *events: ManagerEvent) -> None:
        for event in events:
            self.journal.append(event)
            self.take_in(self.book, event)

    @staticmethod
    def take_in(book: CompositeCalendar, event: ManagerEvent) -> None:
        match event:
            case TripVoteKept() | TripVotesForgotten():
                pass  # of an earlier release
            case _:
                book.apply(event)

    def pick(self, number: int, state: ReservationState) -> Reservation | None:
        among = [
            each.reservation
            for each in self.book.live()
            if each.reservation.state is state and each.amends is None
        ]
        return among[number % len(among)] if among else None

    @rule(
        number=picks,
        how=st.sampled_from(["new", "replace", "amend"]),
        children=st.sets(st.sampled_from("abc"), min_size=1),
        owner=st.sampled_from(OWNERS),
        is_kept=st.booleans(),
    )
    def hold(self, number: int, how: str, children: set[str], owner: str, is_kept: bool) -> None:
        """Ask for parts, and hold or give up."""
        old = None if how == "new" else self.pick(number, ReservationState.COMMITTED)
        if old is not None and self.book.successor_of(old.reservation_id):
            return
        self.said += 1
        old_id = None if old is None else old.reservation_id
        replaced = {} if old_id is None else {p.child: p for p in self.book.groups[old_id].parts}
        parts = tuple(
            Part(
                child=child,
                request_id=f"p{self.said}",
                nodes=1,
                reservation_id=f"{child}.{self.said}",
                replaces=replaced[child].reservation_id if child in replaced else "",
                lapses_at=self.now + 100,
            )
            for child in sorted(children)
        )
        group_id = self.book.take_group_id()
        self.record(HoldsAsked(group_id=group_id, parts=parts))
        if not is_kept:
            self.record(HoldsGivenUp(group_id=group_id, parts=parts))
            return
        reservation = a_reservation(
            group_id,
            site="north",
            owner=owner if old is None else old.owner,
            request=a_request(
                f"wish-{self.said}",
                start=self.now + 100,
                duration_s=100,
                replaces=old_id if how == "replace" else None,
            ),
            nodes=len(parts),
            interval=Interval(self.now + 100, self.now + 200),
            state=ReservationState.HELD,
            hold_expires_at=self.now + 50,
        )
        amends = old_id if how == "amend" else None
        self.record(GroupHeld(reservation=reservation, parts=parts, amends=amends))

    @rule(number=picks, loses=st.booleans(), ends=st.booleans())
    def decide(self, number: int, loses: bool, ends: bool) -> None:
        """Decide, perhaps renew a part that was lost, perhaps confirm."""
        held = self.book.undecided()
        if not held:
            return
        group_id = held[number % len(held)].group_id
        self.record(GroupDecided(group_id=group_id, at=self.now))
        if loses:
            lost = self.book.groups[group_id].parts[0]
            self.said += 1
            new = Part(
                child=lost.child,
                request_id=f"p{self.said}",
                nodes=1,
                reservation_id=f"{lost.child}.{self.said}",
                replaces=lost.replaces,
            )
            self.record(HoldsAsked(group_id=group_id, parts=(new,)))
            self.record(PartRenewed(group_id=group_id, lost=lost, part=new))
        if ends:
            self.record(GroupCommitted(group_id=group_id, at=self.now))

    @rule(number=picks)
    def confirm(self, number: int) -> None:
        """The last child has answered."""
        decided = self.book.decided()
        if decided:
            group_id = decided[number % len(decided)].group_id
            self.record(GroupCommitted(group_id=group_id, at=self.now))

    @rule(number=picks, state=st.sampled_from([ReservationState.HELD, ReservationState.COMMITTED]))
    def release(self, number: int, state: ReservationState) -> None:
        """Give up a group that stands."""
        found = self.pick(number, state)
        if found is not None:
            self.record(*self.book.decide_release(found.reservation_id, None, self.now))

    @rule(number=picks)
    def land(self, number: int) -> None:
        """A child confirms an undo."""
        owed = list(self.book.owed.values())
        if owed:
            part = owed[number % len(owed)]
            self.record(UndoLanded(child=part.child, request_id=part.request_id))

    @rule(number=picks)
    def bury(self, number: int) -> None:
        """A request is released before it was seen."""
        self.record(*self.book.decide_release_request(f"unseen-{number}", "ada", self.now))

    @rule(number=st.integers(0, 3), votes=st.integers(1, 3))
    def vote(self, number: int, votes: int) -> None:
        """A vote in a journal of an earlier release."""
        for each in range(votes):
            vote = Vote(ballot=Ballot(each + 1, "p"), outcome=Outcome.COMMIT)
            state = AcceptorState(instance=f"t{number}/1", vote=vote, keep_until=self.now + 50)
            self.record(TripVoteKept(state=state))

    @rule(seconds=st.sampled_from([5, 60, 200, 800]))
    def pass_time(self, seconds: int) -> None:
        """Expiries, ends, and tombstones that are forgotten."""
        self.now += seconds
        self.record(*self.book.decide_sweep(self.now))
        self.record(TripVotesForgotten(before=self.now - 700))

    @rule()
    def compact(self) -> None:
        """From here on the journal is the compacted one."""
        self.journal = self.shorter()

    def shorter(self) -> list[ManagerEvent]:
        return list(compacted(lambda: iter(self.journal), self.book))

    @invariant()
    def a_compacted_journal_gives_back_the_same(self) -> None:
        book = CompositeCalendar("north", RULES)
        for event in self.shorter():
            self.take_in(book, CODEC.decode(CODEC.encode(event, at=self.now)))
        book.validate()
        assert state_of(book) == state_of(self.book)


TestManagerCompaction = CompactionMachine.TestCase
TestManagerCompaction.settings = settings(max_examples=3 * settings().max_examples)


class CrowdedMachine(CompactionMachine):
    """The same where ended groups make way for each other all the time."""

    def __init__(self) -> None:
        super().__init__()
        self._crowd = patch.multiple(tombstones, ENDED_MAX=2, TOMBSTONES_MAX=3)
        self._crowd.start()

    def teardown(self) -> None:
        self._crowd.stop()

    @invariant()
    def the_room_is_kept(self) -> None:
        assert len(self.book.finished_at) <= 2
        assert len(self.book.tombstoned) <= 3


TestCrowdedManager = CrowdedMachine.TestCase


def test_what_is_forgotten_is_left_out() -> None:
    """A thousand bookings that are over and forgotten leave sums and nothing else."""
    machine = CompactionMachine()
    for number in range(1_000):
        machine.hold(0, "new", {"a", "b"}, OWNERS[number % 2], True)
        machine.decide(0, False, True)
        machine.pass_time(200)
    machine.pass_time(800)
    machine.pass_time(800)
    (only,) = machine.shorter()
    lent = {each.member: each.lent_node_s for each in machine.book.trade.accounts()}
    assert lent["a"] == lent["b"] == 100_000
    assert machine.book.opened == 1_000
    assert only.groups_opened == 1_000  # type: ignore[union-attr]


def test_an_event_of_a_release_counts_what_was_used() -> None:
    """Trade of a group that is remembered is not carried as well: it would count twice."""
    machine = CompactionMachine()
    machine.hold(0, "new", {"a"}, OWNERS[0], True)
    machine.decide(0, False, True)
    machine.now += 150
    machine.record(*machine.book.decide_release("north.1", None, machine.now))
    assert machine.book.groups["north.1"].reservation.state is ReservationState.RELEASED
    first, *_ = machine.shorter()
    assert not any(each.lent_node_s for each in first.accounts)  # type: ignore[union-attr]
    assert machine.book.trade.book.accounts["a"].lent == 50
