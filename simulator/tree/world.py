"""A tree of calendar managers over agents, in one process and in virtual time.

The managers are the production class on simulated disks, connected up and down by one
``TreeWire``; any of them, and any agent, can die and come back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gridtravel.gridcore.booking.reservations import ReservationState
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import CalendarPort
from gridtravel.gridio.journal.memory import Disk, MemoryJournal
from gridtravel.gridio.sites.connections import SiteConnection
from gridtravel.gridio.sites.publishing import COALESCE_S
from gridtravel.gridio.system.ids import SeededIds
from gridtravel.gridio.trust.cards import SharedKeyCards
from gridtravel.manager.book.decisions import ManagerRules
from gridtravel.manager.calendar_manager import CalendarManager
from gridtravel.manager.core import ManagerParts
from gridtravel.manager.shadows.children import Child
from gridtravel.manager.shadows.keeper import KeeperRules
from gridtravel.simulator.kernel.virtual_clock import VirtualClock
from gridtravel.simulator.tree.tree_site import PUBLISHED, SITE_RULES, TreeSite
from gridtravel.simulator.tree.wire import TreeConditions, TreeConnection, TreeWire

if TYPE_CHECKING:
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop

SWEEP_S: Final = 5.0
"""How often the agents look after their holds and ends."""
SILENCE_MAX_S: Final = KeeperRules().silence_max_s
"""What managers take for silence, beside the time that agents hold back their news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeShape:
    """How a tree is built: one manager at the top, regions below it, agents below them."""

    agents_by_region: tuple[int, ...]
    nodes: int
    """Of each agent."""
    between: tuple[int, ...] = ()
    """Levels of managers between the top and the regions: so many below each of the level above."""
    patience_s: int = 600
    debt_max_node_s: int | None = None
    stale_s: float = COALESCE_S
    """How long agents hold back what they publish."""


