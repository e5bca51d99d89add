"""The imprecise calendar of the paper's section 2, rule by rule."""

from __future__ import annotations

import pytest

from gridtravel.gridcore.booking.trade import TradeBook
from gridtravel.gridcore.capacity.ladders import EXACT, SlotLadder
from gridtravel.gridcore.capacity.slot_grid import NEVER, SlotGrid
from gridtravel.gridcore.errors import ConflictError, InputError, NotFoundError
from gridtravel.simulator.imprecise.imprecise_calendar import ImpreciseCalendar
from gridtravel.simulator.imprecise.slots import SlotState

FIGURE_1 = SlotLadder.parse("4x450, *x1800")
"""Figure 1: 30 minutes, which become four slots of 7.5 minutes."""

THREE_LEVELS = SlotLadder.parse("4x10, 2x40, *x160")


def calendar(nodes: int = 4, ladder: SlotLadder = FIGURE_1, now: int = 0) -> ImpreciseCalendar:
    """An empty calendar."""
    return ImpreciseCalendar(nodes, ladder, now)


def test_counter_example_of_section_2_3() -> None:
    """One node for 30 minutes and four nodes for 7.5 minutes fit one 30-minute slot by area, and
    no division of it could serve both: the second request gets the next slot.
    """
    book = calendar()
    far = 3 * 1800
    book.book("long and thin", 1, 1800, far)
    assert 1 * 1800 + 4 * 450 <= 4 * 1800, "by area both would fit"
    assert not book.fits(4, 450, far)
    assert book.first_fit(4, 450, far) == far + 1800
    with pytest.raises(ConflictError):
        book.book("short and wide", 4, 450, far)
    book.validate()


def test_figure_1_a_slot_is_divided() -> None:
    """A task that fills its slot keeps all four quarters; the other two nodes stay free in each."""
    book = calendar()
    book.book("task", 2, 1800, 1800)
    book.advance(1800)
    quarters = [slot for slot in book.slots() if 1800 <= slot.start < 3600]
    assert [slot.length_s for slot in quarters] == [450] * 4
    assert [(slot.nodes_free, slot.state) for slot in quarters] == [(2, SlotState.PARTIAL)] * 4


def test_division_gives_back_what_a_task_does_not_touch() -> None:
    """Ten minutes in a slot of thirty hold it whole, and two quarters of it after the division."""
    book = calendar()
    book.book("task", 2, 600, 3600)
    assert (book.bookings["task"].held_from, book.bookings["task"].held_until) == (3600, 5400)
    book.advance(1800 + 450)
    assert book.bookings["task"].held_until == 3600 + 900
    assert book.has_new_room
    assert book.profile.free_at(3600 + 900) == 4


def test_low_water_mark_divides_the_next_coarser_slot() -> None:
    """With one fundamental slot less than the ladder says, one slot of the next level is split."""
    book = calendar(ladder=THREE_LEVELS)
    assert [slot.length_s for slot in book.slots()] == [10] * 4 + [40] * 3 + [160]
    book.advance(9)
    assert book.slot_count() == 8
    book.advance(10)
    assert [slot.length_s for slot in book.slots()] == [10] * 7 + [40] * 2 + [160]
    book.advance(50)
    assert [slot.length_s for slot in book.slots()] == [10] * 7 + [40] * 5 + [160]


def test_slots_cover_all_that_is_booked_and_the_least_horizon() -> None:
    """The calendar grows with its queue: far slots are appended for what is booked (2.2)."""
    book = ImpreciseCalendar(4, FIGURE_1, horizon_min_s=7200)
    assert book.horizon() == 7200
    book.book("far", 4, 100, 36_000)
    assert book.horizon() == 36_000 + 1800
    assert book.slot_count() == 4 + 20


def test_states_of_slots() -> None:
    """FREE, PARTIAL and FULL, with what is free in node-seconds."""
    book = calendar()
    book.book("half", 2, 1800, 1800)
    book.book("all", 4, 1800, 3600)
    states = {slot.start: slot.state for slot in book.slots()}
    assert states[0] is SlotState.FREE
    assert states[1800] is SlotState.PARTIAL
    assert states[3600] is SlotState.FULL
    free = {slot.start: slot.resources_free for slot in book.slots()}
    assert (free[0], free[1800], free[3600]) == (4 * 450, 2 * 1800, 0)


def test_a_given_start_inside_a_slot_is_kept_through_every_division() -> None:
    """A request for a specific time holds the slot around it, then only the finest slot that does
    not come too late; its start never changes, and backfill leaves it alone.
    """
    book = calendar(ladder=THREE_LEVELS)
    start = 160 * 3 + 95
    booked = book.book("telescope", 3, 20, start, is_fixed=True)
    assert (booked.held_from, booked.held_until) == (480, 640)
    book.advance(400)
    assert (booked.held_from, booked.held_until) == (560, 600)
    book.advance(start - 40)
    assert (booked.held_from, booked.held_until) == (570, 600)
    assert book.backfill(["telescope"]) == []
    assert booked.start == start
    book.validate()


