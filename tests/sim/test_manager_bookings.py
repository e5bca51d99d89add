"""A manager books over several children: what it answers and what it costs."""

from __future__ import annotations

import asyncio

from gridtravel.gridcore.booking.calendar_rules import ResourceClass
from gridtravel.gridcore.booking.reservations import (
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationState,
)
from gridtravel.gridcore.booking.summaries import CalendarSummary
from tests.support.child_site import ChildSite
from tests.support.manager_world import ADA, NORTH, SOON, World, a_wish, a_world, booked, held
from tests.support.virtual_time import START, run_virtually

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
