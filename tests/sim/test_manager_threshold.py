"""A manager that does not promise everything in advance (calendar paper, section 2.2)."""

from __future__ import annotations

from dataclasses import replace

from gridtravel.gridcore.booking.reservations import Availability, Decline, DeclineRule, Reservation
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.manager.search.combining import ChildRoom, Span
from gridtravel.manager.search.threshold import ResourceThreshold
from tests.support.child_site import ChildSite
from tests.support.manager_world import MANAGER_RULES, World, a_wish
from tests.support.virtual_time import run_virtually

LADDER = SlotLadder.parse("2x60, *x600")
HALF = replace(MANAGER_RULES, slot_rule=SlotRule(ladder=LADDER, threshold_permille=500))
FAR_S = 3_000


def test_half_of_a_far_slot_is_promised_and_all_of_a_near_one() -> None:
    """Of eight nodes four are reserved far ahead, whatever the order in which they are asked for;
    the fifth is refused with the next start at which more is free. Near ones may all be taken, and
    a request for more than half gets a far time at which everything is free.
    """

    async def scene() -> None:
        world = World([ChildSite("a", 4), ChildSite("b", 4)], rules=HALF)
        world.start()
        await world.passes(1)
        far, near = world.clock.now() + FAR_S, world.clock.now() + 40
        for number in range(4):
            wish = a_wish(f"far-{number}", nodes=1, start=far)
            assert isinstance(await world.ada.reserve(wish, ttl_s=20), Reservation)
        refused = await world.ada.reserve(a_wish("far-5", nodes=1, start=far), ttl_s=20)
        assert isinstance(refused, Decline)
        assert (refused.rule, refused.earliest) == (DeclineRule.NO_ROOM, far + 60)
        (asked,) = await world.ada.inquire([a_wish("ask", nodes=1, start=far)])
        assert isinstance(asked, Decline)
        whole = a_wish("whole", nodes=7, start=far + 60)
        (offered,) = await world.ada.inquire([whole])
        assert isinstance(offered, Availability)
        assert isinstance(await world.ada.reserve(whole, ttl_s=20), Reservation)
        for number in range(2):
            wish = a_wish(f"near-{number}", nodes=4, start=near)
            assert isinstance(await world.ada.reserve(wish, ttl_s=20), Reservation), number
        await world.passes(100)
        world.validate()
        await world.close()

    run_virtually(scene)


def test_a_span_that_reaches_from_near_to_far_is_two() -> None:
    """Up to the end of the fundamental slots all is usable, behind it the share; where nothing is
    taken, all again.
    """
    room = ChildRoom(child="a", nodes=6, unit_price_millicredits=0, resource_class="n")
    span = Span(start=10, until=200, rooms=(room,))
    near, far = ResourceThreshold(since=100, withheld=4, capacity=8).limit([span])
    assert (near.start, near.until, near.usable) == (10, 100, None)
    assert (far.start, far.until, far.most(8)) == (100, 200, 2)
    (idle,) = ResourceThreshold(since=100, withheld=4, capacity=6).limit([replace(span, start=150)])
    assert idle.most(8) == 6
