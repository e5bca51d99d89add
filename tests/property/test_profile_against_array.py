"""AvailabilityProfile against the most naive model there is: one number for each second."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import ConflictError, InputError

HORIZON_S = 60
CAPACITY = 5

spans = st.tuples(st.integers(1, CAPACITY), st.integers(0, HORIZON_S - 2), st.integers(1, 20)).map(
    lambda t: (t[0], t[1], None if t[2] == 20 else t[1] + t[2])
)


class PerSecond:
    """Free nodes of each second up to twice the horizon; the last one stands for 'ever after'."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free = [capacity] * (2 * HORIZON_S)
        self.origin = 0

    def window(self, start: int, end: int | None) -> range:
        """The seconds of an interval."""
        return range(max(start, self.origin), len(self.free) if end is None else end)

    def availability(self, start: int, end: int | None) -> int:
        """Minimum over the window."""
        return min((self.free[s] for s in self.window(start, end)), default=self.capacity)

    def most(self, start: int, end: int | None) -> int:
        """Maximum over the window, which is not empty."""
        return max(self.free[s] for s in self.window(start, end))

    def shift(self, change: int, start: int, end: int | None) -> None:
        """Add to every second."""
        for second in self.window(start, end):
            self.free[second] += change


def filled(bookings: list[tuple[int, int, int | None]]) -> tuple[AvailabilityProfile, PerSecond]:
    """Both models after the same bookings; those without room are refused by both."""
    profile, array = AvailabilityProfile(CAPACITY), PerSecond(CAPACITY)
    for nodes, start, end in bookings:
        if array.availability(start, end) >= nodes:
            profile.book(nodes, start, end)
            array.shift(-nodes, start, end)
        else:
            before = profile.copy()
            with pytest.raises(ConflictError):
                profile.book(nodes, start, end)
            assert profile == before
        profile.validate()
    return profile, array


books = st.lists(spans, max_size=12)


@given(books, spans)
@settings(max_examples=150)
def test_book_and_questions_agree_with_array(
    bookings: list[tuple[int, int, int | None]], span: tuple[int, int, int | None]
) -> None:
    """Every second shows the same free count, and min_free, max_free, fits and the free area follow
    from it.
    """
    profile, array = filled(bookings)
    assert [profile.free_at(s) for s in range(2 * HORIZON_S)] == array.free
    nodes, start, end = span
    assert profile.min_free(start, end) == array.availability(start, end)
    assert profile.max_free(start, end) == array.most(start, end)
    assert profile.fits(nodes, start, end) == (array.availability(start, end) >= nodes)
    if end is not None:
        assert profile.free_node_seconds(start, end) == sum(array.free[start:end])


@given(books, st.integers(1, CAPACITY), st.integers(1, 25), st.integers(0, HORIZON_S))
@settings(max_examples=150)
def test_earliest_fit_is_the_first_window(
    bookings: list[tuple[int, int, int | None]], nodes: int, duration_s: int, earliest: int
) -> None:
    """No earlier start has room for the whole duration, and the answer has."""
    profile, array = filled(bookings)
    latest_end = 2 * HORIZON_S
    candidates = range(earliest, latest_end - duration_s + 1)
    expected = next((s for s in candidates if array.availability(s, s + duration_s) >= nodes), None)
    assert profile.earliest_fit(nodes, duration_s, earliest, latest_end) == expected
    unlimited = profile.earliest_fit(nodes, duration_s, earliest)
    assert unlimited == expected or (expected is None and unlimited is None)


@given(books, st.integers(1, CAPACITY), st.integers(1, 25), st.integers(0, 30), st.integers(0, 40))
@settings(max_examples=150)
def test_earlier_equals_unbook_search_book(
    bookings: list[tuple[int, int, int | None]],
    nodes: int,
    duration_s: int,
    earliest: int,
    later_s: int,
) -> None:
    """Compression without touching the profile gives what giving up the place and searching
    would.
    """
    profile, _ = filled(bookings)
    planned = profile.earliest_fit(nodes, duration_s, earliest + later_s)
    if planned is None:
        return
    expected = profile.earliest_fit(nodes, duration_s, earliest)
    profile.book(nodes, planned, planned + duration_s)
    assert profile.earlier(nodes, duration_s, earliest, planned) == expected
    assert expected is not None
    given_up = profile.earlier(nodes, duration_s, earliest, planned, until=expected)
    assert given_up == planned, "no start from 'until' on is looked at"
    assert profile.earlier(nodes, duration_s, earliest, planned, until=expected + 1) == expected
    if expected < planned:
        most_left = profile.move(nodes, duration_s, planned, expected)
        fresh, _ = filled(bookings)
        fresh.book(nodes, expected, expected + duration_s)
        assert profile == fresh
        left_from = max(planned, expected + duration_s)
        assert most_left == fresh.max_free(left_from, planned + duration_s)


