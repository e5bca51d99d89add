"""A booked group takes another window or size: the old stays unless the new is granted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
    TripRef,
)
from gridtravel.gridcore.errors import InputError, NotFoundError, UnavailableError
from tests.support.child_site import ChildSite
from tests.support.manager_world import SOON, World, a_wish, a_world, booked, held
from tests.support.virtual_time import run_virtually

COMMITTED = ReservationState.COMMITTED


def live(world: World) -> dict[str, list[tuple[int, int]]]:
    """(nodes, start) of what is committed at each child."""
    found = {
        site.name: [(each.nodes, each.start) for each in site.of_manager(COMMITTED)]
        for site in world.sites.values()
    }
    return {name: parts for name, parts in found.items() if parts}


def test_a_change_where_there_is_no_room_beside_the_old() -> None:
    """The room of old and new counts once at each child: a full tree can still move a little."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))
            later = a_wish("later", nodes=8, start=SOON + 30)
            moved = await world.ada.amend(group.reservation_id, later)
            assert isinstance(moved, Reservation), moved
            assert (moved.reservation_id, moved.start) == (group.reservation_id, SOON + 30)
            assert moved.state is COMMITTED
            assert live(world) == {"a": [(4, SOON + 30)], "b": [(4, SOON + 30)]}
            assert await world.ada.amend(group.reservation_id, later) == moved
            world.assert_whole_or_absent()
            await world.ada.release(group.reservation_id)
            assert live(world) == {}
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_change_that_drops_a_child_releases_its_part() -> None:
    """Fewer nodes fit at one child: the other is told to let go, and only after the commit."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))
            fewer = await world.ada.amend(group.reservation_id, a_wish("fewer", nodes=3))
            assert isinstance(fewer, Reservation)
            await world.passes(1)
            assert live(world) == {"a": [(3, SOON)]}
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_refused_change_leaves_the_old_as_it_was() -> None:
    """Make before break: what cannot be granted changes nothing."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=6))
            world.sites["b"].book(2, SOON + 60, SOON + 90)
            await world.passes(1)
            before = live(world)
            longer = a_wish("longer", nodes=8, duration_s=90, start=SOON)
            refused = await world.ada.amend(group.reservation_id, longer)
            assert isinstance(refused, Decline)
            assert live(world) == before
            world.assert_whole_or_absent()
            assert world.manager.book.get(group.reservation_id).reservation == group

    run_virtually(scene)


def test_what_cannot_be_changed_says_why() -> None:
    """Only what is committed and has not begun can change, one change at a time."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4)) as world:
            hold = await held(world.ada, a_wish(nodes=2))
            answer = await world.ada.amend(hold.reservation_id, a_wish("w2", nodes=1))
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.STATE
            group = await world.ada.commit(hold.reservation_id)
            assert isinstance(group, Reservation)
            twice = a_wish("w3", replaces=group.reservation_id)
            with pytest.raises(InputError):
                await world.ada.amend(group.reservation_id, twice)
            with pytest.raises(NotFoundError):
                await world.ada.amend("north.77", a_wish("w4"))
            await world.clock.sleep_until(SOON + 10)
            running = await world.ada.amend(group.reservation_id, a_wish("w5", nodes=1))
            assert isinstance(running, Decline)
            assert "running" in running.message

    run_virtually(scene)


def test_a_hold_that_replaces_ends_the_old_with_its_commit() -> None:
    """The protocol's other way to change: hold the new, commit it, and the old is superseded; a
    replacement that is let go leaves the old as it was.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            old = await booked(world.ada, a_wish(nodes=8))
            wish = a_wish("w2", nodes=8, start=SOON + 30, replaces=old.reservation_id)
            first = await held(world.ada, wish)
            (second,) = await world.ada.inquire([a_wish("w3", replaces=old.reservation_id)])
            assert isinstance(second, Decline)
            assert second.rule is DeclineRule.STATE
            await world.ada.release(first.reservation_id)
            world.assert_whole_or_absent()
            again = a_wish("w4", nodes=5, start=SOON + 30, replaces=old.reservation_id)
            new = await booked(world.ada, again)
            assert new.reservation_id != old.reservation_id
            state = world.manager.book.get(old.reservation_id).reservation.state
            assert state is ReservationState.SUPERSEDED
            await world.passes(1)
            assert sum(nodes for parts in live(world).values() for nodes, _ in parts) == 5
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_leg_at_a_manager_is_not_replaced() -> None:
    """Its children would each have to exchange their part under its old name; the manager says so,
    already when it is asked what would be free.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            old = await booked(world.ada, a_wish(nodes=8, trip=TripRef(trip_id="t", leg="north")))
            trip = TripRef(trip_id="t", leg="north", attempt=2)
            wish = a_wish("w2", nodes=8, replaces=old.reservation_id, trip=trip)
            for answer in (
                await world.ada.reserve(wish, ttl_s=20),
                (await world.ada.inquire([a_wish("w3", replaces=old.reservation_id)]))[0],
            ):
                assert isinstance(answer, Decline)
                assert "cancel it and book it again" in answer.message
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_the_old_released_while_its_replacement_is_held() -> None:
    """The replacement then stands on its own feet."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            old = await booked(world.ada, a_wish(nodes=8))
            wish = a_wish("w2", nodes=8, start=SOON + 30, replaces=old.reservation_id)
            new = await held(world.ada, wish)
            await world.ada.release(old.reservation_id)
            answer = await world.ada.commit(new.reservation_id)
            assert isinstance(answer, Reservation)
            world.assert_whole_or_absent()
            assert live(world) == {"a": [(4, SOON + 30)], "b": [(4, SOON + 30)]}

    run_virtually(scene)


