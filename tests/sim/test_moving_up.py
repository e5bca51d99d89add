"""Reservations that may start earlier move up when there is room, and never later; top managers
look first (calendar paper, section 2.3).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridtravel.gridcore.booking.earlier_starts import (
    MANAGER_PAUSE_S,
    SITE_PAUSE_S,
    TOP_PAUSE_S,
    movable,
)
from gridtravel.gridcore.booking.reservations import Reservation, ReservationState, TripRef
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.capacity.whole_slots import SlotRule
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.world import TreeShape, TreeWorld
from tests.support.builders import a_request, a_reservation
from tests.support.child_site import ChildSite
from tests.support.maintenance_world import KENNETH, MaintenanceWorld
from tests.support.maintenance_world import a_wish as a_site_wish
from tests.support.manager_world import ADA, BOB, SOON, a_wish, a_world, booked
from tests.support.virtual_time import run_virtually

QUARTERS = SlotRule(ladder=SlotLadder.parse("4x450, *x1800"))


def test_who_is_higher_up_looks_first() -> None:
    """The top manager, then the managers below it, then the sites."""
    assert TOP_PAUSE_S < MANAGER_PAUSE_S < SITE_PAUSE_S


def test_which_reservations_may_move() -> None:
    """Committed ones whose start is not fixed and lies ahead, no leg of a trip; oldest first."""
    loose = a_request("loose", earliest=10, start_is_fixed=False)
    trip = TripRef(trip_id="t", leg="a")
    may = a_reservation("lab.1", request=loose, created_at=2)
    older = a_reservation("lab.2", request=loose, created_at=1)
    others = [
        a_reservation("lab.3", request=replace(loose, start_is_fixed=True)),
        a_reservation("lab.4", request=replace(loose, trip=trip)),
        a_reservation("lab.5", request=replace(loose, earliest_start=20)),
        a_reservation("lab.6", request=loose, state=ReservationState.HELD, hold_expires_at=9),
    ]
    assert movable([may, *others, older], 5) == [older, may]
    assert movable([may, older], 20) == []


def test_a_group_moves_up_when_another_ends_early() -> None:
    """Of two groups behind one that is cancelled, the one that may start earlier does, at all its
    children, under its own id; the one with a fixed start stays where it is.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            first = await booked(world.bob, a_wish("first", nodes=8, start=SOON + 300))
            loose = a_wish("loose", nodes=6, start=SOON + 300)
            loose = replace(loose, start_is_fixed=False, latest_end=SOON + 900)
            firm = a_wish("firm", nodes=2, start=SOON + 360)
            moving = await booked(world.ada, loose)
            staying = await booked(world.ada, firm)
            assert moving.start == staying.start == first.end
            await world.bob.release(first.reservation_id)
            await world.passes(TOP_PAUSE_S + 5)
            book = world.manager.book
            moved = book.get(moving.reservation_id).reservation
            assert moved.start == SOON + 300
            assert moved.nodes == 6
            assert book.get(staying.reservation_id).reservation.start == staying.start
            world.assert_whole_or_absent()
            again = await world.ada.reserve(loose, ttl_s=20)
            assert isinstance(again, Reservation)
            assert again.reservation_id == moving.reservation_id, "the request is still known"

    assert ADA != BOB
    run_virtually(scene)


def test_nothing_is_asked_while_nothing_may_move() -> None:
    """A group that may start earlier and has no room before it costs no message."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4)) as world:
            await booked(world.bob, a_wish("first", nodes=4, start=SOON + 300))
            loose = a_wish("loose", nodes=4, start=SOON + 300)
            loose = replace(loose, start_is_fixed=False, latest_end=SOON + 900)
            await booked(world.ada, loose)
            asked = list(world.sites["a"].events)
            await world.passes(100)
            assert world.sites["a"].events == asked

    run_virtually(scene)


async def test_a_reservation_moves_up_when_slots_are_split(tmp_path: Path) -> None:
    """Behind a whole slot of half an hour; when the slot is divided it moves to the quarter that
    became free, the queue first. A restart keeps the new start, and it never gets later.
    """
    world = MaintenanceWorld(tmp_path, now=1_000_800, slot_rule=QUARTERS)  # a multiple of 1800
    await world.start()
    now, port = world.clock.now(), world.agent.calendar_port(KENNETH)
    fixed = await port.reserve(a_site_wish("fixed", 4, now + 3600, 400), ttl_s=30)
    assert isinstance(fixed, Reservation)
    await port.commit(fixed.reservation_id)
    wish = a_site_wish("loose", 4, now + 3600, 300, start_is_fixed=False)
    loose = await port.reserve(replace(wish, latest_end=now + 9000), ttl_s=30)
    assert isinstance(loose, Reservation)
    await port.commit(loose.reservation_id)
    assert loose.start == now + 5400, "behind the slot of half an hour"
    job = await world.submit(4, 7000)
    await world.pass_time(3000)
    moved = world.agent.calendar.get(loose.reservation_id)
    assert moved.start == now + 4050, "in the quarter behind the other"
    assert world.agent.calendar.get(fixed.reservation_id).start == now + 3600
    assert world.view(job).planned_start is not None
    await world.restart()
    assert world.agent.calendar.get(loose.reservation_id).start == now + 4050
    await world.stop()


@pytest.mark.parametrize("level", ["top", "region"])
def test_in_a_tree_each_level_moves_its_own(level: str) -> None:
    """Managers over managers move what they have promised; to those below it is fixed."""
    eve = Caller(subject="/O=grid/OU=users/CN=eve", login="eve")

    async def play(loop: VirtualLoop) -> None:
        world = TreeWorld(loop, TreeShape(agents_by_region=(2, 2), nodes=4), seed=1)
        await world.start()
        host = world.top if level == "top" else world.regions[0]
        nodes = 16 if level == "top" else 8
        start = world.clock.now() + 400
        port = host.calendar_port(eve)
        ids = []
        for name, is_fixed, slack_s in (("first", True, 0), ("loose", False, 500)):
            wish = a_request(
                name,
                nodes=nodes,
                duration_s=100,
                earliest=start,
                until=start + 100 + slack_s,
                start_is_fixed=is_fixed,
            )
            held = await port.reserve(wish, ttl_s=30)
            assert isinstance(held, Reservation), held
            firm = await port.commit(held.reservation_id)
            assert isinstance(firm, Reservation), firm
            ids.append((firm.reservation_id, firm.start))
        assert [start for _, start in ids] == [start, start + 100]
        await port.release(ids[0][0])
        await world.passes(40)
        moved = host.live.book.get(ids[1][0]).reservation
        assert moved.start == start
        await world.quiet()
        assert world.breaches() == []
        await world.close()

    run_virtual(play)
