"""A simulated world: sites, travellers, a network and its troubles, all from one seed.

A world is described by a ``WorldPlan``, a plain value, and lives once. Its days:

1. *storm*: trips are booked while messages get lost, parties crash and disks fill up, and the
   sites' own users submit jobs and set reservations beside them;
2. *calm*: no new faults; whoever is to come back does, users type ``gur resume`` until it succeeds;
3. *quiet*: every hold has ended one way or the other; the trips are checked;
4. *travel*: the legs' jobs run to their ends; everything is checked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.booking.reservations import (
    Decline,
    ReservationRequest,
    TripLeg,
    TripRef,
)
from gridtravel.gridcore.callers import Caller
from gridtravel.gridcore.errors import GridError
from gridtravel.gridcore.jobs.job import JobSpec
from gridtravel.gridio.sites.publishing import HEARTBEAT_S
from gridtravel.gridio.trust.cards import SharedKeyCards
from gridtravel.simulator.checks.checkers import check_quiet, check_travelled
from gridtravel.simulator.checks.trip_checkers import check_told
from gridtravel.simulator.grid.liars import LIES_FOR_S, LyingLaptop, LyingSite
from gridtravel.simulator.grid.lying_manager import LyingManager, ManagerPlan
from gridtravel.simulator.grid.simulated_laptop import LaptopPlan, SimulatedLaptop
from gridtravel.simulator.grid.simulated_site import SimulatedSite, SitePlan
from gridtravel.simulator.grid.watchers import Watcher
from gridtravel.simulator.kernel.chance import Chance
from gridtravel.simulator.kernel.event_log import EventLog
from gridtravel.simulator.kernel.network import CLEAR, Network, NetworkConditions
from gridtravel.simulator.kernel.processes import CrashPoint, PointKind
from gridtravel.simulator.kernel.virtual_loop import run_virtual

if TYPE_CHECKING:
    from gridtravel.gridcore.booking.reservations import Reservation
    from gridtravel.gridcore.jobs.races import Race
    from gridtravel.gridcore.trips.itineraries import Itinerary
    from gridtravel.simulator.grid.world_frame import Startable
    from gridtravel.simulator.kernel.virtual_loop import VirtualLoop

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
LOCAL: Final = Caller(subject="login:bob", login="bob")
"""A site's own user."""
CLOCKS_S: Final = 8.0
"""Clocks of the sites that decide a start must not be further off (docs/protocol.md)."""
START_WITHIN_S: Final = 600
"""How much later than wished a local reservation may start."""


class FaultKind(enum.StrEnum):
    """What goes wrong at a moment of the plan, beside what the network does."""

    CRASH = "crash"
    """A party's process dies."""
    POWER_CUT = "power cut"
    """A site's machine goes dark, with all tasks on it."""
    PAUSE = "pause"
    """A process stands still and goes on later: SIGSTOP, a closed lid, a swapping machine."""
    PARTITION = "partition"
    """The parties named cannot be reached by the others."""
    FULL_DISK = "full disk"
    SLOW_DISK = "slow disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedFault:
    """What goes wrong, when, where and for how long."""

    kind: FaultKind
    at_s: float
    parties: tuple[str, ...]
    lasts_s: float | None
    """``None``: for ever; only for the crash of a laptop."""
    write_s: float = 0.0
    """SLOW_DISK: what each write takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWish:
    """One job or reservation of a site's own user."""

    site: str
    name: str
    at_s: float
    nodes: int
    limit_s: int
    is_reservation: bool
    ahead_s: int = 0
    """How far ahead the reservation may start at the earliest."""


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
    conditions: NetworkConditions = CLEAR
    faults: tuple[InjectedFault, ...] = ()
    crashes: tuple[PlannedCrash, ...] = ()
    local_wishes: tuple[LocalWish, ...] = ()
    managers: tuple[ManagerPlan, ...] = ()
    """Calendar managers over some of the sites; each of them lies."""
    storm_s: float = 120.0
    """How long new faults come."""
    watched: tuple[str, ...] = ()
    """Sites whose calendar somebody subscribes to."""
    liars: tuple[str, ...] = ()
    """Names of the sites, laptops and managers that lie."""
    hold_ttl_s: float = 30.0
    """What travellers ask for; quiet comes after it."""


