"""A simulated world: sites, travellers, a network and its troubles, all from one seed.

A world is described by a ``WorldPlan``, a plain value, and lives once. Its days:

1. *storm*: trips are booked while messages get lost, parties crash and disks fill up;
2. *calm*: no new faults; whoever is to come back does, users type ``gur resume`` until it succeeds;
3. *quiet*: every hold has ended one way or the other; the trips are checked;
4. *travel*: the legs' jobs run to their ends; everything is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gridio.publishing import HEARTBEAT_S
from simulator.chance import Chance
from simulator.checkers import check_quiet, check_travelled
from simulator.chronicle import Chronicle
from simulator.lives import CrashPoint, PointKind
from simulator.local_users import LocalWish, let_them
from simulator.network import CLEAR, Network, Weather
from simulator.simulated_laptop import LaptopPlan, SimulatedLaptop
from simulator.simulated_site import SimulatedSite, SitePlan
from simulator.trip_checkers import check_told
from simulator.troubles import Trouble, bring_about
from simulator.virtual_loop import run_virtual
from simulator.watchers import Watcher

if TYPE_CHECKING:
    from gridcore.itineraries import Itinerary
    from simulator.virtual_loop import VirtualLoop
    from simulator.world_frame import Startable

COMMANDS_WITHIN_S: Final = 3600.0
"""Once it is calm every user has settled everything within this time, or it is a fault."""
QUIET_AFTER_S: Final = 60.0
"""Longer than any hold that was left behind: lifetime, doubt, and the rounds of asking."""
JOBS_WITHIN_S: Final = 7200.0
"""All jobs are over this long after the last reservation."""
SHADOWS_WITHIN_S: Final = 2.5 * HEARTBEAT_S
LOOK_EVERY_S: Final = 5.0
BACK_WITHIN_S: Final = 130.0
"""Longest time after the storm until the last party is back and the last late message has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCrash:
    """A crash at a point of a party's first life."""

    at: CrashPoint
    back_after_s: float | None
    """When it starts again; ``None``: never (a laptop that is lost for good)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldPlan:
    """Everything that a world needs to be lived again."""

    seed: int
    sites: tuple[SitePlan, ...]
    laptops: tuple[LaptopPlan, ...]
    weather: Weather = CLEAR
    troubles: tuple[Trouble, ...] = ()
    crashes: tuple[PlannedCrash, ...] = ()
    local_wishes: tuple[LocalWish, ...] = ()
    storm_s: float = 120.0
    """How long new faults come."""
    watched: tuple[str, ...] = ()
    """Sites whose calendar somebody subscribes to."""
    hold_ttl_s: float = 30.0
    """What travellers ask for; quiet comes after it."""


@dataclass(slots=True)
class WorldTypes:
    """Whose classes live in the world; tests put weakened ones in their place."""

    site: type[SimulatedSite] = SimulatedSite
    laptop: type[SimulatedLaptop] = SimulatedLaptop


@dataclass(slots=True)
class WorldRecord:
    """What is left of a world."""

    plan: WorldPlan
    chronicle: Chronicle
    counts_of: dict[str, dict[PointKind, int]] = field(default_factory=dict)
    """Occasions to crash in each party's first life."""
    doubt_longest_s: float = 0.0
    """Longest time from a hold to its outcome."""
    outcomes: dict[str, str] = field(default_factory=dict)
    """What became of each trip, by the sites' books."""
    lasted_s: float = 0.0
    """Virtual seconds."""
    callbacks: int = 0

    @property
    def is_clean(self) -> bool:
        """True when no promise was broken."""
        return not self.chronicle.violations


