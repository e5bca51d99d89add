"""What a reservation takes out of the room, piece by piece."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.footprints import (
    Footprint,
    Piece,
    difference,
    footprint_of,
    spliced,
)
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.errors import ConflictError
from gridtravel.gridcore.timing.instants import Interval
from tests.support.builders import a_reservation


def taking(*pieces: tuple[int, int, int], name: str = "node") -> Footprint:
    """Pieces from (nodes, start, end)."""
    made = (Piece(nodes, Interval(start, end)) for nodes, start, end in pieces)
    return Footprint(name, tuple(made))


def test_a_reservation_is_one_piece() -> None:
    """All its nodes, all its time."""
    assert footprint_of(a_reservation(nodes=3, interval=Interval(5, 9))) == taking((3, 5, 9))


@pytest.mark.parametrize(
    ("new", "old", "left"),
    [
        ((2, 10, 20), (2, 30, 40), [(2, 10, 20)]),  # apart
        ((2, 10, 20), (2, 20, 30), [(2, 10, 20)]),  # touching
        ((2, 10, 20), (2, 10, 20), []),  # the same
        ((2, 10, 20), (3, 5, 25), []),  # within
        ((4, 10, 20), (3, 5, 25), [(1, 10, 20)]),  # within, and higher
        ((2, 5, 25), (2, 10, 20), [(2, 5, 10), (2, 20, 25)]),  # around
        ((2, 5, 15), (2, 10, 20), [(2, 5, 10)]),  # before and into
        ((3, 15, 25), (2, 10, 20), [(1, 15, 20), (3, 20, 25)]),  # out of and behind, and higher
    ],
)
def test_difference_case_by_case(
    new: tuple[int, int, int], old: tuple[int, int, int], left: list[tuple[int, int, int]]
) -> None:
    """Only what the old one does not already cover is taken."""
    assert difference(taking(new), taking(old)) == taking(*left)


def test_difference_with_an_old_one_in_pieces() -> None:
    """Each piece of the old one spares its own part."""
    old = taking((1, 0, 10), (3, 10, 20))
    assert difference(taking((2, 5, 25)), old) == taking((1, 5, 10), (2, 20, 25))


def test_difference_between_classes_is_everything() -> None:
    """Nodes of another class are no room."""
    new = taking((2, 10, 20))
    assert difference(new, taking((2, 10, 20), name="wide")) == new


def test_booking_takes_all_pieces_or_none() -> None:
    """When one piece does not fit, those before it are given back."""
    availability = {"node": AvailabilityProfile(4)}
    availability["node"].book(3, 20, 30)
    before = availability["node"].copy()
    with pytest.raises(ConflictError):
        taking((1, 0, 10), (2, 10, 20), (2, 20, 30)).book(availability)
    assert availability["node"] == before
    whole = taking((1, 0, 10), (1, 20, 30))
    whole.book(availability)
    assert availability["node"].steps() == [(0, 3), (10, 4), (20, 0), (30, 4)]
    whole.unbook(availability)
    assert availability["node"] == before


def test_unknown_class_is_a_conflict() -> None:
    """A journal from before the class was dropped is told apart from a fault of the program."""
    with pytest.raises(ConflictError, match="no resource class 'wide'"):
        taking((1, 0, 10), name="wide").book({"node": AvailabilityProfile(4)})


def test_cutting_in_time() -> None:
    """`before` and `since` share out the pieces and cut the one in the middle."""
    whole = taking((1, 0, 10), (2, 10, 20), (3, 20, 30))
    assert whole.before(15) == taking((1, 0, 10), (2, 10, 15))
    assert whole.since(15) == taking((2, 15, 20), (3, 20, 30))
    assert whole.before(10) == taking((1, 0, 10))
    assert whole.since(10) == taking((2, 10, 20), (3, 20, 30))
    assert (whole.before(0), whole.since(30)) == (taking(), taking())


def test_the_past_cannot_be_changed() -> None:
    """`spliced` keeps the old before the moment and the new behind; running nodes keep their
    class.
    """
    old, new = taking((2, 0, 20)), taking((3, 0, 30))
    assert spliced(old, new, 10) == taking((2, 0, 10), (3, 10, 30))
    wide = taking((1, 0, 30), name="wide")
    assert spliced(old, wide, 0) == wide
    with pytest.raises(ConflictError, match="nodes of class 'node' are in use"):
        spliced(old, wide, 1)