def test_early_end_moves_what_waits_in_order() -> None:
    """What waits moves into the room of a task that ended before its time, the first in order
    first; the slot in which the task ended stays taken.
    """
    book = calendar(nodes=1, ladder=SlotLadder.parse("*x10"))
    book.book("running", 1, 100, 0)
    book.book("next", 1, 30, 100)
    book.book("last", 1, 10, 130)
    book.advance(15)
    book.release("running")
    assert book.backfill(["next", "last"]) == ["next", "last"]
    assert (book.bookings["next"].start, book.bookings["last"].start) == (20, 50)
    book.validate()


def test_threshold_leaves_room_for_the_last_minute() -> None:
    """Three of four nodes may be promised in advance; the fourth goes to who comes when the slot
    is near. A task larger than the threshold needs a slot of its own.
    """
    book = ImpreciseCalendar(4, FIGURE_1, threshold_permille=750)
    book.book("planned", 3, 1800, 3600)
    assert book.first_fit(1, 1800, 3600) == 5400
    assert not book.fits(1, 1800, 3600)
    with pytest.raises(ConflictError):
        book.book("too much", 1, 1800, 3600)
    assert {s.start: s.state for s in book.slots()}[3600] is SlotState.FULL
    assert book.first_fit(4, 1800, 3600) == 5400
    book.advance(3600 - 450)
    assert book.first_fit(1, 450, 3600) == 3600
    assert book.first_fit(1, 450, 0, before=3600) == 3600 - 450


def test_threshold_binds_backfill_too() -> None:
    """A booking does not move forward into room that is kept for the last minute, and does when
    the room comes near.
    """
    book = ImpreciseCalendar(4, FIGURE_1, threshold_permille=750)
    book.book("first", 3, 1800, 5400)
    book.book("second", 1, 1800, 7200)
    book.book("third", 4, 1800, 3600)
    book.release("third")
    assert book.backfill(["second", "first"]) == ["second"]
    assert book.bookings["second"].start == 3600
    book.advance(3600)
    assert book.backfill(["first"]) == ["first"]
    assert book.bookings["first"].start == 3600
    book.validate()


def test_nodes_of_another_speed_are_counted_by_what_they_do() -> None:
    """Nodes of double speed need half the time, and a slot of them is worth twice as much."""
    fast = ImpreciseCalendar(2, FIGURE_1, speed_permille=2000)
    assert fast.duration_here_s(901) == 451
    assert next(fast.slots()).resources == 2 * 450 * 2


def test_one_level_of_one_second_is_the_exact_profile() -> None:
    """Nothing is widened on the ladder EXACT, so nothing is ever split either."""
    book = calendar(ladder=EXACT)
    booked = book.book("task", 3, 17, 5)
    assert (booked.held_from, booked.held_until) == (5, 22)
    assert book.profile.steps() == [(0, 4), (5, 1), (22, 4)]
    assert book.next_split == NEVER


def test_a_hundred_thousand_slots_cost_no_more_than_ten() -> None:
    """A grid knows where its levels begin, not its slots."""
    grid = SlotGrid.at(SlotLadder.parse("*x40"), 0)
    assert grid.count(4_000_000) == 100_000
    assert len(grid.begins) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold_permille": 1001}, "threshold"),
        ({"speed_permille": 0}, "speed"),
        ({"horizon_min_s": -1}, "horizon"),
    ],
)
def test_impossible_parameters_are_refused(options: dict[str, int], words: str) -> None:
    """A calendar says which of its parameters makes no sense."""
    with pytest.raises(InputError, match=words):
        ImpreciseCalendar(4, FIGURE_1, **options)


def test_wrong_use_is_refused_and_changes_nothing() -> None:
    """Unknown bookings, doubles, the past, starts off the grid and moves backward are refused."""
    book = calendar(now=1000)
    book.book("task", 2, 100, 3600)
    for fault, wrong in (
        (ConflictError, lambda: book.book("task", 1, 1, 3600)),
        (ConflictError, lambda: book.book("late", 1, 1, 900)),
        (InputError, lambda: book.book("off", 1, 1, 3601)),
        (InputError, lambda: book.book("none", 0, 1, 3600)),
        (InputError, lambda: book.book("never", 1, 0, 3600)),
        (NotFoundError, lambda: book.release("who")),
        (ConflictError, lambda: book.move("task", 5400)),
        (InputError, lambda: book.move("task", 1801)),
        (InputError, lambda: book.advance(999)),
    ):
        with pytest.raises(fault):
            wrong()
    assert not book.fits(1, 1, 900)
    assert list(book.bookings) == ["task"]
    book.validate()


def test_a_task_nobody_ended_holds_nothing_behind_its_time() -> None:
    """A booking that is over and was not released is no fault, and no room either."""
    book = calendar()
    book.book("forgotten", 4, 450, 0)
    book.advance(900)
    book.validate()
    assert book.first_fit(4, 450, 0) == 900
    book.release("forgotten")
    book.validate()


def test_trade_sums_to_zero() -> None:
    """What one member lends another borrows; local work is neither."""
    book = TradeBook(("north", "south"))
    book.record("north", "south", 70)
    book.record("south", "south", 30)
    assert (book.accounts["north"].balance, book.accounts["south"].balance) == (70, -70)
    assert book.accounts["south"].used == 30
    book.validate()
    with pytest.raises(InputError):
        book.record("north", "south", -1)
