"""Whose a manager's hold is, how long it lasts, and that asking twice equals asking once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.errors import InputError, NotAuthorisedError, NotFoundError
from tests.support.child_site import ChildSite
from tests.support.manager_world import ADA, SOON, STRANGER, TOP, a_wish, a_world, booked, held
from tests.support.virtual_time import LoopClock, run_virtually

LIVE = (ReservationState.HELD, ReservationState.COMMITTED)


def test_a_group_expires_before_its_children_do() -> None:
    """A parent's hold ends first: whoever commits in its last second still finds all parts."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish(), ttl_s=20)
            below = [site.of_manager(*LIVE)[0].hold_expires_at for site in world.sites.values()]
            assert group.hold_expires_at is not None
            assert group.hold_expires_at + 5 <= min(each or 0 for each in below)
            await world.clock.sleep_until(group.hold_expires_at - 0.5)
            assert isinstance(await world.ada.commit(group.reservation_id), Reservation)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_manager_gives_no_quotes_and_takes_none() -> None:
    """What it offers is made of its children's offers; a quote that comes is refused by its rule,
    for a hold and for a change, and nothing is held below.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            (offered,) = await world.ada.inquire([a_wish()])
            assert isinstance(offered, Availability)
            assert {each.quote for each in offered.offers} == {""}
            wish = replace(a_wish(), quote="quote1.e30.e30")
            refused = await world.ada.reserve(wish, ttl_s=20)
            assert isinstance(refused, Decline)
            assert refused.rule is DeclineRule.QUOTE
            assert not [each for site in world.sites.values() for each in site.of_manager(*LIVE)]
            group = await booked(world.ada, a_wish())
            changed = replace(a_wish("wish-2"), quote="quote1.e30.e30")
            kept = await world.ada.amend(group.reservation_id, changed)
            assert isinstance(kept, Decline)
            assert kept.rule is DeclineRule.QUOTE

    run_virtually(scene)


def test_an_expired_group_is_undone_and_refused() -> None:
    """The granter alone decides expiry; a commit that comes too late is a refusal, and the
    children get their room back at once.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await held(world.ada, a_wish(), ttl_s=10)
            await world.passes(11)
            world.assert_whole_or_absent()
            answer = await world.ada.commit(group.reservation_id)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.STATE

    run_virtually(scene)


