"""Slot ladders: near slots short, far slots long, and all edges in line."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.capacity.ladders import EXACT, SLOTS_MAX, LadderLevel, SlotLadder
from gridtravel.gridcore.errors import InputError

PAPER = SlotLadder.parse("32x10, 8x320, *x2560")
"""The best ladder of the calendar paper, figure 4."""


@st.composite
def ladders(draw: st.DrawFn) -> SlotLadder:
    """One to three levels."""
    length_s, levels = draw(st.integers(1, 7)), []
    for _ in range(draw(st.integers(0, 2))):
        levels.append(LadderLevel(length_s, draw(st.integers(1, 6))))
        length_s *= draw(st.integers(2, 5))
    return SlotLadder((*levels, LadderLevel(length_s)))


@given(ladders(), st.integers(0, 500), st.integers(-5, 800))
def test_edges_line_up(ladder: SlotLadder, now: int, ahead_s: int) -> None:
    """Slots cover from now until the horizon without a gap; each is a whole slot of a level that
    lies on multiples of its length, and lengths never shrink with distance.
    """
    edges = ladder.edges(now, now + ahead_s)
    assert edges[0] <= now < edges[0] + ladder.fundamental_s
    assert edges[-1] >= now + ahead_s
    lengths = [end - start for start, end in pairwise(edges)]
    assert lengths == sorted(lengths)
    assert set(lengths) == {level.length_s for level in ladder.levels}
    assert all(start % (end - start) == 0 for start, end in pairwise(edges))


@given(ladders(), st.integers(0, 500))
def test_levels_have_their_count(ladder: SlotLadder, now: int) -> None:
    """Each level has its count of slots, and at most what fills up one slot of the next level."""
    lengths = [end - start for start, end in pairwise(ladder.edges(now, now))]
    for level, coarser in pairwise(ladder.levels):
        assert level.count is not None
        extra = lengths.count(level.length_s) - level.count
        assert 0 <= extra < coarser.length_s // level.length_s


@given(ladders(), st.integers(0, 500), st.integers(0, 100))
def test_ladders_of_different_calendars_meet(ladder: SlotLadder, now: int, later_s: int) -> None:
    """Far edges are the same whoever made them and when, so that slots can be added up."""
    early, late = ladder.edges(now, now + 900), ladder.edges(now + later_s, now + 900)
    far = ladder.levels[-1].length_s
    begin = max(_far_begin(edges, far) for edges in (early, late))
    common = min(early[-1], late[-1])
    assert [e for e in early if begin <= e <= common] == [e for e in late if begin <= e <= common]


def _far_begin(edges: list[int], length_s: int) -> int:
    """Where the slots of the last level begin."""
    return next(start for start, end in pairwise(edges) if end - start == length_s)


@given(ladders())
def test_text_and_back(ladder: SlotLadder) -> None:
    """What is printed can be read again."""
    assert SlotLadder.parse(str(ladder)) == ladder


def test_ladder_of_the_paper() -> None:
    """32 slots of 10 s, 8 of 320 s, then 2560 s each, filled up to where the next level can
    begin.
    """
    assert PAPER.fundamental_s == 10
    edges = PAPER.edges(0, 20_000)
    assert edges[:3] == [0, 10, 20]
    assert edges[32:35] == [320, 640, 960]
    assert edges[-3:] == [15_360, 17_920, 20_480]
    assert PAPER.edges(7, 7)[0] == 0


def test_exact_profile_is_a_ladder() -> None:
    """One level of one second: one type, not two worlds (design, section 5)."""
    assert EXACT.edges(5, 9) == [5, 6, 7, 8, 9]
    assert str(EXACT) == "*x1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "32x",
        "x10",
        "*x",
        "32x10,",
        "-1x10, *x20",
        "3.5x10, *x20",
        "two x 10, *x20",
        "²x10, *x20",
        "1x1, *x" + "9" * 5000,
    ],
)
def test_texts_that_are_no_ladder(text: str) -> None:
    """One clear error, also for a number that Python itself would not read."""
    with pytest.raises(InputError, match="not a slot ladder") as caught:
        SlotLadder.parse(text)
    assert len(str(caught.value)) < 200
    assert "32x10" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("32x10, 8x320", "last level .* must be open"),
        ("*x10, *x20", "only the last level"),
        ("0x10, *x20", "none may be empty"),
        ("*x0", "cannot be 0 s long"),
        ("2x10, *x25", "25 s is not a greater multiple of 10 s"),
        ("2x10, *x10", "10 s is not a greater multiple of 10 s"),
        ("2x1, *x1", "1 s is not a greater multiple of 1 s"),
        ("2x20, *x10", "10 s is not a greater multiple of 20 s"),
    ],
)
def test_ladders_that_do_not_climb(text: str, named: str) -> None:
    """Each level is open only at the end, and a greater multiple of the one before."""
    with pytest.raises(InputError, match=named):
        SlotLadder.parse(text)


def test_no_levels_at_all() -> None:
    """A ladder needs a rung."""
    with pytest.raises(InputError, match="at least one level"):
        SlotLadder(())


def test_number_of_slots_is_bounded() -> None:
    """A ladder too fine for its horizon is refused before it fills the memory; the bound itself is
    allowed.
    """
    assert len(EXACT.edges(0, SLOTS_MAX)) == SLOTS_MAX + 1
    with pytest.raises(InputError, match="more than 200000 slots"):
        EXACT.edges(0, SLOTS_MAX + 1)
    with pytest.raises(InputError, match="use longer far slots"):
        SlotLadder.parse("999999999x1, *x2").edges(0, 10)
