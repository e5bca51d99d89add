"""A manager whose children die, forget, stay away or lose their answers: whole or undone."""

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
)
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.manager.two_phase.settling import RETRY_MAX_S
from tests.support.child_site import ChildSite
from tests.support.manager_world import SOON, a_wish, a_world, booked, held
from tests.support.virtual_time import run_virtually


def test_a_child_that_dies_between_hold_and_commit_keeps_the_outcome_open() -> None:
    """While a child cannot be asked nobody can know; the caller hears that, and the same question
    later joins the same work. A child that kept its hold confirms, and the group is whole.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish())
            world.sites["b"].is_up = False
            with pytest.raises(UnavailableError, match="not every child"):
                await world.ada.commit(group.reservation_id)
            world.sites["b"].restart()
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Reservation)
            assert answer.state is ReservationState.COMMITTED
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_child_that_lost_its_hold_undoes_the_group() -> None:
    """The child is back after its hold expired: it cannot commit, so the part that another child
    did commit is undone as well.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish())
            b = world.sites["b"]
            b.is_up = False
            committing = asyncio.create_task(world.ada.commit(group.reservation_id))
            await world.passes(5)
            assert world.sites["a"].of_manager(ReservationState.COMMITTED)
            await world.passes(40)
            b.restart()
            b.sweep()
            await asyncio.gather(committing, return_exceptions=True)
            await world.passes(RETRY_MAX_S + 1)
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Decline)
            world.assert_whole_or_absent()
            assert not world.sites["a"].of_manager(ReservationState.COMMITTED)

    run_virtually(scene)


def test_a_child_that_forgot_everything_undoes_the_group() -> None:
    """A new epoch without the hold (a restored copy of its journal): the commit finds nothing."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish())
            world.sites["b"].events.clear()
            world.sites["b"].restart()
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.CHANGED
            assert "b" in answer.message
            await world.passes(1)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_release_overtakes_a_commit_that_cannot_land() -> None:
    """The caller gives up while a child is away: the release stands at once, and reaches the child
    when it is back, whatever it did meanwhile.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish())
            world.sites["b"].is_up = False
            with pytest.raises(UnavailableError):
                await world.ada.commit(group.reservation_id)
            await world.ada.release(group.reservation_id)
            assert world.manager.book.owed
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Decline)
            world.sites["b"].restart()
            await world.passes(2 * RETRY_MAX_S)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_child_that_comes_back_late_is_told_to_release_what_it_committed() -> None:
    """What was committed never lets go by itself, so its undo is told however late it is."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await booked(world.ada, a_wish(start=SOON + 900))
            world.sites["b"].is_up = False
            await world.ada.release(group.reservation_id)
            await world.passes(400)
            world.sites["b"].restart()
            assert world.sites["b"].of_manager(ReservationState.COMMITTED)
            await world.passes(RETRY_MAX_S + 1)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_child_that_is_away_is_not_waited_for() -> None:
    """Once its subscription is down a child takes no part: the others answer, and say who is
    missing.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b"), ChildSite("c")) as world:
            world.sites["c"].is_up = False
            world.sites["c"].publisher.changed()
            await world.passes(1)
            world.network.calls.clear()
            (answer,) = await world.ada.inquire([a_wish(nodes=9)])
            assert isinstance(answer, Decline)
            assert "not in reach: c" in answer.message
            assert world.network.calls["c", "inquire"] == 0
            assert (await world.ada.describe()).children[2].startswith("c (lost: ")
            await booked(world.ada, a_wish())

    run_virtually(scene)


def test_nobody_in_reach_is_a_fault_and_no_refusal() -> None:
    """With no child to ask the manager knows nothing, and says so."""

    async def scene() -> None:
        async with a_world(ChildSite("a")) as world:
            world.sites["a"].is_up = False
            world.sites["a"].publisher.changed()
            await world.passes(1)
            with pytest.raises(UnavailableError, match="none of the children"):
                await world.ada.inquire([a_wish(nodes=2)])

    run_virtually(scene)


def test_a_hold_whose_answer_is_lost_is_undone_or_lapses() -> None:
    """A child that may or may not hold a part is told to undo it by the request's id; a child that
    does not understand that has let go by itself after the hold's lifetime.
    """

    async def scene(knows_request_ids: bool) -> None:
        async with a_world(ChildSite("a"), ChildSite("b"), ChildSite("c")) as world:
            b = world.sites["b"]
            b.knows_request_ids = knows_request_ids

            async def lossy(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
                answer = await work()
                if (child, verb) == ("b", "reserve"):
                    raise UnavailableError("the answer was lost")
                return answer

            world.network.carry = lossy
            group = await booked(world.ada, a_wish())
            assert [part.site for part in group.parts] == ["a", "c"]
            assert bool(b.of_manager(ReservationState.HELD)) is not knows_request_ids
            await world.passes(98)
            world.assert_whole_or_absent()

    run_virtually(lambda: scene(True))
    run_virtually(lambda: scene(False))