@dataclass(slots=True)
class WorldTypes:
    """Whose classes live in the world; tests put weakened ones in their place."""

    site: type[SimulatedSite] = SimulatedSite
    laptop: type[SimulatedLaptop] = SimulatedLaptop
    lying_site: type[LyingSite] = LyingSite
    lying_laptop: type[LyingLaptop] = LyingLaptop


@dataclass(slots=True)
class WorldRecord:
    """What is left of a world."""

    plan: WorldPlan
    event_log: EventLog
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
        return not self.event_log.violations


class World:
    """One world while it lives (``simulator.grid.world_frame.WorldFrame``)."""

    def __init__(self, plan: WorldPlan, loop: VirtualLoop, types: WorldTypes) -> None:
        self.plan = plan
        self.loop = loop
        self.chance = Chance(plan.seed)
        self.event_log = EventLog(loop)
        self.cards = SharedKeyCards(self.chance.child("cards").number().to_bytes(32, "big"))
        self.network = Network(loop, self.chance.child("net"), self.event_log, plan.conditions)
        self.liars = frozenset(plan.liars)
        self.storm_s = plan.storm_s
        self.sites: dict[str, SimulatedSite] = {}
        for site in plan.sites:
            site_type = types.lying_site if site.name in self.liars else types.site
            self.sites[site.name] = site_type(site, self)
        names = list(self.sites)
        self.laptops: dict[str, SimulatedLaptop] = {}
        for each in plan.laptops:
            laptop_type = types.lying_laptop if each.name in self.liars else types.laptop
            self.laptops[each.name] = laptop_type(each, names, self)
        self.managers = {each.name: LyingManager(each, self) for each in plan.managers}
        watched = [name for name in plan.watched if name not in self.liars]
        self.watchers = [Watcher(self.sites[name], self) for name in watched]
        self.parties: list[SimulatedSite | SimulatedLaptop | LyingManager] = [
            *self.sites.values(),
            *self.laptops.values(),
            *self.managers.values(),
        ]
        for host in self.parties:
            self.network.join(host)
        self._crashes = {each.at.party: each for each in plan.crashes}
        self.counts_of: dict[str, dict[PointKind, int]] = {}
        self.is_calm = False
        self.storm_ends_s = plan.storm_s + BACK_WITHIN_S
        """From here on everybody who comes back is back, and nothing more goes wrong."""

    # -- for the parties ---------------------------------------------------------------------------

    def site_names(self) -> Sequence[str]:
        """See ``WorldFrame``."""
        return list(self.sites)

    def known_trips(self) -> Sequence[TripRef]:
        """See ``WorldFrame``."""
        found: dict[str, tuple[float, TripRef]] = {}
        for site in self.sites.values():
            known = [
                (promise.history[0][0], promise.reservation.request.trip)
                for _, promise in site.ledger.of_trips()
            ]
            copies = (each for each in site.ledger.jobs.values() if each.race is not None)
            known += [(each.accepted_s, _as_trip(each.race)) for each in copies if each.race]
            for at_s, trip in known:
                if trip is not None and at_s <= found.get(trip.instance, (at_s, trip))[0]:
                    found[trip.instance] = (at_s, trip)
        return [trip for _, trip in sorted(found.values(), key=lambda each: each[0])]

    def known_reservations(self, site: str) -> Sequence[Reservation]:
        """See ``LiarsFrame``. Nobody keeps a manager's books."""
        if site not in self.sites:
            return []
        return [each.reservation for each in self.sites[site].ledger.promises.values()]

    def crash_point_of(self, party: str) -> CrashPoint | None:
        """See ``WorldFrame``."""
        crash = self._crashes.get(party)
        return None if crash is None else crash.at

    def crash_now(self, party: str) -> None:
        """See ``WorldFrame``."""
        crash = self._crashes[party]
        self.kill(party, f"at {crash.at.kind} {crash.at.number}", crash.back_after_s)

    def why_unheard(
        self, site: str, acceptors: Sequence[str], from_s: float, until_s: float
    ) -> str:
        """See ``CheckedWorld``."""
        for name in {site, *acceptors}:
            clock = self.sites[name].clock
            is_set = clock.offset_s(from_s - CLOCKS_S) != clock.offset_s(until_s + CLOCKS_S)
            if is_set or abs(clock.offset_s(from_s)) > CLOCKS_S:
                return "a clock was wrong"
        return self.network.contacts.why_unheard(site, acceptors, from_s, until_s)

    def was_away(self, site: str, from_s: float, until_s: float) -> bool:
        """See ``LivingWorld``. A clock that is set lengthens a doubt as an absence does."""
        return self.sites[site].has_clock_steps or self.network.contacts.was_gone(
            site, from_s, until_s
        )

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
        self.event_log.fault(kind, name, "dies {}", why)
        party.crash(is_power_cut=is_power_cut)
        if back_after_s is not None:
            self.restart_later(party, back_after_s)
        elif isinstance(party, SimulatedLaptop):
            party.is_lost = True

    def kind_of(self, name: str) -> str:
        """What a party is."""
        return "site" if name in self.sites else "laptop"

    # -- troubles ----------------------------------------------------------------------------------

    def _schedule_fault(self, fault: InjectedFault, name: str) -> None:
        self.network.later(fault.at_s, lambda: self._begin_fault(fault, name))

    def _begin_fault(self, fault: InjectedFault, name: str) -> None:
        lasts_s = fault.lasts_s
        match fault.kind:
            case FaultKind.CRASH | FaultKind.POWER_CUT:
                is_power_cut = fault.kind is FaultKind.POWER_CUT
                for party in fault.parties:
                    self.kill(party, f"by {name}", lasts_s, is_power_cut=is_power_cut)
            case FaultKind.PAUSE:
                for party in fault.parties:
                    self._pause(party, lasts_s or 0.0)
            case FaultKind.PARTITION:
                together = ", ".join(fault.parties)
                self.event_log.fault(
                    "partition", "network", "cuts off {} for {} s", together, lasts_s
                )
                self.network.cut(name, frozenset(fault.parties))
                self.network.later(lasts_s or 0.0, lambda: self.network.mend(name))
            case FaultKind.FULL_DISK:
                self._fill_disks(fault, is_full=True)
                self.network.later(lasts_s or 0.0, lambda: self._fill_disks(fault, is_full=False))
            case FaultKind.SLOW_DISK:
                self.event_log.fault(
                    "slow disk", fault.parties[0], "writes take {} s", fault.write_s
                )
                self._slow_disks(fault, fault.write_s)
                self.network.later(lasts_s or 0.0, lambda: self._slow_disks(fault, None))

    def _pause(self, party: str, lasts_s: float) -> None:
        life = self.party(party).life
        if life is not None:
            self.event_log.fault("pause", party, "stands still for {} s", lasts_s)
            life.pause()
            self.network.contacts.gone(party, "paused")
            self.network.later(lasts_s, life.go_on)
            self.network.later(lasts_s, lambda: self.network.contacts.back(party, "paused"))

    def _fill_disks(self, fault: InjectedFault, *, is_full: bool) -> None:
        for party in fault.parties:
            self.sites[party].disk_is_full = is_full and not self.is_calm
            self._note_disk(party, "full disk", is_bad=is_full)

    def _slow_disks(self, fault: InjectedFault, write_s: float | None) -> None:
        for party in fault.parties:
            site = self.sites[party]
            site.write_s = site.plan.write_s if write_s is None or self.is_calm else write_s
            self._note_disk(party, "slow disk", is_bad=write_s is not None)

    def _note_disk(self, party: str, why: str, *, is_bad: bool) -> None:
        if is_bad and not self.is_calm:
            self.network.contacts.gone(party, why)
        else:
            self.network.contacts.back(party, why)

    # -- the sites' own users ----------------------------------------------------------------------

    def _schedule_wish(self, wish: LocalWish) -> None:
        """See to it that it is asked for at its time, if its site is up then."""

        def ask() -> None:
            site = self.sites[wish.site]
            if site.life is not None and site.agent is not None:
                site.life.start(self._ask_locally(site, wish), wish.name)

        self.network.later(wish.at_s, ask)

    async def _ask_locally(self, site: SimulatedSite, wish: LocalWish) -> None:
        agent, now = site.agent, site.clock.now()
        assert agent is not None, "checked when the task was made"
        port = agent.site_port(LOCAL)
        try:
            if wish.is_reservation:
                request = ReservationRequest(
                    request_id=wish.name,
                    account="bob",
                    nodes_min=wish.nodes,
                    nodes_max=wish.nodes,
                    duration_s=wish.limit_s,
                    earliest_start=now + wish.ahead_s,
                    latest_end=now + wish.ahead_s + wish.limit_s + START_WITHIN_S,
                )
                answer = await port.set_reservation(request, is_dry_run=False)
                told = "reservation"
            else:
                spec = JobSpec(
                    request_id=wish.name,
                    name=wish.name,
                    account="bob",
                    nodes=wish.nodes,
                    limit_s=wish.limit_s,
                    argv=("work",),
                )
                answer = await port.submit(spec)  # type: ignore[assignment]  # a job this time
                told = "job"
        except GridError as fault:
            self.event_log.tell(site.name, "bob's {} fails: {}", wish.name, fault)
            return
        refused = isinstance(answer, Decline)
        self.event_log.counts[f"local {told} {'declined' if refused else 'granted'}"] += 1

    # -- its days ----------------------------------------------------------------------------------

    async def live(self) -> WorldRecord:
        """Live through all days."""
        for party in self.parties:
            party.start()
        for watcher in self.watchers:
            watcher.start()
        for number, fault in enumerate(self.plan.faults, 1):
            self._schedule_fault(fault, f"trouble {number}")
        for wish in self.plan.local_wishes:
            self._schedule_wish(wish)
        await self.until(lambda: self.loop.time() >= self.plan.storm_s, self.plan.storm_s + 1)
        self._calm_down()
        if not await self.until(self._is_settled, COMMANDS_WITHIN_S):
            for laptop in self.laptops.values():
                if not laptop.is_settled:
                    self.event_log.broken(
                        "commands end well", f"{laptop.name} is not done", laptop.name
                    )
        await self.rest(self.plan.hold_ttl_s + QUIET_AFTER_S)
        await self._writes()
        record = WorldRecord(plan=self.plan, event_log=self.event_log)
        quiet = await check_quiet(self)
        record.outcomes, record.doubt_longest_s = quiet.outcomes, quiet.doubt_longest_s
        if self.liars:
            await self.rest(max(0.0, LIES_FOR_S + QUIET_AFTER_S - self.loop.time()))
        await self.rest(max(0.0, self._last_end_s() - self.loop.time()))
        if not await self.until(self._has_travelled, JOBS_WITHIN_S):
            for site in self.sites.values():
                left = [each.job_id for each in site.agent.jobs.active()] if site.agent else []
                if left:
                    self.event_log.broken(
                        "nothing waits for ever", f"{site.name} still has {left}", site.name
                    )
        await self.rest(SHADOWS_WITHIN_S)
        await self._writes()
        check_travelled(self)
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
        self.event_log.tell("world", "calm: no new faults from here on")
        self.network.calm_down()
        for party in self.parties:
            if party.life is not None:
                party.life.spare()
                party.life.go_on()
                self.network.contacts.back(party.name, "paused")
        for site in self.sites.values():
            for why in ("full disk", "slow disk"):
                self.network.contacts.back(site.name, why)
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


def _as_trip(race: Race) -> TripRef:
    """A race as one who speaks of trips knows it."""
    pairs = zip(race.copies, race.sites, strict=True)
    return TripRef(
        trip_id=race.trip_id,
        leg=race.copy,
        participants=tuple(dict.fromkeys(race.sites)),
        acceptors=race.acceptors,
        legs=tuple(TripLeg(leg=copy, site=site, start=0) for copy, site in pairs),
        ends_at=race.ends_at,
    )


def live(plan: WorldPlan, types: WorldTypes | None = None) -> WorldRecord:
    """Live one world from its beginning to its end."""

    async def main(loop: VirtualLoop) -> WorldRecord:
        world = World(plan, loop, types or WorldTypes())

        def defect(_: object, context: dict[str, Any]) -> None:
            if not loop.is_ending:
                told = f"{context.get('message')}: {context.get('exception')!r}"
                world.event_log.broken("no defects", told)

        loop.set_exception_handler(defect)
        return await world.live()

    return run_virtual(main)
