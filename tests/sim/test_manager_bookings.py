"""A manager books over several children: what it answers, what it undoes, what it costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridcore.calendar_rules import ResourceClass
from gridcore.errors import InputError, NotAuthorisedError, NotFoundError, UnavailableError
from gridcore.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridcore.summaries import CalendarSummary
from manager.settling import RETRY_MAX_S
from tests.manager_world import (
    ADA,
    NORTH,
    SOON,
    STRANGER,
    TOP,
    ChildSite,
    World,
    a_wish,
    a_world,
    booked,
    held,
)
from tests.virtual_time import START, LoopClock, run_virtually

LIVE = (ReservationState.HELD, ReservationState.COMMITTED)


def test_one_reservation_over_two_children() -> None:
    """The group starts everywhere at the same second; its parts say where to send the jobs, and
    what they cost together is its price.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4, hourly=60), ChildSite("b", 4, hourly=120)) as world:
            group = await booked(world.ada, a_wish())
            assert (group.nodes, group.start, group.end) == (6, SOON, SOON + 60)
            shown = [(part.site, part.nodes, part.endpoint) for part in group.parts]
            assert shown == [("a", 4, "inproc:a"), ("b", 2, "inproc:b")]
            assert group.price_millicredits == 4 * 1 + 2 * 2
            assert group.owner == "ada"
            parts = [site.of_manager(*LIVE)[0] for site in world.sites.values()]
            assert {part.request.beneficiary for part in parts} == {ADA.subject}
            assert {part.start for part in parts} == {SOON}
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_booking_at_a_known_start_costs_two_messages_a_part() -> None:
    """When the shadows show enough at the only start allowed, the owners are asked by the holds
    themselves: one hold and one commit a part, and nothing to children that take no part.
    """

    async def scene() -> None:
        sites = [ChildSite(name, 4) for name in "abcdefgh"]
        async with a_world(*sites) as world:
            world.network.calls.clear()
            await booked(world.ada, a_wish())
            assert world.network.count() == world.network.count("reserve", "commit") == 4

    run_virtually(scene)


def test_a_booking_anywhere_in_a_window_asks_first() -> None:
    """Where the first second will not do, one inquiry a child finds the earliest start; a child
    whose shadow is full throughout is not asked.
    """

    async def scene() -> None:
        sites = [ChildSite(name, 4) for name in "abc"]
        async with a_world(*sites) as world:
            sites[0].book(4, SOON, SOON + 1000)
            sites[1].book(2, SOON, SOON + 30)
            await world.passes(1)
            world.network.calls.clear()
            group = await booked(world.ada, a_wish(nodes=8, earliest=SOON, until=SOON + 500))
            assert group.start == SOON + 30
            assert world.network.calls["a", "inquire"] == 0
            assert world.network.count("inquire") == 2
            assert world.network.count("reserve", "commit") == 4

    run_virtually(scene)


