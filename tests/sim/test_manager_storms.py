"""Many callers, a bad network, children and the manager dying at any moment: seeded storms, and
what must be true when they are over.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from gridtravel.gridcore.booking.reservations import Decline, Reservation, ReservationState
from gridtravel.gridcore.errors import GridError
from tests.support.child_site import ChildSite
from tests.support.manager_network import unreliable
from tests.support.manager_world import SOON, World, a_wish
from tests.support.virtual_time import run_virtually

CALLERS = 12
STORM_S = 120.0
QUIET_S = 120.0
LATER = SOON + 2000
"""All groups lie behind storm and quiet."""


class Caller:
    """Somebody who books, and insists until told."""

    def __init__(self, world: World, number: int, chance: random.Random) -> None:
        self.world = world
        self.number = number
        self.chance = chance
        self.acknowledged: dict[str, str] = {}
        """Group -> the last thing that was acknowledged about it, or begun."""

    async def acts(self) -> None:
        """Some bookings, a few of them cancelled or changed."""
        for turn in range(4):
            await self.world.passes(self.chance.random() * 20)
            start = LATER + self.chance.randrange(0, 200, 20)
            nodes = self.chance.randint(1, 9)
            wish = a_wish(f"c{self.number}-{turn}", nodes=nodes, start=start)
            held = await self._insists("reserve", wish, ttl_s=30)
            if not isinstance(held, Reservation):
                continue
            group_id = held.reservation_id
            if self.chance.random() < 0.15:
                continue
            answer = await self._insists("commit", group_id)
            if not isinstance(answer, Reservation):
                continue
            self.acknowledged[group_id] = "committed"
            dice = self.chance.random()
            if dice < 0.25:
                self.acknowledged[group_id] = "release begun"
                if await self._insists("release", group_id) is not _GAVE_UP:
                    self.acknowledged[group_id] = "released"
            elif dice < 0.5:
                self.acknowledged[group_id] = "change begun"
                change = a_wish(f"c{self.number}-{turn}-change", nodes=nodes, start=start + 20)
                await self._insists("amend", group_id, change)

    async def _insists(self, verb: str, *words: object, **more: object) -> Any:
        """Ask again while no answer comes; each verb is idempotent."""
        for _ in range(12):
            try:
                async with asyncio.timeout(15):
                    return await getattr(self.world.ada, verb)(*words, **more)
            except (GridError, TimeoutError):
                await self.world.passes(1 + self.chance.random() * 4)
        return _GAVE_UP


_GAVE_UP = Decline


async def _storm(seed: int) -> World:
    chance = random.Random(seed)
    sites = [ChildSite(name, nodes) for name, nodes in (("a", 4), ("b", 4), ("c", 3), ("d", 2))]
    world = World(sites)
    world.network.carry = unreliable(seed, loss=0.06, doubles=0.1)
    world.start()
    await world.passes(1)
    callers = [Caller(world, n, random.Random(1000 * seed + n)) for n in range(CALLERS)]
    acting = [asyncio.create_task(each.acts()) for each in callers]
    conditions = asyncio.create_task(_conditions(world, chance))
    await asyncio.gather(*acting)
    conditions.cancel()
    await asyncio.gather(conditions, return_exceptions=True)
    world.network.carry = None
    for site in sites:
        if not site.is_up:
            site.restart()
    if not world.is_up:
        world.revive()
    await world.passes(QUIET_S)
    world.assert_whole_or_absent()
    _check_promises(world, callers)
    await world.close()
    return world


async def _conditions(world: World, chance: random.Random) -> None:
    """Something dies, and comes back."""
    while True:
        await world.passes(2 + chance.random() * 12)
        victim = chance.choice([None, None, *world.sites.values()])
        if victim is None:
            await world.crash()
            await world.passes(chance.random() * 8)
            world.revive()
        else:
            victim.is_up = False
            await world.passes(chance.random() * 8)
            victim.restart()


def _check_promises(world: World, callers: list[Caller]) -> None:
    groups = world.manager.book.groups
    for caller in callers:
        for group_id, last in caller.acknowledged.items():
            group = groups.get(group_id)
            state = group.reservation.state if group is not None else None
            if last == "committed":
                assert state is ReservationState.COMMITTED, (group_id, state)
            if last == "released":
                assert state is not ReservationState.COMMITTED, group_id


def test_a_storm_breaks_no_promise(sim_seed: int) -> None:
    """Once quiet: what a child has committed belongs to a committed group and the other way round;
    what was acknowledged stands; nothing is owed; no child ever promised a node twice (its calendar
    would have refused to book it).
    """
    world = run_virtually(lambda: _storm(sim_seed))
    committed = [
        each
        for each in world.manager.book.live()
        if each.reservation.state is ReservationState.COMMITTED
    ]
    assert committed, "the storm was too strong to show anything"


def test_the_same_seed_gives_the_same_storm() -> None:
    """A failing seed can be looked at again: same seed, same calls, same journal."""
    first, second = (run_virtually(lambda: _storm(7)) for _ in range(2))
    assert first.network.calls == second.network.calls
    assert first.disk.records == second.disk.records