class TreeManager:
    """One manager of the tree, over all its lives."""

    def __init__(self, world: TreeWorld, name: str, number: int) -> None:
        self.name = name
        self.is_up = True
        self.below: list[TreeManager | TreeSite] = []
        self.parent: TreeManager | None = None
        self._world = world
        self._disk = Disk(ids=SeededIds(number))
        self._number = number
        self._lives = 0
        self._journal: MemoryJournal | None = None
        self._task: asyncio.Task[None] | None = None
        self.manager: CalendarManager | None = None

    @property
    def live(self) -> CalendarManager:
        """The manager as it lives now."""
        if self.manager is None:
            raise UnavailableError(f"{self.name} has not begun")
        return self.manager

    def calendar_port(self, caller: Caller) -> CalendarPort:
        """Its calendar as it stands now."""
        return self.live.calendar_port(caller)

    def living_port(self, caller: Caller) -> CalendarPort:
        """The same for somebody who does not come over the wire; ``UnavailableError`` while it is
        dead.
        """
        if not self.is_up:
            raise UnavailableError(f"{self.name} is down")
        return self.calendar_port(caller)

    def begin(self) -> None:
        """Come to life from whatever is on the disk."""
        self._journal = MemoryJournal(self._disk)
        self.manager = CalendarManager(self._parts(self._journal))
        self.manager.replay()
        self._lives += 1
        self.is_up = True
        self._task = asyncio.create_task(self.manager.run())

    async def die(self) -> None:
        """What waits for the disk is lost, no errand goes on."""
        self.is_up = False
        if self._journal is not None:
            self._journal.crash()
        await self.end()

    async def end(self) -> None:
        """End the tasks."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _parts(self, journal: MemoryJournal) -> ManagerParts:
        world = self._world
        caller = Caller(subject=f"/O=grid/OU=managers/CN={self.name}", role=Role.MANAGER)

        def connect(host: TreeManager | TreeSite) -> Child:
            is_manager = isinstance(host, TreeManager)
            return Child(
                host.name,
                TreeConnection(host, caller, world.wire),
                is_manager=is_manager,
                answer_within_s=6.0 if is_manager else 3.0,
            )

        return ManagerParts(
            name=self.name,
            children=[connect(each) for each in self.below],
            journal=journal,
            clock=world.clock,
            ids=SeededIds(1_000 * self._number + self._lives),
            rules=ManagerRules(calendar=SITE_RULES, debt_max_node_s=world.shape.debt_max_node_s),
            ladder=PUBLISHED,
            published_horizon_s=SITE_RULES.horizon_s,
            subject_of=lambda caller: caller.subject,
            connect=_no_way,
            cards=SharedKeyCards(b"no trips here"),
            parent=None if self.parent is None else connect(self.parent),
            patience_s=world.shape.patience_s,
            keeper_rules=KeeperRules(silence_max_s=SILENCE_MAX_S + world.shape.stale_s),
            shadow_age_max_s=int(300 + 2 * world.shape.stale_s),
        )


class TreeWorld:
    """A whole tree. ``start`` it, let virtual time pass, and ``close`` it."""

    def __init__(
        self,
        loop: VirtualLoop,
        shape: TreeShape,
        *,
        seed: int,
        conditions: TreeConditions | None = None,
    ) -> None:
        self.shape = shape
        self.clock = VirtualClock(loop)
        self.chance = random.Random(seed)
        self.wire = TreeWire(
            random.Random(self.chance.random()), self.clock, conditions or TreeConditions()
        )
        self._managers_made = 0
        self.top = self._manager("top", None)
        self.work_dirs: list[TreeManager] = []
        """Managers between the top and the regions, from the top down."""
        self.regions: list[TreeManager] = []
        self.sites: dict[str, TreeSite] = {}
        self._sweeper: asyncio.Task[None] | None = None
        above = [self.top]
        for fan_out in shape.between:
            above = [
                self._manager(f"{each.name}-{number}", each)
                for each in above
                for number in range(fan_out)
            ]
            self.work_dirs += above
        for number, agents in enumerate(shape.agents_by_region):
            parent = above[number * len(above) // len(shape.agents_by_region)]
            region = self._manager(f"r{number}", parent)
            for position in range(agents):
                site = TreeSite(
                    f"r{number}-a{position}", shape.nodes, self.clock, stale_s=shape.stale_s
                )
                self.sites[site.name] = site
                region.below.append(site)
            self.regions.append(region)

    def _manager(self, name: str, parent: TreeManager | None) -> TreeManager:
        self._managers_made += 1
        made = TreeManager(self, name, self._managers_made)
        if parent is not None:
            made.parent = parent
            parent.below.append(made)
        return made

    @property
    def managers(self) -> Sequence[TreeManager]:
        """All of them, from the top down."""
        return [self.top, *self.work_dirs, *self.regions]

    async def start(self) -> None:
        """Bring everybody to life, and wait until the shadows are there."""
        for each in reversed(self.managers):
            each.begin()
        self._sweeper = asyncio.create_task(self._sweep())
        await self.passes(3.0)

    async def close(self) -> None:
        """End everything."""
        for each in self.managers:
            await each.end()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.gather(self._sweeper, return_exceptions=True)

    async def passes(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self.clock.sleep_until(self.clock.now_precise() + seconds)

    async def quiet(self, seconds_max: int = 600) -> None:
        """The weather clears up; wait until nobody holds or owes anything."""
        self.wire.conditions = TreeConditions()
        for _ in range(seconds_max // 10):
            await self.passes(10)
            if not any(self._unsettled(each) for each in self.managers):
                return

    def breaches(self) -> list[str]:
        """Once quiet: where parts at a child are not exactly those that a manager promised, and
        what is left behind. Empty when all is well.
        """
        found = [each.name for each in self.managers if self._unsettled(each)]
        faults = [f"{name} still holds or owes something" for name in found]
        for manager in self.managers:
            book = manager.live.book
            book.validate()
            promised = {
                (part.child, part.reservation_id)
                for group in book.live()
                if group.reservation.state is ReservationState.COMMITTED
                for part in group.parts
            }
            subject = f"/O=grid/OU=managers/CN={manager.name}"
            around = [*manager.below, *([manager.parent] if manager.parent is not None else [])]
            kept = {(host.name, each) for host in around for each in _committed(host, subject)}
            if promised != kept:
                odd = sorted(promised ^ kept)[:3]
                faults.append(f"{manager.name}: parts without a group, or groups without: {odd}")
        for site in self.sites.values():
            site.calendar.validate()
        return faults

    async def _sweep(self) -> None:
        while True:
            await self.passes(SWEEP_S)
            for site in self.sites.values():
                if site.is_up:
                    site.sweep()

    @staticmethod
    def _unsettled(each: TreeManager) -> bool:
        book = each.live.book
        held = any(one.reservation.state is ReservationState.HELD for one in book.live())
        return bool(held or book.owed or book.asked)


def _committed(host: TreeManager | TreeSite, owner: str) -> list[str]:
    """Ids of the committed reservations of ``owner`` at ``host``."""
    entries = (
        host.calendar.reservations.values()
        if isinstance(host, TreeSite)
        else [group.reservation for group in host.live.book.live()]
    )
    return [
        each.reservation_id
        for each in entries
        if each.owner == owner and each.state is ReservationState.COMMITTED
    ]


def _no_way(name: str, endpoint: str) -> SiteConnection:
    raise UnavailableError(f"no way to {name} at {endpoint}")
