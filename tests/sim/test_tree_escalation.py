"""Escalation and the balance of trade in a small tree: one top, two regions of two agents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import (
    HOPS_MAX,
    Availability,
    Decline,
    DeclineRule,
    Reservation,
    ReservationRequest,
    ReservationState,
)
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.wire import TreeConditions
from gridtravel.simulator.tree.world import TreeShape, TreeWorld
from tests.support.builders import a_request

ADA = Caller(subject="/O=grid/OU=users/CN=ada", login="ada")
SOON_S = 100
HOUR_S = 3600


def live(scene: Callable[[TreeWorld], Awaitable[Any]], **shape: Any) -> Any:
    """Play a scene in a tree of two regions, each with two agents of four nodes."""

    async def play(loop: VirtualLoop) -> Any:
        chosen: dict[str, Any] = {"agents_by_region": (2, 2), "nodes": 4} | shape
        world = TreeWorld(loop, TreeShape(**chosen), seed=1)
        await world.start()
        try:
            return await scene(world)
        finally:
            await world.close()

    return run_virtual(play)


def a_wish(world: TreeWorld, name: str, nodes: int, *, slack_s: int = 0) -> ReservationRequest:
    """So many nodes for five minutes, soon; it may wait for ``slack_s``."""
    start = world.clock.now() + SOON_S
    return a_request(
        name,
        nodes=nodes,
        duration_s=300,
        earliest=start,
        until=start + 300 + slack_s,
    )


async def book(world: TreeWorld, region: int, request: ReservationRequest) -> Reservation:
    """Hold and commit at a region; a refusal fails the test."""
    port = world.regions[region].calendar_port(ADA)
    held = await port.reserve(request, ttl_s=30)
    assert isinstance(held, Reservation), held
    firm = await port.commit(held.reservation_id)
    assert isinstance(firm, Reservation), firm
    assert firm.state is ReservationState.COMMITTED
    return firm


def test_what_is_larger_than_the_subtree_goes_to_the_parent() -> None:
    """Twelve nodes asked for at a region of eight are granted by the top, over both regions, and
    the answer names who granted them.
    """

    async def scene(world: TreeWorld) -> None:
        firm = await book(world, 0, a_wish(world, "big", 12))
        assert (firm.granted_by, firm.nodes, firm.site) == ("top", 12, "r0")
        assert sum(part.nodes for part in firm.parts) == 12
        assert {part.site[:2] for part in firm.parts} == {"r0", "r1"}
        await world.quiet()
        assert world.breaches() == []

    live(scene)


def test_what_fits_stays_below() -> None:
    """A request with room below does not go up: the top hears nothing of it."""

    async def scene(world: TreeWorld) -> None:
        firm = await book(world, 0, a_wish(world, "small", 8))
        assert firm.granted_by == ""
        assert world.top.live.book.groups == {}

    live(scene)


@pytest.mark.parametrize(("patience_s", "granted_by"), [(200, "top"), (20 * HOUR_S, "")])
def test_impatience(patience_s: int, granted_by: str) -> None:
    """A first slot further off than the patience is not waited for when the parent knows an earlier
    one; with more patience it is.
    """

    async def scene(world: TreeWorld) -> None:
        await book(world, 0, a_wish(world, "all", 8))
        later = await book(world, 0, a_wish(world, "next", 6, slack_s=HOUR_S))
        assert later.granted_by == granted_by
        assert (later.start > world.clock.now() + SOON_S + 200) is (granted_by == "")

    live(scene, patience_s=patience_s)


def test_an_inquiry_goes_up_too() -> None:
    """What a reservation would get from the parent an inquiry offers, so that a search finds it."""

    async def scene(world: TreeWorld) -> None:
        port = world.regions[0].calendar_port(ADA)
        big, huge = a_wish(world, "big", 12), a_wish(world, "huge", 17)
        found, refused = await port.inquire([big, huge])
        assert isinstance(found, Availability)
        assert found.offers[0].nodes == 12
        assert isinstance(refused, Decline)
        assert (refused.rule, refused.site) == (DeclineRule.TOO_LARGE, "top")

    live(scene)


def test_nothing_goes_round() -> None:
    """Twenty nodes are nowhere. The top asks the region it was asked by; the region does not send
    it up once more, and the refusal comes after a handful of messages.
    """

    async def scene(world: TreeWorld) -> None:
        before = world.wire.calls.total()
        answer = (
            await world.regions[0].calendar_port(ADA).reserve(a_wish(world, "huge", 20), ttl_s=30)
        )
        assert isinstance(answer, Decline)
        assert answer.rule is DeclineRule.TOO_LARGE
        assert world.wire.calls.total() - before < 20

    live(scene)


def test_a_request_that_came_from_the_parent_does_not_go_back() -> None:
    """A request whose path names the parent is answered from the own subtree alone."""

    async def scene(world: TreeWorld) -> None:
        region = world.regions[0]
        top = Caller(subject="/O=grid/OU=managers/CN=top", role=Role.MANAGER)
        told = replace(a_wish(world, "big", 12), via=("top",), beneficiary=ADA.subject)
        answer = await region.calendar_port(top).reserve(told, ttl_s=30)
        assert isinstance(answer, Decline)
        assert answer.site == "r0"

    live(scene)


def test_hops_are_bounded() -> None:
    """A request through more managers than a tree can have is refused as malformed, and so is one
    that names a manager twice.
    """
    path = tuple(f"m{number}" for number in range(HOPS_MAX))
    request = a_request("r", nodes=1)
    full = request
    for name in path:
        full = full.through(name)
    assert full.via == path
    assert full.through("m3") is full
    with pytest.raises(InputError, match="managers"):
        full.through("one-more")


def test_without_a_parent_in_reach_the_own_answer_counts() -> None:
    """A dead parent costs patience, not the reservation."""

    async def scene(world: TreeWorld) -> None:
        await book(world, 0, a_wish(world, "all", 8))
        await world.top.die()
        later = await book(world, 0, a_wish(world, "next", 6, slack_s=HOUR_S))
        assert later.granted_by == ""
        world.top.begin()

    live(scene, patience_s=10)


def test_a_restart_between_hold_and_commit() -> None:
    """A region that dies after the parent's hold comes back knowing it, and commits it there."""

    async def scene(world: TreeWorld) -> None:
        region = world.regions[0]
        held = await region.calendar_port(ADA).reserve(a_wish(world, "big", 12), ttl_s=40)
        assert isinstance(held, Reservation)
        await region.die()
        region.begin()
        await world.passes(2)
        firm = await region.calendar_port(ADA).commit(held.reservation_id)
        assert isinstance(firm, Reservation), firm
        assert firm.granted_by == "top"
        await world.quiet()
        assert world.breaches() == []

    live(scene)


