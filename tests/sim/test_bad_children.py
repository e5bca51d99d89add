"""Bad input in a tree of managers, case by case: refused or isolated with a clear message, and the
rest of the tree goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from gridtravel.gridcore.booking.reservations import Reservation, ReservationRequest
from gridtravel.gridcore.booking.summaries import CalendarSummary
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.capacity.ladders import SlotLadder
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.rpc.codec import reservations
from gridtravel.manager.shadows.children import Standing
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.tree_site import TreeSite
from gridtravel.simulator.tree.world import TreeShape, TreeWorld
from gridwire.v1 import common_pb2
from tests.support.builders import a_request

EVE = Caller(subject="/O=grid/OU=users/CN=eve", login="eve")
HOUR_S = 3_600


def live(spoil: Callable[[TreeWorld], None], scene: Callable[[TreeWorld], Awaitable[Any]]) -> None:
    """Play a scene in a tree of two regions of two agents, of which something is wrong from the
    start.
    """

    async def play(loop: VirtualLoop) -> None:
        world = TreeWorld(loop, TreeShape(agents_by_region=(2, 2), nodes=4), seed=1)
        spoil(world)
        await world.start()
        try:
            await scene(world)
        finally:
            await world.close()

    run_virtual(play)


def a_wish(world: TreeWorld, name: str, nodes: int) -> ReservationRequest:
    """So many nodes for a minute, soon."""
    return a_request(name, nodes=nodes, start=world.clock.now() + 200, duration_s=60)


async def goes_on(world: TreeWorld, nodes: int) -> None:
    """The top still books so many nodes, which is all that is left."""
    port = world.top.calendar_port(EVE)
    held = await port.reserve(a_wish(world, "all-that-is-left", nodes), ttl_s=30)
    assert isinstance(held, Reservation), held
    assert isinstance(await port.commit(held.reservation_id), Reservation)
    more = await port.reserve(a_wish(world, "one-more", 1), ttl_s=30)
    assert not isinstance(more, Reservation)
    await world.quiet()
    assert world.breaches() == []


async def told_to_users(world: TreeWorld) -> str:
    """What ``Describe`` says at the top of everybody below it."""
    await world.passes(130)  # a description is asked for once a minute, at each level
    return "; ".join((await world.top.calendar_port(EVE).describe()).children)


def test_a_child_whose_clock_is_an_hour_off() -> None:
    """Its times would mean other moments: nothing of it is used, and the reason is told up to the
    top; the three others are booked.
    """

    class HourAhead:
        def __init__(self, site: TreeSite) -> None:
            self._real = site.clock

        def now(self) -> int:
            return self._real.now() + HOUR_S

        def now_precise(self) -> float:
            return self._real.now_precise() + HOUR_S

        async def sleep_until(self, instant: float) -> None:
            await self._real.sleep_until(instant - HOUR_S)

    def spoil(world: TreeWorld) -> None:
        site = world.sites["r0-a1"]
        site.clock = HourAhead(site)
        site.restart()

    async def scene(world: TreeWorld) -> None:
        child = world.regions[0].live.keeper.children["r0-a1"]
        assert child.standing is Standing.ISOLATED
        assert "its clock is 3600.0 s ahead, more than 5 s" in child.reason
        assert "r0/r0-a1 (isolated: its clock is 3600.0 s ahead" in await told_to_users(world)
        await goes_on(world, 12)

    live(spoil, scene)


def test_a_cycle_in_the_tree() -> None:
    """A region that was given the top as its child finds itself below it, says so and works on
    without; so does the top with that region.
    """

    def spoil(world: TreeWorld) -> None:
        world.regions[1].below.append(world.top)
        world.regions[1].parent = None

    async def scene(world: TreeWorld) -> None:
        await world.passes(70)
        standing = {
            (host.name, each.name): (each.standing, each.reason)
            for host in (world.top, world.regions[1])
            for each in host.live.keeper.children.values()
        }
        isolated = {key: why for key, (is_so, why) in standing.items() if is_so.value == "isolated"}
        assert isolated, standing
        assert all("the managers form a cycle" in why for why in isolated.values()), isolated
        assert set(isolated) <= {("top", "r1"), ("r1", "top")}
        assert standing["top", "r0"][0] is Standing.IN_STEP
        held = await world.top.calendar_port(EVE).reserve(a_wish(world, "rest", 8), ttl_s=30)
        assert isinstance(held, Reservation), held

    live(spoil, scene)


def test_an_agent_that_is_announced_in_two_regions() -> None:
    """By way of both regions the top would count its nodes twice: the region that stands later is
    isolated, and the rest goes on.
    """

    def spoil(world: TreeWorld) -> None:
        world.regions[1].below.append(world.sites["r0-a0"])

    async def scene(world: TreeWorld) -> None:
        await world.passes(70)
        late = world.top.live.keeper.children["r1"]
        assert late.standing is Standing.ISOLATED
        assert late.reason == "r0-a0 is there twice: also by way of r0"
        await goes_on(world, 8)

    live(spoil, scene)


def test_a_child_announced_twice_in_one_configuration() -> None:
    """Nothing is started: the one line names the child."""

    def spoil(world: TreeWorld) -> None:
        world.regions[0].below.append(world.sites["r0-a0"])

    async def scene(world: TreeWorld) -> None:
        raise AssertionError("the tree must not come up")

    with pytest.raises(InputError, match="the child 'r0-a0' is announced twice"):
        live(spoil, scene)


@pytest.mark.parametrize(
    ("slots", "reason"),
    [
        ([(100, 200, 1, 100), (150, 300, 1, 150)], "slots overlap or leave a gap"),
        ([(100, 200, 1, 100), (250, 300, 1, 50)], "slots overlap or leave a gap"),
        ([(200, 100, 1, 100)], "slots overlap or leave a gap"),
        ([(100, 200, 3, 100)], "more free at least than in all"),
        ([(100, 200, 1, 900)], "or than there is"),
    ],
)
def test_a_summary_that_contradicts_itself(
    slots: list[tuple[int, int, int, int]], reason: str
) -> None:
    """As it comes over the wire: refused as a whole with what is wrong with it, before anything of
    it is believed.
    """
    message = common_pb2.CalendarSummary(
        site="a",
        version=common_pb2.CalendarVersion(epoch="e", number=1),
        as_of=100,
        classes=[
            common_pb2.ClassSummary(
                name="node",
                capacity=4,
                slots=[
                    common_pb2.SummarySlot(start=s, end=e, free_min=least, free_node_s=area)
                    for s, e, least, area in slots
                ],
            )
        ],
    )
    with pytest.raises(InputError, match=reason):
        reservations.SUMMARY.decode(message)


def test_a_child_whose_summary_contradicts_itself() -> None:
    """It is isolated, with the reason for everybody to read, and gets another chance."""

    def spoil(world: TreeWorld) -> None:
        site = world.sites["r1-a0"]
        truth = site.summary

        def twice() -> CalendarSummary:
            made = truth()
            return replace(made, classes=(*made.classes, *made.classes))

        site.summary = twice  # type: ignore[method-assign]
        site.publisher = site._publisher()

    async def scene(world: TreeWorld) -> None:
        child = world.regions[1].live.keeper.children["r1-a0"]
        assert child.standing is Standing.ISOLATED
        assert "names a resource class twice" in child.reason
        assert "r1/r1-a0 (isolated: " in await told_to_users(world)
        await goes_on(world, 12)

    live(spoil, scene)


def test_a_ladder_whose_levels_do_not_divide() -> None:
    """The two lengths are named, and what would be right."""
    with pytest.raises(InputError, match="300 s is not a greater multiple of 40 s") as refused:
        SlotLadder.parse("8x40, 8x300, *x2400")
    assert "integer multiple" in str(refused.value)
