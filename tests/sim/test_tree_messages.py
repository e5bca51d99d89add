"""What a booking costs in messages: a wrong guess costs one round, and nobody else is asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from gridtravel.gridcore.booking.reservations import Decline, Reservation
from gridtravel.gridcore.callers import Caller
from gridtravel.manager.search.combining import ChildRoom, distribute
from gridtravel.simulator.kernel.virtual_loop import VirtualLoop, run_virtual
from gridtravel.simulator.tree.tree_site import TreeSite
from gridtravel.simulator.tree.world import TreeManager, TreeShape, TreeWorld
from tests.support.builders import a_request

ADA = Caller(subject="/O=grid/OU=users/CN=ada", login="ada")
EVE = Caller(subject="/O=grid/OU=users/CN=eve", login="eve")
SOON_S = 150


def live(scene: Callable[[TreeWorld], Awaitable[Any]], **shape: Any) -> Any:
    """Play a scene in a tree of three regions of four agents of four nodes."""

    async def play(loop: VirtualLoop) -> Any:
        chosen: dict[str, Any] = {"agents_by_region": (4, 4, 4), "nodes": 4} | shape
        world = TreeWorld(loop, TreeShape(**chosen), seed=1)
        await world.start()
        try:
            return await scene(world)
        finally:
            await world.close()

    return run_virtual(play)


async def cost_of(
    world: TreeWorld, host: TreeManager, name: str, nodes: int, start: int, duration_s: int = 300
) -> tuple[Reservation | Decline, Counter[str]]:
    """Hold at ``host``, and the messages that it took below and above it."""
    before = world.wire.calls.copy()
    request = a_request(name, nodes=nodes, start=start, duration_s=duration_s)
    answer = await host.calendar_port(ADA).reserve(request, ttl_s=30)
    cost = world.wire.calls - before
    cost.pop("describe", None)
    return answer, cost


async def take(site: TreeSite, name: str, nodes: int, start: int, duration_s: int = 300) -> None:
    """Somebody else books at an agent, past all managers."""
    port = site.calendar_port(EVE)
    request = a_request(name, nodes=nodes, start=start, duration_s=duration_s)
    held = await port.reserve(request, ttl_s=60)
    assert isinstance(held, Reservation), held
    await port.commit(held.reservation_id)


def test_a_booking_from_shadows_costs_one_hold_a_level_and_part() -> None:
    """One hold at a region, one at its agent, whatever else there is in the tree."""

    async def scene(world: TreeWorld) -> None:
        held, cost = await cost_of(world, world.top, "one", 3, world.clock.now() + SOON_S)
        assert isinstance(held, Reservation), held
        assert cost == {"reserve": 2}

    live(scene)


def test_a_wrong_guess_costs_its_own_round_only() -> None:
    """Shadows that are a minute old show room at a region that has none any more: its agents say
    so, the top tries another region, and asks nobody.
    """

    async def scene(world: TreeWorld) -> None:
        start = world.clock.now() + SOON_S
        await take(world.sites["r1-a0"], "first", 1, start)
        await take(world.sites["r2-a0"], "second", 1, start)
        await world.passes(70)
        for number in range(4):
            await take(world.sites[f"r0-a{number}"], f"late-{number}", 3, start)
        held, cost = await cost_of(world, world.top, "wanted", 6, start)
        assert isinstance(held, Reservation), held
        assert {part.site[:2] for part in held.parts} == {"r1"}
        assert cost["inquire"] <= 4, "the agents of the region that had to refuse, and no others"
        await world.quiet()

    live(scene, stale_s=60.0)


def test_a_region_that_is_full_lets_its_parent_search() -> None:
    """No inquiry goes to the parent: it searches and holds in one step."""

    async def scene(world: TreeWorld) -> None:
        start = world.clock.now() + SOON_S
        for number in range(4):
            await take(world.sites[f"r0-a{number}"], f"all-{number}", 4, start)
        await world.passes(5)
        held, cost = await cost_of(world, world.regions[0], "wanted", 4, start)
        assert isinstance(held, Reservation), held
        assert held.granted_by == "top"
        assert cost["reserve"] == 3, "the parent, a region, an agent"
        assert cost["inquire"] <= 8, "the own agents, for room and for the first start"

    live(scene)


def test_what_the_parent_cannot_better_is_booked_below() -> None:
    """The parent is asked for an earlier start only; when it has none, the later one below counts,
    without asking anybody once more.
    """

    async def scene(world: TreeWorld) -> None:
        start = world.clock.now() + SOON_S
        for each in world.sites.values():
            await take(each, f"all-{each.name}", 4, start, 1_000)
        await world.passes(5)
        request = a_request("wanted", nodes=4, duration_s=300, earliest=start, until=start + 3_000)
        region = world.regions[0]
        held = await region.calendar_port(ADA).reserve(request, ttl_s=30)
        assert isinstance(held, Reservation), held
        assert held.start == start + 1_000
        assert held.granted_by == ""
        await world.quiet()

    live(scene, patience_s=60)


def test_of_managers_the_roomiest_is_guessed() -> None:
    """A sum over slots may show too much, most likely where it only just fits; of agents, which
    know their own room, the smallest that is enough keeps the large ones for large requests.
    """
    availabilities = [
        ChildRoom(child=f"c{nodes}", nodes=nodes, unit_price_millicredits=0, resource_class="n")
        for nodes in (6, 20, 9)
    ]
    (tight,) = distribute(availabilities, 5)
    (roomy,) = distribute(availabilities, 5, from_roomiest=True)
    assert (tight.child, roomy.child) == ("c6", "c20")