def test_trade_is_counted_when_work_ends() -> None:
    """Region 0 has twelve nodes for five minutes, eight of them at home or not: what the other
    region lent it borrowed, and all accounts sum to zero, also after a restart.
    """

    async def scene(world: TreeWorld) -> None:
        firm = await book(world, 0, a_wish(world, "big", 12))
        lent_nodes = sum(part.nodes for part in firm.parts if part.site.startswith("r1"))
        await world.passes(SOON_S + 400)
        described = await world.top.calendar_port(ADA).describe()
        accounts = {each.member: each for each in described.trade}
        assert accounts["r1"].balance_node_s == lent_nodes * 300 > 0
        assert accounts["r0"].balance_node_s == -lent_nodes * 300
        assert accounts["r0"].local_node_s == (12 - lent_nodes) * 300
        assert sum(each.balance_node_s for each in described.trade) == 0
        await world.top.die()
        world.top.begin()
        again = await world.top.calendar_port(ADA).describe()
        assert again.trade == described.trade

    live(scene)


def test_what_is_given_back_before_its_start_is_no_trade() -> None:
    """A cancelled reservation was not used; the accounts do not know it."""

    async def scene(world: TreeWorld) -> None:
        firm = await book(world, 0, a_wish(world, "big", 12))
        await world.regions[0].calendar_port(ADA).release(firm.reservation_id)
        await world.passes(SOON_S + 400)
        assert all(not each.local_node_s for each in world.top.live.book.trade.accounts())
        assert all(not each.lent_node_s for each in world.top.live.book.trade.accounts())

    live(scene)


def test_a_debtor_is_limited() -> None:
    """A region that owes what it may owe is refused by the rule of the balance of trade, told what
    would pass, and that passes; the other region is not limited.
    """

    async def scene(world: TreeWorld) -> None:
        await book(world, 0, a_wish(world, "all", 8))
        port = world.regions[0].calendar_port(ADA)
        refused = await port.reserve(a_wish(world, "over", 6), ttl_s=30)
        assert isinstance(refused, Decline)
        assert refused.rule is DeclineRule.TRADE, refused
        assert refused.nodes_now == 3
        assert "1000 more would pass" in refused.message
        firm = await book(world, 0, a_wish(world, "within", 3))
        assert firm.granted_by == "top"
        again = await port.reserve(a_wish(world, "more", 1), ttl_s=30)
        assert isinstance(again, Decline)
        assert again.rule is DeclineRule.TRADE

    live(scene, debt_max_node_s=1000)


def test_lost_messages_leave_nothing_behind() -> None:
    """With lost answers and late doubles, what went up is whole or absent at every manager."""

    async def scene(world: TreeWorld) -> None:
        world.wire.conditions = TreeConditions(loss=0.2, doubles=0.2)
        for number in range(10):
            port = world.regions[number % 2].calendar_port(ADA)
            answer = await port.reserve(a_wish(world, f"w{number}", 9), ttl_s=30)
            if isinstance(answer, Reservation) and number % 3:
                await port.release(answer.reservation_id)
        await world.quiet()
        assert world.breaches() == []

    live(scene)
