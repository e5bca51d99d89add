"""NodeSetProfile against the most naive model there is: the set of free nodes at each second."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.node_sets import NamedNodes, NodeSetProfile
from gridtravel.gridcore.errors import ConflictError, InputError

NODES = 4
HORIZON_S = 40

wishes = st.lists(
    st.tuples(st.integers(1, NODES), st.integers(0, 25), st.integers(1, 12)), max_size=10
)


class World:
    """Both models after the same bookings; those without room are refused by both."""

    def __init__(self, wishes: list[tuple[int, int, int]]) -> None:
        self.profile = NodeSetProfile(NODES)
        self.free = [set(range(NODES)) for _ in range(2 * HORIZON_S)]
        self.booked: list[tuple[NamedNodes, int, int]] = []
        for nodes, start, duration_s in wishes:
            self.book(NamedNodes(nodes), start, start + duration_s)

    def common(self, start: int, end: int) -> set[int]:
        """Nodes free at every second."""
        return set.intersection(*self.free[start:end])

    def book(self, nodes: NamedNodes, start: int, end: int) -> None:
        """The lowest nodes that are free throughout, or a conflict."""
        lowest = sorted(self.common(start, end))[:nodes]
        if len(lowest) < nodes:
            before = self.profile.copy()
            with pytest.raises(ConflictError):
                self.profile.book(nodes, start, end)
            assert before.masks == self.profile.masks
            return
        self.profile.book(nodes, start, end)
        assert nodes.mask == sum(1 << node for node in lowest)
        for second in range(start, end):
            self.free[second] -= set(lowest)
        self.booked.append((nodes, start, end))
        self.profile.validate()


@given(wishes, st.integers(1, NODES), st.integers(1, 12), st.integers(0, 30))
def test_questions_agree_with_sets(
    wishes: list[tuple[int, int, int]], nodes: int, duration_s: int, earliest: int
) -> None:
    """A window fits when the same nodes are free throughout; the first such window is found."""
    world = World(wishes)
    availabilities = {
        start: len(world.common(start, start + duration_s))
        for start in range(earliest, HORIZON_S + 1)
    }
    profile = world.profile
    for start, availability in availabilities.items():
        assert profile.min_free(start, start + duration_s) == availability
        assert profile.fits(nodes, start, start + duration_s) == (availability >= nodes)
    expected = next(
        (start for start, availability in availabilities.items() if availability >= nodes), None
    )
    assert profile.earliest_fit(nodes, duration_s, earliest, HORIZON_S + duration_s) == expected
    runs = profile.starts(duration_s, earliest, HORIZON_S + duration_s, nodes)
    spread = {
        start: availability for first, until, availability in runs for start in range(first, until)
    }
    assert spread == {
        start: availability
        for start, availability in availabilities.items()
        if availability >= nodes
    }


@given(wishes, st.integers(1, NODES), st.integers(1, 12), st.integers(0, 10), st.integers(0, 15))
def test_earlier_counts_its_own_nodes_as_free(
    wishes: list[tuple[int, int, int]], nodes: int, duration_s: int, earliest: int, later_s: int
) -> None:
    """What giving up the place and searching would find; the profile is as before."""
    world = World(wishes)
    profile, demand = world.profile, NamedNodes(nodes)
    expected = profile.earliest_fit(demand, duration_s, earliest)
    planned = profile.earliest_fit(demand, duration_s, earliest + later_s)
    assert planned is not None
    profile.book(demand, planned, planned + duration_s)
    before = profile.copy()
    assert profile.earlier(demand, duration_s, earliest, planned) == expected
    assert profile.masks == before.masks
    if expected is not None and expected < planned:
        profile.move(demand, duration_s, planned, expected)
        fresh = World(wishes).profile
        fresh.book(NamedNodes(nodes), expected, expected + duration_s)
        assert profile.masks == fresh.masks
    profile.validate()


@given(wishes, st.data())
def test_giving_back_in_any_order_leaves_nothing(
    wishes: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Also with the past forgotten between."""
    world = World(wishes)
    for nodes, start, end in data.draw(st.permutations(world.booked)):
        world.profile.advance(data.draw(st.integers(0, HORIZON_S)))
        if end > world.profile.origin:
            world.profile.unbook(nodes, start, end)
        world.profile.validate()
    assert world.profile.masks == [(1 << NODES) - 1]


def test_bookings_must_remember_their_nodes() -> None:
    """A plain number cannot; a booking given back twice, or never made, is a fault."""
    profile = NodeSetProfile(2)
    with pytest.raises(InputError, match="remember"):
        profile.book(1, 0, 5)
    demand = NamedNodes(1)
    with pytest.raises(ConflictError):
        profile.unbook(demand, 0, 5)
    profile.book(demand, 0, 5)
    profile.unbook(demand, 0, 5)
    with pytest.raises(ConflictError, match="never booked"):
        profile.unbook(demand, 0, 5)
    assert profile.earliest_fit(NamedNodes(3), 5, 0) is None
