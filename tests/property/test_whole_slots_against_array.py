"""What a rule of whole slots shows and takes, against the list of the ladder's edges and one number
for each second.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.profile import AvailabilityProfile
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from tests.support.builders import a_calendar, a_request, some_rules

NODES = 5
ORIGIN = 7
HORIZON_S = 120
LADDERS = ("exact", "*x4", "3x2, *x6", "4x5, 3x20, *x80", "2x2, 2x4, *x16")

ladders = st.sampled_from(LADDERS).map(SlotLadder.parse)
promised = st.tuples(st.integers(1, NODES), st.integers(0, HORIZON_S), st.integers(1, 30))


def slots_of(ladder: SlotLadder, now: int) -> list[range]:
    """Every slot from that which holds ``now`` on, as its seconds."""
    edges = ladder.edges(now, now + 3 * HORIZON_S)
    return [range(start, end) for start, end in pairwise(edges)]


def at_hand_until(ladder: SlotLadder, now: int) -> int:
    """End of the fundamental slots; with one level of the first that can still start."""
    first_s = ladder.fundamental_s
    slots = slots_of(ladder, now)
    if len(ladder.levels) == 1:
        return slots[0].stop + (first_s if now > slots[0].start else 0)
    return next(slot.start for slot in slots if len(slot) > first_s)


@given(
    ladder=ladders,
    threshold=st.sampled_from([1000, 600, 0]),
    bookings=st.lists(promised, max_size=8),
    failed=st.lists(st.tuples(st.integers(0, HORIZON_S), st.booleans()), max_size=2),
    ahead_s=st.integers(0, 20),
)
def test_room_is_the_least_of_each_slot_without_what_is_withheld(
    ladder: SlotLadder,
    threshold: int,
    bookings: list[tuple[int, int, int]],
    failed: list[tuple[int, bool]],
    ahead_s: int,
) -> None:
    """Second by second; nodes may be missing, also for good, and are nobody's then."""
    profile = AvailabilityProfile(NODES, ORIGIN)
    for nodes, start, length_s in bookings:
        if profile.fits(nodes, ORIGIN + start, ORIGIN + start + length_s):
            profile.book(nodes, ORIGIN + start, ORIGIN + start + length_s)
    for start, is_for_good in failed:
        profile.withdraw(1, ORIGIN + start, None if is_for_good else ORIGIN + start + 9)
    rule = SlotRule(ladder=ladder, threshold_permille=threshold)
    now = ORIGIN + ahead_s
    near = at_hand_until(ladder, now)
    all_up = profile.free_at(10 * HORIZON_S)
    availability = rule.availability({"node": profile}, now)["node"]
    availability.validate()
    for slot in slots_of(ladder, now):
        known = [second for second in slot if second >= ORIGIN]
        least = min(profile.free_at(second) for second in known)
        for second in known:
            free = min(profile.free_at(second), max(0, least))
            if second >= near and 0 < free < all_up:
                free = max(0, free - (NODES - NODES * threshold // 1000))
            assert availability.free_at(second) == free, (slot, second)


@given(
    ladder=ladders,
    wishes=st.lists(st.tuples(promised, st.integers(0, 25)), min_size=1, max_size=8),
    pauses=st.lists(st.integers(0, 40), min_size=1, max_size=4),
)
def test_a_book_holds_the_slots_as_they_lie_whenever_it_is_asked(
    ladder: SlotLadder, wishes: list[tuple[tuple[int, int, int], int]], pauses: list[int]
) -> None:
    """Slots are split only when it is time, and then as often as was missed: what is taken of the
    slots to come is what a listing of them says, however long nobody looked.
    """
    calendar = a_calendar(
        NODES,
        rules=some_rules(horizon_s=10 * HORIZON_S),
        slot_rule=SlotRule(ladder=ladder),
        origin=ORIGIN,
    )
    calendar.take_slots(ORIGIN)
    now = ORIGIN
    for number, ((nodes, ahead_s, duration_s), pause_s) in enumerate(wishes):
        now += pause_s
        calendar.advance(now)
        request = a_request(f"r{number}", nodes=nodes, duration_s=duration_s, start=now + ahead_s)
        _, events = calendar.decide_reserve(request, "ada", None, now)
        for event in events:
            calendar.apply(event)
        check_book(calendar.live(), calendar.free["node"], ladder, now)
    for pause_s in pauses:
        now += pause_s
        calendar.advance(now)
        check_book(calendar.live(), calendar.free["node"], ladder, now)


def check_book(
    live: list[Reservation], profile: AvailabilityProfile, ladder: SlotLadder, now: int
) -> None:
    """Every second behind the present slot, which stays as it was given away."""
    for slot in slots_of(ladder, now)[1:]:
        taken = sum(each.nodes for each in live if each.start < slot.stop and slot.start < each.end)
        assert {profile.free_at(second) for second in slot} == {NODES - taken}, slot