class World:
    """One world while it lives (``simulator.world_frame.WorldFrame``)."""

    def __init__(self, plan: WorldPlan, loop: VirtualLoop, types: WorldTypes) -> None:
        self.plan = plan
        self.loop = loop
        self.chance = Chance(plan.seed)
        self.chronicle = Chronicle(loop)
        self.network = Network(loop, self.chance.child("net"), self.chronicle, plan.weather)
        self.sites = {each.name: types.site(each, self) for each in plan.sites}
        names = list(self.sites)
        self.laptops = {each.name: types.laptop(each, names, self) for each in plan.laptops}
        self.watchers = [Watcher(self.sites[name], self) for name in plan.watched]
        self.parties: list[SimulatedSite | SimulatedLaptop] = [
            *self.sites.values(),
            *self.laptops.values(),
        ]
        for host in self.parties:
            self.network.join(host)
        self._crashes = {each.at.party: each for each in plan.crashes}
        self.counts_of: dict[str, dict[PointKind, int]] = {}
        self.is_calm = False
        self.storm_ends_s = plan.storm_s + BACK_WITHIN_S
        """From here on everybody who comes back is back, and nothing more goes wrong."""

    # -- for the parties ---------------------------------------------------------------------------

    def crash_point_of(self, party: str) -> CrashPoint | None:
        """See ``WorldFrame``."""
        crash = self._crashes.get(party)
        return None if crash is None else crash.at

    def crash_now(self, party: str) -> None:
        """See ``WorldFrame``."""
        crash = self._crashes[party]
        self.kill(party, f"at {crash.at.kind} {crash.at.number}", crash.back_after_s)

    def told(self, itinerary: Itinerary) -> None:
        """See ``WorldFrame``."""
        check_told(self, itinerary)

    def restart_later(self, party: Startable, delay_s: float) -> None:
        """See ``WorldFrame``."""
        self.network.later(delay_s, party.start)

    # -- fate --------------------------------------------------------------------------------------

    def party(self, name: str) -> SimulatedSite | SimulatedLaptop:
        """A site or a laptop."""
        return self.sites[name] if name in self.sites else self.laptops[name]

    def kill(
        self, name: str, why: str, back_after_s: float | None, *, is_power_cut: bool = False
    ) -> None:
        """A party dies now and starts again later."""
        party = self.party(name)
        if party.life is None:
            return
        kind = "power cut" if is_power_cut else f"crash of a {self.kind_of(name)}"
        self.chronicle.fault(kind, name, "dies {}", why)
        party.crash(is_power_cut=is_power_cut)
        if back_after_s is not None:
            self.restart_later(party, back_after_s)
        elif isinstance(party, SimulatedLaptop):
            party.is_lost = True

    def kind_of(self, name: str) -> str:
        """What a party is."""
        return "site" if name in self.sites else "laptop"

    # -- its days ----------------------------------------------------------------------------------

    async def live(self) -> WorldRecord:
        """Live through all days."""
        for party in self.parties:
            party.start()
        for watcher in self.watchers:
            watcher.start()
        bring_about(self, self.plan.troubles)
        let_them(self, self.plan.local_wishes)
        await self.until(lambda: self.loop.time() >= self.plan.storm_s, self.plan.storm_s + 1)
        self._calm_down()
        if not await self.until(self._is_settled, COMMANDS_WITHIN_S):
            for laptop in self.laptops.values():
                if not laptop.is_settled:
                    self.chronicle.broken(
                        "commands end well", f"{laptop.name} is not done", laptop.name
                    )
        await self.rest(self.plan.hold_ttl_s + QUIET_AFTER_S)
        await self._writes()
        record = WorldRecord(plan=self.plan, chronicle=self.chronicle)
        await check_quiet(self, record)
        await self.rest(max(0.0, self._last_end_s() - self.loop.time()))
        if not await self.until(self._has_travelled, JOBS_WITHIN_S):
            for site in self.sites.values():
                left = [each.job_id for each in site.agent.jobs.active()] if site.agent else []
                if left:
                    self.chronicle.broken(
                        "nothing waits for ever", f"{site.name} still has {left}", site.name
                    )
        await self.rest(SHADOWS_WITHIN_S)
        await self._writes()
        check_travelled(self, record)
        self.loop.forget_done()
        record.counts_of = self.counts_of
        record.lasted_s = self.loop.time()
        record.callbacks = self.loop.callbacks_run
        return record

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Wait for a condition; False when it does not come in time."""
        give_up_at = self.loop.time() + within_s
        while not condition():
            if self.loop.time() >= give_up_at:
                return False
            await self.rest(min(LOOK_EVERY_S, max(0.001, give_up_at - self.loop.time())))
        return True

    async def _writes(self) -> None:
        """Until no disk has anything left to write: what is checked is not just being changed."""
        while not all(site.is_written for site in self.sites.values()):
            await self.rest(0.005)

    async def rest(self, seconds: float) -> None:
        """Let the world live on."""
        waiter = self.loop.create_future()
        self.loop.call_later(seconds, waiter.set_result, None)
        await waiter

    def note_points(self) -> None:
        """Note how many occasions to crash the parties' first lives had."""
        for party in self.parties:
            if party.life is not None and party.starts == 1:
                self.counts_of[party.name] = dict(party.life.counts)

    def _calm_down(self) -> None:
        self.is_calm = True
        self.chronicle.tell("world", "calm: no new faults from here on")
        self.network.calm_down()
        for party in self.parties:
            if party.life is not None:
                party.life.spare()
                party.life.go_on()
        for site in self.sites.values():
            site.disk_is_full = False
            site.write_s = site.plan.write_s

    def _is_settled(self) -> bool:
        is_back = all(
            each.life is not None or (isinstance(each, SimulatedLaptop) and each.is_lost)
            for each in self.parties
        )
        is_settled = is_back and all(each.is_settled for each in self.laptops.values())
        if is_settled:
            self.note_points()
        return is_settled

    def _has_travelled(self) -> bool:
        return all(
            site.agent is not None and not site.agent.jobs.active() for site in self.sites.values()
        )

    def _last_end_s(self) -> float:
        """When the last reservation and the last job are over, by any clock of this world."""
        ends = [
            promise.reservation.end - site.clock.now_precise() + self.loop.time()
            for site in self.sites.values()
            for promise in site.ledger.promises.values()
            if promise.state.is_live
        ]
        return max(ends, default=0.0)


def live(plan: WorldPlan, types: WorldTypes | None = None) -> WorldRecord:
    """Live one world from its beginning to its end."""

    async def main(loop: VirtualLoop) -> WorldRecord:
        world = World(plan, loop, types or WorldTypes())

        def defect(_: object, context: dict[str, Any]) -> None:
            if not loop.is_ending:
                told = f"{context.get('message')}: {context.get('exception')!r}"
                world.chronicle.broken("no defects", told)

        loop.set_exception_handler(defect)
        return await world.live()

    return run_virtual(main)