def test_a_start_that_leaves_no_time_to_commit_is_refused() -> None:
    """The children shorten their holds before a near start; what would be left for the group is
    less than its least lifetime.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            near = world.clock.now() + world.manager.inquirer.lead_s
            group = await held(world.ada, a_wish(start=near))
            assert group.hold_expires_at is not None
            assert group.hold_expires_at >= world.clock.now() + 2

    run_virtually(scene)


def test_the_same_request_finds_the_same_group() -> None:
    """Saying it twice equals saying it once: while it is being held, while it is held, after the
    commit; and after its end it stays ended.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            first, second = await asyncio.gather(
                world.ada.reserve(a_wish(), ttl_s=20), world.ada.reserve(a_wish(), ttl_s=20)
            )
            assert first == second
            assert isinstance(first, Reservation)
            committed = await world.ada.commit(first.reservation_id)
            assert await world.ada.reserve(a_wish(), ttl_s=20) == committed
            assert await world.ada.commit(first.reservation_id) == committed
            with pytest.raises(InputError, match="used for another"):
                await world.ada.reserve(a_wish(nodes=5), ttl_s=20)
            await world.ada.release(first.reservation_id)
            await world.ada.release(first.reservation_id)
            again = await world.ada.reserve(a_wish(), ttl_s=20)
            assert isinstance(again, Decline)
            assert again.rule is DeclineRule.FINISHED
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_another_request_under_an_id_that_is_being_held_is_refused() -> None:
    """A request id in use cannot join the work of a different request."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            under_way = asyncio.create_task(world.ada.reserve(a_wish(), ttl_s=20))
            await world.clock.sleep_until(0)
            with pytest.raises(InputError, match="in use"):
                await world.ada.reserve(a_wish(nodes=5), ttl_s=20)
            assert isinstance(await under_way, Reservation)

    run_virtually(scene)


def test_a_released_request_never_books_afterwards() -> None:
    """A late copy of a request that was released unseen, and one that is released while it is being
    held, book nothing.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            await world.ada.release_request("wish-1")
            late = await world.ada.reserve(a_wish(), ttl_s=20)
            assert isinstance(late, Decline)
            assert late.rule is DeclineRule.FINISHED
            under_way = asyncio.create_task(world.ada.reserve(a_wish("wish-2"), ttl_s=20))
            await world.clock.sleep_until(0)
            await world.ada.release_request("wish-2")
            overtaken = await under_way
            assert isinstance(overtaken, Decline)
            assert overtaken.rule is DeclineRule.FINISHED
            await world.passes(1)
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_caller_who_goes_away_leaves_no_half_group() -> None:
    """The work goes on without its caller; who asks again finds it, and if nobody does, it
    expires.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            world.network.carry = slow(0.5)
            asking = asyncio.create_task(world.ada.reserve(a_wish(), ttl_s=20))
            await world.passes(0.1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            group = await held(world.ada, a_wish())
            committing = asyncio.create_task(world.ada.commit(group.reservation_id))
            await world.passes(0.1)
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
            await world.passes(5)
            world.assert_whole_or_absent()
            assert len(world.sites["a"].of_manager(ReservationState.COMMITTED)) == 1

    run_virtually(scene)


def slow(delay_s: float) -> Callable[[str, str, Callable[[], Awaitable[Any]]], Awaitable[Any]]:
    """Every call takes its time."""

    async def carry(child: str, verb: str, work: Callable[[], Awaitable[Any]]) -> Any:
        clock = LoopClock()
        await clock.sleep_until(clock.now_precise() + delay_s)
        return await work()

    return carry


def test_nobody_touches_the_group_of_another() -> None:
    """Per-caller authorisation on every verb; who is mapped to nobody may only look around."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as world:
            group = await booked(world.ada, a_wish())
            for verb in (
                world.bob.commit(group.reservation_id),
                world.bob.release(group.reservation_id),
                world.bob.amend(group.reservation_id, a_wish("other")),
                world.bob.reserve(a_wish("w2", replaces=group.reservation_id), ttl_s=20),
                world.manager.calendar_port(STRANGER).reserve(a_wish("w3"), ttl_s=20),
                world.manager.calendar_port(STRANGER).inquire([a_wish("w4")]),
                world.ada.inquire([replace(a_wish("w5"), account="chemistry")]),
            ):
                with pytest.raises(NotAuthorisedError):
                    await verb
            with pytest.raises(NotFoundError):
                await world.ada.commit("north.99")
            await world.bob.release("north.99")
            assert (await world.manager.calendar_port(STRANGER).describe()).login == ""
            world.assert_whole_or_absent()
            assert world.manager.book.live()

    run_virtually(scene)


def test_only_a_manager_speaks_for_somebody_else() -> None:
    """The beneficiary that a user names is ignored; that of a manager is passed on to the owners,
    and the manager itself is the owner here.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 8)) as world:
            mine = await booked(world.ada, a_wish("w1", beneficiary="/O=grid/OU=users/CN=bob"))
            assert mine.request.beneficiary == ADA.subject
            top = world.manager.calendar_port(TOP)
            later = a_wish("w2", start=SOON + 100, beneficiary="/O=grid/OU=users/CN=bob")
            his = await booked(top, later)
            assert his.owner == TOP.subject
            below = world.sites["a"].of_manager(ReservationState.COMMITTED)
            names = [each.request.beneficiary for each in below]
            assert names == [ADA.subject, "/O=grid/OU=users/CN=bob"]
            with pytest.raises(NotAuthorisedError):
                await world.ada.release(his.reservation_id)

    run_virtually(scene)