@given(
    books,
    st.integers(1, 25),
    st.integers(0, HORIZON_S),
    st.integers(0, 2 * HORIZON_S),
    st.integers(1, 3),
    st.sampled_from([None, 0, 1, 2]),
)
@settings(max_examples=150)
def test_starts_lists_every_start(
    bookings: list[tuple[int, int, int | None]],
    duration_s: int,
    earliest: int,
    latest_end: int,
    nodes_min: int,
    spare: int | None,
) -> None:
    """Spread out second by second, the runs are exactly the windows with enough room; where more is
    of no interest, with no more told than that.
    """
    profile, array = filled(bookings)
    most = CAPACITY if spare is None else nodes_min + spare
    nodes_max = None if spare is None else most
    runs = list(profile.starts(duration_s, earliest, latest_end, nodes_min, nodes_max))
    spread = {s: nodes for first, until, nodes in runs for s in range(first, until)}
    expected = {}
    for start in range(earliest, latest_end - duration_s + 1):
        availability = array.availability(start, start + duration_s)
        if availability >= nodes_min:
            expected[start] = min(availability, most)
    assert spread == expected
    for (_, until, nodes), (first, _, behind) in pairwise(runs):
        assert until < first or (until == first and nodes != behind)


@given(books, st.data())
@settings(max_examples=100)
def test_unbook_and_advance_undo_exactly(
    bookings: list[tuple[int, int, int | None]], data: st.DataObject
) -> None:
    """Bookings given back in any order, with the past forgotten between, leave an empty profile."""
    profile, array = AvailabilityProfile(CAPACITY), PerSecond(CAPACITY)
    kept = []
    for nodes, start, end in bookings:
        if array.availability(start, end) >= nodes:
            profile.book(nodes, start, end)
            array.shift(-nodes, start, end)
            kept.append((nodes, start, end))
    for nodes, start, end in data.draw(st.permutations(kept)):
        now = data.draw(st.integers(0, HORIZON_S))
        profile.advance(now)
        array.origin = max(array.origin, now)
        profile.unbook(nodes, start, end)
        array.shift(nodes, start, end)
        profile.validate()
        seconds = range(array.origin, 2 * HORIZON_S)
        assert [profile.free_at(s) for s in seconds] == [array.free[s] for s in seconds]
    assert profile.steps() == [(profile.origin, CAPACITY)]


@given(books, spans)
@settings(max_examples=75)
def test_withdraw_shows_the_shortage(
    bookings: list[tuple[int, int, int | None]], span: tuple[int, int, int | None]
) -> None:
    """Nodes taken from under a promise leave a shortage of exactly what is missing, and unbook
    heals it.
    """
    profile, array = filled(bookings)
    before = profile.copy()
    profile.withdraw(*span)
    array.shift(-span[0], span[1], span[2])
    missing = [0] * (2 * HORIZON_S)
    for start, end, nodes in profile.shortages():
        for second in array.window(start, end):
            missing[second] = nodes
    assert missing == [max(0, -free) for free in array.free]
    profile.unbook(*span)
    assert profile == before


def test_unbook_of_what_was_never_booked_is_refused() -> None:
    """The profile never shows more free than it owns."""
    profile = AvailabilityProfile(2)
    profile.book(1, 5, 9)
    with pytest.raises(ConflictError):
        profile.unbook(1, 5, 10)
    assert profile.steps() == [(0, 2), (5, 1), (9, 2)]


@pytest.mark.parametrize("bad", [(-1, 0, 5), (1, 5, 5), (1, 5, 4)])
def test_senseless_demands_are_input_errors(bad: tuple[int, int, int]) -> None:
    """Negative nodes and empty intervals are refused before anything changes."""
    profile = AvailabilityProfile(2)
    with pytest.raises(InputError):
        profile.book(*bad)
    assert profile.steps() == [(0, 2)]


def test_more_than_capacity_never_fits() -> None:
    """A demand above the capacity has no start at all, and that is an answer, not an exception."""
    assert AvailabilityProfile(2).earliest_fit(3, 10, 0) is None


@given(books, st.integers(0, CAPACITY), st.integers(0, HORIZON_S), st.integers(1, 30))
def test_cap_is_a_minimum_over_its_window(
    bookings: list[tuple[int, int, int | None]], nodes: int, start: int, length_s: int
) -> None:
    """Inside the window no second shows more than the cap, outside nothing changes."""
    profile, array = filled(bookings)
    profile.cap(nodes, start, start + length_s)
    profile.validate()
    window = range(start, start + length_s)
    expected = [min(free, nodes) if s in window else free for s, free in enumerate(array.free)]
    assert [profile.free_at(s) for s in range(2 * HORIZON_S)] == expected
