"""What no sequence of bookings, ends, divisions and moves may ever break."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gridtravel.gridcore.capacity.ladders import EXACT, LadderLevel, SlotLadder
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.slot_grid import SlotGrid
from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar


@st.composite
def ladders(draw: st.DrawFn) -> SlotLadder:
    """One to three levels."""
    length_s, levels = draw(st.integers(1, 7)), []
    for _ in range(draw(st.integers(0, 2))):
        levels.append(LadderLevel(length_s, draw(st.integers(1, 6))))
        length_s *= draw(st.integers(2, 5))
    return SlotLadder((*levels, LadderLevel(length_s)))


@given(ladders(), st.integers(0, 500), st.integers(0, 800), st.integers(0, 400))
def test_a_grid_is_the_ladders_edges(
    ladder: SlotLadder, now: int, ahead_s: int, probe_s: int
) -> None:
    """Arithmetic and listing give the same slots, count, floor and ceiling."""
    grid = SlotGrid.at(ladder, now)
    until = now + ahead_s
    edges = ladder.edges(now, until)
    assert [start for start, _, _ in grid.slots(until)] == edges[:-1]
    assert (grid.horizon(until), grid.count(until)) == (edges[-1], len(edges) - 1)
    probe = min(now + probe_s, edges[-1])
    assert grid.floor(probe) == max(edge for edge in edges if edge <= probe)
    assert grid.ceil(probe) == min(edge for edge in edges if edge >= probe)


@given(ladders(), st.integers(0, 300), st.integers(0, 300))
def test_a_grid_changes_when_it_says_and_keeps_its_edges(
    ladder: SlotLadder, now: int, later_s: int
) -> None:
    """Before ``next_split`` every level begins where it did; after any time, every edge that is
    still ahead is an edge still: division only ever adds edges.
    """
    grid, later = SlotGrid.at(ladder, now), SlotGrid.at(ladder, now + later_s)
    assert (grid.begins[1:] == later.begins[1:]) == (now + later_s < grid.next_split)
    until = max(grid.horizon(now + later_s + 50), later.horizon(0))
    kept = {start for start, _, _ in grid.slots(until) if start >= later.begins[0]}
    assert kept <= {start for start, _, _ in later.slots(until)}


@dataclass
class Promise:
    """What a user was told, and is owed."""

    nodes: int
    duration_s: int
    start: int
    is_fixed: bool
    moves: list[int] = field(default_factory=list)


class ImpreciseCalendarMachine(RuleBasedStateMachine):
    """Any order of verbs on a small calendar, beside the promises it made."""

    @initialize(ladder=ladders(), nodes=st.integers(1, 6), threshold=st.sampled_from([1000, 600]))
    def begin(self, ladder: SlotLadder, nodes: int, threshold: int) -> None:
        """An empty calendar."""
        self.book = ImpreciseCalendar(nodes, ladder, 0, threshold_permille=threshold)
        self.threshold = threshold
        self.promises: dict[str, Promise] = {}
        self.made = 0

    @rule(nodes=st.integers(1, 6), duration_s=st.integers(1, 90), ahead_s=st.integers(0, 120))
    def take_the_first_fit(self, nodes: int, duration_s: int, ahead_s: int) -> None:
        """A job asks for the first slot; only one that is larger than the machine gets none."""
        start = self.book.first_fit(nodes, duration_s, self.book.now + ahead_s)
        assert (start is None) == (nodes > self.book.nodes)
        if start is not None:
            self.promise(nodes, duration_s, start, is_fixed=False)

    @rule(nodes=st.integers(1, 6), duration_s=st.integers(1, 90), ahead_s=st.integers(0, 200))
    def ask_for_a_given_start(self, nodes: int, duration_s: int, ahead_s: int) -> None:
        """A reservation asks for one start and gets that or nothing."""
        start = self.book.now + ahead_s
        if self.book.fits(nodes, duration_s, start):
            self.promise(nodes, duration_s, start, is_fixed=True)

    def promise(self, nodes: int, duration_s: int, start: int, *, is_fixed: bool) -> None:
        """Book, and write down what was told."""
        self.made += 1
        name = f"b{self.made}"
        is_advance = start >= self.book.grid.at_hand_until(self.book.now)
        booking = self.book.book(name, nodes, duration_s, start, is_fixed=is_fixed)
        if is_advance:
            left = self.book.profile.min_free(booking.held_from, booking.held_until)
            limit = self.book.nodes * self.threshold // 1000
            assert self.book.nodes - left <= max(limit, nodes), "the resource threshold holds"
        self.promises[name] = Promise(nodes, duration_s, start, is_fixed)

    @precondition(lambda self: self.promises)
    @rule(pick=st.integers(0, 50))
    def end_early(self, pick: int) -> None:
        """A task leaves, before or in the middle of its time."""
        name = sorted(self.promises)[pick % len(self.promises)]
        self.book.release(name)
        del self.promises[name]

    @rule(passed_s=st.integers(0, 60))
    def let_time_pass(self, passed_s: int) -> None:
        """Slots are consumed and split; what is over leaves."""
        now = self.book.now + passed_s
        for name in [n for n, p in self.promises.items() if p.start + p.duration_s <= now]:
            self.book.release(name)
            del self.promises[name]
        self.book.advance(now)

    @rule()
    def backfill(self) -> None:
        """Everything without a fixed start may move earlier, in order of booking."""
        for name in self.book.backfill(list(self.promises)):
            start = self.book.bookings[name].start
            assert start < self.promises[name].start, "never later"
            assert not self.promises[name].is_fixed
            self.promises[name].start = start

    @invariant()
    def nothing_is_lost_or_invented(self) -> None:
        """The profile is the sum of the slots that bookings hold, and no slot is over its nodes."""
        self.book.validate()
        slots = list(self.book.slots())
        assert all(0 <= slot.nodes_free <= slot.nodes for slot in slots)
        held = sum(
            each.nodes * (each.held_until - max(each.held_from, self.book.profile.origin))
            for each in self.book.bookings.values()
        )
        ahead = self.book.profile.free_node_seconds(slots[0].start, slots[-1].end)
        whole = self.book.nodes * (slots[-1].end - slots[0].start)
        present = self.book.grid_now().ceil(self.book.now) - slots[0].start
        assert abs(whole - ahead - held) <= self.book.nodes * present

    @invariant()
    def starts_are_as_promised(self) -> None:
        """A booking starts when its user was told, and its slots cover it from start to end."""
        for name, promise in self.promises.items():
            booking = self.book.bookings[name]
            assert booking.start == promise.start
            assert booking.held_from <= promise.start
            assert promise.start + promise.duration_s <= booking.held_until

    @invariant()
    def every_finest_realisation_exists(self) -> None:
        """Divided down to single seconds, all that coarse slots promised is there, with names: each
        booking gets nodes of its own for all of its time, one after the other by start.
        """
        busy_until = [self.book.now] * self.book.nodes
        for promise in sorted(self.promises.values(), key=lambda each: each.start):
            start = max(promise.start, self.book.now)
            idle = [node for node, until in enumerate(busy_until) if until <= start]
            assert len(idle) >= promise.nodes
            for node in idle[: promise.nodes]:
                busy_until[node] = promise.start + promise.duration_s


TestImpreciseCalendarMachine = ImpreciseCalendarMachine.TestCase


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(0, 60)),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=100)
def test_the_exact_ladder_is_the_exact_profile(wishes: list[tuple[int, int, int]]) -> None:
    """On one level of one second, first fit and bookings are those of ``AvailabilityProfile``."""
    book, profile = ImpreciseCalendar(4, EXACT), AvailabilityProfile(4)
    for number, (nodes, duration_s, earliest) in enumerate(wishes):
        start = book.first_fit(nodes, duration_s, earliest)
        assert start == profile.earliest_fit(nodes, duration_s, earliest)
        assert start is not None
        book.book(str(number), nodes, duration_s, start)
        profile.book(nodes, start, start + duration_s)
    assert book.profile == profile


@given(
    ladders(),
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(0, 60)),
        min_size=1,
        max_size=12,
    ),
)
def test_first_fit_is_first_among_all_slots(
    ladder: SlotLadder, wishes: list[tuple[int, int, int]]
) -> None:
    """The start found is the first slot edge from which all touched slots have room: a search by
    trying every edge finds the same.
    """
    book = ImpreciseCalendar(4, ladder)
    for number, (nodes, duration_s, earliest) in enumerate(wishes):
        start = book.first_fit(nodes, duration_s, earliest)
        edges = ladder.edges(0, 2000)
        tried = (edge for edge in edges if edge >= earliest and book.fits(nodes, duration_s, edge))
        assert start == next(tried)
        book.book(str(number), nodes, duration_s, start)


@given(
    ladders(),
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 40)),
        min_size=2,
        max_size=12,
    ),
    st.integers(0, 80),
    st.integers(0, 11),
)
def test_backfill_by_new_room_is_backfill_by_full_search(
    ladder: SlotLadder, wishes: list[tuple[int, int]], now: int, ending: int
) -> None:
    """Looking only where room has appeared moves each booking to where a search from now on,
    without its own booking, would put it.
    """
    book = ImpreciseCalendar(4, ladder)
    for number, (nodes, duration_s) in enumerate(wishes):
        start = book.first_fit(nodes, duration_s, 0)
        assert start is not None
        book.book(str(number), nodes, duration_s, start)
    book.advance(now)
    book.release(str(ending % len(wishes)))
    twin = ImpreciseCalendar(4, ladder, now)
    twin.profile = book.profile.copy()
    expected = {}
    for name, booking in book.bookings.items():
        expected[name] = booking.start
        if booking.start > now:
            twin.profile.unbook(booking.nodes, booking.held_from, booking.held_until)
            start = twin.first_fit(booking.nodes, booking.duration_s, now, booking.start)
            expected[name] = booking.start if start is None else start
            again = expected[name]
            until = twin.grid.ceil(again + booking.duration_s)
            twin.profile.book(booking.nodes, again, until)
    book.backfill(list(book.bookings))
    assert {name: each.start for name, each in book.bookings.items()} == expected