def test_the_cheapest_nodes_are_taken_within_the_budget() -> None:
    """The nodes come from where they cost least; a budget that pays for fewer gets fewer, and one
    that does not pay for the minimum is refused with the least price.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a", 4, hourly=600), ChildSite("b", 4, hourly=60)) as world:
            group = await held(world.ada, a_wish("w1", nodes=(2, 8), budget_millicredits=24))
            assert [(part.site, part.nodes) for part in group.parts] == [("a", 2), ("b", 4)]
            assert group.price_millicredits == 24
            await world.ada.release(group.reservation_id)
            answer = await world.ada.reserve(a_wish("w2", budget_millicredits=23), ttl_s=20)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.BUDGET
            assert answer.nodes_now == 5
            assert "24 millicredits" in answer.message

    run_virtually(scene)


def test_a_refusal_tells_the_earliest_start_and_what_fits_now() -> None:
    """A manager's refusal teaches as an owner's does, for all its children together."""

    async def scene() -> None:
        a, b = ChildSite("a", 4), ChildSite("b", 4)
        async with a_world(a, b) as world:
            a.book(3, SOON, SOON + 200)
            b.book(4, SOON, SOON + 300)
            await world.passes(1)
            (answer,) = await world.ada.inquire([a_wish(nodes=8)])
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.NO_ROOM
            assert answer.earliest == SOON + 300
            assert answer.nodes_now == 1
            (large,) = await world.ada.inquire([a_wish(nodes=9)])
            assert isinstance(large, Decline)
            assert (large.rule, large.earliest) == (DeclineRule.TOO_LARGE, None)
            (none_such,) = await world.ada.inquire([a_wish(features=("gpu",))])
            assert isinstance(none_such, Decline)
            assert none_such.rule is DeclineRule.FEATURES
            (past,) = await world.ada.inquire([a_wish(start=START - 500)])
            assert isinstance(past, Decline)
            assert past.rule is DeclineRule.WINDOW_PAST
            (too_near,) = await world.ada.inquire([a_wish(start=START + 3)])
            assert isinstance(too_near, Decline)
            assert too_near.rule is DeclineRule.START_TOO_SOON
            assert too_near.earliest is not None

    run_virtually(scene)


def test_a_stale_shadow_costs_a_round_and_no_booking() -> None:
    """A child declines what its shadow still showed: its refusal refreshes the shadow, what others
    held is undone, and the second plan goes around it.
    """

    async def scene() -> None:
        sites = [ChildSite(name, 4) for name in "abc"]
        async with a_world(*sites) as world:
            sites[0].publisher.changed = lambda: None  # type: ignore[method-assign]
            sites[0].book(4, SOON, SOON + 60)
            group = await booked(world.ada, a_wish(nodes=8))
            assert [part.site for part in group.parts] == ["b", "c"]
            assert world.network.calls["a", "reserve"] == 1
            shadow = world.manager.keeper.children["a"].shadow.summary
            assert shadow is not None
            assert shadow.classes[0].slots
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_a_refused_request_leaves_nothing_behind() -> None:
    """All or nothing: what was held before another child refused is undone before the answer."""

    async def scene() -> None:
        a, b = ChildSite("a", 4), ChildSite("b", 4)
        async with a_world(a, b) as world:
            b.publisher.changed = lambda: None  # type: ignore[method-assign]
            b.book(4, SOON, SOON + 60)
            answer = await world.ada.reserve(a_wish(), ttl_s=20)
            assert isinstance(answer, Decline)
            assert answer.rule is DeclineRule.NO_ROOM
            world.assert_whole_or_absent()

    run_virtually(scene)


def test_two_groups_that_want_the_same_children_do_not_starve_each_other() -> None:
    """Of many that compete for the same nodes as many get them as there is room for."""

    async def scene() -> None:
        async with a_world(ChildSite("a", 4), ChildSite("b", 4)) as world:
            answers = await asyncio.gather(
                *(world.ada.reserve(a_wish(f"w{n}", nodes=8), ttl_s=20) for n in range(6))
            )
            granted = [each for each in answers if isinstance(each, Reservation)]
            assert len(granted) == 1
            await world.ada.commit(granted[0].reservation_id)
            await world.passes(120)
            world.assert_whole_or_absent()

    run_virtually(scene)


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


def test_an_agent_gives_one_class_at_a_time() -> None:
    """Two classes of one agent are not added up for one part; classes of several agents are."""

    async def scene() -> None:
        fast = ResourceClass(name="fast", nodes=3, features=("power4",))
        slower = ResourceClass(name="slow", nodes=4)
        async with a_world(ChildSite("a", [fast, slower]), ChildSite("b", [fast])) as world:
            (answer,) = await world.ada.inquire([a_wish(nodes=(1, 20))])
            assert isinstance(answer, Availability)
            assert [offer.nodes for offer in answer.offers] == [7]
            group = await booked(world.ada, a_wish("w1", nodes=6, features=("power4",)))
            assert group.resource_class == "fast"
            refused = await world.ada.reserve(a_wish("w2", nodes=8), ttl_s=20)
            assert isinstance(refused, Decline)
            assert refused.rule is DeclineRule.TOO_LARGE

    run_virtually(scene)


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


def test_a_manager_over_managers_books_the_same_way() -> None:
    """To its parent a manager is what an agent is: one hold and one commit, lifetimes that shrink
    upwards, and parts that name the sites at which jobs can run.
    """

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b")) as north:
            top = World(
                [ChildSite("c")], name="top", extra_children=[(north.manager, north.network)]
            )
            top.start()
            await top.passes(1)
            group = await held(top.ada, a_wish(nodes=10))
            below = north.manager.book.live()[0].reservation
            assert below.owner == "/O=grid/OU=managers/CN=top"
            assert below.request.beneficiary == ADA.subject
            assert (group.hold_expires_at or 0) < (below.hold_expires_at or 0)
            assert [part.site for part in group.parts] == ["c", "a", "b"]
            await top.ada.commit(group.reservation_id)
            for world in (top, north):
                world.assert_whole_or_absent()
            description = await top.ada.describe()
            assert description.children == ("c", "north", "north/a", "north/b")
            assert sum(each.nodes for each in description.classes) == 12
            await top.ada.release(group.reservation_id)
            for world in (top, north):
                world.assert_whole_or_absent()
            await top.close()

    run_virtually(scene)


def test_what_is_published_upwards_follows_the_children() -> None:
    """A subscriber sees the sum of the shadows; a change at a child reaches it as a delta."""

    async def scene() -> None:
        async with a_world(ChildSite("a"), ChildSite("b", 6)) as world:
            news = aiter(world.manager.calendar_port(NORTH).subscribe())
            first = await anext(news)
            assert isinstance(first, CalendarSummary)
            assert [(each.name, each.capacity) for each in first.classes] == [("node", 10)]
            world.sites["a"].book(3, SOON, SOON + 10)
            second = await anext(news)
            slots = second.classes[0].slots
            assert [each.free_min for each in slots if each.start == SOON] == [7]
            await news.aclose()  # type: ignore[attr-defined]

    run_virtually(scene)