def _b_loses_its_hold(world: World) -> Callable[..., Awaitable[Any]]:
    """The first commit at b comes too late for its hold."""

    async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
        if (child, verb) == ("b", "commit"):
            b = world.sites["b"]
            hold = b.of_manager(ReservationState.HELD)[0]
            b.carry_out(b.calendar.decide_release(hold.reservation_id, None, b.clock.now()))
            world.network.carry = None
        return await work()

    return carry


def test_a_part_lost_between_hold_and_commit_is_held_once_more() -> None:
    """The other child has given up its old part already; the room at this one is still there."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))
            world.network.carry = _b_loses_its_hold(world)
            later = a_wish("later", nodes=8, start=SOON + 30)
            moved = await world.ada.amend(group.reservation_id, later)
            assert isinstance(moved, Reservation), moved
            await world.passes(1)
            assert live(world) == {"a": [(4, SOON + 30)], "b": [(4, SOON + 30)]}
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_change_that_can_be_neither_finished_nor_undone_ends_as_a_whole() -> None:
    """The room is gone as well: rather nothing than half of two groups, and the log is loud."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))
            lose = _b_loses_its_hold(world)

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                is_commit = (child, verb) == ("b", "commit")
                if is_commit:
                    await world.passes(0.5)
                answer = await lose(child, verb, work)
                if is_commit:
                    world.sites["b"].book(4, SOON + 60, SOON + 90)
                return answer

            world.network.carry = carry
            later = a_wish("later", nodes=8, start=SOON + 30)
            refused = await world.ada.amend(group.reservation_id, later)
            assert isinstance(refused, Decline)
            await world.passes(1)
            assert live(world) == {}
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_release_during_a_change_ends_both() -> None:
    """Whatever the change is doing, a released group is gone everywhere."""

    async def scene(after_s: float) -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))

            async def slowly(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                await world.passes(0.3)
                answer = await work()
                await world.passes(0.3)
                return answer

            world.network.carry = slowly
            later = a_wish("later", nodes=8, start=SOON + 30)
            changing = asyncio.create_task(world.ada.amend(group.reservation_id, later))
            await world.passes(after_s)
            await world.ada.release(group.reservation_id)
            answer = (await asyncio.gather(changing, return_exceptions=True))[0]
            assert not isinstance(answer, Reservation)
            await world.passes(20)
            world.assert_whole_or_absent()
            assert live(world) == {}

    for after_s in (0.1, 0.5, 0.9, 1.1, 1.4, 1.7):
        run_virtually(lambda s=after_s: scene(s))  # type: ignore[misc]


def test_a_change_whose_child_is_away_is_finished_later() -> None:
    """The caller hears that the outcome is open; asking again with the same words finds it."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            group = await booked(world.ada, a_wish(nodes=8))

            async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                if (child, verb) == ("b", "commit"):
                    world.sites["b"].is_up = False
                return await work()

            world.network.carry = carry
            later = a_wish("later", nodes=8, start=SOON + 30)
            with pytest.raises(UnavailableError):
                await world.ada.amend(group.reservation_id, later)
            world.network.carry = None
            world.sites["b"].restart()
            moved = await world.ada.amend(group.reservation_id, later)
            assert isinstance(moved, Reservation)
            assert moved.start == SOON + 30
            world.assert_whole_or_absent()

    run_virtually(scene)
